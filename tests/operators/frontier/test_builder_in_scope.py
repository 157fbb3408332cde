"""Operators put together port by port within a scope: in one subtask and in rounds, what ways do to times, and long work."""

from __future__ import annotations

import functools
from collections import Counter
from datetime import UTC, datetime, timedelta

import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators import frontier
from dagster_operators.errors import CapabilityError, PipelineError
from dagster_operators.testing import OperatorHarness
from dagster_operators.time.product import Product
from tests.engines import ENGINES
from tests.examples import fresh_examples
from tests.operators.frontier.driving import CUTS, run
from tests.operators.frontier.test_exchange_in_scope import BY_V, counted
from tests.operators.frontier.test_scheduling import a_row_at_a_time
from tests.operators.frontier.test_scope import BY_K, SCHEMA, scoped
from tests.operators.frontier.test_scope_rounds import rounds_of, run_in_rounds

PACT = frontier.Pipeline()
STASH = {"stash": frontier.StashState()}


def collatz(capabilities, info):
    """One step for each row: what has come to 1 leaves by the second output, with the number of its round; others go around."""
    capabilities.clear()

    def logic(inputs, outputs):
        for number in range(2):
            for time, batch in inputs[number]:
                v = batch["v"].to_pylist()
                on = [
                    {"k": k, "v": n // 2 if n % 2 == 0 else 3 * n + 1}
                    for k, n in zip(batch["k"].to_pylist(), v, strict=True)
                    if n > 1
                ]
                outputs[0].session(time.retain(0)).give_iterator(on)
                done = [{"k": k, "rounds": time.time.inner} for k, n in zip(batch["k"].to_pylist(), v, strict=True) if n <= 1]
                outputs[1].session(time.retain(1)).give_iterator(done)

    return logic


def steps(n):
    return 0 if n <= 1 else 1 + steps(n // 2 if n % 2 == 0 else 3 * n + 1)


def by_builder(pact):
    def build(scope, rows):
        handle, cycle = scope.loop_variable(1)
        own = frontier.OperatorBuilder("collatz", scope)
        own.new_input(rows, pact), own.new_input(cycle, pact)
        own.new_output(SCHEMA), own.new_output("k long, rounds long")
        again, done = own.build(collatz)
        handle.connect(again)
        scope.leave(done)

    return build


ROWS = [(time, {"k": k, "v": v}) for time, k, v in [(0, 1, 6), (0, 2, 7), (1, 3, 1), (1, 4, 3), (2, 5, 8), (4, 6, 5)]]


def expected(rows):
    found = {}
    for time, row in rows:
        found.setdefault(time, Counter())[row["k"], steps(row["v"])] += 1
    return found


def left(found):
    return {time: Counter((row["k"], row["rounds"]) for row in rows) for time, rows in found.items()}


@pytest.mark.parametrize(("parallelism", "size"), CUTS)
def test_several_inputs_and_outputs_around_a_loop(parallelism, size):
    operator = scoped(by_builder(BY_K), pact=BY_K, iterative=True)
    assert not operator.single
    assert left(run(operator, SCHEMA, ROWS, parallelism=parallelism, size=size, restart=2)) == expected(ROWS)


@fresh_examples(5)
@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9), st.integers(0, 6)), min_size=1, max_size=6),
    changing=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    size=st.integers(1, 6),
)
def test_rounds_of_stages_give_the_same_in_any_cut_and_parallelism(rows, changing, size):
    def forever():
        while True:
            yield from changing

    given_rows = [(time, {"k": k, "v": v}) for time, k, v in sorted(rows)]
    found, _ = run_in_rounds(rounds_of(by_builder(BY_V)), given_rows, forever(), size)
    assert left(found) == expected(given_rows)


