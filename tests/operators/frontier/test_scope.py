"""Loops in one subtask: timely dataflow's cases, cut into epochs in every way, and what is refused."""

from __future__ import annotations

import time as clock

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators import frontier
from dagster_operators.errors import EndlessLoopError, PipelineError
from dagster_operators.testing import OperatorHarness
from tests.operators.frontier.driving import CUTS, run

SCHEMA = "k long, v long"
BY_K = frontier.Exchange("k")


def scoped(build, *, pact=None, inputs=1, **more):
    """The definition of a scope, which a function fills."""
    pipeline = do.Pipeline("p", root="nowhere")
    source = do.MemorySource([], schema=f"{SCHEMA}, t timestamp_ntz")
    scope = frontier.Scope("scope", pipeline, **more)
    streams = [pipeline.source(f"in_{number}", source, event_time="t") for number in range(inputs)]
    build(scope, *(scope.enter(stream, pact) for stream in streams))
    found = scope.build()
    return frontier.definition_of(found[0] if isinstance(found, tuple) else found)


def values(found):
    return {time: sorted(row["v"] for row in rows) for time, rows in found.items()}


def around(scope, rows):
    """Rows go around until their time is 100, and all of them come out."""
    handle, cycle = scope.feedback(1)
    all_ = frontier.concat(rows, cycle)
    _, again = frontier.branch_when(all_, lambda time: time < 100)
    handle.connect(again)
    scope.leave(all_)


@pytest.mark.parametrize(("parallelism", "size"), CUTS)
@pytest.mark.parametrize("pact", [None, BY_K])
def test_feedback_advances_time(parallelism, size, pact):
    rows = [(0, {"k": v % 3, "v": v}) for v in range(10)]
    found = run(scoped(around, pact=pact), SCHEMA, rows, parallelism=parallelism, size=size, restart=2)
    assert values(found) == {time: list(range(10)) for time in range(101)}


def doubling(scope, rows):
    """Doubles until at least 50, in rounds that the outside does not see."""
    handle, cycle = scope.loop_variable(1)
    doubled = frontier.map(rows.concat(cycle), double)
    again, done = frontier.branch(doubled, lambda time, batch: pc.greater_equal(batch["v"], 50))
    handle.connect(again)
    scope.leave(done)


def double(batch):
    return batch.set_column(batch.schema.get_field_index("v"), "v", pc.multiply(batch["v"], 2))


@pytest.mark.parametrize(("parallelism", "size"), CUTS)
def test_rounds_are_left_behind(parallelism, size):
    rows = [(0, {"k": 0, "v": v}) for v in (1, 2, 3)]
    found = run(scoped(doubling, iterative=True), SCHEMA, rows, parallelism=parallelism, size=size, restart=1)
    assert values(found) == {0: [64, 64, 96]}


def test_a_loop_of_a_thousand_rounds_takes_no_two_seconds():
    def thousand(scope, rows):
        handle, cycle = scope.loop_variable(1)
        counted = frontier.map(rows.concat(cycle), increased)
        done, again = frontier.branch(counted, lambda time, batch: pc.less(batch["v"], 1000))
        handle.connect(again)
        scope.leave(done)

    operator = scoped(thousand, iterative=True)
    began = clock.process_time()
    assert values(run(operator, SCHEMA, [(0, {"k": 0, "v": 0})])) == {0: [1000]}
    assert clock.process_time() - began < 2


def increased(batch):
    return batch.set_column(batch.schema.get_field_index("v"), "v", pc.add(batch["v"], 1))


def counted_rounds(scope, rows):
    """How many rows each round has, told when the round is complete; a row goes around as often as it says."""
    handle, cycle = scope.loop_variable(1)
    every = rows.concat(cycle)
    left = frontier.map(every, lambda batch: increased(increased_by(batch, -2)))
    handle.connect(frontier.filter(left, lambda batch: pc.greater(batch["v"], 0)))
    scope.leave(every.unary_frontier(BY_K, "rounds", count_round, schema=SCHEMA, state={"stash": frontier.StashState()}))


def increased_by(batch, amount):
    return batch.set_column(batch.schema.get_field_index("v"), "v", pc.add(batch["v"], amount))


