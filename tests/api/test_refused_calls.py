"""A call that builds a pipeline and is refused, by its arguments or by itself, leaves everything as it was."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators import frontier as fr
from dagster_operators.errors import OperatorsError
from dagster_operators.graph.all_or_nothing import all_or_nothing
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.ports import StreamRef
from tests.examples import fresh_examples

SCHEMA = "k string, v long, t timestamp"


@do.udf("long")
def refused_wing_of(v: Any) -> Any:
    return v


def logic(*_: Any) -> Any:
    return lambda *_: None


def started(name: str = "p") -> tuple[do.Pipeline, do.Stream]:
    pipeline = do.Pipeline(name, root="nowhere")
    return pipeline, pipeline.source("rows", do.MemorySource([], schema=SCHEMA), event_time="t")


def content(flow: Dataflow) -> dict[str, Any]:
    """All that a dataflow is made of, apart from what is no entry any more."""
    found = {name: copy(value) for name, value in vars(flow).items() if isinstance(value, dict | set | list)}
    found["_named"] = {stem: count for stem, count in flow._named.items() if count}
    found["_sinks_at"] = {stream: sinks for stream, sinks in flow._sinks_at.items() if sinks}
    return {name: list(value.items()) if isinstance(value, dict) else value for name, value in found.items()}


def counting(pipeline: do.Pipeline, **settings: Any) -> do.Stream:
    return fr.source(pipeline, "n", logic, schema="v long", **settings)


def unordered(pipeline: do.Pipeline, **settings: Any) -> do.Stream:
    return fr.unordered_input(pipeline, "n", logic, schema="v long", **settings)


def iterated(pipeline: do.Pipeline, **settings: Any) -> do.Stream:
    return fr.iterator_source(pipeline, "n", logic, fr.ProbeHandle(pipeline), **{"schema": "v long", **settings})


def replayed(pipeline: do.Pipeline, **settings: Any) -> do.Stream:
    return fr.replay(pipeline, "n", do.DeltaSource("x"), **{"schema": SCHEMA, **settings})


def going_round(_: do.Pipeline, rows: do.Stream, **settings: Any) -> do.Stream:
    return fr.iterate(rows, lambda each: (each, each), **settings)


def of_rows(function: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    return lambda _, stream, **settings: function(stream, *arguments, **settings)


def sink(_: do.Pipeline, rows: do.Stream, *, name: str = "shown", by: str = "v % 2 AS q") -> do.Stream:
    return rows.sink(fr.Exchange(by), name, logic)


def built(pipeline: do.Pipeline, rows: do.Stream, *, schema: Any = None, chain: Any = True) -> do.Stream:
    builder = fr.OperatorBuilder("x", pipeline)
    builder.new_input(rows, fr.Exchange("v % 2 AS parity"))
    builder.new_output(schema)
    return builder.build(logic, chain=chain)


def built_source(pipeline: do.Pipeline, *, second: str = "w long") -> Any:
    builder = fr.OperatorBuilder("x", pipeline)
    builder.new_output("v long")
    builder.new_output(second)
    return builder.build(logic)


def scoped(pipeline: do.Pipeline, rows: do.Stream, *, name: str = "s") -> do.Stream:
    scope = fr.Scope(name, pipeline)
    scope.leave(scope.enter(rows, fr.Exchange("v % 2 AS parity")))
    return scope.build()


CASES: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (lambda pipeline, rows, **settings: counting(pipeline, **settings), {"start": "0"}),
    (lambda pipeline, rows, **settings: counting(pipeline, **settings), {"waits_for": 5}),
    (lambda pipeline, rows, **settings: unordered(pipeline, **settings), {"start": "0"}),
    (lambda pipeline, rows, **settings: iterated(pipeline, **settings), {"start": "0"}),
    (lambda pipeline, rows, **settings: replayed(pipeline, **settings), {"schema": "nonsense schema!!"}),
    (going_round, {"limit": "5"}),
    (going_round, {"within_subtask": "no"}),
    (going_round, {"name": "rows"}),
    (of_rows(fr.limit_rate), {"rows": "5"}),
    (of_rows(fr.limit_rate, 5), {"pact": "k"}),
    (of_rows(fr.limit_rate), {"rows": 0}),
    (of_rows(fr.barrier), {"pact": fr.Exchange("v % 2 AS parity"), "name": "rows"}),
    (of_rows(fr.partition, 2, lambda *_: 0), {"name": "rows"}),
    (of_rows(fr.results, lambda batch: (batch, batch)), {"ok": "nonsense schema!!"}),
    (sink, {"name": "rows"}),
    (built, {"schema": "nonsense schema!!"}),
    (built, {"chain": "no"}),
    (lambda pipeline, rows, **settings: built_source(pipeline, **settings), {"second": "v lng"}),
    (scoped, {"name": "rows"}),
    (of_rows(do.Stream.filter, "v > 1"), {"chain": "no"}),
    (lambda _, rows, **settings: rows.key_by("k").aggregate(**{"n": "count(*)", **settings}), {"n": "no_such("}),
]  # fmt: skip


@pytest.mark.parametrize(("call", "wrong"), CASES)
def test_a_refused_call_can_be_made_rightly_and_gives_what_it_gives_in_a_fresh_process(
    call: Callable[..., Any], wrong: dict[str, Any]
) -> None:
    pipeline, rows = started()
    before = content(pipeline.dataflow)
    right = {"rows": 5} if "rows" in wrong else {}
    with pytest.raises(OperatorsError):
        call(pipeline, rows, **wrong)
    assert content(pipeline.dataflow) == before
    call(pipeline, rows, **right)
    fresh, fresh_rows = started()
    call(fresh, fresh_rows, **right)
    assert list(pipeline.dataflow.nodes) == list(fresh.dataflow.nodes)
    assert pipeline.dataflow.automatic == fresh.dataflow.automatic


def test_a_wrong_argument_is_told_of_the_call_that_the_user_made() -> None:
    pipeline, rows = started()
    with pytest.raises(OperatorsError, match=r"the argument limit of iterate is '5'"):
        going_round(pipeline, rows, limit="5")


def test_a_refused_call_leaves_the_other_pipeline_as_it_was_too() -> None:
    (one, rows), (two, others) = started("one"), started("two")
    before = content(one.dataflow), content(two.dataflow)
    by = fr.Exchange("v % 2 AS parity")
    with pytest.raises(OperatorsError, match="belongs to pipeline 'two'"):
        rows.binary(others, by, by, "both", logic)
    assert (content(one.dataflow), content(two.dataflow)) == before


@pytest.mark.parametrize(
    "put_in",
    [
        lambda pipeline, handle, *, name, **settings: fr.source(pipeline, name, logic, waits_for=handle, **settings),
        lambda pipeline, handle, *, name, **settings: fr.iterator_source(pipeline, name, logic, handle, **settings),
    ],
)
@pytest.mark.parametrize("wrong", [{"name": "rows"}, {"start": "0"}])
def test_a_probe_keeps_no_source_that_is_in_no_pipeline(put_in: Callable[..., Any], wrong: dict[str, Any]) -> None:
    pipeline, rows = started()
    handle = fr.ProbeHandle(pipeline)
    with pytest.raises(OperatorsError):
        put_in(pipeline, handle, **{"name": "n", "schema": "v long", **wrong})
    assert handle._waiting == []
    fr.probe_with(rows, handle)


def test_a_refused_call_within_a_scope_leaves_it_as_it_was() -> None:
    pipeline, rows = started()
    scope = fr.Scope("s", pipeline)
    entered = scope.enter(rows, fr.Exchange("k"))
    for name, chain in (("not_a__name", True), ("u", "no"), ("u", False)):
        with pytest.raises(OperatorsError):
            entered.unary(fr.Exchange("refused_wing_of(v) AS w"), name, logic, chain=chain)
        assert (scope.nodes, scope._asked) == ([], [])
    with pytest.raises(OperatorsError, match="the argument limit of iterate"):
        fr.iterate(entered, lambda each: (each, each), limit="5")
    assert (scope.nodes, scope._handles, scope._asked) == ([], [], [])
    scope.leave(entered.unary(fr.Exchange("refused_wing_of(v) AS w"), "u", logic, schema="k string, v long, w long"))
    assert [node.name for node in scope.nodes] == ["with_w", "u"]
    assert scope.build().columns == ("k", "v", "w", "t")


def test_a_scope_that_was_refused_can_be_built_once_its_name_is_free() -> None:
    pipeline, rows = started()
    scope = fr.Scope("rows", pipeline)
    by_k = fr.Exchange("k")
    scope.leave(scope.enter(rows, by_k).binary(scope.enter(rows, fr.Broadcast()), by_k, by_k, "both", logic))
    node = scope.nodes[0]
    before = content(pipeline.dataflow), dict(vars(node)), node.definition.pacts
    with pytest.raises(OperatorsError, match="named 'rows' already"):
        scope.build()
    assert (content(pipeline.dataflow), dict(vars(node)), node.definition.pacts) == before
    scope.name = "free"
    assert scope.build().name == "free"


def test_queries_that_were_refused_are_made_by_the_next_call() -> None:
    pipeline, _ = started()
    big = do.query("rows").filter("v > 1", name="big")
    with pytest.raises(OperatorsError):
        pipeline.add(big, sources="no")  # type: ignore[arg-type]
    assert pipeline.add(big).name == "big"
    assert "big" in pipeline.dataflow.nodes


class GivenUpError(Exception):
    pass


def step(pipeline: do.Pipeline, number: int) -> None:
    """One of several things to add; some are refused, as their names are taken."""
    rows = do.Stream(pipeline.dataflow, StreamRef("rows"))
    kinds: list[Callable[[], Any]] = [
        lambda: rows.filter("v > 1"),
        lambda: rows.key_by("k").aggregate(n="sum(v)", name=f"n_{number}", renamed_from=f"before_{number % 3}"),
        lambda: rows.select("k", f"v + {number} AS v").to_table(f"T{number}", backfill=True),
        lambda: rows.key_by("k").aggregate(n="count(*)").to_table(f"t{number}"),
        lambda: fr.branch(rows, lambda *_: True)[1].filter("v > 2"),
        lambda: rows.sink(fr.Exchange(f"v % {number + 2} AS q"), f"sink_{number % 3}", logic),
        lambda: pipeline.loop(f"loop_{number}").enter(rows),
        lambda: pipeline.dataflow.fresh_name("filter"),
        lambda: pipeline.dataflow.fresh_name("filter_2"),
    ]
    with suppress(OperatorsError):
        kinds[number % len(kinds)]()


@fresh_examples(60)
@given(
    before=st.lists(st.integers(0, 30), max_size=5),
    within=st.lists(st.integers(0, 30), max_size=5),
    nested=st.lists(st.integers(0, 30), max_size=4),
    after=st.lists(st.integers(0, 30), max_size=4),
)
def test_whatever_was_added_is_taken_back(before: list[int], within: list[int], nested: list[int], after: list[int]) -> None:
    pipeline, _ = started()
    for number in before:
        step(pipeline, number)
    known = content(pipeline.dataflow)
    with suppress(GivenUpError), all_or_nothing(pipeline.dataflow.mark()):
        for number in within:
            step(pipeline, number)
        inner = content(pipeline.dataflow)
        with suppress(GivenUpError), all_or_nothing(pipeline.dataflow.mark()):
            for number in nested:
                step(pipeline, number)
            raise GivenUpError
        assert content(pipeline.dataflow) == inner
        raise GivenUpError
    assert content(pipeline.dataflow) == known
    other, _ = started()
    for number in (*before, *after):
        step(other, number)
    for number in after:
        step(pipeline, number)
    assert list(pipeline.dataflow.nodes) == list(other.dataflow.nodes)
    assert pipeline.dataflow.automatic == other.dataflow.automatic


class UserLogic:
    """Logic of a user's, with methods of any name."""

    def __init__(self) -> None:
        self.called = 0

    def _mark(self, *_: Any) -> None:
        self.called += 1

    _taking_back = _mark

    def __call__(self, *_: Any) -> Any:
        return lambda *_: None


def test_objects_of_users_are_not_taken_for_what_pipelines_are_built_with() -> None:
    _, rows = started()
    of_user = UserLogic()
    assert rows.unary(fr.Pipeline(), "u", of_user).name == "u"
    with pytest.raises(OperatorsError, match="chain"):
        rows.unary(fr.Pipeline(), "w", of_user, chain="no")
    assert of_user.called == 0