def moving_on(step):
    """The same when a time and round is complete, and each step takes so many rounds more."""

    def constructor(capabilities, info):
        capabilities.clear()
        stash = info.state["stash"]

        def logic(inputs, outputs):
            for each in inputs:
                for time, batch in each:
                    stash.add(time.delayed(Product(time.time.outer, time.time.inner + step)), batch)
            for time, rows in stash.complete([each.frontier for each in inputs]):
                outputs[0].session(time).give_batch(rows)

        return logic

    return constructor


def by_moving_builder(pact, step):
    def build(scope, rows):
        handle, cycle = scope.loop_variable(1)
        moving = frontier.OperatorBuilder("moving", scope)
        moving.new_input(rows, pact), moving.new_input(cycle, pact)
        moving.new_output_connection([(0, [step]), (1, [step])])
        moved = moving.build(moving_on(step), state=STASH)
        own = frontier.OperatorBuilder("collatz", scope)
        own.new_input(moved, pact), own.new_input(frontier.filter(moved, nothing, name="nothing"), pact)
        own.new_output(SCHEMA), own.new_output("k long, rounds long")
        again, done = own.build(collatz)
        handle.connect(again)
        scope.leave(done)

    return build


def nothing(batch):
    return pc.less(batch["k"], -1)


@fresh_examples(15)
@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9), st.integers(0, 6)), min_size=1, max_size=6),
    step=st.integers(0, 3),
    parallelism=st.integers(1, 3),
    size=st.integers(1, 6),
    restart=st.sampled_from([None, 1, 2]),
)
def test_rounds_follow_from_summaries_and_no_row_comes_behind_a_frontier(rows, step, parallelism, size, restart):
    given_rows = [(time, {"k": k, "v": v}) for time, k, v in sorted(rows)]
    operator = scoped(by_moving_builder(BY_K, step), pact=BY_K, iterative=True)
    found = run(operator, SCHEMA, given_rows, parallelism=parallelism, size=size, restart=restart)
    wanted = {}
    for time, row in given_rows:
        wanted.setdefault(time, Counter())[row["k"], steps(row["v"]) * (1 + step) + step] += 1
    assert left(found) == wanted


# --- what ways do to times --------------------------------------------------------------------------------------------


def moved_by(summary, delay):
    """Rows go through an operator whose way is a summary, and then are put out when their time is complete."""

    def hand_on(capabilities, info):
        capabilities.clear()

        def logic(inputs, outputs):
            for time, batch in inputs[0]:
                capability = time.retain() if delay is None else time.delayed(delay(time.time))
                outputs[0].session(capability).give_batch(batch)

        return logic

    def build(scope, rows):
        own = frontier.OperatorBuilder("moved", scope)
        own.new_input(rows, BY_K)
        own.new_output_connection([(0, [summary])])
        later = own.build(hand_on)
        scope.leave(later.unary_frontier(BY_K, "told", told, schema=SCHEMA, state=STASH))

    return build


def told(capability, info):
    """When a round is complete: its number, and how many rows it had."""

    def logic(given_rows, output):
        given_rows.for_each(info.state["stash"].add)
        for time, rows in info.state["stash"].complete(given_rows.frontier):
            at = time.time.inner if isinstance(time.time, Product) else -1
            output.session(time).give(k=at, v=rows.num_rows)

    return logic


@pytest.mark.parametrize(
    ("summary", "delay", "iterative", "found"),
    [
        (2, lambda time: Product(time.outer, time.inner + 2), True, {0: Counter({(2, 2): 1}), 3: Counter({(2, 1): 1})}),
        (Product(5, 0), lambda time: Product(time.outer + 5, 0), True, {5: Counter({(0, 2): 1}), 8: Counter({(0, 1): 1})}),
        (2, lambda time: time + 2, False, {2: Counter({(-1, 2): 1}), 5: Counter({(-1, 1): 1})}),
    ],
)
@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_way_within_moves_times_as_its_summary_says(summary, delay, iterative, found, parallelism):
    rows = [(0, {"k": 1, "v": 1}), (0, {"k": 1, "v": 2}), (3, {"k": 2, "v": 3})]
    operator = scoped(moved_by(summary, delay), pact=BY_K, iterative=iterative)
    for size in (1, None):
        assert counted(run(operator, SCHEMA, rows, parallelism=parallelism, size=size, restart=2)) == found


