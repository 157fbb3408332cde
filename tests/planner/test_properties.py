"""How rows lie in a plan: which exchanges are met already, and plans made wrong on purpose that are refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from typing_extensions import override

import dagster_operators as do
from dagster_operators.errors import PipelineError
from dagster_operators.graph.exchange import FORWARD, Broadcast, Exchange, Gather, HashBy, by_keys
from dagster_operators.graph.operator import LogicalOperator, StreamType, same_columns
from dagster_operators.graph.ports import InputPort
from dagster_operators.operators.physical import Stateless
from dagster_operators.optimizer.properties.fields import Forwarding
from dagster_operators.planner.explain import explain
from dagster_operators.planner.lowering import lower
from dagster_operators.planner.properties import check_properties, exchanges_saved, with_met_exchanges
from dagster_operators.planner.stages import cut
from tests.compatibility.pipelines import joins, keyed, lake, mixed, user, windows
from tests.operators.samples import SAMPLES
from tests.planner.test_batch_groups import Keeping, Same
from tests.planner.test_exchanges_of_alternatives import BROADCAST_SECOND, REPARTITION, joined

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from dagster_operators.graph.operator import Lineage
    from dagster_operators.planner.physical_plan import PhysicalPlan


@dataclass(frozen=True)
class Counted(Stateless):
    keys: tuple[str, ...]
    name: str

    @override
    def rows(self, frame: DataFrame) -> DataFrame:
        return frame.selectExpr("*", f"count(*) OVER (PARTITION BY {', '.join(self.keys) or '1'}) AS {self.name}")


@dataclass(frozen=True, kw_only=True)
class CountPerKey(LogicalOperator):
    """Each row with the number of the rows of its key in the epoch."""

    kind: ClassVar[str] = "count_per_key"
    stateless: ClassVar[bool] = True
    keys: tuple[str, ...]

    @override
    def config(self) -> dict[str, Any]:
        return {"keys": list(self.keys)}

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("input", exchange=by_keys(self.keys)),)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        return replace(inputs[0], columns=(*(inputs[0].columns or ()), self.name))

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return same_columns(inputs[0])

    @override
    def forwards(self, inputs: Sequence[StreamType]) -> Forwarding:
        return Forwarding.of(inputs[0].columns or ())

    @override
    def lower(self, inputs: Sequence[StreamType]) -> Counted:
        return Counted(self.keys, self.name)


SCHEMA = "k string, j string, v long, t timestamp"
BY_K = HashBy(("k",))


def rows() -> do.Stream:
    return do.Pipeline("p", root="unused").source("rows", do.MemorySource([], schema=SCHEMA), event_time="t")


def planned(stream: do.Stream) -> PhysicalPlan:
    stream.to_table("out")
    plan = lower(stream._dataflow)
    return with_met_exchanges(stream._dataflow, plan, cut(plan))


def saved(stream: do.Stream) -> dict[str, tuple[Exchange, ...]]:
    return dict(exchanges_saved(planned(stream)))


def counted(stream: do.Stream, *keys: str, name: str = "counted") -> do.Stream:
    return stream.through(CountPerKey, keys=keys, name=name)


def first() -> do.Stream:
    """Rows that lie by k."""
    return counted(rows(), "k", name="first")


def united(stream: do.Stream) -> do.Stream:
    """Two streams that lie by k each, of which an engine puts the parts side by side."""
    return counted(stream, "k", name="first").union(
        counted(stream.filter("v > 1"), "k", name="first_too").rename({"first_too": "first"})
    )


@pytest.mark.parametrize(
    ("build", "found"),
    [
        (lambda: counted(first(), "k"), (BY_K,)),
        (lambda: counted(first(), "K"), (HashBy(("K",)),)),
        (lambda: counted(first(), "k", "j"), (HashBy(("k", "j")),)),
        (lambda: counted(first(), "j"), ()),
        (lambda: counted(counted(first(), "k", "j", name="both"), "k"), (BY_K,)),
        (lambda: counted(counted(rows(), "k", "j", name="first"), "k"), ()),
        (lambda: counted(first().rename({"k": "l"}), "l"), (HashBy(("l",)),)),
        (lambda: counted(first().with_columns(k="upper(k)"), "k"), ()),
        (lambda: counted(first().with_columns(w="upper(k)"), "k"), (BY_K,)),
        (lambda: counted(first().select("k", "v", "upper(j) AS j").filter("v > 1"), "k"), (BY_K,)),
        (lambda: counted(first().select("upper(k) AS k", "v"), "k"), ()),
        (lambda: counted(first().select("k AS l", "j AS k", "v"), "k"), ()),
        (lambda: counted(first().drop("k"), "j"), ()),
        (lambda: counted(united(rows()), "k"), ()),
        (lambda: counted(counted(rows(), name="first"), "k"), (BY_K,)),
        (lambda: counted(first()), ()),
        (lambda: first().key_by("k").aggregate(n="count(*)", name="counted"), (BY_K,)),
    ],
)
def test_an_exchange_is_met_by_one_on_the_same_key_or_on_some_of_its_columns(
    build: Callable[[], do.Stream], found: tuple[Exchange, ...]
) -> None:
    assert saved(build()).get("counted", ()) == found


def test_rows_that_are_written_between_stages_lie_anyhow() -> None:
    before = first()
    before.to_table("also")
    assert saved(counted(before, "k")) == {}


def in_workers(*keys: str, last: type[do.ArrowOperator] = Same) -> do.Stream:
    stream = rows().key_by(keys[0]).apply(Same(), name="a")
    return stream.key_by(keys[1]).apply(last(), name="b")


def test_nothing_moves_between_programs_of_a_subtask_and_always_before_the_first() -> None:
    plan = planned(in_workers("k", "k", last=Keeping))
    assert [plan.nodes[name].inputs[0].is_met for name in "ab"] == [False, True]
    assert saved(in_workers("k", "j")) == {}
    assert saved(counted(in_workers("k", "k"), "k")) == {"b": (BY_K,)}  # the engine brings rows together otherwise
    assert saved(counted(rows(), "k").key_by("k").apply(Same(), name="a")) == {}


def test_explain_says_what_is_met() -> None:
    stream = counted(first(), "k", "j")
    stream.to_table("out")
    assert "    no shuffle by k, j: rows lie so already\n" in explain(stream._dataflow)


@pytest.mark.parametrize("make", [windows, keyed, joins, user, lake, mixed])
def test_plans_of_pipelines_that_there_are_are_proved(make: Callable[[str, Any], do.Pipeline]) -> None:
    dataflow = make("unused", None).dataflow
    plan = lower(dataflow)
    stages = cut(plan)
    made = with_met_exchanges(dataflow, plan, stages)
    assert cut(made) == stages


def wrong(plan: PhysicalPlan, name: str, **changes: Any) -> PhysicalPlan:
    """The plan with something else said of what an operator reads."""
    node = plan.nodes[name]
    edges = tuple(replace(edge, **changes) for edge in node.inputs)
    return replace(plan, nodes={**plan.nodes, name: replace(node, inputs=edges)})


@pytest.mark.parametrize(
    ("build", "name", "changes", "required", "produced"),
    [
        (lambda: counted(rows(), "k"), "counted", {"is_met": True}, "by k", "anyhow"),
        (lambda: counted(first(), "j"), "counted", {"is_met": True}, "by j", "by k"),
        (lambda: counted(first().with_columns(k="upper(k)"), "k"), "counted", {"is_met": True}, "by k", "anyhow"),
        (lambda: counted(first(), "k"), "counted", {"exchange": Gather()}, "together in one place", "by k"),
        (lambda: counted(first(), "k"), "counted", {"exchange": Broadcast()}, "copied to each part", "by k"),
        (lambda: counted(first(), "k"), "first", {"exchange": Broadcast()}, "by k", "copied to each part"),
        (lambda: counted(first(), "k"), "first", {"exchange": FORWARD}, "by k", "anyhow"),
        (lambda: in_workers("k", "k"), "b", {"exchange": HashBy(("j",))}, "by j", "by k"),
        (lambda: in_workers("k", "k"), "b", {"exchange": HashBy(("k", "j"))}, "by j, k", "by k"),
        (lambda: in_workers("k", "k"), "a", {"exchange": FORWARD}, "by k", "anyhow"),
    ],
)
def test_a_plan_that_is_wrong_is_refused(
    build: Callable[[], do.Stream], name: str, changes: dict[str, Any], required: str, produced: str
) -> None:
    stream = build()
    plan = planned(stream)
    made = wrong(plan, name, **changes)
    with pytest.raises(PipelineError, match=f"{required}, and they lie {produced}") as refused:
        check_properties(stream._dataflow, made, cut(plan))
    assert (refused.value.where["required"], refused.value.where["produced"]) == (required, produced)
    assert refused.value.operator in plan.nodes
    check_properties(stream._dataflow, plan, cut(plan))


def test_another_stage_proves_nothing() -> None:
    """The same plan, cut between the two: what lay by the key is written, and read anyhow."""
    stream = counted(first(), "k")
    plan = planned(stream)
    apart = replace(plan.nodes["counted"], chain=False)
    stages = cut(replace(plan, nodes={**plan.nodes, "counted": apart}))
    with pytest.raises(PipelineError, match="by k, and they lie anyhow"):
        check_properties(stream._dataflow, plan, stages)


def test_rows_meet_by_columns_that_there_are() -> None:
    pipeline = joined(
        REPARTITION, replace(BROADCAST_SECOND, exchanges=(HashBy(("nope",)), Broadcast())), taking="broadcast second"
    )
    with pytest.raises(PipelineError, match="are to meet by 'nope', which they do not have") as refused:
        pipeline.explain()
    assert refused.value.operator == "j"


@pytest.mark.parametrize("operator", SAMPLES, ids=lambda operator: type(operator).__name__)
def test_an_operator_hands_on_only_what_comes_of_that_column_alone(operator: LogicalOperator) -> None:
    """What it says of its columns elsewhere, as a check of what rows are brought together by."""
    columns = ("k", "v", "xs", "t", "u", "window_start", "window_end")
    inputs = [StreamType(columns, "t"), StreamType(("l", "w", "u"), "u")][: 2 if operator.kind.endswith("join") else 1]
    forwarding = operator.forwards(inputs)
    if forwarding == Forwarding():
        return
    lineage = operator.lineage(inputs)
    pairs = [(column, column) for column in lineage] if forwarding.all_fields else forwarding.moves
    assert all(lineage[str(target)] == {(0, str(source))} for source, target in pairs)
