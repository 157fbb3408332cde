"""Long work in pieces: what is incomplete, what is called again, how much an epoch does, and sources that wait."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators import frontier
from dagster_operators.errors import OperatorFailedError, PipelineError
from dagster_operators.testing import OperatorHarness
from tests.engines import SAIL

SCHEMA = "k long, v long"
TIMED = f"{SCHEMA}, t timestamp_ntz"
STASH = {"stash": frontier.StashState()}


def rows_of(root="nowhere"):
    pipeline = do.Pipeline("p", root=root)
    return pipeline, pipeline.source("rows", do.MemorySource([], schema=TIMED), event_time="t")


def rescheduled(constructor, *, interest="always", state=None, **more):
    pipeline, rows = rows_of()
    builder = frontier.OperatorBuilder("slow", pipeline)
    builder.new_input(rows, frontier.Pipeline())
    builder.new_output()
    builder.set_notify_for(0, interest)
    return frontier.definition_of(builder.build_reschedule(constructor, state=state, **more))


def a_row_at_a_time(capabilities, info):
    """As timely's example with fuel: one row in each call."""
    capabilities.clear()
    stash = info.state["stash"]

    def logic(inputs, outputs):
        inputs[0].for_each(stash.add)
        for capability in [held.clone() for held in stash.capabilities()[:1]]:
            rows = stash.pop(capability.time)
            outputs[0].session(capability).give_batch(rows.slice(0, 1))
            if rows.num_rows > 1:
                stash.add(capability, rows.slice(1))
        if len(stash):
            info.activator.activate()
        return len(stash) > 0

    return logic


@settings(max_examples=10, deadline=None)
@given(times=st.lists(st.integers(0, 3), min_size=1, max_size=9), calls=st.integers(1, 9))
def test_what_an_epoch_does_not_get_done_is_left_to_the_next(times, calls):
    harness = OperatorHarness(rescheduled(a_row_at_a_time, state=STASH, calls=calls), TIMED, event_time="t")
    harness.process([{"k": 0, "v": v, "t": time} for v, time in enumerate(times)])
    found, told = [], []
    for _ in range(len(times) + 1):
        told.append(next(report.metrics.get("incomplete", 0) for report in harness.end_epoch(10).values()))
        found.append([row["v"] for row in harness.rows()])
        held = [hold["time"] for hold in harness.holds()]
        assert harness.frontier().elements == (min(held, default=10),)
    in_order = [v for _, v in sorted((time, v) for v, time in enumerate(times))]
    assert [v for part in found for v in part] == in_order
    assert max(map(len, found)) <= calls + 2  # one more when the rows come, and one when time passes
    assert [bool(left) for left in told] == [number < len(in_order) for number in _so_far(found)]


def _so_far(parts):
    total = 0
    for part in parts:
        total += len(part)
        yield total


def test_incomplete_alone_is_no_call_in_this_epoch_and_one_in_the_next():
    calls = []

    def never_done(capabilities, info):
        capabilities.clear()

        def logic(inputs, outputs):
            calls.append(info.epoch)
            inputs[0].for_each(lambda *_: None)
            return len(calls) < 5

        return logic

    for interest, expected in (("always", [1, 1, 2, 3, 4, 5]), ("never", [1, 2, 3, 4, 5])):
        calls.clear()
        harness = OperatorHarness(rescheduled(never_done, interest=interest), TIMED, event_time="t")
        harness.process([{"k": 0, "v": 0, "t": 1}])
        told = [bool(harness.end_epoch()[0].metrics) for _ in range(6)]
        assert [epoch for epoch in calls if epoch < 6] == expected
        assert told[-1] is False
        assert told.index(False) == {"always": 3, "never": 4}[interest]


def test_a_logic_that_does_not_say_whether_it_is_incomplete_is_refused():
    silent = rescheduled(lambda capabilities, info: lambda inputs, outputs: None)
    with pytest.raises(OperatorFailedError, match="returned None; it is to say whether it is incomplete"):
        OperatorHarness(silent, TIMED, event_time="t").end_epoch(1)
    with pytest.raises(PipelineError, match=r"0 calls are none.*1 or more"):
        rescheduled(a_row_at_a_time, state=STASH, calls=0)


