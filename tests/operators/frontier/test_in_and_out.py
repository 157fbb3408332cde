"""Streams that are written down with their progress and replayed, input at several open times, probes and barriers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators import frontier
from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.operators.frontier.library.replaying import EARLIEST, LAST
from dagster_operators.testing import OperatorHarness
from tests.engines import SAIL
from tests.operators.frontier.driving import CUTS, run

SCHEMA = "k long, v long"
TIMED = f"{SCHEMA}, t timestamp_ntz"
ZERO = datetime(1970, 1, 1, tzinfo=UTC)


def micros(moment):
    return (moment.replace(tzinfo=UTC) - ZERO) // timedelta(microseconds=1)


def rows_of(schema=SCHEMA):
    pipeline = do.Pipeline("p", root="nowhere")
    return pipeline.source("rows", do.MemorySource([], schema=f"{schema}, t timestamp_ntz"), event_time="t")


CAPTURE = frontier.definition_of(frontier.capture(rows_of(), schema=SCHEMA))
REPLAY = frontier.definition_of(
    frontier.replay(do.Pipeline("p", root="nowhere"), "again", do.DeltaSource("nowhere"), schema=SCHEMA)
)


def captured(rows, size):
    """The events of rows that come in epochs of a size, as the table would have them, epoch by epoch."""
    harness, events = OperatorHarness(CAPTURE, TIMED, event_time="t"), []
    for start in range(0, len(rows), size):
        left = rows[start + size :]
        harness.process([{**row, "t": time} for time, row in rows[start : start + size]])
        harness.end_epoch(min((time for time, _ in left), default=None)) if left else harness.finish()
        events.append(harness.rows())
    return events


@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), min_size=1, max_size=10),
    size=st.integers(1, 10),
    together=st.integers(1, 4),
    parallelism=st.integers(1, 3),
)
def test_a_replay_has_the_rows_and_is_never_ahead(rows, size, together, parallelism):
    timed = [(time, {"k": v % 3, "v": v}) for time, v in rows]
    events = captured(timed, size)
    harness = OperatorHarness(REPLAY, f"{SCHEMA}, at_ timestamp_ntz, t timestamp_ntz", event_time="t", parallelism=parallelism)
    found, told = [], []
    for start in range(0, len(events), together):
        several = [row for epoch in events[start : start + together] for row in epoch]
        harness.process(several)
        harness.end_epoch(max(micros(row["t"]) for row in several))
        found += [(micros(row["t"]), row["v"]) for row in harness.rows()]
        told += [micros(row["t"]) for row in several if row["at_"] is None]
        assert harness.frontier().elements == (max(told, default=EARLIEST),)
    assert harness.late_rows == 0
    assert harness.frontier().elements == (LAST,)
    assert sorted(found) == sorted((time, row["v"]) for time, row in timed)


def test_only_a_stream_with_a_time_can_be_captured():
    untimed = do.Pipeline("p", root="nowhere").source("rows", do.MemorySource([], schema=SCHEMA))
    with pytest.raises(SchemaError, match=r"have no time.*event_time"):
        frontier.capture(untimed, schema=SCHEMA)


@pytest.mark.parametrize(("parallelism", "size"), CUTS)
@pytest.mark.parametrize("pact", [None, frontier.Exchange("k")], ids=["pipeline", "exchange"])
def test_a_barrier_lets_rows_of_complete_times_through(parallelism, size, pact):
    rows = [(v // 4, {"k": v % 2, "v": v}) for v in range(10)]
    operator = frontier.definition_of(frontier.barrier(rows_of(), pact=pact))
    found = run(operator, SCHEMA, rows, parallelism=parallelism, size=size, restart=2)
    assert {time: [row["v"] for row in each] for time, each in found.items()} == {
        0: [0, 2, 1, 3], 1: [4, 6, 5, 7], 2: [8, 9]
    }  # fmt: skip
    harness = OperatorHarness(operator, TIMED, event_time="t")
    harness.process([{"k": 0, "v": 1, "t": 3}])
    harness.end_epoch(3)
    assert (harness.rows(), [hold["place"] for hold in harness.holds()]) == ([], ["stash"])


def several_times(open_, info):
    """Opens the times 3, 5 and 9, puts rows out at them in no order, and closes them one by one, an epoch for each."""

    def logic(output):
        turn = info.state["turn"] = info.state.get("turn", 0) + 1
        if turn == 1:
            first = open_.pop()
            open_.extend(first.delayed(time) for time in (9, 3, 5))
        for capability in reversed(open_):
            output.session(capability).give(v=10 * turn + capability.time)
        open_.remove(min(open_))

    return logic


def test_an_input_with_several_open_times(sail, tmp_path):
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    numbers = frontier.unordered_input(pipeline, "numbers", several_times, schema="v long", start=1)
    numbers.to_table("numbers")
    frontier.count(numbers).to_table("counts")
    probe = frontier.probe(pipeline, numbers)
    assert (probe.less_equal(-5), probe.less_than(-5), probe.done()) == (True, True, False)
    told = []
    while not pipeline.run_epoch().empty:
        told.append((probe.frontier.elements, sorted(micros(row.t) for row in pipeline.read("counts").collect())))
    assert told == [((5,), [3]), ((9,), [3, 5]), ((), [3, 5, 9])]
    assert (probe.done(), probe.less_equal(LAST), probe.with_frontier(len)) == (True, False, 0)
    found = sorted((micros(row.t), row.v) for row in pipeline.read("numbers").collect())
    assert found == [(3, 13), (5, 15), (5, 25), (9, 19), (9, 29), (9, 39)]
    assert sum(sum(complete.late_rows.values()) for complete in pipeline.history()) == 0


@pytest.mark.parametrize("made", [frontier.source, frontier.unordered_input], ids=["source", "unordered_input"])
def test_a_source_whose_logic_is_never_called(made):
    pipeline = do.Pipeline("p", root="nowhere")
    with pytest.raises(PipelineError, match=r"logic of the source 'numbers' is never called.*give calls of 1 or more"):
        made(pipeline, "numbers", several_times, schema="v long", calls=0)
    assert made(pipeline, "numbers", several_times, schema="v long", calls=1).columns == ("v", "t")


def test_a_probe_is_for_a_stream_of_its_pipeline():
    with pytest.raises(PipelineError, match=r"is of another pipeline.*that it belongs to"):
        frontier.probe(do.Pipeline("q", root="nowhere"), rows_of())


EPOCHS = [[{"k": v % 2, "v": v, "t": ZERO + timedelta(seconds=v + later)} for v in range(3)] for later in (0, 2, 1, 9)]


def test_what_was_captured_is_replayed_with_another_parallelism(sail, tmp_path):
    first = do.Pipeline("first", root=str(tmp_path / "first"), engine=SAIL, parallelism=2)
    rows = first.source("rows", do.MemorySource(EPOCHS, schema=f"{SCHEMA}, t timestamp"), event_time="t", finished=True)
    frontier.capture(rows, schema=SCHEMA, pact=frontier.Exchange("k")).to_table("events")
    frontier.count(rows).to_table("counts")
    second = do.Pipeline("second", root=str(tmp_path / "second"), engine=SAIL, parallelism=3)
    table = do.DeltaSource(tmp_path / "first" / "tables" / "events", max_versions=1)
    again = frontier.replay(second, "again", table, schema=SCHEMA)
    frontier.count(again).to_table("counts")
    probes = [frontier.probe(first, rows), frontier.probe(second, again)]
    for _ in EPOCHS:
        first.run_epoch()
        second.run_epoch()
        one, other = (probe.frontier for probe in probes)
        assert other.dominates(one)
        assert other.elements in {one.elements, (LAST,)}
    told = [sorted((row.t, row["count"]) for row in pipeline.read("counts").collect()) for pipeline in (first, second)]
    assert told[0] == told[1]
    assert sum(count for _, count in told[0]) == 9  # the rows of the third epoch are late for the first


def shown(info):
    def logic(incoming):
        for time, batch in incoming:
            info.state["seen"].append(batch.select(["k", "v"]))
            assert incoming.frontier.less_equal(time.time)

    return logic


def test_a_sink_runs_though_nothing_comes_of_it(sail, tmp_path):
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource(EPOCHS, schema=f"{SCHEMA}, t timestamp"), event_time="t")
    by_k = frontier.Exchange("k")
    rows.to_table("rows")
    rows.sink(by_k, "shown", shown, state={"seen": do.ListState(SCHEMA, key="k")})
    pipeline.run_epoch()
    pipeline.run_epoch()
    assert sorted(row.v for row in pipeline.state("shown", "seen").collect()) == [0, 0, 1, 1, 2, 2]
