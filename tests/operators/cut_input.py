"""Rows cut into epochs, and a pipeline run over them: what the tests of stateful operators share."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import strategies as st

from dagster_operators import MemorySource, Pipeline, Stream
from dagster_operators.state import compaction
from tests.end_to_end.full_computation import END, SECOND, START, moment, plain
from tests.examples import fresh_examples, unlike_the_simplest

if TYPE_CHECKING:
    from dagster_operators.runtime.engine import Spark

BASE = 1_700_000_000
Rows = list[dict[str, Any]]
"""Rows of one epoch; their ``ts`` is in seconds after :data:`BASE`."""

few = fresh_examples(6)
"""As many as a test can afford that runs on Sail each time."""


@dataclass(frozen=True)
class Cut:
    """The rows of one source, cut into epochs.

    Attributes:
        epochs: The rows of each epoch.
        lateness: In seconds.
        columns: The schema of the columns beside ``ts``.
    """

    epochs: Sequence[Rows]
    lateness: int = 0
    columns: str = "k string, v long"

    def source(self, pipeline: Pipeline, name: str = "rows") -> Stream:
        batches = [[{**row, "ts": at(row["ts"])} for row in rows] for rows in self.epochs]
        source = MemorySource(batches, schema=f"{self.columns}, ts timestamp")
        return pipeline.source(name, source, event_time="ts", lateness=f"{self.lateness} s", finished=True)

    def marks(self) -> list[float]:
        """The watermark at the beginning of each epoch and, at last, at the end."""
        found: list[float] = [START]
        for rows in self.epochs:
            found.append(max([found[-1], *(row["ts"] - self.lateness for row in rows)]))
        return [*found[: len(self.epochs)], END]

    def in_epochs(self) -> Iterator[tuple[Rows, float, float]]:
        """The rows of each epoch with the watermarks it begins and ends with."""
        marks = self.marks()
        return zip(self.epochs, marks[:-1], marks[1:], strict=True)


def side_by_side(*cuts: Cut) -> Iterator[tuple[list[Rows], float, float]]:
    """The rows of each epoch of several sources, with the watermarks of all together that it begins and ends with."""
    marks = [cut.marks() for cut in cuts]
    for epoch in range(max(len(cut.epochs) for cut in cuts)):
        rows = [list(cut.epochs[epoch]) if epoch < len(cut.epochs) else [] for cut in cuts]
        begin, end = (min(one[min(number, len(one) - 1)] for one in marks) for number in (epoch, epoch + 1))
        yield rows, begin, end


def starts_of(ts: int, size: int, slide: int) -> list[int]:
    """The starts of the windows that hold a moment, by trying all; all in seconds after :data:`BASE`."""
    low, high = BASE + ts - size, BASE + ts
    return [start - BASE for start in range(low + 1, high + 1) if start % slide == 0]


def at(seconds: int) -> Any:
    return moment((BASE + seconds) * SECOND)


def cuts(
    *,
    keys: Sequence[Any] = ("a", "b", None),
    last: int = 60,
    epochs: int = 4,
    rows: int = 8,
    lateness: Sequence[int] = (0, 5, 1000),
) -> st.SearchStrategy[Cut]:
    row = st.builds(
        lambda k, v, ts: {"k": k, "v": v, "ts": ts}, st.sampled_from(keys), st.none() | st.integers(0, 3), st.integers(0, last)
    )
    cut = st.lists(st.lists(row, max_size=rows), min_size=1, max_size=epochs)
    return unlike_the_simplest(st.builds(Cut, cut, st.sampled_from(list(lateness))))


@dataclass(frozen=True)
class Found:
    """The rows of every table, each counted, and how many rows were late for each operator."""

    tables: Mapping[str, Counter[Any]]
    late: Mapping[str, int]

    def late_of(self, *operators: str) -> dict[str, int]:
        """How many rows were late for some of the operators, where there were any."""
        return {name: count for name, count in self.late.items() if name in operators}


def run(engine: Spark, build: Callable[[Pipeline], object], *, partitions: Sequence[int] = (2,), tier_length: int = 8) -> Found:
    """Run a pipeline to its end, each epoch shuffled into as many partitions as its turn says."""
    late: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as root, _spread(engine, tier_length):
        pipeline = Pipeline("cut", root=root, engine=engine)
        build(pipeline)
        epoch = 0
        while True:
            engine.session().conf.set("spark.sql.shuffle.partitions", str(partitions[epoch % len(partitions)]))
            result = pipeline.run_epoch()
            if result.empty:
                break
            late.update(result.late_rows)
            epoch += 1
        return Found(read_tables(pipeline), dict(+late))


def read_tables(pipeline: Pipeline) -> dict[str, Counter[Any]]:
    """The rows of every table, each counted."""
    return {
        name: Counter(tuple(map(plain, row)) for row in pipeline.read(name).select(*table_columns(pipeline, name)).collect())
        for name in pipeline.tables
    }


def table_columns(pipeline: Pipeline, name: str) -> list[str]:
    return list(pipeline.dataflow.type_of(pipeline.tables[name].stream).columns or ())


@contextmanager
def _spread(engine: Spark, tier_length: int) -> Iterator[None]:
    conf, name = engine.session().conf, "spark.sql.shuffle.partitions"
    before = conf.get(name, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "TIER_LENGTH", tier_length)
        yield
    if before is None:
        conf.unset(name)
    else:
        conf.set(name, before)
