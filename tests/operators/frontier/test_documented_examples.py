"""Examples in timely dataflow's documentation that other files have not: in epochs of 1 and of 7 rows, and in a whole one."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import dagster_operators as do
from dagster_operators import frontier
from tests.operators.frontier.driving import CUTS, run

SCHEMA = "v long"
TEN = [(0, {"v": v}) for v in range(10)]
TIMED = [(v, {"v": v}) for v in range(9)]
ALL = {0: list(range(10))}


@pytest.fixture(params=CUTS, ids=lambda cut: f"{cut[0]}-{cut[1]}")
def cut(request):
    return {"parallelism": request.param[0], "size": request.param[1]}


def values(operator, *inputs, **more):
    found = run(operator, SCHEMA, *inputs, **more)
    return {time: sorted(row["v"] for row in rows) for time, rows in found.items()}


def hundred_at_twelve(capability, info):
    """``generic/operator.rs``, unary: the first capability is kept for one row at 12."""
    kept = None if capability is None else capability.delayed(12)

    def logic(given, output):
        nonlocal kept
        if kept is not None:
            output.session(kept).give(v=100)
            kept = None
        given.for_each_time(lambda time, batches: output.session(time).give_batches(batches))

    return logic


def hundred_beside_two(capability, info):
    """The same of two inputs."""
    kept = None if capability is None else capability.delayed(12)

    def logic(left, right, output):
        nonlocal kept
        if kept is not None:
            output.session(kept).give(v=100)
            kept = None
        for given in (left, right):
            given.for_each_time(lambda time, batches: output.session(time).give_batches(batches))

    return logic


@pytest.mark.parametrize("restart", [None, 3])
def test_the_first_capability_of_an_operator_without_frontiers(cut, restart):
    unary = frontier.define("unary", frontier.Pipeline(), logic=hundred_at_twelve)
    assert values(unary, TEN, **cut, restart=restart) == {**ALL, 12: [100]}
    binary = frontier.define("binary", *[frontier.Pipeline()] * 2, logic=hundred_beside_two)
    assert values(binary, TEN, TEN, **cut, restart=restart) == {0: sorted(2 * ALL[0]), 12: [100]}


def told_at_the_end(given, output, notificator):
    """``generic/operator.rs``, unary_notify: rows go on, and each time is told; here as a row -1."""
    for time, batches in given.by_time():
        output.session(time).give_batches(batches)
        notificator.notify_at(time.retain(output.output_index))
    notificator.for_each(lambda capability, count, _: output.session(capability).give(v=-1))


def both_told_at_the_end(left, right, output, notificator):
    """The same, binary_notify."""
    for given in (left, right):
        for time, batches in given.by_time():
            output.session(time).give_batches(batches)
            notificator.notify_at(time.retain(output.output_index))
    notificator.for_each(lambda capability, count, _: output.session(capability).give(v=-1))


def test_notify(cut):
    unary = frontier.define("unary_notify", frontier.Pipeline(), logic=told_at_the_end)
    assert values(unary, TEN, **cut, restart=3) == {0: [-1, *ALL[0]]}
    assert values(unary, TIMED, **cut, restart=3) == {v: [-1, v] for v in range(9)}
    binary = frontier.define("binary_notify", *[frontier.Pipeline()] * 2, logic=both_told_at_the_end)
    assert values(binary, TIMED, TIMED, **cut, restart=3) == {v: [-1, v, v] for v in range(9)}


def told_one_later(given, output, notificator):
    """``generic/notificator.rs``: the end of the time after that of the rows is asked for, and 0 from the beginning."""
    for time, batches in given.by_time():
        output.session(time).give_batches(batches)
        notificator.notify_at(time.delayed(time.time + 1, output.output_index))
    notificator.for_each(lambda capability, count, _: output.session(capability).give(v=-count))


def test_notifications_that_are_asked_for_from_the_beginning(cut):
    operator = frontier.define("unary_notify", frontier.Pipeline(), logic=told_one_later, init=[0])
    found = values(operator, TEN, **cut)
    told = -found[1][0]
    assert found == {0: [-1, *ALL[0]], 1: [-told]}
    assert 1 <= told <= 10  # as often as the logic was called with rows of the time


def two_with_a_notificator(capability, info):
    """``generic/operator.rs``, binary_frontier: what came at a time goes on when neither input brings it any more."""
    notificator, stash = info.state["asked"], info.state["stash"]

    def logic(left, right, output):
        for given in (left, right):
            for time, batches in given.by_time():
                stash.add(time, batches)
                notificator.notify_at(time.retain(output.output_index))
        for complete, _ in notificator.ready([left.frontier, right.frontier]):
            output.session(complete).give_batch(stash.pop(complete.time))

    return logic


def test_two_inputs_with_a_notificator(cut):
    state = {"asked": frontier.NotifyState(), "stash": frontier.StashState()}
    operator = frontier.define("binary_frontier", *[frontier.Pipeline()] * 2, logic=two_with_a_notificator, state=state)
    assert values(operator, TIMED, TIMED, **cut, restart=1) == {v: [v, v] for v in range(9)}
    assert values(operator, TIMED, TIMED[:2], **cut, restart=1) == {v: [v] * (2 if v < 2 else 1) for v in range(9)}


def pending_once(capability, info):
    """``generic/notificator.rs``, pending: each time that is asked for is there once."""
    notificator = info.state["asked"]

    def logic(given, output):
        for time, batches in given.by_time():
            output.session(time).give_batches(batches)
            later = time.time + 1
            notificator.notify_at(time.delayed(later, output.output_index))
            assert [asked for asked, _ in notificator.pending()].count(later) == 1
        notificator.for_each(given.frontier, lambda capability, _: output.session(capability).give(v=-1))

    return logic


def test_what_is_pending(cut):
    operator = frontier.define("unary_frontier", frontier.Pipeline(), logic=pending_once, state={"asked": frontier.NotifyState()})
    assert values(operator, TEN, **cut, restart=3) == {**ALL, 1: [-1]}


def with_the_first_of_a_set(capability, info):
    """``capability.rs``, CapabilitySet: it moves with the frontier, and a row goes out at its first capability."""
    kept = info.state["kept"]
    if capability is not None:
        kept.insert(capability)
        capability.drop()

    def logic(given, output):
        kept.downgrade(given.frontier)
        given.for_each_time(lambda *_: None)
        first = kept.first()
        if first is not None and first.time >= 0:
            output.session(first).give(v=first.time)

    return logic


def test_a_set_of_capabilities_moves_with_the_frontier():
    operator = frontier.define(
        "unary_frontier", frontier.Pipeline(), logic=with_the_first_of_a_set, state={"kept": frontier.CapabilityState()}
    )
    for parallelism in (1, 3):
        found = values(operator, TIMED, size=1, parallelism=parallelism, restart=1)
        assert {time: set(rows) for time, rows in found.items()} == {v: {v} for v in range(1, 9)}


def test_rows_come_to_a_sink_with_their_times(cut):
    seen = []

    def looking(info):
        """``vec/delay.rs``: rows at the times they were delayed to."""
        return lambda given: given.for_each_time(lambda time, batches: seen.append((time.time, len(batches))))

    assert values(frontier.define("sink", frontier.Pipeline(), logic=looking), TIMED, **cut) == {}
    assert seen == [(v, 1) for v in range(9)]


def halves(batch):
    even = pc.equal(pc.bit_wise_and(batch["v"], 1), 0)
    return batch.filter(even), batch.filter(pc.invert(even))


def added(batch):
    return pa.table({"v": pc.add(batch["v"], 1)})


def below(batch):
    """The numbers below each one."""
    return pa.table({"v": pa.array([below for v in batch["v"].to_pylist() for below in range(v)], pa.int64())})


def chained(rows, *steps):
    """Several steps as one operator's logic: what builders of flat maps do."""
    return frontier.map(rows, lambda batch: _applied(steps, batch))


