"""Exchanges within a scope: rows that entered by some columns meet by others, each round anew."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators import frontier
from dagster_operators.errors import PipelineError
from dagster_operators.time.frontier import meet
from tests.engines import ENGINES, SAIL
from tests.examples import fresh_examples
from tests.operators.frontier.driving import CUTS, run
from tests.operators.frontier.test_scope import BY_K, SCHEMA, scoped

BY_V = frontier.Exchange("v")


def total(key, part, before):
    return pc.sum(part["k"]).as_py()


def emitted(key, found):
    return {"k": found, "v": key}


def less(batch):
    v = pc.subtract(batch["v"], 1)
    return batch.set_column(batch.schema.get_field_index("v"), "v", v).filter(pc.greater_equal(v, 0))


def summing(scope, rows):
    """Per time and round one row of each v: the sum of k. All rows go around with a smaller v until none is left."""
    handle, cycle = scope.loop_variable(1)
    every = rows.concat(cycle)
    handle.connect(frontier.map(every, less))
    scope.leave(frontier.aggregate(every, BY_V, total, emitted, schema=SCHEMA))


def expected(rows):
    """The same in plain Python."""
    found = {}
    for time, row in rows:
        for number in range(row["v"] + 1):
            sums = found.setdefault(time, {})
            at = (number, row["v"] - number)
            sums[at] = sums.get(at, 0) + row["k"]
    return {time: Counter((k, v) for (_, v), k in sums.items()) for time, sums in found.items()}


def counted(found):
    return {time: Counter((row["k"], row["v"]) for row in rows) for time, rows in found.items()}


ROWS = [(time, {"k": k, "v": v}) for time, k, v in [(0, 1, 2), (0, 2, 2), (0, 3, 1), (1, 4, 0), (1, 5, 2), (2, 6, 2), (2, 7, 2)]]


@pytest.mark.parametrize(("parallelism", "size"), CUTS)
def test_rows_meet_by_other_columns_than_they_entered_by(parallelism, size):
    found = run(scoped(summing, pact=BY_K, iterative=True), SCHEMA, ROWS, parallelism=parallelism, size=size, restart=2)
    assert counted(found) == expected(ROWS)


@fresh_examples(20)
@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9), st.integers(0, 3)), min_size=1, max_size=8),
    parallelism=st.integers(1, 3),
    size=st.integers(1, 4),
)
def test_any_rows_in_any_cut(rows, parallelism, size):
    given_rows = [(time, {"k": k, "v": v}) for time, k, v in sorted(rows)]
    operator = scoped(summing, pact=BY_K, iterative=True)
    assert counted(run(operator, SCHEMA, given_rows, parallelism=parallelism, size=size)) == expected(given_rows)


def pairs(capability, info):
    """All pairs of a row of the first input and one of the second at the same time, when that is complete."""
    left, right = info.state["left"], info.state["right"]

    def logic(first, second, output):
        first.for_each(left.add)
        second.for_each(right.add)
        both = meet([first.frontier, second.frontier])
        others = {time.time: rows.to_pylist() for time, rows in right.complete(both)}
        for time, rows in left.complete(both):
            made = ({"k": row["k"], "v": other["v"]} for row in rows.to_pylist() for other in others.get(time.time, ()))
            output.session(time).give_iterator(made)

    return logic


@pytest.mark.parametrize(
    ("outside", "within"),
    [(BY_K, frontier.Broadcast()), (frontier.Broadcast(), frontier.Pipeline()), (frontier.Broadcast(), frontier.Broadcast())],
    ids=["within", "outside", "both"],
)
@pytest.mark.parametrize("parallelism", [1, 3])
def test_broadcast_within_and_on_the_way_in(parallelism, outside, within):
    """Every row of the first input meets every one of the second, wherever their keys are."""
    pipeline = do.Pipeline("p", root="nowhere")
    source = do.MemorySource([], schema=f"{SCHEMA}, t timestamp_ntz")
    one, other = (pipeline.source(name, source, event_time="t") for name in ("one", "other"))
    scope = frontier.Scope("scope", pipeline)
    entered = scope.enter(one, BY_K), frontier.map(scope.enter(other, outside), lambda batch: batch, schema=SCHEMA)
    state = {"left": frontier.StashState(), "right": frontier.StashState(input=1)}
    scope.leave(entered[0].binary_frontier(entered[1], frontier.Pipeline(), within, "pairs", pairs, schema=SCHEMA, state=state))
    first, second = [(0, {"k": k, "v": 0}) for k in range(4)], [(0, {"k": 10 + v, "v": v}) for v in range(5)]
    definition = frontier.definition_of(scope.build())
    assert definition.single == (outside is BY_K)
    found = run(definition, SCHEMA, first, second, parallelism=parallelism)
    assert counted(found) == {0: Counter((k, v) for k in range(4) for v in range(5))}


def entering_everywhere(scope, rows, rules):
    """Rules are in every subtask, and come out: as they are, beside rows, through operators with state and without it."""
    scope.leave(rules, schema=SCHEMA)
    scope.leave(frontier.map(rows.concat(rules), lambda batch: batch, name="beside", schema=SCHEMA))
    scope.leave(frontier.aggregate(rules, BY_K, total, emitted, schema=SCHEMA, name="by_key"))
    stash = {"stash": frontier.StashState()}
    scope.leave(rules.unary_frontier(frontier.Pipeline(), "in_order", put_off, schema=SCHEMA, state=stash))
    handle, cycle = scope.feedback(1)
    handle.connect(frontier.filter(frontier.map(rules, less, name="fewer"), lambda batch: pc.equal(batch["v"], 1), name="ones"))
    scope.leave(cycle, schema=SCHEMA)
    waiting = {"left": frontier.StashState(), "right": frontier.StashState(input=1)}
    both = rows.binary_frontier(rules, BY_K, BY_K, "both", pairs, schema=SCHEMA, state=waiting)
    scope.leave(both)


def next_key(scope, rows):
    """Rows get other keys, and are to meet by these."""
    moved = frontier.map(rows, lambda batch: batch.set_column(0, "k", pc.divide(batch["k"], 2)))
    scope.leave(frontier.aggregate(moved, frontier.Exchange("k"), total, emitted, schema=SCHEMA))


def test_rows_that_get_other_keys_within_do_not_miss_each_other():
    refused = scoped(next_key, pact=BY_K)
    assert not refused.single
    with pytest.raises(PipelineError, match=r"'aggregate' exchanges rows by k.* keys of other subtasks.*Pipeline\(\)"):
        run(refused, SCHEMA, ROWS, parallelism=3)
    alone = counted(run(refused, SCHEMA, ROWS, parallelism=1))
    assert counted(run(scoped(next_key), SCHEMA, ROWS, parallelism=3)) == alone
    assert alone[0] == Counter({(0, 0): 1, (2, 1): 1})


def put_off(capability, info):
    def logic(given, output):
        given.for_each(info.state["stash"].add)
        for time, rows in info.state["stash"].complete(given.frontier):
            output.session(time).give_batch(rows)

    return logic


@pytest.mark.parametrize(("parallelism", "size"), CUTS)
def test_what_enters_everywhere_comes_out_once(parallelism, size):
    pipeline = do.Pipeline("p", root="nowhere")
    source = do.MemorySource([], schema=f"{SCHEMA}, t timestamp_ntz")
    scope = frontier.Scope("scope", pipeline)
    pacts = {"rows": BY_K, "rules": frontier.Broadcast()}
    streams = [scope.enter(pipeline.source(name, source, event_time="t"), pact) for name, pact in pacts.items()]
    entering_everywhere(scope, *streams)
    definition = frontier.definition_of(scope.build()[0])
    assert not definition.single
    rules = [(time, {"k": k, "v": v}) for time, k, v in [(0, 1, 2), (0, 1, 2), (1, 8, 0), (2, 9, 2)]]
    for port in definition.ports:
        alone, found = (
            run(definition, SCHEMA, ROWS, rules, parallelism=count, size=one, restart=restart, port=port)
            for count, one, restart in ((1, None, None), (parallelism, size, 2))
        )
        assert counted(found) == counted(alone)
        assert alone


def test_a_scope_within_a_scope_asks_for_it():
    def build(scope, rows):
        inner = frontier.Scope("inner", scope, iterative=True)
        summing(inner, inner.enter(rows, BY_V))
        scope.leave(inner.build())

    found = run(scoped(build, pact=BY_K), SCHEMA, ROWS, parallelism=3, size=2, restart=2)
    assert counted(found) == expected(ROWS)


def test_only_what_asks_for_it_brings_all_rows_together():
    def apart(scope, rows):
        scope.leave(frontier.aggregate(rows, BY_K, total, emitted, schema=SCHEMA))

    assert not scoped(apart, pact=BY_K).single
    assert scoped(summing, pact=BY_K, iterative=True).single


@do.udf("long", name="wing_of")
def wing(k, v):
    """A pact of one's own: which rows meet, as code over Arrow arrays."""
    return pc.bit_wise_and(pc.add(k, v), 1)


