"""The harness: what a test of an operator sees is what a pipeline does."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import dagster_operators as do
from dagster_operators.errors import OperatorFailedError, PipelineError, SchemaError
from dagster_operators.plugins import (
    ExecutableOperator,
    HashBy,
    InputPort,
    LogicalOperator,
    OperatorHandler,
    PhysicalState,
    StreamType,
)
from dagster_operators.testing import OperatorHarness

SECOND = 1_000_000


class Counts(do.ArrowOperator):
    """Rows per key and second, put out when the second is over."""

    state = {"open": do.KeyedState("k string, second long, n long", key=["k", "second"])}

    def output_schema(self, rows):
        return "k string, second long, n long"

    def process_batch(self, batch, ctx, out):
        seconds = pc.divide(batch["t"].cast(pa.int64()), SECOND)
        late = pc.less_equal(pc.multiply(pc.add(seconds, 1), SECOND), ctx.watermark)
        ctx.late(batch.filter(late))
        rows = pa.table({"k": batch["k"], "second": seconds}).filter(pc.invert(late))
        new = rows.group_by(["k", "second"]).aggregate([([], "count_all")])
        before = pc.fill_null(ctx.state["open"].get(new.select(["k", "second"]))["n"], 0)
        sums = pc.add(new["count_all"], before)
        ctx.state["open"].put(pa.table({"k": new["k"], "second": new["second"], "n": sums}))

    def handle_watermark(self, watermark, ctx, out):
        rows = ctx.state["open"].scan()
        over = rows.filter(pc.less_equal(pc.multiply(pc.add(rows["second"], 1), SECOND), watermark))
        out.collect(over)
        ctx.state["open"].delete(over.select(["k", "second"]))
        return watermark - SECOND


def at(seconds, key="a"):
    return {"k": key, "t": seconds * SECOND}


def harness(**settings):
    return OperatorHarness(Counts(), "k string, t timestamp", keys=["k"], **settings)


def as_set(rows):
    return {tuple(row.values()) for row in rows}


def test_windows_close_with_the_watermark_and_late_rows_are_counted():
    with harness() as counts:
        assert counts.run_epoch([at(0), at(0, "b"), at(1)], watermark=SECOND) == [
            {"k": "a", "second": 0, "n": 1}, {"k": "b", "second": 0, "n": 1}]  # fmt: skip
        counts.process([at(0.5), at(1.5)])
        assert counts.rows() == []
        counts.finish()
        assert counts.rows() == [{"k": "a", "second": 1, "n": 2}]
        assert counts.late_rows == 1
        assert len(counts.rows("late")) == 1


def test_the_output_watermark_is_the_operators():
    with harness(parallelism=2) as counts:
        assert counts.advance("1970-01-01T00:00:10") == 9 * SECOND


@pytest.mark.parametrize("parallelisms", [(1, 3, 2), (4, 1, 1)])
def test_a_snapshot_goes_on_at_another_parallelism(parallelisms):
    keys = [f"k{number}" for number in range(20)]
    with harness(parallelism=parallelisms[0]) as counts:
        for parallelism in parallelisms[1:]:
            counts.run_epoch([at(5, key) for key in keys])
            counts.rescale(parallelism)
        counts.finish()
        assert as_set(counts.rows()) == {(key, 5, 2) for key in keys}


def test_a_crash_is_a_restore_of_the_last_snapshot():
    with harness(parallelism=2) as counts:
        counts.run_epoch([at(5)])
        kept = counts.snapshot()
        counts.process([at(5), at(5)])
        counts.restore(kept)
        assert counts.epoch == 2
        counts.run_epoch([at(5)])
        counts.finish()
        assert as_set(counts.rows()) == {("a", 5, 2)}


def test_errors_are_as_in_a_pipeline():
    class Broken(Counts):
        def process_batch(self, batch, ctx, out):
            raise KeyError("x")

    with OperatorHarness(Broken(), "k string, t timestamp", keys=["k"]) as broken:
        with pytest.raises(OperatorFailedError, match="process_batch raised KeyError"):
            broken.process([at(1)])
        with pytest.raises(PipelineError, match="no column 'key'"):
            broken.process([{"key": "a"}])


class Alarm(do.ArrowOperator):
    """Calls each key at the time of its rows, and once more two seconds later."""

    def output_schema(self, rows):
        return "k string, second long"

    def process_batch(self, batch, ctx, out):
        ctx.timers.set(batch["t"], batch)
        ctx.timers.set(batch["t"], batch)

    def handle_timer(self, time, keys, ctx, out):
        out.collect(pa.table({"k": keys["k"], "second": [time // SECOND] * keys.num_rows}))
        if time // SECOND % 2:
            ctx.timers.set(time + 2 * SECOND, keys)
            ctx.timers.set(time + SECOND, keys)


def test_timers_fire_in_order_and_once_also_those_that_timers_set_or_that_come_too_late():
    with OperatorHarness(Alarm(), "k string, t timestamp", keys=["k"]) as alarm:
        told = alarm.run_epoch([at(1), at(2, "b")], watermark=2 * SECOND)
        assert [row["second"] for row in told] == [1, 2, 2]
        assert as_set(told) == {("a", 1), ("a", 2), ("b", 2)}
        assert alarm.run_epoch([at(0, "late")], watermark=4 * SECOND) == [
            {"k": "late", "second": 0}, {"k": "a", "second": 3}, {"k": "a", "second": 4},
        ]  # fmt: skip
        alarm.rescale(1)
        assert alarm.run_epoch([], watermark=4 * SECOND) == []
        assert [row["second"] for row in alarm.run_epoch([], watermark=6 * SECOND)] == [5, 6]


class AtTimes(do.ArrowOperator):
    """Has itself called at one time, from a hook, and tells when it was."""

    def __init__(self, time, hook="process_batch"):
        self.time, self.hook = time, hook

    def output_schema(self, rows):
        return "k string, time long"

    def process_batch(self, batch, ctx, out):
        if self.hook == "process_batch":
            ctx.timers.set(self.time, batch)

    def handle_watermark(self, watermark, ctx, out):
        if self.hook == "handle_watermark" and ctx.epoch == 2:
            ctx.timers.set(self.time, pa.table({"k": ["w"]}))
        return watermark

    def handle_timer(self, time, keys, ctx, out):
        out.collect(pa.table({"k": keys["k"], "time": [time] * keys.num_rows}))


@pytest.mark.parametrize(
    "time",
    [
        1_000_000,
        datetime(1970, 1, 1, 0, 0, 1),  # noqa: DTZ001 - one without a time zone counts as UTC
        datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        pa.array([datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)], pa.timestamp("s", "UTC")),
        pa.array([1_000_000]),
    ],
)
@pytest.mark.parametrize("begin", [0, 5])
def test_a_timer_comes_with_the_time_that_was_set_also_if_it_has_passed(time, begin):
    with OperatorHarness(AtTimes(time), "k string, t timestamp", keys=["k"]) as harness:
        harness.run_epoch([], watermark=begin * SECOND)
        assert harness.run_epoch([at(7)], watermark=8 * SECOND) == [{"k": "a", "time": SECOND}]
        assert harness.run_epoch([], watermark=9 * SECOND) == []


def test_a_timer_for_a_passed_time_that_handle_watermark_sets():
    with OperatorHarness(AtTimes(SECOND, "handle_watermark"), "k string, t timestamp", keys=["k"]) as harness:
        harness.run_epoch([], watermark=5 * SECOND)
        assert harness.run_epoch([], watermark=8 * SECOND) == [{"k": "w", "time": SECOND}]


@pytest.mark.parametrize(
    ("time", "problem"),
    [("2024-01-01", "'2024-01-01' is no time for a timer"), (1.5, "1.5 is no time"), (pa.array([None], pa.int64()), "is null")],
)
def test_what_is_no_time_for_a_timer_is_refused(time, problem):
    with (
        OperatorHarness(AtTimes(time), "k string, t timestamp", keys=["k"]) as harness,
        pytest.raises(PipelineError, match=problem),
    ):
        harness.run_epoch([at(7)], watermark=8 * SECOND)


class Highest(OperatorHandler):
    """The highest value of each key."""

    def start(self, ctx):
        self.values = {}

    def stop(self, termination, ctx):
        if termination != "failure":
            types = pa.schema([("k", pa.string()), ("v", pa.int64())])
            ctx.state["highest"].put(pa.table({"k": list(self.values), "v": list(self.values.values())}, types))


@dataclass(frozen=True)
class HighestInWorkers(ExecutableOperator):
    states: ClassVar = (PhysicalState("highest"),)

    def outputs(self, inputs):
        return {"main": pa.schema([("k", pa.string()), ("v", pa.int64()), ("at", pa.int64())])}

    def tables(self, ports):
        return {"highest": do.KeyedState("k string, v long", key="k")}

    def handler(self):
        return Highest()

    def execute(self, ctx, rows):
        before = ctx.state["highest"].get(pa.table({"k": rows["k"]}))["v"].to_pylist()
        for key, value, known in zip(rows["k"].to_pylist(), rows["v"].to_pylist(), before, strict=True):
            ctx.handler.values[key] = max(value, known or 0, ctx.handler.values.get(key, 0))

    def terminate(self, ctx):
        values = ctx.handler.values
        assert min(ctx.watermarks.values()) == ctx.watermark
        ctx.emit(pa.table({"k": list(values), "v": list(values.values()), "at": [ctx.watermark] * len(values)}))


@dataclass(frozen=True, kw_only=True)
class HighestOf(LogicalOperator):
    """The highest value of each key so far, for the keys of an epoch."""

    kind: ClassVar[str] = "highest_of"
    keys: tuple[str, ...]

    def config(self):
        return {"keys": list(self.keys)}

    def inputs(self, types):
        return (InputPort("input", exchange=HashBy(self.keys)),)

    def output(self, inputs):
        self.require(inputs[0], self.keys, "key_by")
        return StreamType(("k", "v", "at"))

    def lineage(self, inputs):
        return {}

    def lower(self, inputs):
        return HighestInWorkers() if self.keys == ("k",) else ()


def test_a_logical_operator_is_run_as_what_it_lowers_to_with_its_handler_and_state():
    with OperatorHarness(HighestOf(name="highest", keys=("k",)), "k string, v long", parallelism=3) as highest:
        assert as_set(highest.run_epoch([{"k": "a", "v": 3}, {"k": "b", "v": 5}], watermark=7)) == {("a", 3, 7), ("b", 5, 7)}
        highest.rescale(2)
        assert as_set(highest.run_epoch([{"k": "a", "v": 1}, {"k": "c", "v": 4}], watermark=9)) == {("a", 3, 9), ("c", 4, 9)}
        assert as_set(highest.state("highest").to_pylist()) == {("a", 3), ("b", 5), ("c", 4)}


def test_what_the_harness_cannot_run_of_a_logical_operator_is_told():
    with pytest.raises(PipelineError, match="'highest_of' does not lower to batch operators"):
        OperatorHarness(HighestOf(name="highest", keys=("v",)), "k string, v long")
    with pytest.raises(PipelineError, match="has its keys and its name"):
        OperatorHarness(HighestOf(name="highest", keys=("k",)), "k string, v long", keys=["k"])
    with pytest.raises(SchemaError, match="key_by uses column 'k'"):
        OperatorHarness(HighestOf(name="highest", keys=("k",)), "v long")
