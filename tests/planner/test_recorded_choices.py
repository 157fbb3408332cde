"""A choice by cost is recorded with the plan: it stays while state depends on it, and moves where nothing does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from typing_extensions import override

import dagster_operators as do
from dagster_operators.errors import ChangedPipelineError
from dagster_operators.graph.alternatives import Alternative, Place
from dagster_operators.graph.choices import Choices, Recorded
from dagster_operators.graph.ports import StreamRef
from dagster_operators.planner.lowering import lower
from dagster_operators.transactions.owner import Owner
from tests.engines import ENGINES
from tests.planner.test_alternatives import EPOCHS, Doubled, Running, Stub, Total, running
from tests.planner.test_exchanges_of_alternatives import BROADCAST, Named

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dagster_operators.graph.operator import LogicalOperator, StreamType

SUMS, ROWS, NO_STATE = Stub(1), Stub(1e6), Stub(1e9)
OWNER = Owner.of_process()


@dataclass(frozen=True)
class Tripled(Doubled):
    @override
    def rows(self, frame: Any) -> Any:
        return frame.selectExpr("3 * v - v AS v")


@dataclass(frozen=True, kw_only=True)
class Stateless(Running):
    """Twice each row, in one of two ways that keep nothing."""

    kind: ClassVar[str] = "stateless_ways"
    stateless: ClassVar[bool] = True

    @override
    def lower(self, inputs: Sequence[StreamType]) -> tuple[Alternative, ...]:
        return (Alternative("doubled", Doubled()), Alternative("tripled", Tripled()))


@dataclass(frozen=True, kw_only=True)
class OnlySums(Running):
    @override
    def lower(self, inputs: Sequence[StreamType]) -> tuple[Alternative, ...]:
        return (Alternative("sums", Total(self.name, "sums")), Alternative("as they are", ()))


def pipeline_of(root: Path, operator: LogicalOperator, costs: Any = None) -> do.Pipeline:
    pipeline = do.Pipeline("p", root=str(root), engine=ENGINES["sail"])
    rows = pipeline.source("rows", do.MemorySource([*EPOCHS], schema="v long"))
    pipeline.dataflow.add(operator, [StreamRef(rows.name)])
    do.Stream(pipeline.dataflow, StreamRef(operator.name)).to_table("out")
    if costs is not None:
        pipeline.dataflow.cost_model = costs
    return pipeline


def taken(pipeline: do.Pipeline) -> str:
    choice = lower(pipeline.dataflow).nodes["total"].choice
    assert choice is not None
    return choice.taken


def values(pipeline: do.Pipeline) -> list[int]:
    return sorted(row["v"] for row in pipeline.read("out").collect())


def recorded(pipeline: do.Pipeline) -> dict[str, str]:
    plan = pipeline.epochs.coordinator.view().plan
    assert plan is not None
    return dict(plan.choices)


@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize(
    ("first", "then", "kept"), [(SUMS, ROWS, "sums"), (SUMS, NO_STATE, "sums"), (None, SUMS, "rows"), (SUMS, None, "sums")]
)
def test_state_goes_on_in_the_way_that_is_recorded(tmp_path: Path, first: Stub | None, then: Stub | None, kept: str) -> None:
    """Estimates that change are no other program; without a record it is the preferred way, as it was before there were any."""
    running(tmp_path, costs=first).run_epoch()
    again = running(tmp_path, costs=then)
    told = f"takes: {kept} (as recorded, since state depends on it; else it would be"
    assert then is None or told in again.explain()
    again.run_epoch()
    assert told in again.explain()
    assert taken(again) == kept
    assert values(again) == [4, 6]
    assert recorded(again) == {"total": kept}


@pytest.mark.usefixtures("sail")
def test_no_state_begins_in_the_middle_because_of_costs(tmp_path: Path) -> None:
    running(tmp_path, costs=NO_STATE).run_epoch()
    again = running(tmp_path, costs=SUMS)
    again.run_epoch()
    assert taken(again) == "as they are"
    assert values(again) == [1, 2, 3]


@pytest.mark.usefixtures("sail")
def test_a_choice_moves_silently_where_nothing_durable_depends_on_it(tmp_path: Path) -> None:
    operator = Stateless(name="total")
    pipeline_of(tmp_path, operator, Named("tripled")).run_epoch()
    again = pipeline_of(tmp_path, operator, Named("doubled"))
    again.run_epoch()
    assert (taken(again), recorded(again)) == ("doubled", {"total": "doubled"})
    assert values(again) == [2, 4, 6]


@pytest.mark.usefixtures("sail")
def test_a_retry_runs_the_plan_that_was_begun(tmp_path: Path) -> None:
    """Of an operator without state, too: what is prepared is of that plan."""
    operator = Stateless(name="total")
    begun = pipeline_of(tmp_path, operator, Named("tripled"))
    handle = begun.epochs.begin(OWNER)
    assert handle is not None
    begun.epochs.run_stages(handle)
    prepared = begun.epochs.coordinator.view().prepared.values()
    begun.epochs.coordinator.close()
    again = pipeline_of(tmp_path, operator, Named("doubled"))
    assert "takes: tripled (as the epoch began; else it would be doubled: named" in again.explain()
    again.run_epoch()
    assert taken(again) == "tripled"
    manifests = again.epochs.coordinator.view().last_decision
    assert manifests is not None
    assert {one.attempt for one in prepared} == {one.attempt for one in manifests.manifests}
    again.run_epoch()
    assert taken(pipeline_of(tmp_path, operator, Named("doubled"))) == "doubled"


@pytest.mark.usefixtures("sail")
def test_another_process_runs_a_stage_as_the_epoch_was_begun(tmp_path: Path) -> None:
    operator = Stateless(name="total")
    here, there = (pipeline_of(tmp_path, operator, Named(name)) for name in ("tripled", "doubled"))
    assert there.epochs.plan().choices == {"total": "doubled"}  # planned before the epoch began
    handle = here.epochs.begin(OWNER)
    assert handle is not None
    there.epochs.run_stage(handle, "out")
    assert taken(there) == "tripled"
    assert there.epochs.plan().choices == {"total": "tripled"}


@pytest.mark.usefixtures("sail")
def test_a_decided_epoch_is_carried_out_whatever_costs_say(tmp_path: Path) -> None:
    begun = running(tmp_path, costs=SUMS)
    handle = begun.epochs.begin(OWNER)
    assert handle is not None
    begun.epochs.run_stages(handle)
    begun.epochs.commit(handle)
    begun.epochs.coordinator.close()
    again = running(tmp_path, costs=ROWS)
    again.run_until_caught_up()
    assert (taken(again), values(again)) == ("sums", [4, 6])


@pytest.mark.usefixtures("sail")
def test_a_rebuild_goes_the_way_that_is_recorded(tmp_path: Path) -> None:
    """Its state is taken over, and the next epoch goes on with it."""
    running(tmp_path, costs=SUMS).run_epoch()
    again = running(tmp_path, costs=ROWS)
    again.rebuild("out")
    assert recorded(again) == {"total": "sums"}
    again.run_until_caught_up()
    assert (taken(again), values(again)) == ("sums", [4, 6])


@pytest.mark.usefixtures("sail")
def test_a_way_that_is_no_longer_offered_is_another_program(tmp_path: Path) -> None:
    running(tmp_path).run_epoch()
    with pytest.raises(ChangedPipelineError, match=r"would keep its state elsewhere, and has some in state/total\.rows"):
        pipeline_of(tmp_path, OnlySums(name="total")).run_epoch()


@dataclass
class Counting:
    """A cost model that counts its questions, and takes another way each time."""

    asked: int = 0

    def choose(self, operator: LogicalOperator, alternatives: Sequence[Alternative]) -> tuple[Alternative, str]:
        self.asked += 1
        return alternatives[self.asked % len(alternatives)], "next"


def test_a_cost_model_is_asked_once_and_another_one_anew() -> None:
    choices, ways = Choices(Counting()), (Alternative("a", 1), Alternative("b", 2))
    operator = Running(name="total")
    first = [choices.choose(operator, Place(), ways, bool)[0].name for _ in range(3)]
    assert first == ["b", "b", "b"]
    choices.costs = Named("a")
    assert choices.choose(operator, Place(), ways, bool)[0].name == "a"


@pytest.mark.parametrize(
    ("record", "has_state", "name"),
    [
        (Recorded({"total": "a"}, frozenset({"total"})), True, "a"),
        (Recorded({"total": "a"}, frozenset({"total"})), False, "b"),
        (Recorded({"total": "a"}, frozenset({"total"}), begun=True), False, "a"),
        (Recorded({}, frozenset({"total"})), True, "a"),
        (Recorded({"total": "gone"}, frozenset({"total"})), True, "b"),
        (Recorded({"other": "a"}, frozenset({"other"})), True, "b"),
    ],
)
def test_a_recorded_choice_stays_where_it_can_and_has_to(record: Recorded, has_state: bool, name: str) -> None:  # noqa: FBT001
    choices = Choices(Named("b"), record)
    way, choice = choices.choose(Running(name="total"), Place(), (Alternative("a", 1), Alternative("b", 2)), lambda _: has_state)
    assert way.name == name
    assert choice is not None
    assert choice.recorded


def test_only_an_open_choice_is_recorded() -> None:
    """So that ledgers of pipelines without one stay as they were."""
    ways = (Alternative("a", 1), Alternative("b", 2))
    exchanged = (ways[0], replace(ways[1], exchanges=BROADCAST))
    found = [Choices().choose(Running(name="total"), Place(), some, bool)[1] for some in (ways, exchanged)]
    assert [choice.recorded for choice in found if choice is not None] == [False, True]
