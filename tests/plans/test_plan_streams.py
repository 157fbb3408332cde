"""What a plan tells of its streams: the rows of which joins are changes, and what is asked when something about them changes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.errors import OperatorsError
from dagster_operators.graph.operator import StreamType
from dagster_operators.graph.ports import StreamRef
from dagster_operators.plans.logical_plan import LogicalPlan, PlanNode
from dagster_operators.plans.plan_streams import Streams
from dagster_operators.plans.shape import PlanShape
from dagster_operators.plans.verdict import Level, Stored
from dagster_operators.plans.verdicts import judge
from tests.operators.samples import SAMPLES

STATEFUL = ("changes", "joined", "counts")


def plan(how: Any = "inner", *, changes: bool = True, before: Any = None, behind: Any = None, **settings: Any) -> LogicalPlan:
    """Rows, perhaps as changes, joined with others and counted."""
    pipeline = do.Pipeline("p", root="unused")
    rows, others = (pipeline.source(name, do.MemorySource([], schema=f"id long, {name} long")) for name in ("v", "w"))
    rows = rows.to_changes("id", order_by="v", name="changes") if changes else rows
    joined = (before(rows) if before else rows).join(others, on="id", how=how, name="joined", **settings)
    counted = (behind(joined) if behind else joined).key_by("id").aggregate(n="count(*)", name="counts")
    counted.to_table("counts")
    return pipeline.logical_plan()


@pytest.mark.parametrize(("how", "changes", "told"), [
    ("inner", False, False), ("semi", False, False), ("inner", True, True), ("semi", True, True), ("left", False, True),
    ("right", False, True), ("full", False, True), ("anti", False, True), ("anti", True, True),
])  # fmt: skip
def test_whose_rows_are_changes(how: str, changes: bool, told: bool) -> None:  # noqa: FBT001 - given by name
    streams = Streams(PlanShape(plan(how, changes=changes, behind=lambda joined: joined.filter("id > 1"))))
    assert streams.changes(StreamRef("joined")) is told
    assert streams.changes(StreamRef("filter")) is told
    assert not streams.changes(StreamRef("counts"))


def test_every_operator_that_makes_changes_of_rows_that_stay_is_known() -> None:
    """A kind that is missing is edited, or read later, unasked: rows would be taken back that were never there."""
    found = dict[str, bool]()
    for sample in SAMPLES:
        for number in range(3):
            with suppress(OperatorsError, IndexError, ValueError):
                given = StreamType(None, "t")
                if sample.output([given] * number).retracting:
                    plan = LogicalPlan("p", (PlanNode(sample, (), "dagster_operators"),), packages={"dagster_operators": "1"})
                    found[sample.kind] = Streams(PlanShape(plan)).changes(StreamRef(sample.name))
    assert found == dict.fromkeys(("over", "join", "as_of_join", "within_last", "as_changes", "to_changes"), True)


def asked(old: LogicalPlan, new: LogicalPlan) -> dict[str, tuple[str, ...]]:
    stateful = [node.name for node in old.nodes if node.name in STATEFUL]
    stored = Stored(stateful=stateful, tables=["counts"], positions=["v", "w"], updating=["counts"])
    found = [one for one in judge(old, new, stored) if one.level is Level.DECISION]
    return {one.subject: tuple(sorted(one.choices)) for one in found}


def test_the_same_again_asks_nothing() -> None:
    assert asked(plan("left", condition="w > 1"), plan("left", condition="w > 1")) == {}


@pytest.mark.parametrize("settings", [{"how": "left"}, {"condition": "v < w"}, {"columns": ["w"]}])
def test_a_join_of_changes_begins_anew_only_with_what_is_behind_it(settings: Any) -> None:
    assert asked(plan(), plan(**settings)) == {"operator joined": ()}


def test_what_is_done_to_changes_before_and_behind_a_join_is_asked_about() -> None:
    def some(rows: do.Stream) -> do.Stream:
        return rows.filter("id > 1")

    assert asked(plan(), plan(before=some)) == {"operator joined": ()}
    assert asked(plan("anti", changes=False), plan("anti", changes=False, behind=some)) == {"operator counts": ()}
    assert "operator counts" not in asked(plan("semi", changes=False), plan("semi", changes=False, behind=some))
