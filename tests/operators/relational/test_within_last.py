"""The rows of the last while: after every epoch those that are not too far behind the watermark, and what DuckDB counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import OperatorsError
from dagster_operators.operators.relational.within_last import WithinLast
from dagster_operators.state import compaction
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK
from tests.engines import EMBEDDED, SAIL
from tests.examples import fresh_examples, unlike_the_simplest
from tests.operators.change_logs import SCHEMA, ChangeLog, at, change_logs, computed, each_epoch, read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.sail


@dataclass(frozen=True)
class Case:
    """Changes, and how old their rows may be.

    Attributes:
        log: The changes.
        age: How old, in seconds.
        lateness: Of the source.
    """

    log: ChangeLog
    age: int
    lateness: int

    def build(self, pipeline: do.Pipeline) -> None:
        rows = self.log.stream(pipeline, lateness=f"{self.lateness} s").within_last(f"{self.age} s", name="recent")
        rows.to_table("recent")
        rows.key_by("k").aggregate(n="count(*)", total="sum(n)").to_table("totals")

    def check(self, pipeline: do.Pipeline, epoch: int) -> None:
        times = [(row[3] - at(0)).total_seconds() for changes in self.log.epochs[:epoch] for _, row in changes]
        oldest = max(times, default=-math.inf) - self.lateness - self.age
        rows = [row for row in self.log.rows(epoch) if (row[3] - at(0)).total_seconds() >= oldest]
        assert read(pipeline, "recent") == computed(rows, "FROM rows")
        assert read(pipeline, "totals") == computed(rows, "SELECT k, count(*), sum(n) FROM rows GROUP BY k")

    def run(self, root: Path, engine: Any) -> None:
        each_epoch(root, engine, self.log, self.build, self.check)


@pytest.mark.slow
@fresh_examples(5)
@given(
    case=unlike_the_simplest(
        st.builds(
            Case,
            log=change_logs(values=st.sampled_from([None, 0.0, -0.0, math.nan, 2.5])),
            age=st.sampled_from([0, 5, 20]),
            lateness=st.sampled_from([0, 10]),
        )
    )
)
def test_any_history(tmp_path_factory: pytest.TempPathFactory, case: Case) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "TIER_LENGTH", 2)
        case.run(tmp_path_factory.mktemp("p"), SAIL)


A, B, C, D = ("a", 0.5, 3, at(10)), ("a", math.nan, 2, at(20)), ("b", -0.0, 1, at(28)), (None, None, None, at(40))
LOG: Final = ChangeLog(
    (
        (("insert", A), ("insert", A), ("insert", B), ("insert", ("a", 1.0, 7, at(2)))),
        (("delete", A), ("insert", C), ("update_before", B), ("update_after", ("b", 2.0, 2, at(20)))),
        (("insert", D), ("delete", ("b", 2.0, 2, at(20))), ("insert", ("a", 1.0, 9, at(5))), ("delete", ("a", 1.0, 7, at(2)))),
    )
)


def test_rows_go_as_time_passes(tmp_path: Path) -> None:
    Case(LOG, age=12, lateness=0).run(tmp_path, SAIL)


@pytest.mark.spark
def test_the_same_on_spark(tmp_path: Path) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=EMBEDDED)
    case = Case(LOG, age=12, lateness=0)
    case.build(pipeline)
    for epoch in (1, 2):
        pipeline.run_epoch()
        case.check(pipeline, epoch)


def test_what_time_has_passed_by_is_no_longer_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "TIER_LENGTH", 2)
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    batches = [[("a", 1.0, n, at(10 * n)), ("b", 1.0, n, at(10 * n - 25))] for n in range(5)]
    rows = pipeline.source("rows", do.MemorySource(batches, schema=SCHEMA), event_time="ts")
    rows.within_last("15 s", name="recent").to_table("recent")
    found = [pipeline.run_epoch().rows["recent"] for _ in batches]
    assert found == [1, 1, 2, 2, 2]
    assert sorted(row[2] for row in read(pipeline, "recent")) == [3, 4]
    state = DeltaTable(str(tmp_path / "state" / "recent.rows")).to_pyarrow_table()
    assert sorted(state["n"].to_pylist()) == [3, 4]
    assert "state table state/recent.rows" in pipeline.explain()


def test_its_changes_have_the_event_time_and_a_watermark_that_is_behind() -> None:
    rows = do.Pipeline("p", root="unused").source("rows", do.MemorySource([], schema=SCHEMA), event_time="ts")
    recent = rows.within_last("7 days")
    assert (recent._type.retracting, recent.event_time) == (True, "ts")
    assert [WithinLast(name="a", event_time="ts", age=5).watermark(mark) for mark in (MIN_WATERMARK, 100, MAX_WATERMARK)] == [
        MIN_WATERMARK, 95, MAX_WATERMARK,
    ]  # fmt: skip


def test_when_all_has_been_read_nothing_is_recent(tmp_path: Path) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource([[A], [B]], schema=SCHEMA), event_time="ts", finished=True)
    rows.within_last("7 days").to_table("recent")
    pipeline.run_epoch()
    before = read(pipeline, "recent").total()
    for _ in range(2):
        pipeline.run_epoch()
    assert (before, read(pipeline, "recent").total()) == (1, 0)


REFUSED: Final[dict[str, tuple[Callable[[do.Stream], Any], str]]] = {
    "no duration": (lambda rows: rows.within_last("soon"), "the age"),
    "no unit": (lambda rows: rows.within_last(7), "the age: 7 has no unit"),
    "no time": (lambda rows: rows.drop("ts").within_last("1 day"), "within_last needs an event time"),
    "current rows": (
        lambda rows: rows.key_by("k").aggregate(n="count(*)").within_last("1 day"),
        "within_last needs an event time",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_last_while_is_refused(case: str) -> None:
    write, told = REFUSED[case]
    rows = do.Pipeline("p", root="unused").source("rows", do.MemorySource([], schema=SCHEMA), event_time="ts")
    with pytest.raises(OperatorsError, match=told):
        write(rows)