@pytest.mark.parametrize("shape", ["unary_frontier", "build"])
def test_a_call_after_a_time_is_remembered(shape, monkeypatch):
    now, calls = [0], []
    monkeypatch.setattr("dagster_operators.operators.frontier.operator_info._now", lambda: now[0])

    def after_an_hour(capability, info):
        def logic(given, output):
            given = given if shape == "unary_frontier" else given[0]
            calls.append(now[0])
            for _ in given:
                info.activator.activate_after(3600)

        return logic

    pipeline, rows = rows_of()
    if shape == "build":
        builder = frontier.OperatorBuilder("later", pipeline)
        builder.new_input(rows, frontier.Pipeline())
        builder.new_output()
        builder.set_notify_for(0, "never")
        operator = frontier.definition_of(builder.build(after_an_hour, state={"kept": frontier.CapabilityState()}))
    else:
        operator = frontier.define(shape, frontier.Pipeline(), logic=after_an_hour)
    harness = OperatorHarness(operator, TIMED, event_time="t", parallelism=1)
    harness.process([{"k": 0, "v": 0, "t": 1}])
    for hour in (0, 1, 2, 3):
        now[0] = hour * 3_600_000_000
        harness.end_epoch()
    told = [moment // 3_600_000_000 for moment in calls]
    assert told == ([0, 0, 1, 2, 3] if shape == "unary_frontier" else [0, 1])
    assert harness.holds() == []


def test_a_call_that_would_be_forgotten_is_refused():
    def later(capability, info):
        return lambda given, output: given.for_each(lambda *_: info.activator.activate_after(60))

    harness = OperatorHarness(frontier.define("unary", frontier.Pipeline(), logic=later), TIMED, event_time="t")
    harness.process([{"k": 0, "v": 0, "t": 1}])
    with pytest.raises(PipelineError, match=r"called again after the epoch.*unary_frontier"):
        harness.end_epoch()


@settings(max_examples=12, deadline=None)
@given(
    times=st.lists(st.integers(0, 4), min_size=1, max_size=9),
    most=st.integers(1, 4),
    parallelism=st.integers(1, 2),
    rescaled=st.integers(1, 3),
)
def test_no_more_rows_go_on_than_are_let_through(times, most, parallelism, rescaled):
    _, rows = rows_of()
    operator = frontier.definition_of(frontier.limit_rate(rows, most, pact=frontier.Exchange("k")))
    harness = OperatorHarness(operator, TIMED, event_time="t", parallelism=parallelism)
    harness.process([{"k": v % 3, "v": v, "t": time} for v, time in enumerate(times)])
    found = []
    for number in range(len(times) + 1):
        reports = harness.end_epoch(9)
        part = harness.rows()
        assert len(part) <= most * harness.parallelism
        found += [row["v"] for row in part]
        assert any(report.metrics.get("incomplete") for report in reports.values()) == (len(found) < len(times))
        if number == 0:
            harness.rescale(rescaled)
    assert sorted(found) == list(range(len(times)))
    assert harness.frontier().elements == (9,)


def five(capability, info):
    """Five rows at the next time in each epoch, until there were ten."""

    def logic(output):
        session = output.session(capability)
        session.give_iterator({"k": 0, "v": 5 * capability.time + v} for v in range(5))
        if capability.time == 1:
            capability.drop()
        else:
            capability.downgrade(capability.time + 1)

    return logic


@pytest.mark.parametrize(
    ("waits", "times"), [("operator", [0, 0, 0, 1, 1, 1]), ("probe", [0, 0, 0, 1]), (None, [0, 1, 1])], ids=str
)
def test_a_source_waits_for_what_is_behind(sail, tmp_path, waits, times):
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    handle = frontier.ProbeHandle(pipeline)
    target = {"operator": "slow", "probe": handle, None: None}[waits]
    numbers = frontier.source(pipeline, "numbers", five, schema=SCHEMA, waits_for=target)
    slow = frontier.limit_rate(numbers, 2, name="slow")
    frontier.probe_with(frontier.map(slow, lambda batch: batch), handle).to_table("slow")
    came, went = [], []
    for _ in times:
        went.append(pipeline.run_epoch().rows["slow"])
        came.append(pipeline.epochs.coordinator.view().last_complete.offsets["numbers"]["position"]["last"])
        if waits and len(came) == 2:
            assert pipeline.epochs.has_news() == {"slow": {"incomplete": True}}  # the source has no turn, and so no news
            assert handle.less_than(1)
    assert came == times
    assert went == ([2, 2, 1, 2, 2, 1] if waits else [2, 2, 2])[: len(times)]
    if waits == "operator":
        assert pipeline.epochs.has_news() == {}
        assert sorted(row.v for row in pipeline.read("slow").collect()) == list(range(10))


def nothing_until_three(capability, info):
    """Goes on in time without rows."""

    def logic(output):
        capability.downgrade(capability.time + 3)

    return logic


def test_a_source_that_goes_on_without_rows_moves_the_frontier(sail, tmp_path):
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    numbers = frontier.source(pipeline, "numbers", nothing_until_three, schema=SCHEMA)
    probe = frontier.probe(pipeline, numbers)
    numbers.to_table("numbers")
    told = []
    for _ in range(2):
        pipeline.run_epoch()
        told.append(probe.frontier.elements)
    assert told == [(3,), (6,)]


def test_a_source_cannot_wait_for_what_is_not_there(sail, tmp_path):
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    frontier.source(pipeline, "numbers", five, schema=SCHEMA, waits_for="slow").to_table("numbers")
    with pytest.raises(PipelineError, match="waits for 'slow', and there is no such operator"):
        pipeline.run_epoch()


def test_a_probe_tells_of_one_stream_of_its_pipeline(tmp_path):
    pipeline, rows = rows_of(str(tmp_path))
    handle = frontier.ProbeHandle(pipeline)
    frontier.source(pipeline, "numbers", five, schema=SCHEMA, waits_for=handle).to_table("numbers")
    with pytest.raises(PipelineError, match=r"the probe was given no stream.*probe_with"):
        handle.less_than(3)
    with pytest.raises(PipelineError, match=r"waits for 'a probe of no stream'.*probe_with"):
        pipeline.epochs.has_news()
    assert frontier.probe_with(rows, handle) is rows
    with pytest.raises(PipelineError, match="the handle tells of 'rows' already"):
        frontier.probe_with(rows, handle)
    with pytest.raises(PipelineError, match="is of another pipeline"):
        frontier.probe_with(rows_of()[1], frontier.ProbeHandle(pipeline))


def pairs(target, state):
    """Two rows at the next of the times 0 and 10, to be followed when the time is complete."""
    at = state.get("next", 0)
    state["next"] = at + 10
    rows = [{"k": target, "v": v} for v in (at, at + 1)]
    return frontier.IteratorSourceInput([(at, rows)], target=at + 1, lower_bound=at + 5) if at < 20 else None


def test_an_input_function_is_asked_when_the_probe_has_come_to_its_target(sail, tmp_path):
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    handle = frontier.ProbeHandle(pipeline)
    numbers = frontier.iterator_source(pipeline, "numbers", pairs, handle, schema=SCHEMA)
    frontier.probe_with(frontier.limit_rate(numbers, 1, name="slow"), handle).to_table("slow")
    told = [(result.epoch, result.rows["slow"]) for result in pipeline.run_until_caught_up()]
    asked = [complete.offsets["numbers"]["position"]["state"].get("own") for complete in pipeline.history()]
    assert told == [(1, 1), (2, 1), (3, 1), (4, 1), (5, 0)]
    assert asked == [{"next": 10}, {"next": 10}, {"next": 20}, {"next": 20}, {"next": 30}]
    assert sorted((row.k, row.v) for row in pipeline.read("slow").collect()) == [(0, 0), (0, 1), (1, 10), (1, 11)]
    assert handle.done()


def at_its_own_pace(capability, info):
    """A row, and the next one an hour later."""

    def logic(output):
        output.session(capability).give(k=0, v=capability.time)
        if capability.time == 1:
            capability.drop()
        else:
            capability.downgrade(capability.time + 1)
            info.activator.activate_after(3600)

    return logic


def test_a_source_goes_at_its_own_pace(sail, tmp_path, monkeypatch):
    now, told = [1], []
    monkeypatch.setattr("dagster_operators.operators.frontier.operator_info._now", lambda: now[0])
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    frontier.source(pipeline, "numbers", at_its_own_pace, schema=SCHEMA).to_table("numbers")
    for half_an_hour in range(4):
        now[0] = half_an_hour * 1_800_000_000 + 1
        assert bool(pipeline.epochs.has_news()) == (half_an_hour in {0, 2})
        told.append([result.rows["numbers"] for result in pipeline.run_until_caught_up()])
    assert told == [[1], [], [1], []]


def an_hour_later(capability, info):
    """Lets rows wait until it is called without new ones, which it asks for after an hour."""
    stash = info.state["stash"]

    def logic(incoming, output):
        came = False
        for time, batch in incoming:
            stash.add(time, batch)
            info.activator.activate_after(3600)
            came = True
        if not came and info.epoch > 1:
            for held in [held.clone() for held in stash.capabilities()]:
                output.session(held).give_batch(stash.pop(held.time))

    return logic


def test_an_epoch_begins_when_the_time_for_a_call_has_come(sail, tmp_path, monkeypatch):
    now = [1_000_000]
    monkeypatch.setattr("dagster_operators.operators.frontier.operator_info._now", lambda: now[0])
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL, parallelism=2)
    rows = frontier.to_stream(pipeline, "rows", [{"k": v, "v": v} for v in range(4)], schema=SCHEMA)
    later = rows.unary_frontier(frontier.Exchange("k"), "later", an_hour_later, state=STASH)
    later.to_table("later")
    assert len(pipeline.run_until_caught_up()) == 1
    due = now[0] + 3_600_000_000
    assert pipeline.history()[-1].metrics["later.called_again_at"] == due
    now[0] = due - 1
    assert (pipeline.epochs.has_news(), pipeline.run_epoch().empty) == ({}, True)
    now[0] = due
    assert pipeline.epochs.has_news() == {"later": {"called_again_at": due}}
    assert len(pipeline.run_until_caught_up()) == 1
    assert sorted(row.v for row in pipeline.read("later").collect()) == [0, 1, 2, 3]
    assert (pipeline.epochs.has_news(), pipeline.history()[-1].metrics) == ({}, {})
