"""An operator with two lowerings, one of which a stub of a cost model chooses, through the stages to a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from typing_extensions import override

import dagster_operators as do
from dagster_operators.errors import PipelineError
from dagster_operators.graph.alternatives import Alternative, Cost
from dagster_operators.graph.operator import LogicalOperator, StreamType, same_columns
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.physical import Analysis, Part, Parts, PhysicalState, RelationalOperator, Stateless
from dagster_operators.operators.relational.first_rows import FirstRowsInState, FirstRowsInTable
from dagster_operators.planner.lowering import lower
from tests.engines import ENGINES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame

    from dagster_operators.graph.operator import Lineage
    from dagster_operators.operators.physical import Analysed, Rows, StageContext

EPOCHS = [[{"v": 3}, {"v": 1}], [{"v": 2}]]


@dataclass(frozen=True)
class Total(RelationalOperator):
    """The sum of all rows so far, from a state of its own: of rows, or of one sum for each epoch."""

    name: str
    table: str

    @property
    @override
    def states(self) -> tuple[PhysicalState, ...]:  # type: ignore[override]
        return (PhysicalState(self.table),)

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis:
        return Analysis(self.sum(inputs[0]), {self.table: self.kept(inputs[0])}, facts=None)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed) -> Rows:
        state = context.state(self.name, self.table)
        if inputs[0] is None:
            return None
        state.append(self.kept(inputs[0]))
        everything = state.read(lambda file: True)
        return None if everything is None else self.sum(everything)

    def kept(self, rows: DataFrame) -> DataFrame:
        return rows if self.table == "rows" else self.sum(rows)

    @staticmethod
    def sum(rows: DataFrame) -> DataFrame:
        return rows.selectExpr("CAST(v AS BIGINT) AS v").groupBy().sum("v").selectExpr("`sum(v)` AS v")


@dataclass(frozen=True)
class Doubled(Stateless):
    @override
    def rows(self, frame: DataFrame) -> DataFrame:
        return frame.selectExpr("2 * v AS v")


@dataclass(frozen=True, kw_only=True)
class Running(LogicalOperator):
    """A running total: of rows, of sums, or of the sums of an operator before it."""

    kind: ClassVar[str] = "running_total"

    @override
    def config(self) -> dict[str, Any]:
        return {}

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        return StreamType(("v",))

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return same_columns(inputs[0])

    @override
    def lower(self, inputs: Sequence[StreamType]) -> tuple[Alternative, ...]:
        halves = Parts((Part("double", Doubled(), (0,)), Part("total", Total(self.name, "sums"), ("double",))))
        return (
            Alternative("rows", Total(self.name, "rows"), cost=Cost(rows=1e6)),
            Alternative("sums", Total(self.name, "sums"), cost=Cost(rows=1)),
            Alternative("twice", halves, cost=Cost(rows=2)),
            Alternative("as they are", (), cost=Cost(rows=1e9)),
        )


@dataclass(frozen=True)
class Stub:
    """A cost model that reads the rows of all others as so many."""

    rows: float

    def choose(self, operator: LogicalOperator, alternatives: Sequence[Alternative]) -> tuple[Alternative, str]:
        def difference(one: Alternative) -> float:
            return abs((one.cost.rows if one.cost and one.cost.rows is not None else 0) - self.rows)

        best = min(alternatives, key=difference)
        return best, f"about {self.rows:.0f} rows"


def running(root: Path | str, engine: str = "sail", costs: Stub | None = None) -> do.Pipeline:
    pipeline = do.Pipeline("p", root=str(root), engine=ENGINES[engine])
    rows = pipeline.source("rows", do.MemorySource(EPOCHS, schema="v long"))
    node = pipeline.dataflow.add(Running(name="total"), [StreamRef(rows.name)])
    do.Stream(pipeline.dataflow, StreamRef(node.name)).to_table("out")
    if costs is not None:
        pipeline.dataflow.cost_model = costs
    return pipeline


@pytest.mark.parametrize("engine", ["sail", "spark"])
@pytest.mark.parametrize(
    ("costs", "taken", "told", "states", "values"),
    [
        (None, "rows", "rows (preferred; sums: not chosen;", ["total.rows"], [4, 6]),
        (Stub(1), "sums", "sums (about 1 rows; rows: not chosen;", ["total.sums"], [4, 6]),
        (Stub(2), "twice", "twice (about 2 rows; rows: not chosen;", ["total.sums"], [8, 12]),
        (Stub(1e9), "as they are", "as they are (about 1000000000 rows;", [], [1, 2, 3]),
    ],
)
def test_a_cost_model_chooses_what_runs(  # noqa: PLR0917
    request: pytest.FixtureRequest,
    tmp_path: Path,
    engine: str,
    costs: Stub | None,
    taken: str,
    told: str,
    states: list[str],
    values: list[int],
) -> None:
    request.getfixturevalue(engine)
    pipeline = running(tmp_path, engine, costs)
    node = lower(pipeline.dataflow).nodes["total"]
    assert node.choice is not None
    assert node.choice.taken == taken
    assert f"    takes: {told}" in pipeline.explain()
    pipeline.run_until_caught_up()
    assert sorted(row["v"] for row in pipeline.read("out").collect()) == values
    found = [path.name for path in (tmp_path / "state").iterdir()] if (tmp_path / "state").exists() else []
    assert found == states


def test_the_first_rows_are_kept_in_their_table_if_they_go_to_one() -> None:
    pipeline = do.Pipeline("p", root="unused")
    keyed = pipeline.source("rows", do.MemorySource([], schema="k string, v long, t timestamp"), event_time="t").key_by("k")
    keyed.top(2, by="v", name="best").to_table("best")
    keyed.deduplicate(keep="last", name="newest").select("k", "v").to_table("newest")
    plan = lower(pipeline.dataflow)
    assert isinstance(plan.nodes["best"].operator, FirstRowsInTable)
    assert isinstance(plan.nodes["newest"].operator, FirstRowsInState)
    assert (plan.own_table("best"), plan.own_table("newest")) == ("tables/best", None)
    text = pipeline.explain()
    assert "takes: state in its table (preferred; state of its own: not chosen)" in text
    refused = "state in its table: needs that its rows go straight to a table"
    assert f"takes: state of its own (the only one that fits; {refused})" in text


@dataclass(frozen=True, kw_only=True)
class AlwaysInTable(Running):
    """Forgets to say what it needs."""

    kind: ClassVar[str] = "always_in_table"

    @override
    def lower(self, inputs: Sequence[StreamType]) -> Any:
        keyed = do.Pipeline("other", root="unused").source("rows", do.MemorySource([], schema="v long")).key_by("v")
        top = keyed.top(1, by="v", name="first")
        return lower_of(top).operator


def lower_of(stream: do.Stream) -> Any:
    stream.to_table("table")
    return lower(stream._dataflow).nodes[stream.name]


def test_a_state_in_a_table_needs_one() -> None:
    pipeline = do.Pipeline("p", root="unused")
    rows = pipeline.source("rows", do.MemorySource([], schema="v long"))
    node = pipeline.dataflow.add(AlwaysInTable(name="first"), [StreamRef(rows.name)])
    do.Stream(pipeline.dataflow, StreamRef(node.name)).filter("v > 1").to_table("out")
    with pytest.raises(PipelineError, match="its rows go to, and they go to none") as refused:
        pipeline.explain()
    assert refused.value.operator == "first"
