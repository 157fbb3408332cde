"""Lowering: one logical operator to one, several or no physical operators, through the stages to a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from typing_extensions import override

import dagster_operators as do
from dagster_operators.errors import PipelineError
from dagster_operators.graph.exchange import FORWARD, Gather, HashBy
from dagster_operators.graph.operator import LogicalOperator, StreamType, same_columns
from dagster_operators.graph.ports import InputPort, StreamRef
from dagster_operators.operators.physical import Analysis, Part, Parts, PhysicalState, RelationalOperator, Stateless
from dagster_operators.planner.lowering import lower
from dagster_operators.planner.stages import cut
from tests.engines import SAIL

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame

    from dagster_operators.graph.operator import Lineage
    from dagster_operators.operators.physical import Analysed, Rows, StageContext


@dataclass(frozen=True)
class Keep(RelationalOperator):
    """The build half: remembers every row."""

    states: ClassVar[tuple[PhysicalState, ...]] = (PhysicalState("rows"),)
    name: str

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis:
        return Analysis(inputs[0], {"rows": inputs[0]}, facts=None)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed) -> Rows:
        state = context.state(self.name, "rows")
        if inputs[0] is not None:
            state.append(inputs[0])
        return state.read(lambda file: True)


@dataclass(frozen=True)
class Number(Stateless):
    """The probe half: numbers all rows there are."""

    @override
    def rows(self, frame: DataFrame) -> DataFrame:
        return frame.selectExpr("v", "row_number() OVER (ORDER BY v) AS n")


@dataclass(frozen=True, kw_only=True)
class NumberAll(LogicalOperator):
    """All rows so far with their numbers, in every epoch: of two physical operators."""

    kind: ClassVar[str] = "number_all"
    lowered: str = "parts"

    @override
    def config(self) -> dict[str, Any]:
        return {"lowered": self.lowered}

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("input", exchange=HashBy(("v",))),)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        return inputs[0] if self.lowered == "nothing" else StreamType(("v", "n"))

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return same_columns(inputs[0])

    @override
    def lower(self, inputs: Sequence[StreamType]) -> object:
        keep, number = Part("build", Keep(f"{self.name}_build"), (0,)), Part("probe", Number(), ("build",), {"build": Gather()})
        return {
            "parts": Parts((keep, number)),
            "nothing": (),
            "unread": Parts((Part("probe", Number(), ()),)),
            "unknown": Parts((keep, Part("probe", Number(), ("other",)))),
            "text": "an operator",
        }[self.lowered]


def pipeline_with(operator: NumberAll, root: Path | str = "unused") -> do.Pipeline:
    pipeline = do.Pipeline("p", root=str(root), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource([[{"v": 3}, {"v": 1}], [{"v": 2}]], schema="v long"))
    node = pipeline.dataflow.add(operator, [StreamRef(rows.name)])
    do.Stream(pipeline.dataflow, StreamRef(node.name)).to_table("out")
    return pipeline


def test_a_logical_operator_may_lower_to_several() -> None:
    plan = lower(pipeline_with(NumberAll(name="all")).dataflow)
    assert {node.name: node.logical for node in plan} == {"rows": "rows", "all_build": "all", "all": "all"}
    assert [(str(edge.stream), edge.exchange) for edge in plan.nodes["all"].inputs] == [("all_build", Gather())]
    assert plan.nodes["all_build"].inputs[0].exchange == HashBy(("v",))
    (stage,) = cut(plan)
    assert (stage.name, stage.operators, stage.nodes) == ("out", ("rows", "all"), ("rows", "all_build", "all"))


def test_parts_run_and_keep_their_own_state(sail, tmp_path: Path) -> None:
    pipeline = pipeline_with(NumberAll(name="all"), tmp_path)
    assert "all_build: part of all: number_all" in pipeline.explain()
    assert "shuffle by v; state table state/all_build.rows" in pipeline.explain()
    pipeline.run_until_caught_up()
    rows = sorted((row["v"], row["n"]) for row in pipeline.read("out").collect())
    assert rows == [(1, 1), (1, 1), (2, 2), (3, 2), (3, 3)]
    assert sorted(row["v"] for row in pipeline.state("all_build", "rows").collect()) == [1, 2, 3]


def test_an_operator_that_lowers_to_nothing_hands_its_rows_on(sail, tmp_path: Path) -> None:
    pipeline = pipeline_with(NumberAll(name="all", lowered="nothing"), tmp_path)
    assert lower(pipeline.dataflow).nodes["all"].inputs[0].exchange == HashBy(("v",))
    pipeline.run_until_caught_up()
    assert sorted(row["v"] for row in pipeline.read("out").collect()) == [1, 2, 3]


@pytest.mark.parametrize("lowered", ["unread", "unknown", "text"])
def test_parts_that_do_not_fit_are_refused(lowered: str) -> None:
    with pytest.raises(PipelineError, match="lowers to something that does not fit it") as refused:
        lower(pipeline_with(NumberAll(name="all", lowered=lowered)).dataflow)
    assert refused.value.operator == "all"


def test_the_name_of_a_part_may_be_taken() -> None:
    pipeline = pipeline_with(NumberAll(name="all"))
    pipeline.source("all_build", do.MemorySource([], schema="v long"))
    with pytest.raises(PipelineError, match="needs the name 'all_build'") as refused:
        lower(pipeline.dataflow)
    assert refused.value.remedy == "give 'all_build' another name"


def test_rows_that_nobody_has_to_meet_stay_where_they_are() -> None:
    pipeline = do.Pipeline("p", root="unused")
    rows = pipeline.source("rows", do.MemorySource([], schema="k string, v long, t timestamp"), event_time="t")
    rows.filter("v > 0").key_by("k").window(do.Tumbling("1 s")).aggregate(n="count(*)", name="counts").to_table("out")
    rows.filter("v > 9", name="unused")
    plan = lower(pipeline.dataflow)
    assert list(plan.nodes) == ["rows", "filter", "counts"]
    assert plan.nodes["filter"].inputs[0].exchange == FORWARD
    assert plan.nodes["counts"].inputs[0].exchange == HashBy(("k",), window=True)