def _applied(steps, batch):
    for step in steps:
        batch = step(batch)
    return batch


SCOPED = {
    "map": (lambda rows: frontier.map(rows, added), {0: list(range(1, 11))}),
    "flat_map": (lambda rows: frontier.flat_map(rows, below), {0: sorted(v for n in range(10) for v in range(n))}),
    "flat_map_builder": (lambda rows: chained(rows, *[added] * 4), {0: list(range(4, 14))}),
    "concat": (lambda rows: frontier.concat(rows, rows), {0: sorted(2 * ALL[0])}),
    "concatenate": (lambda rows: frontier.concatenate(rows, rows, rows), {0: sorted(3 * ALL[0])}),
    "enter and leave": (lambda rows: rows, ALL),
    "filter": (lambda rows: frontier.filter(rows, lambda batch: pc.less(batch["v"], 3)), {0: [0, 1, 2]}),
    "exchange": (lambda rows: frontier.exchange(rows, frontier.Exchange("v")), ALL),
    "inspect_batch": (lambda rows: frontier.inspect_batch(rows, lambda time, batch: None), ALL),
    "inspect_time": (lambda rows: frontier.inspect_time(rows, lambda time, batch: None), ALL),
    "ok": (lambda rows: frontier.results(rows, halves).ok(), {0: [0, 2, 4, 6, 8]}),
    "err": (lambda rows: frontier.results(rows, halves).err(), {0: [1, 3, 5, 7, 9]}),
    "map_ok": (lambda rows: frontier.results(rows, halves).map_ok(added).ok(), {0: [1, 3, 5, 7, 9]}),
    "map_err": (lambda rows: frontier.results(rows, halves).map_err(added).err(), {0: [2, 4, 6, 8, 10]}),
    "and_then": (lambda rows: frontier.results(rows, halves).and_then(halves).err(), {0: [1, 3, 5, 7, 9]}),
    "unwrap_or_else": (lambda rows: frontier.results(rows, halves).unwrap_or_else(added), {0: [0, 2, 2, 4, 4, 6, 6, 8, 8, 10]}),
    "delay and branch_when": (
        lambda rows: frontier.branch_when(frontier.delay(rows, lambda time, batch: batch["v"]), lambda time: time >= 5)[1],
        {v: [v] for v in range(5, 10)},
    ),
}  # fmt: skip
"""Examples of several operators, which the harness drives within a scope; what comes out is what is given."""


@pytest.mark.parametrize("which", SCOPED)
def test_operators_behind_each_other(which, cut):
    build, expected = SCOPED[which]
    pipeline = do.Pipeline("p", root="nowhere")
    rows = pipeline.source("rows", do.MemorySource([], schema=f"{SCHEMA}, t timestamp_ntz"), event_time="t")
    scope = frontier.Scope("scope", pipeline)
    scope.leave(build(scope.enter(rows, frontier.Exchange("v"))))
    operator = frontier.definition_of(scope.build())
    assert values(operator, TEN, **cut, restart=2) == expected
