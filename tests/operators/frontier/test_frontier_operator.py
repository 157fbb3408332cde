"""Frontier operators through the harness: the cases of timely dataflow that need no library, cut into epochs in every way."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators import frontier
from dagster_operators.errors import CapabilityError, OperatorFailedError, PipelineError, SchemaError
from dagster_operators.testing import OperatorHarness
from dagster_operators.time.watermark import MIN_WATERMARK
from tests.operators.frontier.driving import CUTS, run
from tests.operators.frontier.words import count_complete

CHANGES = [(0, "flat", 1), (0, "cat", 1), (1, "cat", 1), (1, "dog", 1), (2, "flat", -1), (2, "cat", -1)]
WORDS = [(time, {"word": word, "n": n}) for time, word, n in CHANGES]
COUNTS = {
    0: [{"word": "cat", "n": 1}, {"word": "flat", "n": 1}],
    1: [{"word": "cat", "n": 2}, {"word": "dog", "n": 1}],
    2: [{"word": "cat", "n": 1}, {"word": "flat", "n": 0}],
}


def count_words(capability, info):
    """The word count of timely's book, with its running state applied in the order of time."""
    stash, counts = info.state["stash"], info.state["counts"]
    return lambda incoming, output: count_complete(incoming, output, stash, counts)


WORD_COUNT = frontier.define(
    "unary_frontier",
    frontier.Exchange("word"),
    name="counts",
    logic=count_words,
    schema="word string, n long",
    state={"stash": frontier.StashState(), "counts": do.KeyedState("word string, n long", key="word")},
)


def in_order(rows):
    return {time: sorted(each, key=repr) for time, each in rows.items()}


@pytest.mark.parametrize(("parallelism", "size"), [*CUTS, (2, 2)])
@pytest.mark.parametrize("restart", [None, 1, 2])
def test_words_are_counted_in_the_order_of_time(parallelism, size, restart):
    assert run(WORD_COUNT, "word string, n long", WORDS, parallelism=parallelism, size=size, restart=restart) == in_order(COUNTS)


def keep_first(capability, info):
    """Keeps the first capability for later, and puts out what came when its time is complete."""
    kept = None if capability is None else capability.delayed(12)
    asked, stash = info.state["asked"], info.state["stash"]

    def logic(incoming, output):
        nonlocal kept
        if kept is not None:
            output.session(kept).give(v=12)
            kept = None
        for time, batch in incoming:
            asked.notify_at(time)
            stash.add(time, batch)
        asked.for_each(incoming.frontier, lambda time, _: output.session(time).give_batch(stash.pop(time.time)))

    return logic


KEEP_FIRST = frontier.define(
    "unary_frontier",
    frontier.Pipeline(),
    logic=keep_first,
    state={"asked": frontier.NotifyState(), "stash": frontier.StashState()},
)


@pytest.mark.parametrize(("parallelism", "size"), CUTS)
def test_the_first_capability_can_be_used_for_a_later_time(parallelism, size):
    rows = [(0, {"v": v}) for v in range(10)]
    expected = {0: [{"v": v} for v in range(10)], 12: [{"v": 12}]}
    assert run(KEEP_FIRST, "v long", rows, parallelism=parallelism, size=size, restart=1) == expected


def running_sum(incoming, output, notificator):
    """Adds up all that came, at each time that rows came with."""
    state = notificator.info.state
    for time, batch in incoming:
        notificator.notify_at(time)
        state["stash"].add(time, batch)
    for time, _ in notificator:
        rows = state["stash"].pop(time.time)
        before = state["total"].scan()["v"].to_pylist()
        total = sum(rows["v"].to_pylist()) + sum(before)
        state["total"].put(pa.table({"k": ["total"], "v": pa.array([total], pa.int64())}))
        output.session(time).give(v=total)


RUNNING_SUM = frontier.define(
    "unary_notify",
    frontier.Pipeline(),
    logic=running_sum,
    state={"stash": frontier.StashState(), "total": do.KeyedState("k string, v long", key="k")},
)