def count_round(capability, info):
    def logic(given, output):
        given.for_each(info.state["stash"].add)
        for time, rows in info.state["stash"].complete(given.frontier):
            output.session(time).give(k=time.time.inner, v=rows.num_rows)

    return logic


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 5)), min_size=1, max_size=8),
    size=st.integers(1, 8),
    restart=st.integers(1, 3),
)
def test_rounds_complete_one_after_another_whatever_the_epochs_are(rows, size, restart):
    given_rows = [(time, {"k": 0, "v": v}) for time, v in sorted(rows)]
    operator = scoped(counted_rounds, iterative=True)
    found = run(operator, SCHEMA, given_rows, size=size, restart=restart)
    for time in {time for time, _ in rows}:
        most = max(v for at, v in rows if at == time)
        expected = [{"k": number, "v": sum(at == time and v > number for at, v in rows)} for number in range(most)]
        assert found[time] == expected


def test_what_is_held_within_holds_the_outside_back():
    operator = scoped(counted_rounds, iterative=True)
    harness = OperatorHarness(operator, f"{SCHEMA}, t timestamp_ntz", event_time="t")
    harness.process([{"k": 0, "v": 2, "t": 3}])
    report = harness.end_epoch(3)[0]
    assert harness.frontier().elements == (3,)
    assert report.holders == {"main": {"rounds.stash": frontier.Frontier([frontier.Product(3, 0)])}}
    assert [(hold["place"], str(hold["time"])) for hold in harness.holds()] == [
        ("rounds.stash", "Product(3, 0)"),
        ("rounds.stash", "Product(3, 1)"),
    ]
    harness.end_epoch(4)
    assert harness.frontier().elements == (4,)
    assert len(harness.rows()) == 2


def dec_v(batch):
    return increased_by(batch, -1)


def countdown(rows):
    """Goes around once for each unit of v; what leaves has v = 0."""
    left = frontier.map(rows, dec_v)
    done, again = frontier.branch(left, lambda time, batch: pc.greater(batch["v"], 0))
    return again, done


def nested(scope, rows):
    """In each of k rounds an inner loop counts v down to 0; the next round begins with v = k."""
    handle, cycle = scope.loop_variable(1)
    every = rows.concat(cycle)
    inner = frontier.Scope("inner", scope, iterative=True)
    inner_handle, inner_cycle = inner.loop_variable(1)
    again, done = countdown(inner.enter(every).concat(inner_cycle))
    inner_handle.connect(again)
    inner.leave(done.unary_frontier(frontier.Pipeline(), "counted", count_inner, state={"stash": frontier.StashState()}))
    fewer = frontier.map(inner.build(), lambda batch: with_v_of_k(increase_k(batch, -1)))
    done, again = frontier.branch(fewer, lambda time, batch: pc.greater(batch["k"], 0))
    handle.connect(again)
    scope.leave(done)


def increase_k(batch, amount):
    return batch.set_column(batch.schema.get_field_index("k"), "k", pc.add(batch["k"], amount))


def with_v_of_k(batch):
    return batch.set_column(batch.schema.get_field_index("v"), "v", batch["k"])


COUNTED = []


def count_inner(capability, info):
    """Hands on the rows of each time when it is complete, and remembers the time."""

    def logic(given, output):
        given.for_each(info.state["stash"].add)
        for time, rows in info.state["stash"].complete(given.frontier):
            COUNTED.append((time.time.outer.outer, time.time.outer.inner, time.time.inner))
            output.session(time).give_batch(rows)

    return logic


@pytest.mark.parametrize(("size", "restart"), [(None, None), (1, 2)])
def test_a_scope_within_a_scope(size, restart):
    COUNTED.clear()
    rows = [(0, {"k": 3, "v": 2}), (1, {"k": 1, "v": 1})]
    found = run(scoped(nested, iterative=True), SCHEMA, rows, size=size, restart=restart)
    assert found == {0: [{"k": 0, "v": 0}], 1: [{"k": 0, "v": 0}]}
    assert sorted(COUNTED) == [(0, 0, 1), (0, 1, 1), (0, 2, 0), (1, 0, 0)]
    ours = [time for time in COUNTED if time[0] == 0]
    assert ours == sorted(ours)


