"""Two ways of one join: each has exchanges of its own, and they are the edges and the fingerprints of the plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from typing_extensions import override

import dagster_operators as do
from dagster_operators.errors import PipelineError
from dagster_operators.graph.alternatives import Alternative, RowsGoToTable
from dagster_operators.graph.exchange import FORWARD, Broadcast, Exchange, HashBy
from dagster_operators.graph.operator import LogicalOperator, StreamType, same_columns
from dagster_operators.graph.ports import InputPort, StreamRef
from dagster_operators.operators.physical import Analysis, Part, Parts, RelationalOperator, Stateless
from dagster_operators.planner.lowering import lower
from dagster_operators.planner.stages import cut_stages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from dagster_operators.graph.operator import Lineage
    from dagster_operators.operators.physical import Analysed, Rows, StageContext
    from dagster_operators.planner.physical_plan import PhysicalNode

BY_KEY = HashBy(("k",))
BROADCAST = (FORWARD, Broadcast())


@dataclass(frozen=True)
class Joined(RelationalOperator):
    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis:
        return Analysis(inputs[0], facts=None)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed) -> Rows:
        return inputs[0]


@dataclass(frozen=True)
class Halved(Stateless):
    @override
    def rows(self, frame: DataFrame) -> DataFrame:
        return frame


REPARTITION = Alternative("repartition", Joined())
BROADCAST_SECOND = Alternative("broadcast second", Joined(), exchanges=BROADCAST)


@dataclass(frozen=True, kw_only=True, eq=False)
class TrialJoin(LogicalOperator):
    kind: ClassVar[str] = "trial_join"
    ways: tuple[Alternative, ...]

    @override
    def config(self) -> dict[str, Any]:
        return {}

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        return StreamType(("k",))

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return same_columns(inputs[0])

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("left", exchange=BY_KEY), InputPort("right", exchange=BY_KEY))

    @override
    def lower(self, inputs: Sequence[StreamType]) -> tuple[Alternative, ...]:
        return self.ways


@dataclass(frozen=True)
class Named:
    """A cost model that takes the way of one name."""

    name: str

    def choose(self, operator: LogicalOperator, alternatives: Sequence[Alternative]) -> tuple[Alternative, str]:
        return next(way for way in alternatives if way.name == self.name), "named"


def joined(*ways: Alternative, taking: str = "", table: bool = True) -> do.Pipeline:
    pipeline = do.Pipeline("p", root="unused")
    for name in ("a", "b"):
        pipeline.source(name, do.MemorySource([], schema="k long"))
    pipeline.dataflow.add(TrialJoin(name="j", ways=ways), [StreamRef("a"), StreamRef("b")])
    out = do.Stream(pipeline.dataflow, StreamRef("j"))
    (out if table else out.filter("k > 0")).to_table("out")
    if taking:
        pipeline.dataflow.cost_model = Named(taking)
    return pipeline


def node_of(pipeline: do.Pipeline, name: str = "j") -> PhysicalNode:
    return lower(pipeline.dataflow).nodes[name]


def edges(pipeline: do.Pipeline) -> tuple[Exchange, ...]:
    return tuple(edge.exchange for edge in node_of(pipeline).inputs)


def stage(pipeline: do.Pipeline) -> str:
    return cut_stages(pipeline.dataflow)[-1].fingerprint


def test_the_way_that_is_taken_has_its_own_edges_and_fingerprints() -> None:
    ways = (REPARTITION, BROADCAST_SECOND)
    apart, copied = joined(*ways, taking="repartition"), joined(*ways, taking="broadcast second")
    assert edges(apart) == (BY_KEY, BY_KEY)
    assert edges(copied) == BROADCAST
    assert node_of(apart).fingerprint != node_of(copied).fingerprint
    assert stage(apart) != stage(copied)


def test_the_preferred_way_by_the_exchanges_of_the_ports_leaves_the_fingerprint_as_it_is() -> None:
    """So an operator may come to have another way, and roots written before go on."""
    alone = joined(REPARTITION)
    for beside in (joined(REPARTITION, BROADCAST_SECOND), joined(replace(REPARTITION, exchanges=(BY_KEY, BY_KEY)))):
        assert node_of(beside).fingerprint == node_of(alone).fingerprint
        assert stage(beside) == stage(alone)


def test_a_way_that_costs_chose_is_in_the_fingerprint_though_it_has_the_same_exchanges() -> None:
    ways = (REPARTITION, Alternative("sorted", Joined()))
    assert edges(joined(*ways, taking="sorted")) == edges(joined(*ways))
    assert stage(joined(*ways, taking="sorted")) != stage(joined(*ways))


def test_the_only_way_that_fits_leaves_the_fingerprint_as_it_is() -> None:
    """As it has been since there are ways that need a table."""
    ways = (Alternative("in the table", Joined(), (RowsGoToTable(),)), REPARTITION)
    elsewhere = joined(*ways, table=False)
    assert node_of(elsewhere).choice is not None
    assert node_of(elsewhere).fingerprint == node_of(joined(REPARTITION, table=False)).fingerprint


def test_the_parts_of_a_way_have_its_edges_and_fingerprints() -> None:
    halves = Parts((Part("half", Halved(), (1,)), Part("whole", Joined(), (0, "half"))))
    ways = (Alternative("in halves", halves), Alternative("copied halves", halves, exchanges=BROADCAST))
    apart, copied = joined(*ways), joined(*ways, taking="copied halves")
    assert [edge.exchange for edge in node_of(apart, "j_half").inputs] == [BY_KEY]
    assert [edge.exchange for edge in node_of(copied, "j_half").inputs] == [Broadcast()]
    assert [edge.exchange for edge in node_of(copied).inputs] == [FORWARD, FORWARD]
    assert node_of(apart, "j_half").fingerprint != node_of(copied, "j_half").fingerprint


def test_a_way_has_an_exchange_for_each_input() -> None:
    pipeline = joined(Alternative("short", Joined(), exchanges=(FORWARD,)))
    with pytest.raises(PipelineError, match="'short' of trial_join has 1 exchanges for 2 inputs") as refused:
        pipeline.explain()
    assert (refused.value.operator, refused.value.where["pipeline"]) == ("j", "p")
    assert edges(joined(Alternative("long enough", Joined(), exchanges=BROADCAST))) == BROADCAST