@pytest.mark.parametrize(("parallelism", "size"), CUTS)
def test_what_completes_at_once_is_told_in_the_order_of_time(parallelism, size):
    rows = [(time, {"v": 1}) for time in range(6)]
    expected = {time: [{"v": time + 1}] for time in range(6)}
    assert run(RUNNING_SUM, "v long", rows, parallelism=parallelism, size=size, restart=3) == expected


def later(capability, info):
    def logic(incoming, output):
        for time, batches in incoming.by_time():
            output.session(time.delayed(time.time + 1)).give_batches(batches)

    return logic


@pytest.mark.parametrize(("parallelism", "size"), CUTS)
def test_rows_can_be_given_a_later_time(parallelism, size):
    rows = [(0, {"v": v}) for v in range(10)]
    operator = frontier.define("unary", frontier.Pipeline(), logic=later)
    assert run(operator, "v long", rows, parallelism=parallelism, size=size) == {1: [{"v": v} for v in range(10)]}


def when_both_are_complete(capability, info):
    stash = info.state["stash"]

    def logic(left, right, output):
        for side in (left, right):
            side.for_each(stash.add)
        for time, rows in stash.complete([left.frontier, right.frontier]):
            output.session(time).give(k=min(rows["k"].to_pylist()), v=rows.num_rows)

    return logic


@pytest.mark.parametrize(("parallelism", "size"), CUTS)
def test_two_inputs_complete_together(parallelism, size):
    operator = frontier.define(
        "binary_frontier",
        *[frontier.Exchange("k")] * 2,
        logic=when_both_are_complete,
        state={"stash": frontier.StashState()},
    )
    one = [(time, {"k": "a", "v": 0}) for time in range(4)]
    other = [(2 * time, {"k": "a", "v": 0}) for time in range(4)]
    expected = {time: [{"k": "a", "v": (time < 4) + (time % 2 == 0)}] for time in (0, 1, 2, 3, 4, 6)}
    assert run(operator, "k string, v long", one, other, parallelism=parallelism, size=size, restart=2) == expected


@settings(max_examples=60, deadline=None)
@given(
    changes=st.lists(st.tuples(st.integers(0, 5), st.sampled_from("abcd"), st.integers(-2, 3)), min_size=1, max_size=15),
    size=st.integers(1, 15),
    parallelism=st.integers(1, 4),
    restart=st.integers(1, 4),
)
def test_the_answer_does_not_depend_on_cuts_parallelism_and_restarts(changes, size, parallelism, restart):
    rows = [(time, {"word": word, "n": n}) for time, word, n in sorted(changes)]
    whole = run(WORD_COUNT, "word string, n long", rows)
    assert run(WORD_COUNT, "word string, n long", rows, parallelism=parallelism, size=size, restart=restart) == whole
    totals: dict[str, int] = {}
    for time in sorted({time for time, _, _ in changes}):
        for _, word, n in [change for change in changes if change[0] == time]:
            totals[word] = totals.get(word, 0) + n
        words = {word for at, word, _ in changes if at == time}
        assert whole[time] == sorted(({"word": word, "n": totals[word]} for word in words), key=repr)


def test_batches_of_many_times_are_cut_together():
    called = []

    def counting(capability, info):
        def logic(incoming, output):
            called.append([(time.time, batch["v"].to_pylist()) for time, batch in incoming])

        return logic

    running = harness(counting, "unary")
    for rows in ([(1, 1), (2, 2)], [(3, 1)], [(4, 2), (5, 1)]):
        running.process([{"v": v, "t": time} for v, time in rows])
    running.end_epoch()
    running.process([{"v": 6, "t": 7}])
    assert called == [[(1, [1, 3, 5]), (2, [2, 4])], [(7, [6])]]


def test_a_sink_sees_rows_and_frontiers():
    seen = []

    def shown(info):
        def logic(incoming):
            for time, batch in incoming:
                info.state["stash"].add(time, batch)
            seen.extend(
                (time.time, sorted(rows["v"].to_pylist())) for time, rows in info.state["stash"].complete(incoming.frontier)
            )

        return logic

    operator = frontier.define("sink", frontier.Pipeline(), logic=shown, state={"stash": frontier.StashState()})
    rows = [(time, {"v": v}) for time, v in ((0, 1), (0, 2), (1, 3))]
    for size in (None, 1, 2):
        seen.clear()
        assert run(operator, "v long", rows, size=size, restart=1) == {}
        assert seen == [(0, [1, 2]), (1, [3])]


