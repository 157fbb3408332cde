"""What follows for the tables of a pipeline that are renamed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.errors import PipelineError, UndecidedChangeError
from dagster_operators.plans.verdict import Level, Stored, Verdict
from dagster_operators.plans.verdicts import judge
from tests.engines import SAIL

ROWS: list[Any] = [[{"k": "a", "v": 1}], [{"k": "a", "v": 2}], [{"k": "b", "v": 3}]]


def pipeline(root: Path, count: int, *tables: str, where: str = "v > 0", **settings: Any) -> do.Pipeline:
    made = do.Pipeline("p", root=str(root), engine=SAIL)
    rows = made.source("rows", do.MemorySource(ROWS[:count], schema="k string, v long"))
    for table in tables:
        rows.filter("v > -1" if table == "raw" else where).to_table(table, **settings)
    return made


def judged(now: do.Pipeline) -> dict[str, Verdict]:
    before = pipeline(Path("unused"), 0, "raw", "old").logical_plan()
    found = judge(before, now.logical_plan(), Stored(tables=["raw", "old"], positions=["rows"]))
    return {one.subject: one for one in found}


def test_a_table_that_has_what_another_one_had_is_asked_about() -> None:
    told = judged(pipeline(Path("unused"), 0, "raw", "new"))
    assert "it is new, and has what 'old' had" in told["table new"].problem
    assert (list(told["table new"].choices), told["table new"].fillable) == (["keep"], True)
    assert told["table old"].level is Level.FROM_HERE_ON


@pytest.mark.parametrize(
    "now",
    [{"tables": ("raw", "old", "new")}, {"tables": ("new",), "where": "v > 1"}],
    ids=["beside it", "with other rows"],
)
def test_any_other_new_table_has_the_rows_from_here_on(now: dict[str, Any]) -> None:
    told = judged(pipeline(Path("unused"), 0, *now.pop("tables"), **now))
    assert told["table new"].level is Level.FROM_HERE_ON


@pytest.mark.sail
@pytest.mark.parametrize("way", ["keep", "backfill", "rebuild"])
def test_each_way_on_works(tmp_path: Path, way: str) -> None:
    pipeline(tmp_path, 2, "old").run_until_caught_up()
    renamed = pipeline(tmp_path, 3, "new", backfill=way == "backfill")
    if way != "backfill":
        with pytest.raises(UndecidedChangeError, match="backfill=True"):
            renamed.run_epoch()
    if way == "keep":
        renamed.decide("table new", "keep")
    if way == "rebuild":
        renamed.rebuild("new")
    renamed.run_until_caught_up()
    assert sorted(row.v for row in renamed.read("new").collect()) == ([3] if way == "keep" else [1, 2, 3])
    assert sorted(row.v for row in renamed.read("old").collect()) == [1, 2]
    assert renamed.drop("old") == ["tables/old"]
    for read in (renamed.read, do.StoredPipeline(str(tmp_path)).to_arrow):  # before the next epoch, too
        with pytest.raises(PipelineError, match="there is no table 'old'"):
            read("old")
    assert not (tmp_path / "tables/old").exists()


@pytest.mark.sail
def test_who_reads_the_table_goes_on_with_the_new_one(tmp_path: Path) -> None:
    def reader(table: str) -> do.Pipeline:
        made = do.Pipeline("reader", root=str(tmp_path / "reader"), engine=SAIL)
        made.source("read", do.PipelineSource(str(tmp_path / "root"), [table])).to_table("copy")
        return made

    pipeline(tmp_path / "root", 2, "old").run_until_caught_up()
    reader("old").run_until_caught_up()
    pipeline(tmp_path / "root", 3, "new", backfill=True).run_until_caught_up()
    later = reader("new")
    later.reset("read", 0, tables="restart")
    later.decide("source read", "restart")
    later.run_until_caught_up()
    assert sorted(row.v for row in later.read("copy").collect()) == [1, 2, 3]


def exchanged(root: Path, count: int, *tables: str) -> do.Pipeline:
    made = do.Pipeline("p", root=str(root), engine=SAIL)
    rows = made.source("rows", do.MemorySource(ROWS[:count], schema="k string, v long"))
    for table, where in zip(tables, ("v > 1", "v <= 1"), strict=True):
        rows.filter(where, name="over" if where == "v > 1" else "under").to_table(table)
    return made


@pytest.mark.parametrize(
    ("now", "asked"),
    [(("y", "x"), {"x", "y"}), (("z", "x"), {"z", "x"}), (("x", "y"), set()), (("x", "z"), {"z"})],
    ids=["swapped", "shifted", "as before", "one renamed"],
)
def test_tables_that_take_each_others_names_are_asked_about(now: tuple[str, str], asked: set[str]) -> None:
    before, after = (exchanged(Path("unused"), 0, *names).logical_plan() for names in (("x", "y"), now))
    found = judge(before, after, Stored(tables=["x", "y"], positions=["rows"]))
    assert {one.subject for one in found if one.level is Level.DECISION} == {f"table {name}" for name in asked}


@pytest.mark.sail
@pytest.mark.parametrize("way", ["keep", "rebuild"])
def test_each_way_on_of_swapped_tables_works(tmp_path: Path, way: str) -> None:
    exchanged(tmp_path, 2, "x", "y").run_until_caught_up()
    swapped = exchanged(tmp_path, 3, "y", "x")
    with pytest.raises(UndecidedChangeError, match=r"rebuild\('x'\)"):
        swapped.run_epoch()
    if way == "keep":
        swapped.decide("table x", "keep")
        swapped.decide("table y", "keep")
    else:
        swapped.rebuild(["x", "y"])
    swapped.run_until_caught_up()
    tables = {name: sorted(row.v for row in swapped.read(name).collect()) for name in ("x", "y")}
    assert tables == ({"x": [2], "y": [1, 3]} if way == "keep" else {"x": [1], "y": [2, 3]})