def test_a_scope_without_rounds_within_a_scope_has_its_times():
    def within(scope, rows):
        region = frontier.Scope("region", scope)
        handle, cycle = region.feedback(1)
        every = region.enter(rows).concat(cycle)
        handle.connect(frontier.branch_when(every, lambda time: time < 5)[1])
        region.leave(every)
        scope.leave(region.build())

    found = run(scoped(within), SCHEMA, [(0, {"k": 0, "v": 7})])
    assert values(found) == {time: [7] for time in range(6)}


def test_iterate_is_a_loop_in_one_call():
    pipeline = do.Pipeline("p", root="nowhere")
    rows = pipeline.source("rows", do.MemorySource([], schema=f"{SCHEMA}, t timestamp_ntz"), event_time="t")
    operator = frontier.definition_of(frontier.iterate(rows, countdown))
    assert values(run(operator, SCHEMA, [(time, {"k": 0, "v": time + 1}) for time in range(3)])) == {0: [0], 1: [0], 2: [0]}

    def both(scope, entered):
        scope.leave(frontier.iterate(entered, countdown))

    assert values(run(scoped(both, iterative=True), SCHEMA, [(4, {"k": 0, "v": 9})])) == {4: [0]}


# --- what is refused ---------------------------------------------------------------------------------------------------


def test_a_loop_that_does_not_advance_time_is_refused():
    pipeline = do.Pipeline("p", root="nowhere")
    for summary in (0, -1):
        with pytest.raises(PipelineError, match="would never end"):
            frontier.Scope("scope", pipeline).feedback(summary)


@pytest.mark.parametrize(("iterative", "limit"), [(False, 50), (True, 50), (False, 10_000)])
def test_a_loop_that_does_not_end_is_told(iterative, limit):
    def endless(scope, rows):
        handle, cycle = scope.feedback()
        all_ = rows.concat(cycle)
        handle.connect(all_)
        scope.leave(all_)

    with pytest.raises(EndlessLoopError, match=rf"after {limit} rounds.*raise the limit"):
        run(scoped(endless, iterative=iterative, limit=limit), SCHEMA, [(0, {"k": 0, "v": 0})])


def two_scopes():
    pipeline = do.Pipeline("p", root="nowhere")
    rows = pipeline.source("rows", do.MemorySource([], schema=f"{SCHEMA}, t timestamp"), event_time="t")
    one, other = (frontier.Scope(name, pipeline) for name in ("one", "other"))
    return rows, one, other


def test_streams_of_different_scopes_do_not_mix():
    rows, one, other = two_scopes()
    inside = one.enter(rows)
    for use in (
        lambda: other.leave(inside),
        lambda: frontier.Scope("inner", other).enter(inside),
        lambda: other.enter(rows).concat(inside),
        lambda: other.feedback()[0].connect(inside),
        lambda: other.add("a", frontier.define("unary", frontier.Pipeline(), logic=double), [inside]),
        lambda: other.leave(rows),
    ):
        with pytest.raises(PipelineError, match=r"is used in the scope 'other'.*scope.enter"):
            use()
    with pytest.raises(PipelineError, match=r"a stream of the scope 'one'.*leave that scope"):
        other.enter(inside)


def test_what_is_not_complete_is_not_built():
    rows, one, other = two_scopes()
    with pytest.raises(PipelineError, match="lacks streams that enter"):
        one.build()
    inside = one.enter(rows)
    handle, _ = one.feedback()
    one.leave(inside)
    with pytest.raises(PipelineError, match=r"what goes around.*handle.connect"):
        one.build()
    handle.connect(inside)
    with pytest.raises(PipelineError, match="sent around already"):
        handle.connect(inside)
    one.build()
    with pytest.raises(PipelineError, match="built already"):
        one.build()
    with pytest.raises(PipelineError, match="has no rounds"):
        other.loop_variable()


def test_exchanges_within_are_by_columns():
    rows, one, _ = two_scopes()
    inside = one.enter(rows, BY_K)
    with pytest.raises(PipelineError, match=r"is no column.*before rows enter"):
        frontier.Scope("inner", one).enter(inside, frontier.Exchange("v % 2 AS parity"))
    with pytest.raises(PipelineError, match=r"is no column.*before rows enter"):
        frontier.exchange(inside, frontier.Exchange("v % 2 AS parity"))


def counted_batches(given, output, notificator):
    given.for_each(lambda time, batch: notificator.notify_at(time))
    for capability, count in notificator:
        output.session(capability).give(k=count, v=capability.time)