def test_a_way_that_moves_times_lets_no_row_stay():
    operator = scoped(moved_by(2, None), pact=BY_K, iterative=True)
    with pytest.raises(CapabilityError, match=r"delay to Product\(0, 2\) or later"):
        run(operator, SCHEMA, ROWS)
    kept = scoped(moved_by(2, lambda time: Product(time.outer, time.inner + 2)), pact=BY_K, iterative=True)
    assert run(kept, SCHEMA, ROWS)


def test_an_output_without_a_way_is_complete_at_once():
    """What stands behind it waits for nothing: it has no rows, and its frontier is empty though rows are under way."""
    frontiers = []

    def watching(capability, info):
        def logic(one, other, output):
            frontiers.append((one.frontier.finished, other.frontier.finished))
            for side in (one, other):
                side.for_each(lambda time, batch: output.session(time).give_batch(batch))

        return logic

    def first_only(capabilities, info):
        capabilities.clear()

        def logic(inputs, outputs):
            inputs[0].for_each(lambda time, batch: outputs[0].session(time.retain(0)).give_batch(batch))

        return logic

    def build(scope, rows):
        own = frontier.OperatorBuilder("apart", scope)
        own.new_output(), own.new_output()
        own.new_input_connection(rows, PACT, [(0, [0])])
        one, other = own.build(first_only)
        scope.leave(one.binary_frontier(other, PACT, PACT, "watching", watching))

    harness = OperatorHarness(scoped(build), f"{SCHEMA}, t timestamp_ntz", event_time="t")
    harness.process([{"k": 1, "v": 2, "t": 3}])
    harness.end_epoch(5)
    assert harness.rows()[0]["v"] == 2
    assert frontiers[-1] == (False, True)


@pytest.mark.parametrize(("interest", "again"), [("never", False), ("always", True)])
def test_the_logic_is_called_when_it_is_interested(interest, again):
    called = []

    def counting(capabilities, info):
        capabilities.clear()

        def logic(inputs, outputs):
            called.append(info.epoch)
            inputs[0].for_each(lambda *_: None)

        return logic

    def build(scope, rows):
        own = frontier.OperatorBuilder("counting", scope)
        own.new_input(rows, PACT)
        own.set_notify_for(0, interest)
        scope.leave(rows)
        assert own.build(counting).scope is scope

    harness = OperatorHarness(scoped(build), f"{SCHEMA}, t timestamp_ntz", event_time="t")
    harness.process([{"k": 0, "v": 0, "t": 1}])
    harness.end_epoch(2)
    assert (len(called) > 1) == again


def test_outputs_have_the_columns_that_are_declared_or_those_of_the_input():
    def both(capabilities, info):
        def logic(inputs, outputs):
            for time, batch in inputs[0]:
                outputs[0].session(time.retain(0)).give(w=batch.num_rows)
                outputs[1].session(time.retain(1)).give_batch(batch)

        return logic

    def build(scope, rows):
        own = frontier.OperatorBuilder("both", scope)
        own.new_input(rows, PACT)
        own.new_output("w long"), own.new_output()
        first, second = own.build(both)
        scope.leave(frontier.map(first, lambda batch: batch))
        scope.leave(second.unary_frontier(PACT, "waits", put_off, state=STASH))

    operator = scoped(build)
    assert run(operator, SCHEMA, ROWS[:2]) == {0: [{"w": 2}]}
    assert run(operator, SCHEMA, ROWS[:2], port="output_1") == {0: [row for _, row in ROWS[:2]]}


