"""Aggregates in windows over changes: after every epoch what DuckDB gives for the rows that are there and were on time."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import SchemaError
from dagster_operators.graph.changes import ADDS
from tests.engines import EMBEDDED, SAIL
from tests.examples import fresh_examples, unlike_the_simplest
from tests.operators.change_logs import ChangeLog, Row, at, change_logs, computed, read

if TYPE_CHECKING:
    from pathlib import Path

AGGREGATES = {"rows_there": "count(*)", "total": "sum(n)", "most": "max(v)", "different": "count(DISTINCT n)"}


@dataclass(frozen=True)
class Expected:
    """What windows have after each epoch, worked out change by change.

    Attributes:
        log: The changes.
        size: Of a window, in seconds.
        slide: Its slide.
        lateness: Of the source.
    """

    log: ChangeLog
    size: int
    slide: int
    lateness: int

    def after(self, epochs: int) -> tuple[Counter[Row], int]:
        """The rows of the table, and how many changes of the last epoch were late."""
        there: Counter[tuple[int, Row]] = Counter()
        watermark, late = -math.inf, 0
        for epoch in self.log.epochs[:epochs]:
            late = 0
            for op, row in epoch:
                time = (row[3] - at(0)).total_seconds()
                windows = [start for start in range(-60, 61, self.slide) if start <= time < start + self.size]
                still_open = [start for start in windows if start + self.size > watermark]
                late += bool(windows) and not still_open
                there.update({(start, row): 1 if op in ADDS else -1 for start in still_open})
            times = [(row[3] - at(0)).total_seconds() - self.lateness for _, row in epoch]
            watermark = max([watermark, *times])
        return sum((self._rows(start, there) for start in {start for start, _ in there}), Counter()), late

    def _rows(self, start: int, there: Counter[tuple[int, Row]]) -> Counter[Row]:
        rows = [row for (of, row), count in there.items() if of == start for _ in range(count)]
        assert min(there.values()) >= 0
        found = computed(rows, f"SELECT k, {', '.join(AGGREGATES.values())} FROM rows GROUP BY k")
        bounds = [(at(0) + timedelta(seconds=second)).replace(tzinfo=None) for second in (start, start + self.size)]
        return Counter({(row[0], *bounds, *row[1:]): count for row, count in found.items()})

    def check(self, root: Path, engine: Any) -> None:
        """Run the epochs, each by a pipeline of its own as after a restart, and compare."""
        for epoch in range(1, len(self.log.epochs) + 1):
            pipeline = do.Pipeline("p", root=str(root), engine=engine, parallelism=1 + epoch % 3)
            rows = self.log.stream(pipeline, lateness=f"{self.lateness} s")
            window = do.Sliding(f"{self.size} s", f"{self.slide} s")
            rows.key_by("k").window(window).aggregate(AGGREGATES, name="windows").to_table("windows")
            result = pipeline.run_epoch()
            wanted, late = self.after(epoch)
            assert read(pipeline, "windows") == wanted, epoch
            assert result.late_rows.get("windows", 0) == late


A, B, C = ("a", 0.5, 3, at(1)), ("a", 2.0, 3, at(8)), ("b", math.nan, 1, at(12))
LOG = ChangeLog(
    (
        (("insert", A), ("insert", A), ("insert", B), ("insert", C), ("insert", (None, None, None, at(9)))),
        (("delete", A), ("update_before", B), ("update_after", ("a", 7.0, 1, at(14))), ("delete", (None, None, None, at(9)))),
        (("insert", ("c", 1.0, 1, at(40))), ("delete", C)),
        (("delete", A), ("insert", ("a", 9.0, 9, at(2))), ("delete", ("c", 1.0, 1, at(40)))),
    )
)


@pytest.mark.sail
def test_windows_follow_changes_until_they_close(tmp_path: Path) -> None:
    Expected(LOG, 10, 10, 10).check(tmp_path, SAIL)


@pytest.mark.spark
def test_the_same_on_spark(tmp_path: Path) -> None:
    Expected(ChangeLog(LOG.epochs[:2]), 10, 10, 0).check(tmp_path, EMBEDDED)


@pytest.mark.sail
@fresh_examples(2)
@given(
    log=unlike_the_simplest(change_logs(values=st.sampled_from([None, 0.5, math.nan]))),
    windows=st.sampled_from([(10, 10), (10, 5), (5, 10)]),
    lateness=st.sampled_from([0, 10, 100]),
)
def test_any_history(tmp_path_factory: pytest.TempPathFactory, log: ChangeLog, windows: tuple[int, int], lateness: int) -> None:
    Expected(log, *windows, lateness).check(tmp_path_factory.mktemp("p"), SAIL)


@pytest.mark.sail
def test_late_changes_are_counted_and_handed_on_and_the_state_of_closed_windows_goes(tmp_path: Path) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    keyed = LOG.stream(pipeline).window(do.Tumbling("10 s"))
    windows = keyed.aggregate(n="count(*)", name="windows")
    windows.to_table("windows")
    windows.late().to_table("late")
    results = [pipeline.run_epoch() for _ in LOG.epochs]
    assert [result.late_rows.get("windows", 0) for result in results] == [0, 3, 0, 2]
    assert [result.rows.get("late", 0) for result in results] == [0, 3, 0, 2]
    assert Counter(row._change for row in pipeline.read("late").collect()) == {"delete": 3, "update_before": 1, "insert": 1}
    found = sorted((row.window_start.second, row.n) for row in pipeline.read("windows").collect())
    assert found == [(0, 4), (10, 1)]
    state = DeltaTable(str(tmp_path / "state" / "windows.weighted")).to_pyarrow_table()
    assert {start // 1_000_000 % 60 for start in state["__window"].to_pylist()} == {40}


def rows() -> do.Stream:
    source = do.MemorySource([], schema="k string, v long, at timestamp, op string")
    return do.Pipeline("p", root="nowhere").source("rows", source, event_time="at").as_changes("op")


def test_names_and_types_of_streams() -> None:
    windows = rows().key_by("k").window(do.Tumbling("1 hour")).aggregate(n="count(*)")
    assert windows.columns == ("k", "window_start", "window_end", "n")
    assert (windows.event_time, windows._type.keys) == (None, ("k", "window_start", "window_end"))
    assert windows.late()._type.retracting


def test_what_does_not_fit_is_refused_with_a_way_out() -> None:
    with pytest.raises(
        SchemaError, match=r"takes append streams.*with a window or without, and top without a window take changes"
    ):
        rows().key_by("k").window(do.Tumbling("1 hour")).top(1, by="v")
    with pytest.raises(SchemaError, match="group by the time"):
        rows().drop("at").key_by("k").window(do.Tumbling("1 hour"))
    hourly = rows().key_by("k").window(do.Tumbling("1 hour")).aggregate(n="count(*)")
    with pytest.raises(SchemaError, match=r"key_by\('window_start', 'window_end'\).*date_trunc\('day', window_start\)"):
        hourly.window()
    assert hourly.key_by("window_start", "window_end").aggregate(most="max(n)")._type.updating
    daily = hourly.with_columns(day="date_trunc('day', window_start)").key_by("day").aggregate(n="sum(n)")
    assert daily.columns == ("day", "n")
