"""A loop that ends at its limit: the rows that left it count, and what would go round once more is dropped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import dagster_operators as do
from dagster_operators.errors import EndlessLoopError
from dagster_operators.planner.stages import cut_stages
from dagster_operators.transactions.plan import PlanRecord, StageRecord
from dagster_operators.transactions.stage_keys import StageKey, pieces, reads, valid_pieces
from tests.engines import SAIL
from tests.operators.loops.test_inner_loop import Down

if TYPE_CHECKING:
    from pathlib import Path

RESTED = 0
GOING = 1


def halving(root: Path | str, batches: Any, **loop: Any) -> do.Pipeline:
    pipeline = do.Pipeline("numbers", root=str(root), engine=SAIL)
    start = pipeline.source("start", do.MemorySource(batches, schema="n long"))
    going = pipeline.loop("halving", **loop)
    again = going.variable("again", "n long")
    halves = going.enter(start).union(again).filter("n > 1").select("n div 2 AS n", name="halves")
    going.feed(again, halves)
    going.leave(halves).to_table("halves")
    return pipeline


def nested(root: Path | str, outer: dict[str, Any], inner: dict[str, Any]) -> do.Pipeline:
    """In each outer round the rows of the inner one lose 1 until they are 0; those that left go round again."""
    pipeline = do.Pipeline("nested", root=str(root), engine=SAIL)
    start = pipeline.source("start", do.MemorySource([[{"n": 9}]], schema="n long"))
    around = pipeline.loop("around", **outer)
    within = pipeline.loop("within", within=around, **inner)
    again = around.variable("again", "n long")
    landing = around.enter(start).union(again, name="landing")
    lower = within.variable("lower", "n long")
    steps = within.enter(landing).union(lower).filter("n > 0").select("n - 1 AS n", name="steps")
    within.feed(lower, steps)
    left = within.leave(steps, name="left")
    around.feed(again, left.filter("n = 7", name="sevens"))
    around.leave(left).to_table("out")
    return pipeline


def values(pipeline: do.Pipeline, table: str) -> list[int]:
    return sorted(row["n"] for row in pipeline.read(table).collect())


@pytest.mark.sail
def test_rows_that_left_it_in_so_many_rounds_count(tmp_path: Path) -> None:
    pipeline = halving(tmp_path, [[{"n": 1000}], [{"n": 2}, {"n": 9}]], limit=3, at_limit="end")
    pipeline.run_epoch()
    assert values(pipeline, "halves") == [125, 250, 500]
    pipeline.run_epoch()
    assert values(pipeline, "halves") == sorted([125, 250, 500, 1, 4, 2, 1])
    assert pipeline.run_epoch().empty


@pytest.mark.sail
def test_a_loop_that_comes_to_rest_before_is_as_it_was(tmp_path: Path) -> None:
    ended = halving(tmp_path / "ended", [[{"n": 9}]], limit=50, at_limit="end")
    fails = halving(tmp_path / "fails", [[{"n": 9}]], limit=50)
    for pipeline in (ended, fails):
        pipeline.run_epoch()
    assert values(ended, "halves") == values(fails, "halves") == [1, 2, 4]


@pytest.mark.sail
@pytest.mark.parametrize(("at_limit", "within_subtask"), [("end", True), ("end", False), ("fail", True), ("fail", False)])
def test_within_a_subtask_it_ends_as_in_rounds(tmp_path: Path, at_limit: Any, within_subtask: bool) -> None:  # noqa: FBT001
    pipeline = do.Pipeline("down", root=str(tmp_path), engine=SAIL)
    start = pipeline.source("start", do.MemorySource([[{"n": 3}, {"n": 4}, {"n": 9}]], schema="n long"))
    going = pipeline.loop("going", limit=4, at_limit=at_limit, within_subtask=within_subtask)
    again = going.variable("again", "n long")
    streams: Any = do.apply(Down(), going.enter(start).union(again), name="down")
    done, others = streams
    going.feed(again, others)
    going.leave(done).to_table("done")
    if at_limit == "fail":
        with pytest.raises(EndlessLoopError, match="after 4 rounds"):
            pipeline.run_epoch()
        return
    assert pipeline.run_epoch().rows["done"] == 2  # 3 and 4 got to 0 within four rounds, 9 did not


@pytest.mark.sail
def test_each_loop_ends_by_itself(tmp_path: Path) -> None:
    pipeline = nested(tmp_path, {"limit": 2, "at_limit": "end"}, {"limit": 3, "at_limit": "end"})
    pipeline.run_epoch()
    assert values(pipeline, "out") == [4, 5, 6, 6, 7, 8]
    with pytest.raises(EndlessLoopError, match="after 3 rounds"):
        nested(tmp_path / "inner", {"limit": 2, "at_limit": "end"}, {"limit": 3}).run_epoch()


@pytest.mark.sail
def test_an_epoch_that_failed_at_its_limit_may_end_there(tmp_path: Path) -> None:
    with pytest.raises(EndlessLoopError):
        halving(tmp_path, [[{"n": 1000}]], limit=3).run_epoch()
    again = halving(tmp_path, [[{"n": 1000}]], limit=3, at_limit="end")
    again.run_epoch()
    assert values(again, "halves") == [125, 250, 500]


def fingerprints(**loop: Any) -> list[str]:
    return [stage.fingerprint for stage in cut_stages(halving("unused", [], **loop).dataflow)]


def test_a_limit_that_ends_is_what_is_computed_and_one_that_fails_is_not() -> None:
    assert fingerprints(limit=3) == fingerprints(limit=4)
    assert fingerprints(limit=3, at_limit="end") != fingerprints(limit=3)
    assert fingerprints(limit=3, at_limit="end") != fingerprints(limit=4, at_limit="end")


def test_plans_and_explain_know_it() -> None:
    pipeline = halving("unused", [], limit=3, at_limit="end")
    again = do.Pipeline.from_plan(pipeline.to_plan(), root="unused")
    assert again.dataflow.scopes["halving"].ends
    assert again.to_plan() == pipeline.to_plan()
    assert "in the rounds of the loop halving, at most 3, then it ends" in pipeline.explain()
    assert not do.Pipeline.from_plan(halving("unused", []).to_plan(), root="unused").dataflow.scopes["halving"].ends


@dataclass(frozen=True)
class Done:
    goes_round: int


def test_its_last_round_is_known_from_the_plan_and_the_ledger_alone() -> None:
    stages = (StageRecord("step", "s", (), "loop", ("step",)), StageRecord("behind", "b", ("step",)))
    plan = PlanRecord("p", stages, ends={"loop": 2})
    first, second = {"step@0": Done(GOING)}, {"step@0": Done(GOING), "step@1": Done(GOING)}
    assert reads(plan, first, StageKey("behind")) is None
    assert reads(plan, second, StageKey("behind")) == ("step@0", "step@1")
    assert pieces(plan, first)[1] == ["step@1", "behind"]
    assert pieces(plan, second)[1] == ["behind"]
    third = {**second, "step@2": Done(RESTED)}
    assert valid_pieces(plan, lambda key, wanted, valid: third.get(str(key))) == second
    assert reads(PlanRecord("p", stages), second, StageKey("behind")) is None