def put_off(capability, info):
    def logic(given_rows, output):
        given_rows.for_each(info.state["stash"].add)
        for time, rows in info.state["stash"].complete(given_rows.frontier):
            output.session(time).give_batch(rows)

    return logic


# --- long work --------------------------------------------------------------------------------------------------------


def slowly(scope, rows):
    """Rows come out one in each call, some of them in each epoch, and then go around once."""
    handle, cycle = scope.loop_variable(1)
    own = frontier.OperatorBuilder("slow", scope)
    own.new_input(rows, BY_K), own.new_output()
    one_by_one = own.build_reschedule(a_row_at_a_time, state=STASH, calls=2)
    handle.connect(one_by_one)
    scope.leave(cycle.concat(one_by_one))


@pytest.mark.parametrize(("parallelism", "rescaled"), [(1, 1), (3, 2), (1, 3)])
def test_what_an_epoch_does_not_get_done_within_is_left_to_the_next(parallelism, rescaled):
    operator = scoped(slowly, pact=BY_K, iterative=True)
    columns = f"{SCHEMA}, t timestamp_ntz"
    harness = OperatorHarness(operator, columns, event_time="t", parallelism=parallelism)
    harness.process([{"k": v % 2, "v": v, "t": v // 3} for v in range(12)])
    found, epochs, is_left = Counter(), 0, True
    while is_left:
        if epochs == 1:
            snapshot = harness.snapshot()
            harness = OperatorHarness(operator, columns, event_time="t", parallelism=rescaled)
            harness.restore(snapshot, parallelism=rescaled)
        reports = harness.end_epoch(10)
        is_left = any(report.metrics.get("incomplete") for report in reports.values())
        found += Counter(row["v"] for row in harness.rows())
        held = [hold["time"].outer for hold in harness.holds()]
        assert harness.frontier().elements == (min(held, default=10),)
        assert bool(held) == is_left
        epochs += 1
        assert epochs < 20
    assert found == Counter(dict.fromkeys(range(12), 2))
    assert epochs > 2


def test_long_work_is_refused_in_rounds_with_a_way_on():
    def elsewhere(slow):
        def build(scope, rows):
            scope.leave(slow(scope, frontier.exchange(rows, BY_V)))

        return build

    def built(scope, rows):
        own = frontier.OperatorBuilder("slow", scope)
        own.new_input(rows, BY_V), own.new_output()
        return own.build_reschedule(a_row_at_a_time, state=STASH, calls=2)

    def limited(scope, rows):
        return frontier.limit_rate(rows, 2, name="slow")

    for slow in (built, limited):
        with pytest.raises(PipelineError, match=r"'slow' says whether it is incomplete.*within_subtask=False"):
            rounds_of(elsewhere(slow))
        assert run(scoped(elsewhere(slow), pact=BY_K, iterative=True), SCHEMA, ROWS[:2])  # the remedy


# --- refused ----------------------------------------------------------------------------------------------------------


def two():
    pipeline = do.Pipeline("p", root="nowhere")
    rows = pipeline.source("rows", do.MemorySource([], schema=f"{SCHEMA}, t timestamp_ntz"), event_time="t")
    scope = frontier.Scope("scope", pipeline)
    return pipeline, rows, scope, scope.enter(rows, BY_K)


def handing_on(capabilities, info):
    def logic(inputs, outputs):
        for time, batch in inputs[0]:
            outputs[0].session(time).give_batch(batch)

    return logic


def test_streams_of_the_scope_go_with_a_builder_of_the_scope():
    pipeline, rows, scope, inside = two()
    outer = frontier.OperatorBuilder("outer", pipeline)
    outer.new_input(inside, PACT), outer.new_output()
    with pytest.raises(PipelineError, match=r"of the scope 'scope' is read outside.*OperatorBuilder\(name, scope\)"):
        outer.build(handing_on)
    inner = frontier.OperatorBuilder("inner", scope)
    inner.new_input(rows, PACT), inner.new_output()
    with pytest.raises(PipelineError, match=r"outside of it is used in the scope 'scope'.*scope.enter"):
        inner.build(handing_on)
    source = frontier.OperatorBuilder("source", scope)
    source.new_output("v long")
    with pytest.raises(PipelineError, match=r"without an input cannot be in the scope 'scope'.*scope.enter\(stream\)"):
        source.build(handing_on)
    for asked in (inside.unary, inside.unary_frontier):
        with pytest.raises(PipelineError, match=r"'apart' cannot begin a stage within the scope.*leave out chain=False"):
            asked(PACT, "apart", handing_on, chain=False)
    again = frontier.OperatorBuilder("again", scope)  # as all these messages say
    again.new_input(inside, BY_K), again.new_output()
    scope.leave(again.build(handing_on))
    assert scope.build().columns == ("k", "v", "t")


# --- an exchange by what a function computes --------------------------------------------------------------------------


@do.udf("long", name="half_of")
def half(v):
    return pc.divide(v, 2)


BY_HALF = frontier.Exchange("half_of(v) AS half")


def summed(key, part, before):
    return pc.sum(part["k"]).as_py()


def emitted_half(key, total):
    return {"half": key, "k": total}


HALVES = "half long, k long"


def by_half(scope, rows):
    """For each half of v the sum of k; and the rows with their halves, around once."""
    scope.leave(frontier.aggregate(rows, BY_HALF, summed, emitted_half, schema=HALVES))
    handle, cycle = scope.feedback(1)
    halved = frontier.exchange(rows, BY_HALF)
    back = frontier.map(halved, lambda batch: batch.select(["k", "half"]).rename_columns(["k", "v"]), schema=SCHEMA)
    handle.connect(frontier.filter(back, lambda batch: pc.greater(batch["v"], 0)))
    again = frontier.exchange(cycle, BY_HALF, name="again")
    scope.leave(frontier.filter(again, lambda batch: pc.greater(batch["half"], 0)), schema=f"{SCHEMA}, half long")


def sums_by_half(rows):
    found = {}
    for time, row in rows:
        sums = found.setdefault(time, {})
        sums[row["v"] // 2] = sums.get(row["v"] // 2, 0) + row["k"]
    return {time: Counter(sums.items()) for time, sums in found.items()}


@pytest.mark.parametrize(("parallelism", "size"), CUTS)
def test_a_function_decides_within_a_scope_which_rows_meet(parallelism, size):
    operator = scoped(by_half, pact=BY_K)
    assert operator.single
    found = run(operator, SCHEMA, ROWS, parallelism=parallelism, size=size, restart=2)
    assert {time: Counter((row["half"], row["k"]) for row in rows) for time, rows in found.items()} == sums_by_half(ROWS)
    around = run(operator, SCHEMA, ROWS, parallelism=parallelism, size=size, restart=2, port="output_1")
    wanted = sorted((time + 1, row["k"], row["v"] // 2, row["v"] // 4) for time, row in ROWS if row["v"] // 4)
    assert sorted((time, *row.values()) for time, rows in around.items() for row in rows) == wanted


def test_it_does_in_rounds_too():
    def build(scope, rows):
        scope.leave(frontier.aggregate(rows, BY_HALF, summed, emitted_half, schema=HALVES))

    found, driver = run_in_rounds(rounds_of(build), ROWS, iter([3, 2, 1] * 20), 3)
    assert {time: Counter((row["half"], row["k"]) for row in rows) for time, rows in found.items()} == sums_by_half(ROWS)
    assert driver.travelled


def test_entering_a_scope_within_a_scope_by_a_function():
    def build(scope, rows):
        inner = frontier.Scope("inner", scope, iterative=True)
        inside = inner.enter(rows, BY_HALF)
        counts = frontier.aggregate(inside, frontier.Exchange("half"), summed, emitted_half, schema=HALVES)
        inner.leave(counts)
        scope.leave(inner.build())

    found = run(scoped(build, pact=BY_K), SCHEMA, ROWS, parallelism=3, size=2)
    assert {time: Counter((row["half"], row["k"]) for row in rows) for time, rows in found.items()} == sums_by_half(ROWS)


def test_what_no_function_computes_is_refused():
    _, _, scope, inside = two()
    for expression in ("v % 2 AS half", "half_of(v + 1) AS half", "half_of(v, 2) + 1 AS half", "no_such_function(v) AS half"):
        with pytest.raises(PipelineError, match=r"no column.*before rows enter.*do\.udf.*half_of\(\.\.\.\) AS half"):
            frontier.exchange(inside, frontier.Exchange(expression))
    with pytest.raises(PipelineError, match=r"the key 'half_of\(v\)' has no name.*write 'half_of\(v\) AS name'"):
        frontier.exchange(inside, frontier.Exchange("half_of(v)"))
    frontier.exchange(inside, frontier.Exchange("half_of(v) AS name"))
    halved = frontier.exchange(inside, BY_HALF)
    with pytest.raises(PipelineError, match=r"have the column 'half'.*leave\(stream, schema=\.\.\.\)"):
        scope.leave(halved)
    scope.leave(halved, schema=f"{SCHEMA}, half long")
    assert scope.build().columns == ("k", "v", "half", "t")


def test_a_column_that_is_missing_or_there_already_is_told():
    def without(scope, rows):
        scope.leave(frontier.exchange(rows, frontier.Exchange("half_of(w) AS half")), schema=f"{SCHEMA}, half long")

    def twice(scope, rows):
        scope.leave(frontier.exchange(frontier.exchange(rows, BY_HALF), BY_HALF), schema=f"{SCHEMA}, half long")

    def once(scope, rows):
        by_column = frontier.exchange(frontier.exchange(rows, BY_HALF), frontier.Exchange("half"))
        scope.leave(by_column, schema=f"{SCHEMA}, half long")

    with pytest.raises(Exception, match=r"column 'w', which the rows do not have.*use one of: k, v"):
        run(scoped(without, pact=BY_K), SCHEMA, ROWS)
    with pytest.raises(Exception, match=r"have a column 'half' already.*Exchange\(\"half\"\)"):
        run(scoped(twice, pact=BY_K), SCHEMA, ROWS)
    assert run(scoped(once, pact=BY_K), SCHEMA, ROWS)


def test_a_column_that_an_exchange_computed_is_known_behind_a_concat():
    _, _, scope, inside = two()
    halved = frontier.exchange(inside, BY_HALF)
    for both in (inside.concat(halved), halved.concat(inside), inside.union(inside, halved)):
        with pytest.raises(PipelineError, match=r"have the column 'half'.*leave\(stream, schema=\.\.\.\)"):
            scope.leave(both)
    alike = [frontier.map(each, lambda batch: batch.select(["k", "v"]), schema=SCHEMA) for each in (inside, halved)]
    scope.leave(alike[0].concat(alike[1]))
    assert scope.build().columns == ("k", "v", "t")


def test_a_column_that_is_there_already_is_told_where_it_is_asked_for():
    _, _, scope, inside = two()
    halved = frontier.exchange(inside, BY_HALF)
    declared = frontier.map(inside, lambda batch: batch, schema=f"{SCHEMA}, half long")
    for stream in (halved, declared, halved.concat(halved)):
        with pytest.raises(PipelineError, match=r"a column 'half' already.*Exchange\(\"half\"\).*schema=\.\.\."):
            frontier.exchange(stream, BY_HALF)
    for stream in (halved.concat(inside), inside.concat(halved), halved.concat(halved.concat(inside))):
        with pytest.raises(PipelineError, match=r"some of the rows have a column 'half' already") as refused:
            frontier.exchange(stream, BY_HALF)
        assert "if it is the same" not in refused.value.remedy  # the others do not have it
        frontier.exchange(stream, frontier.Exchange("half_of(v) AS another"))
    plain = frontier.map(inside, lambda batch: batch.select(["k"]))  # without saying so
    for stream, told in ((inside, "the rows"), (inside.concat(plain), "some of the rows")):
        with pytest.raises(PipelineError, match=f"^{told} have a column 'v' already.*another name"):
            frontier.exchange(stream, frontier.Exchange("half_of(v) AS v"))
    frontier.exchange(plain, frontier.Exchange("half_of(k) AS v"))
    frontier.exchange(inside, frontier.Exchange("half_of(v) AS t"))  # rows within have their time beside their columns
    frontier.exchange(halved, frontier.Exchange("half"))
    frontier.exchange(halved, frontier.Exchange("half_of(v) AS other"))
    without = frontier.map(halved, lambda batch: batch.select(["k", "v"]), schema=SCHEMA)
    scope.leave(frontier.exchange(without, BY_HALF))
    assert scope.build().columns == ("k", "v", "half", "t")


def test_rows_go_around_without_the_column_that_an_exchange_computed():
    def build(scope, rows, *, leaving_out):
        handle, cycle = scope.loop_variable(1)
        halved = frontier.exchange(rows.concat(cycle), BY_HALF)
        plain = frontier.map(halved, lambda batch: batch.drop_columns(["half"]), schema=SCHEMA)
        again, done = frontier.branch_when(plain if leaving_out else halved, lambda time: time.inner >= 1)
        handle.connect(again)
        scope.leave(done, schema=SCHEMA)

    with pytest.raises(Exception, match=r"have a column 'half' already.*leave it out of the rows before"):
        run(scoped(functools.partial(build, leaving_out=False), iterative=True), SCHEMA, ROWS)
    found = run(scoped(functools.partial(build, leaving_out=True), iterative=True), SCHEMA, ROWS)
    assert sum(map(len, found.values())) == len(ROWS)


# --- on engines -------------------------------------------------------------------------------------------------------


def on_engine(root, engine, parallelism, *, within_subtask):
    pipeline = do.Pipeline("p", root=str(root), engine=engine, parallelism=parallelism)
    given_rows = [{**row, "t": datetime.fromtimestamp(0, UTC) + timedelta(seconds=time)} for time, row in ROWS]
    source = do.MemorySource([given_rows[:4], given_rows[4:]], schema=f"{SCHEMA}, t timestamp")
    scope = frontier.Scope("scope", pipeline, iterative=True, within_subtask=within_subtask)
    rows = scope.enter(pipeline.source("rows", source, event_time="t", finished=True), BY_K)
    by_builder(PACT)(scope, rows)
    scope.leave(frontier.aggregate(rows, BY_HALF, summed, emitted_half, schema=HALVES))
    done, halves = scope.build()
    done.select("k", "rounds").to_table("done")
    halves.select("half", "k", "unix_seconds(t) AS time").to_table("halves")
    return pipeline


@pytest.mark.parametrize("engine", ["sail", "spark"])
@pytest.mark.parametrize("within_subtask", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_on_engines(tmp_path, engine, within_subtask):
    on_engine(tmp_path, ENGINES[engine], 2, within_subtask=within_subtask).run_epoch()
    made = on_engine(tmp_path, ENGINES[engine], 3, within_subtask=within_subtask)
    if not within_subtask:
        settings = {"root": str(tmp_path), "engine": ENGINES[engine], "parallelism": 3}
        made = do.Pipeline.from_plan(made.to_plan(), **settings)
    made.run_until_caught_up()
    assert Counter(map(tuple, made.read("done").collect())) == sum(expected(ROWS).values(), Counter())
    found = {}
    for row in made.read("halves").collect():
        found.setdefault(row["time"], Counter())[row["half"], row["k"]] += 1
    assert found == sums_by_half(ROWS)