def of_wing(key, part, before):
    return {"wing": key, "rows": part.num_rows}


def by_wing(root, engine=SAIL):
    """Rows enter a scope by a function, and are counted by what it gave."""
    pipeline = do.Pipeline("p", root=str(root), engine=engine, parallelism=3)
    batch = [{**row, "t": datetime.fromtimestamp(0, UTC)} for _, row in ROWS]
    rows = pipeline.source("rows", do.MemorySource([batch], schema=f"{SCHEMA}, t timestamp"), event_time="t", finished=True)
    scope = frontier.Scope("scope", pipeline)
    entered = scope.enter(rows, frontier.Exchange("wing_of(k, v) AS wing"))
    by = frontier.Exchange("wing")
    scope.leave(frontier.aggregate(entered, by, of_wing, lambda key, found: found, schema="wing long, rows long"))
    counts = scope.build()
    assert not frontier.definition_of(counts).single
    counts.select("wing", "rows").to_table("counts")
    return pipeline


@pytest.mark.sail
def test_a_function_of_ones_own_decides_which_rows_meet(tmp_path):
    pipeline = by_wing(tmp_path)
    pipeline.run_epoch()
    expected = Counter((row["k"] + row["v"]) % 2 for _, row in ROWS)
    assert sorted(map(tuple, pipeline.read("counts").collect())) == sorted(expected.items())


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_on_engines(tmp_path, engine):
    def pipeline(parallelism):
        made = do.Pipeline("p", root=str(tmp_path), engine=ENGINES[engine], parallelism=parallelism)
        source = do.MemorySource([batch[:4], batch[4:]], schema=f"{SCHEMA}, t timestamp")
        scope = frontier.Scope("scope", made, iterative=True)
        summing(scope, scope.enter(made.source("rows", source, event_time="t", finished=True), BY_K))
        scope.build().select("k", "v", "unix_micros(t) AS time").to_table("sums")
        return made

    batch = [{**row, "t": datetime.fromtimestamp(0, UTC) + timedelta(microseconds=time)} for time, row in ROWS]
    pipeline(3).run_epoch()
    pipeline(2).run_until_caught_up()
    found = {}
    for row in pipeline(2).read("sums").collect():
        found.setdefault(row["time"], []).append((row["k"], row["v"]))
    assert {time: Counter(rows) for time, rows in found.items()} == expected(ROWS)
