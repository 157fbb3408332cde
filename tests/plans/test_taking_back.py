"""Operators that take rows back do not begin anew before others that have these rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.errors import PipelineError, UndecidedChangeError
from dagster_operators.graph.changes import ADDS
from dagster_operators.plans.verdict import Level, Stored, Verdict
from dagster_operators.plans.verdicts import judge
from tests.engines import SAIL

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


def logged(root: Path, kind: str, *, edited: bool) -> do.Pipeline:
    """Two epochs of rows, whose changes are only written down."""
    pipeline = do.Pipeline("p", root=str(root), engine=SAIL)
    extracts = do.MemorySource(BATCHES, schema="k string, v long, at long")
    if kind == "extracts":
        source = do.SnapshotSource(extracts, key="k", max_deleted=1.0)
        pipeline.source("others" if edited else "rows", source).to_table("log")
        return pipeline
    rows = pipeline.source("rows", extracts)
    order = "v DESC" if edited and kind == "over" else "at"
    by = ["k"] if edited and kind == "partitions" else []
    rows.key_by("k").over(order, total="sum(v)", name="sums").to_table("log", partition_by=by)
    return pipeline


def added_up(pipeline: do.Pipeline) -> dict[Any, int]:
    found = Counter[Any]()
    for row in pipeline.read("log").collect():
        values = row.asDict()
        sign = 1 if values.pop("_change") in ADDS else -1
        found[tuple(values.values())] += sign
    return {row: number for row, number in found.items() if number}


@pytest.mark.parametrize("kind", ["over", "partitions"])
def test_before_a_table_of_changes_only_a_rebuild_is_a_way_on(tmp_path: Path, kind: str) -> None:
    logged(tmp_path, kind, edited=False).run_epoch()
    changed = logged(tmp_path, kind, edited=True)
    with pytest.raises(UndecidedChangeError, match=r"pipeline\.rebuild\('log'\)") as asked:
        changed.run_epoch()
    assert "restart" not in str(asked.value)
    changed.rebuild("log")
    changed.run_until_caught_up()
    sums = {("a", 1, 1, 3): 1, ("a", 2, 2, 2): 1} if kind == "over" else {("a", 1, 1, 1): 1, ("a", 2, 2, 3): 1}
    assert added_up(changed) == sums


def left(kind: str) -> list[Verdict]:
    old, new = (logged(Path("unused"), kind, edited=edited).logical_plan() for edited in (False, True))
    stateful = [node.name for node in old.nodes if node.operator.kind in ("over", "to_changes")]
    stored = Stored(stateful=stateful, tables=["log"], positions=["rows"])
    return [one for one in judge(old, new, stored) if one.level is Level.DECISION]


def test_what_a_table_of_changes_was_told_by_is_not_dropped_while_the_table_stays() -> None:
    (asked,) = [one for one in left("extracts") if one.subject == "operator rows_changes"]
    assert asked.choices == {}
    assert asked.renamed_from == "rows_changes"
    assert "nothing would take back what table log had of it" in asked.problem


@pytest.mark.parametrize("changes", [False, True])
def test_a_table_with_other_partitions_is_emptied_only_where_it_is_told_all_again(changes: bool) -> None:  # noqa: FBT001 - given by name
    def plan(by: list[str]) -> Any:
        pipeline = do.Pipeline("p", root="unused")
        rows = pipeline.source("rows", do.MemorySource([], schema="k string, v long, at long"))
        made = rows.to_changes("k", order_by="at", name="changes").latest("k") if changes else rows
        made.to_table("t", partition_by=by)
        return pipeline.logical_plan()

    stored = Stored(stateful=["changes"], tables=["t"], positions=["rows"], updating=["t"] if changes else [])
    (asked,) = [one for one in judge(plan([]), plan(["k"]), stored) if one.level is Level.DECISION]
    assert (asked.subject, list(asked.choices)) == ("table t", [] if changes else ["restart"])