# --- what holds time ---------------------------------------------------------------------------------------------------


def harness(logic, shape="unary_frontier", **more):
    operator = frontier.define(shape, frontier.Pipeline(), logic=logic, **more)
    return OperatorHarness(operator, "v long, t timestamp_ntz", event_time="t")


def test_the_harness_says_what_holds_a_frontier_back():
    def keeping(capability, info):
        def logic(incoming, output):
            for time, batch in incoming:
                info.state["kept"].insert(time)
                info.state["stash"].add(time.delayed(time.time + 1), batch)

        return logic

    state = {"kept": frontier.CapabilityState(), "stash": frontier.StashState()}
    running = harness(keeping, state=state)
    running.process([{"v": 1, "t": 3}])
    running.end_epoch(9)
    expected = [
        {"place": "kept", "time": 3, "output": "main", "subtask": 0},
        {"place": "stash", "time": 4, "output": "main", "subtask": 0},
    ]
    assert running.holds() == expected
    assert running.frontier().elements == (3,)


def test_the_initial_capability_stays_as_it_was_left():
    def stepping(capability, info):
        def logic(incoming, output):
            incoming.for_each(lambda *_: None)
            if capability is not None and not capability.dropped:
                capability.downgrade(max(capability.time, 0) + 1)
                if capability.time > 2:
                    capability.drop()

        return logic

    running, told = harness(stepping), []
    for _ in range(4):
        running.end_epoch(100)
        told.append([hold["time"] for hold in running.holds()])
    assert told == [[1], [2], [], []]
    assert running.frontier().elements == (100,)


def test_rows_behind_the_frontier_are_late():
    running = harness(later, "unary")
    running.end_epoch(5)
    running.process([{"v": 1, "t": 4}, {"v": 2, "t": 5}])
    running.end_epoch()
    assert ([row["v"] for row in running.rows()], [row["v"] for row in running.rows("late")]) == ([2], [1])
    assert running.late_rows == 1


# --- what is refused ---------------------------------------------------------------------------------------------------


def refused(logic, shape="unary_frontier", **more):
    running = harness(logic, shape, **more)
    running.process([{"v": 1, "t": 3}])
    running.end_epoch(9)


def using(step):
    """A constructor whose logic does something with each time."""

    def constructor(capability, info):
        return lambda incoming, output: incoming.for_each(lambda time, batch: step(time, output, batch))

    return constructor


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda time, output, _: time.delayed(2), "rows of 3 allow nothing at 2 .* delay to 3 or later"),
        (lambda time, output, _: time.retain().delayed(2), "cannot be delayed to 2, which is not after it"),
        (lambda time, output, _: time.retain().downgrade(2), "cannot be downgraded to 2, which is not after it"),
        (lambda time, output, _: time.retain(1), "there is no output 1"),
        (lambda time, output, _: output.session(3), "3 is no capability"),
        (lambda time, output, _: dropped(time, output), "the capability for 3 was dropped"),
        (lambda time, output, batch: downgraded(time, output) or batch, "after its capability was downgraded to 5"),
    ],
)
def test_what_capabilities_do_not_allow_is_refused(step, message):
    with pytest.raises(CapabilityError, match=message) as told:
        refused(using(step))
    assert told.value.operator == "operator"
    assert told.value.remedy


def dropped(time, output):
    capability = time.retain()
    capability.drop()
    output.session(capability)


def downgraded(time, output):
    capability = time.retain()
    session = output.session(capability)
    capability.downgrade(5)
    session.give(v=1)


def test_a_capability_that_would_be_lost_is_refused():
    kept = []

    def forgetful(capability, info):
        return lambda incoming, output: incoming.for_each(lambda time, _: kept.append(time.retain()))

    with pytest.raises(CapabilityError, match=r"for 3 is still held when the epoch ends.*CapabilityState"):
        refused(forgetful)


def test_a_first_capability_that_is_kept_for_ever_holds_for_ever():
    def keeping(capability, info):
        def logic(incoming, output):
            incoming.for_each(lambda *_: capability)

        return logic

    running = harness(keeping, "unary")
    running.end_epoch(9)
    assert running.holds() == [{"place": "initial capability", "time": MIN_WATERMARK, "output": "main", "subtask": 0}]
    assert running.frontier().elements == (MIN_WATERMARK,)