def both_as_they_are(capability, info):
    def logic(left, right, output):
        for given_rows in (left, right):
            for time, batch in given_rows:
                output.session(time).give_batch(batch)

    return logic


@pytest.mark.parametrize(("parallelism", "size"), CUTS)
def test_operators_of_every_shape_stand_in_scopes(parallelism, size):
    seen = []

    def looking(info):
        return lambda given: given.for_each(lambda time, batch: seen.extend(batch["v"].to_pylist()))

    def build(scope, rows):
        told = rows.unary_notify(BY_K, "told", [7], counted_batches, schema=SCHEMA)
        both = rows.binary(told, frontier.Pipeline(), frontier.Pipeline(), "both", both_as_they_are, schema=SCHEMA)
        both.sink(frontier.Pipeline(), "seen", looking)
        scope.leave(both)

    rows = [(time, {"k": 1, "v": 10 + time}) for time in (0, 0, 3)]
    found = run(scoped(build, pact=BY_K), SCHEMA, rows, parallelism=parallelism, size=size)
    wanted = {0: [0, 10, 10], 3: [3, 13], 7: [7] * parallelism}  # every subtask asks for what is asked for from the beginning
    assert {time: sorted(row["v"] for row in rows) for time, rows in found.items()} == wanted
    assert sorted(seen) == sorted(v for values_of in wanted.values() for v in values_of)


OUTSIDE = {
    "source": lambda scope, rows: frontier.source(scope, "new", counted_batches, schema="v long"),
    "to_stream": lambda scope, rows: frontier.to_stream(scope, "new", [{"v": 1}], schema="v long"),
    "empty": lambda scope, rows: frontier.empty(scope, "new", schema="v long"),
    "unordered_input": lambda scope, rows: frontier.unordered_input(scope, "new", counted_batches, schema="v long"),
    "replay": lambda scope, rows: frontier.replay(scope, "new", do.DeltaSource("events"), schema="v long"),
    "handle": lambda scope, rows: frontier.ProbeHandle(scope),
    "probe": lambda scope, rows: frontier.probe(do.Pipeline("other", root="nowhere"), rows),
    "capture": lambda scope, rows: frontier.capture(rows, schema=SCHEMA),
    "retime": lambda scope, rows: frontier.retime(rows, lambda time: time, times=int),
}


@pytest.mark.parametrize("asked", OUTSIDE)
def test_what_belongs_outside_is_refused_within(asked):
    rows, one, _ = two_scopes()
    with pytest.raises(PipelineError, match=r"cannot be in the scope 'one'.*(scope\.enter\(stream\)|scope\.leave\(stream\))"):
        OUTSIDE[asked](one, one.enter(rows, BY_K))


def test_single_rows_within_need_their_columns_told():
    def build(scope, rows, **more):
        scope.leave(frontier.state_machine(rows, lambda k, row, _: (False, [row], 0), BY_K, name="rows", **more))

    rows = [(0, {"k": 1, "v": 2})]
    with pytest.raises(PipelineError, match=r"columns are not declared.*within 'rows'.*schema="):
        run(scoped(build, pact=BY_K), SCHEMA, rows)
    told = scoped(lambda scope, rows: build(scope, rows, schema=SCHEMA), pact=BY_K)
    assert run(told, SCHEMA, rows) == {0: [{"k": 1, "v": 2}]}


def test_a_stream_within_a_scope_tells_what_it_is_not():
    rows, one, _ = two_scopes()
    inside = one.enter(rows, BY_K)
    with pytest.raises(AttributeError, match=r"within a scope has no 'to_table'.*do\.frontier\.filter.*scope\.leave"):
        inside.to_table("t")
    for asked in (lambda: frontier.concat(rows, inside), lambda: rows.binary(inside, BY_K, BY_K, "both", counted_batches)):
        with pytest.raises(PipelineError, match=r"<stream of the scope 'one'> is no stream.*scope\.leave"):
            asked()
    builder = frontier.OperatorBuilder("built", one)
    builder.new_input("rows", BY_K), builder.new_output()
    with pytest.raises(PipelineError, match="'rows' is no stream"):
        builder.build(counted_batches)
    one.leave(frontier.filter(inside, lambda batch: pc.greater(batch["v"], 1)))
    assert frontier.concat(rows, one.build()).columns == ("k", "v", "t")
