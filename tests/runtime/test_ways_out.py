"""Ways out that go together: what is told can be done as it is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import dagster_operators as do
from dagster_operators.cli.main import main
from dagster_operators.errors import UndecidedChangeError
from tests.engines import SAIL

ROWS = "k string, v long"


def extracts(root: Path, source: str = "rows", table: str = "log", **renamed: str) -> do.Pipeline:
    pipeline = do.Pipeline("p", root=str(root), engine=SAIL)
    batches = [[{"k": "a", "v": 1}], [{"k": "a", "v": 2}]][: 1 if source == "rows" else 2]
    snapshots = do.SnapshotSource(do.MemorySource(batches, schema=ROWS), key="k", max_deleted=1.0)
    pipeline.source(source, snapshots, **renamed).to_table(table)
    return pipeline


@pytest.mark.sail
def test_a_renamed_source_of_extracts_before_a_log_is_offered_only_what_works(tmp_path: Path) -> None:
    extracts(tmp_path).run_epoch()
    renamed = extracts(tmp_path, "others")
    with pytest.raises(UndecidedChangeError) as asked:
        renamed.run_epoch()
    assert "renamed_from='rows'" in str(asked.value)
    assert "a table of another name" in str(asked.value)
    assert "decide" not in asked.value.remedy
    assert "rebuild" not in str(asked.value)
    with pytest.raises(UndecidedChangeError) as alone:  # nor by the rebuild
        renamed.rebuild("log")
    assert "decide" not in alone.value.remedy
    done = extracts(tmp_path, "others", renamed_from="rows")
    done.run_until_caught_up()
    assert [(row.v, row["_change"]) for row in done.read("log").collect() if row.v == 2] == [(2, "update_after")]


@pytest.mark.sail
def test_as_another_one_it_writes_to_a_table_of_another_name(tmp_path: Path) -> None:
    extracts(tmp_path).run_epoch()
    other = extracts(tmp_path, "others", "other_log")
    other.decide("source others", "restart")
    other.run_until_caught_up()
    assert other.read("other_log").count() == 3


def two(root: Path, *, order: str = "v", named: str = "late", other: str = "v") -> do.Pipeline:
    """Counts over the changes of two sources, and one that only adds."""
    pipeline = do.Pipeline("p", root=str(root), engine=SAIL)
    rows: Any = do.MemorySource([[{"k": "a", "v": 1}]], schema=ROWS)
    for name, by in (("left", order), ("right", other)):
        changes = pipeline.source(name, rows).to_changes("k", order_by=by, name=f"{name}_changes")
        changes.aggregate(n="count(*)", name=f"{name}_count").to_table(f"{name}_counts")
    pipeline.source(named, rows).to_table("plain")
    return pipeline


@pytest.mark.sail
def test_a_rebuild_and_a_source_that_begins_anew_come_one_after_the_other(tmp_path: Path) -> None:
    two(tmp_path).run_epoch()
    both = two(tmp_path, order="-v", named="later")
    with pytest.raises(UndecidedChangeError) as asked:
        both.run_epoch()
    assert "take this one back, run an epoch with what is decided about source later" in str(asked.value)
    assert "rebuild('left_counts')" not in str(asked.value)
    first = two(tmp_path, named="later")
    first.decide("source later", "restart")
    first.run_epoch()
    with pytest.raises(UndecidedChangeError, match=r"rebuild\('left_counts'\)"):
        both.run_epoch()
    both.rebuild("left_counts")
    both.run_until_caught_up()
    assert [row.n for row in both.read("left_counts").collect()] == [1]


@pytest.mark.sail
def test_what_only_a_rebuild_settles_is_rebuilt_at_once(tmp_path: Path) -> None:
    two(tmp_path).run_epoch()
    both = two(tmp_path, order="-v", other="-v")
    with pytest.raises(UndecidedChangeError, match=r"rebuild\(\['left_counts', 'right_counts'\]\)"):
        both.run_epoch()
    both.rebuild(["left_counts", "right_counts"])
    both.run_until_caught_up()
    assert both.changes() == []


@pytest.mark.sail
def test_what_holds_its_rows_itself_is_computed_anew_by_its_program_and_by_no_command(tmp_path: Path) -> None:
    def counted(by: str) -> do.Pipeline:
        pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
        changes = pipeline.source("rows", do.MemorySource([[{"k": "a", "v": 1}]], schema=ROWS)).to_changes("k", order_by=by)
        changes.aggregate(n="count(*)", name="counted").to_table("counts")
        return pipeline

    counted("v").run_epoch()
    changed = counted("-v")
    with pytest.raises(UndecidedChangeError) as asked:
        changed.run_epoch()
    assert "pipeline.rebuild('counts')" in str(asked.value)
    assert "dagster-operators rebuild" not in str(asked.value)
    assert "decide in Python as above" in asked.value.remedy
    shown = CliRunner().invoke(main, ["diff", str(tmp_path)]).output
    assert "in Python: pipeline.rebuild('counts')" in shown
    assert "dagster-operators rebuild" not in shown
    refused = CliRunner().invoke(main, ["decide", str(tmp_path), "operator", "rows_changes", "restart"]).output
    assert "in Python: pipeline.rebuild(['counts'])" in refused
    changed.rebuild("counts")
    assert changed.run_epoch().empty