def test_what_is_made_of_the_first_capability_is_kept_only_where_it_is_declared():
    def keeping(capability, info):
        kept = None if capability is None else capability.delayed(12)
        return lambda incoming, output: incoming.for_each(lambda *_: kept)

    with pytest.raises(CapabilityError, match="a capability for 12 is still held when the epoch ends"):
        refused(keeping, "unary")


def test_the_time_of_rows_is_gone_with_them():
    seen = []

    def late_use(capability, info):
        def logic(incoming, output):
            if seen:
                seen.pop().retain()
            incoming.for_each(lambda time, _: seen.append(time))

        return logic

    with pytest.raises(CapabilityError, match=r"the rows of 3 are gone.*retain\(\)"):
        refused(late_use)


@pytest.mark.parametrize(
    ("logic", "shape", "error", "message"),
    [
        (lambda capability, info: None, "unary", OperatorFailedError, "the constructor returned None"),
        (
            lambda capability, info: lambda incoming, output: None,
            "unary",
            OperatorFailedError,
            "are not read when the epoch ends",
        ),
        (lambda capability, info: 1 / 0, "unary", OperatorFailedError, "constructor raised ZeroDivisionError"),
        (using(lambda time, output, _: output.session(time).give(w=1)), "unary", PipelineError, "has no column 'w'"),
        (using(lambda time, output, _: output.session(time).give_batch(pa.table({"w": [1]}))), "unary", SchemaError, "'v' is"),
    ],
)
def test_what_is_wrong_with_the_logic_is_said(logic, shape, error, message):
    with pytest.raises(error, match=message):
        refused(logic, shape)


def test_state_that_is_not_declared_is_named_with_what_is():
    def misspelt(capability, info):
        return info.state["stahs"]

    with pytest.raises(PipelineError, match=r"no state 'stahs' is declared.*declared: kept, stash") as told:
        refused(misspelt, state={"kept": frontier.CapabilityState(), "stash": frontier.StashState()})
    assert told.value.operator == "operator"


def test_the_code_of_an_operator_is_read_once(monkeypatch):
    rows = do.Pipeline("p", root="nowhere").source("rows", do.MemorySource([], schema="v long, t timestamp"), event_time="t")
    stream = rows.unary(frontier.Pipeline(), "a", later)
    operator = stream._dataflow.nodes["a"].operator
    first = operator.reference
    monkeypatch.setattr("dagster_operators.functions.references.ObjectReference.to", None)
    assert operator.reference is first
    assert operator.encode()["definition"] is first


def test_an_input_does_not_move_back():
    running = harness(later, "unary")
    running.end_epoch(5)
    running.end_epoch(5)
    with pytest.raises(CapabilityError, match=r"the input 0 is at 5 and cannot move back to 4.*later one"):
        running.end_epoch(4)


def test_unary_is_not_told_of_frontiers():
    with pytest.raises(PipelineError, match=r"not told about frontiers.*unary_frontier"):
        refused(lambda capability, info: lambda incoming, output: incoming.frontier, "unary")


def test_what_does_not_fit_is_refused_while_the_pipeline_is_built():
    pipeline = do.Pipeline("p", root="nowhere")
    timed = pipeline.source("timed", do.FileSource("in", schema="k string, t timestamp"), event_time="t")
    untimed = pipeline.source("untimed", do.FileSource("in", schema="k string"))
    with pytest.raises(SchemaError, match=r"have no time.*event_time"):
        untimed.unary(frontier.Pipeline(), "a", later)
    with pytest.raises(SchemaError, match="'missing', which its input does not have"):
        timed.unary(frontier.Exchange("missing"), "a", later)
    with pytest.raises(PipelineError, match="exchange all by the same"):
        timed.binary(timed, frontier.Exchange("k"), frontier.Pipeline(), "a", later)
    with pytest.raises(PipelineError, match="is no pact"):
        timed.unary("k", "a", later)
    with pytest.raises(PipelineError, match="is no name for a state"):
        timed.unary(frontier.Pipeline(), "a", later, state={"a_": frontier.StashState()})
