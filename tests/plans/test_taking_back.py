"""Operators that take rows back do not begin anew before others that have these rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dagster_operators as do
from dagster_operators.errors import PipelineError, UndecidedChangeError
from dagster_operators.plans.verdict import Level, Stored
from dagster_operators.plans.verdicts import judge
from tests.engines import SAIL

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.sail

BATCHES = [[{"k": "a", "v": 1, "at": 1}], [{"k": "a", "v": 2, "at": 2}]]


def counted(root: Path, epochs: int, **settings: Any) -> do.Pipeline:
    """A count of the current rows of keys; there is one, whatever comes."""
    pipeline = do.Pipeline("p", root=str(root), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource(BATCHES[:epochs], schema="k string, v long, at long"))
    changes = rows.to_changes("k", **{"order_by": "at", "name": "changes", **settings})
    changes.aggregate(n="count(*)", name="count").to_table("counts")
    return pipeline


def test_changes_begin_anew_only_with_what_is_behind_them(tmp_path: Path) -> None:
    counted(tmp_path, 1).run_epoch()
    changed = counted(tmp_path, 2, order_by="v")
    with pytest.raises(UndecidedChangeError, match="would not take back what count had of it") as asked:
        changed.run_epoch()
    assert "restart" not in str(asked.value)
    with pytest.raises(PipelineError, match="'restart' is no way out here") as refused:
        changed.decide("operator changes", "restart")
    assert "rebuild" in refused.value.remedy
    changed.rebuild("counts")
    changed.run_until_caught_up()
    assert [row.n for row in changed.read("counts").collect()] == [1]


def test_the_same_changes_alone_begin_anew_as_decided(tmp_path: Path) -> None:
    def alone(order: str) -> do.Pipeline:
        pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
        rows = pipeline.source("rows", do.MemorySource(BATCHES, schema="k string, v long, at long"))
        rows.to_changes("k", order_by=order, name="changes").latest("k").to_table("now")
        return pipeline

    alone("at").run_epoch()
    changed = alone("v")
    changed.decide("operator changes", "restart")
    changed.run_until_caught_up()
    assert [row.v for row in changed.read("now").collect()] == [2]


def test_an_aggregate_over_changes_does_not_go_on_with_the_state_of_one_over_rows(tmp_path: Path) -> None:
    def totals(*, changes: bool) -> do.Pipeline:
        pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
        rows = pipeline.source("rows", do.MemorySource(BATCHES, schema="k string, v long, at long"))
        taken = rows.as_changes("'insert'") if changes else rows
        taken.key_by("k").aggregate(total="sum(v)", name="totals").to_table("totals")
        return pipeline

    totals(changes=False).run_epoch()
    with pytest.raises(UndecidedChangeError, match="it would keep its state in other state tables"):
        totals(changes=True).run_epoch()


EDITS = [
    (lambda rows: rows.with_columns(x="total"), lambda rows: rows.with_columns(x="total * 2")),
    (lambda rows: rows.filter("total > 0"), lambda rows: rows.filter("total > 12")),
]


@pytest.mark.parametrize(("before", "after"), EDITS, ids=["expression", "filter"])
def test_what_is_done_to_rows_of_windows_before_a_table_does_not_change_unasked(before: Any, after: Any) -> None:
    def plan(made: Any) -> Any:
        pipeline = do.Pipeline("p", root="unused")
        rows = pipeline.source("rows", do.MemorySource([], schema="k string, v long, at long"))
        made(rows.key_by("k").over("at", total="sum(v)", name="sums")).to_table("log")
        return pipeline.logical_plan()

    stored = Stored(stateful=["sums"], tables=["log"], positions=["rows"])
    assert not [one for one in judge(plan(before), plan(before), stored) if one.level is Level.DECISION]
    (asked,) = [one for one in judge(plan(before), plan(after), stored) if one.level is Level.DECISION]
    assert (asked.subject, asked.choices) == ("table log", {})
