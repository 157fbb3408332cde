"""Rows that come and go, in epochs, and what DuckDB computes over those that are there: what tests on changes share."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import duckdb
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.graph.changes import ADDS, CHANGE

if TYPE_CHECKING:
    from pathlib import Path

    from dagster_operators.runtime.engine import Spark

Row = tuple[Any, ...]
COLUMNS = ("k", "v", "n", "ts")
SCHEMA = "k string, v double, n long, ts timestamp"
FEW_NUMBERS = st.none() | st.integers(0, 3)
BASE = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


def at(seconds: int) -> datetime:
    """A moment, some seconds after the first."""
    return datetime.fromtimestamp(BASE + seconds, UTC)


def plain(row: Iterable[Any]) -> Row:
    """A row as it compares: one zero, one NaN, times without a zone."""
    return tuple(_plain(value) for value in row)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, list):
        return plain(value)
    if isinstance(value, datetime):
        return (value if value.tzinfo is None else value.astimezone(UTC)).replace(tzinfo=None)
    return value


@dataclass(frozen=True)
class ChangeLog:
    """Changes in epochs: each a change's word and a row of ``k, v, n, ts``."""

    epochs: tuple[tuple[tuple[str, Row], ...], ...]

    def stream(self, pipeline: do.Pipeline, name: str = "rows", event_time: str | None = "ts", **settings: Any) -> do.Stream:
        """The changes as a source of a pipeline."""
        batches = [[dict(zip((*COLUMNS, "op"), (*row, op), strict=True)) for op, row in epoch] for epoch in self.epochs]
        source = do.MemorySource(batches, schema=f"{SCHEMA}, op string")
        return pipeline.source(name, source, event_time=event_time, **settings).as_changes("op", name=f"{name}_changes")

    def rows(self, epochs: int) -> list[Row]:
        """The rows that are there after so many epochs."""
        there: Counter[Row] = Counter()
        for epoch in self.epochs[:epochs]:
            for op, row in epoch:
                there[row] += 1 if op in ADDS else -1
        return list(there.elements())


def computed(rows: Sequence[Row], query: str, **others: Sequence[Row]) -> Counter[Row]:
    """What DuckDB gives for a query over the table ``rows``, and perhaps over others with such rows."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, given in {"rows": rows, **others}.items():
            connection.execute(f"CREATE TABLE {name} (k VARCHAR, v DOUBLE, n BIGINT, ts TIMESTAMP)")
            if given:
                connection.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?)", [[*row[:3], _plain(row[3])] for row in given])
        return Counter(map(plain, connection.execute(query).fetchall()))


def read(pipeline: do.Pipeline, table: str) -> Counter[Row]:
    """The rows of a table; of a table of changes the rows that are there."""
    frame = pipeline.read(table)
    names = [name for name in frame.columns if name != CHANGE]
    found: Counter[Row] = Counter()
    for row in frame.collect():
        found[plain(row[name] for name in names)] += 1 if CHANGE not in frame.columns or row[CHANGE] in ADDS else -1
    assert min(found.values(), default=0) >= 0
    return +found


def each_epoch(
    root: Path, engine: Spark, log: ChangeLog, build: Callable[[do.Pipeline], object], check: Callable[[do.Pipeline, int], None]
) -> None:
    """Run epoch after epoch, each by a pipeline of its own as after a restart, and check what is there after it."""
    for epoch in range(1, len(log.epochs) + 1):
        pipeline = do.Pipeline("p", root=str(root), engine=engine, parallelism=1 + epoch % 3)
        build(pipeline)
        pipeline.run_epoch()
        check(pipeline, epoch)


@st.composite
def change_logs(
    draw: st.DrawFn, *, values: st.SearchStrategy[Any], numbers: st.SearchStrategy[Any] = FEW_NUMBERS, last: int = 60
) -> ChangeLog:
    """Random changes: rows are added, some twice, and rows that are there go, or become others, with another key too."""
    row = st.tuples(st.sampled_from(["a", "b", None]), values, numbers, st.integers(0, last).map(at))
    there: list[Row] = []
    epochs = []
    for _ in range(draw(st.integers(1, 3))):
        epoch: list[tuple[str, Row]] = []
        for _ in range(draw(st.integers(1, 8))):
            step = draw(st.sampled_from(["add", "add", "again", "go", "become"]))
            if step == "add" or not there:
                there.append(draw(row))
                epoch.append(("insert", there[-1]))
                continue
            which = draw(st.integers(0, len(there) - 1))
            if step == "again":
                there.append(there[which])
                epoch.append(("insert", there[which]))
                continue
            gone = there.pop(which)
            epoch.append(("delete" if step == "go" else "update_before", gone))
            if step == "become":
                there.append(draw(row))
                epoch.append(("update_after", there[-1]))
        epochs.append(tuple(epoch))
    return ChangeLog(tuple(epochs))
