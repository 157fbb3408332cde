"""Tables that are renamed with all that is in them: right after every kill, for every kind of table, and for all readers."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.errors import (
    BadInputError,
    ChangedPipelineError,
    EndedInputError,
    LostFileError,
    PipelineError,
    UndecidedChangeError,
)
from dagster_operators.transactions.failpoints import watch
from tests.engines import ENGINES, SAIL

pytestmark = pytest.mark.sail

BATCHES: list[list[dict[str, Any]]] = [
    [{"k": k, "v": v, "at": datetime(2024, 1, 1, v, tzinfo=UTC)} for k, v in rows]
    for rows in ([("a", 1), ("b", 2)], [("a", 3), ("a", 5)], [("b", 4), ("c", 6)])
]
KINDS = ("rows", "values", "counts", "best", "last", "log")


def program(root: Path, count: int, names: Mapping[str, str], was: Mapping[str, str] | None = None, engine: Any = SAIL) -> Any:
    """A table of every kind, by the names that they are given: rows, other columns, an aggregate, two that are state, changes."""
    made: Any = do.Pipeline("p", root=str(root), engine=engine)
    rows = made.source(
        "in", do.MemorySource(BATCHES[:count], schema="k string, v long, at timestamp"), event_time="at", lateness="1 day"
    )
    counts = rows.key_by("k").aggregate(n="count(*)", name="counting")
    streams = {
        "rows": rows.select("k", "v"),
        "values": rows.select("v AS w"),
        "counts": counts,
        "many": counts.filter("n > 1"),
        "best": rows.key_by("k").top(1, by="v DESC", name="top"),
        "last": rows.key_by("k").deduplicate(keep="last", name="lasting"),
        "log": rows.key_by("k").aggregate(s="sum(v)", name="summing").to_changes(name="changing"),
    }
    for kind, name in names.items():
        feed = {"change_feed": True} if kind == "values" else {"partition_by": ["k"]} if kind == "rows" else {}
        streams[kind].to_table(name, renamed_from=(was or {}).get(name), backfill=kind == "many", **feed)
    return made


def content(pipeline: Any, names: Mapping[str, str]) -> dict[str, list[tuple[Any, ...]]]:
    return {kind: sorted(map(tuple, pipeline.read(name).collect())) for kind, name in names.items()}


def whole(place: Path, count: int, names: Mapping[str, str]) -> dict[str, list[tuple[Any, ...]]]:
    made = program(place / "whole", count, names)
    for _ in range(count):
        made.run_until_caught_up()
    return content(made, names)


OLD = {kind: kind for kind in KINDS}
NEW = {kind: f"new_{kind}" for kind in KINDS}
TURNED = {"rows": "values", "values": "rows", "counts": "best", "best": "last", "last": "counts", "log": "log"}
SHIFTED = {"rows": "free", "values": "rows", "counts": "values", "best": "counts", "last": "best", "log": "last"}


FEW = {kind: kind for kind in ("rows", "values", "best")}
FEW_SHIFTED = {"rows": "free", "values": "rows", "best": "values"}
RENAMED = "rename rows to free, values to rows, best to values"
FEW_NEW = {kind: NEW[kind] for kind in FEW}


def since(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    return {new[kind]: old[kind] for kind in new if new[kind] != old[kind]}


def fed(root: Path, names: Mapping[str, str] = OLD) -> None:
    for count in (1, 2):
        program(root, count, names).run_until_caught_up()


@pytest.mark.parametrize("names", [NEW, TURNED, SHIFTED], ids=["new", "swapped", "shifted"])
def test_tables_of_every_kind_go_on_under_their_new_names(tmp_path: Path, names: dict[str, str]) -> None:
    root = tmp_path / "root"
    fed(root)
    before = content(program(root, 2, OLD), OLD)
    renamed = program(root, 3, names, since(OLD, names))
    assert {one.level.value for one in renamed.changes()} == {"state is kept"}
    assert list(map(str, do.StoredPipeline(str(root)).changes(renamed.to_plan()).verdicts)) == list(map(str, renamed.changes()))
    assert renamed.run_epoch().epoch == 4
    assert content(renamed, names) == whole(tmp_path, 3, names)
    told = renamed.history()[-2].transition
    assert told.startswith("rename ")
    assert renamed.changes() == []
    assert program(root, 3, names).run_epoch().empty, "it may be taken out again"
    earlier = {kind: sorted(map(tuple, renamed.read(name, epoch=2).collect())) for kind, name in OLD.items()}
    assert earlier == before, "by the names of then"


def test_it_works_on_spark(tmp_path: Path, spark: Any) -> None:
    engine, kinds = ENGINES["spark"], ("rows", "best")
    old, new = {kind: OLD[kind] for kind in kinds}, {kind: NEW[kind] for kind in kinds}
    program(tmp_path, 1, old, engine=engine).run_epoch()
    renamed = program(tmp_path, 2, new, {new[kind]: old[kind] for kind in kinds}, engine=engine)
    renamed.run_epoch()
    assert content(renamed, new)["rows"] == [("a", 1), ("a", 3), ("a", 5), ("b", 2)]
    assert sorted((row.k, row.v) for row in renamed.read("new_best").collect()) == [("a", 5), ("b", 2)]
    seen = spark.read.format("delta").load(f"{tmp_path}/tables/new_rows")
    assert sorted(map(tuple, seen.collect())) == content(renamed, new)["rows"], "for every reader of Delta"


class DiedError(Exception):
    pass


def dies_at(place: Path, chosen: Callable[[list[str]], Iterable[int]]) -> None:
    """Let runs die at places that they reach until the tables are renamed, and see that the next one makes it right."""
    fed(place / "fed", FEW)
    shutil.copytree(place / "fed", place / "first")
    places: list[str] = []
    with watch(places.append):
        program(place / "first", 3, FEW_SHIFTED, since(FEW, FEW_SHIFTED)).run_epoch()
    wanted = whole(place, 3, FEW_SHIFTED)
    until = places.index("after:append_complete") + 1
    for number in chosen(places[:until]):
        root, seen = place / str(number), list[str]()
        shutil.copytree(place / "fed", root)

        def die(at: str, seen: list[str] = seen, number: int = number) -> None:
            seen.append(at)
            if len(seen) == number + 1:
                raise DiedError

        with watch(die), pytest.raises(DiedError):
            program(root, 3, FEW_SHIFTED, since(FEW, FEW_SHIFTED)).run_epoch()
        again = program(root, 3, FEW_SHIFTED, since(FEW, FEW_SHIFTED))
        again.run_until_caught_up()
        assert content(again, FEW_SHIFTED) == wanted, places[number]
        assert [one.transition for one in again.history()] == ["", "", RENAMED, ""]


def test_a_run_that_dies_leaves_it_as_it_was_or_renamed(tmp_path: Path) -> None:
    wanted = ("rename:half_taken", "before:append_decision", "after:append_decision", "after:commit_table:2")
    dies_at(tmp_path, lambda places: [places.index(one) + (one == "rename:half_taken") for one in wanted])


@pytest.mark.slow
def test_a_run_that_dies_anywhere_leaves_it_as_it_was_or_renamed(tmp_path: Path) -> None:
    dies_at(tmp_path, lambda places: range(len(places)))


def test_a_file_that_is_gone_is_told_and_put_back(tmp_path: Path) -> None:
    names = {"values": "values"}
    fed(tmp_path, names)
    file = next((tmp_path / "tables/values").rglob("*.parquet"))
    file.rename(file.with_suffix(".aside"))
    renamed = program(tmp_path, 3, {"values": "moved"}, {"moved": "values"})
    with pytest.raises(LostFileError, match=r"a table cannot be renamed: a file that was written is missing.*put the file back"):
        renamed.run_epoch()
    file.with_suffix(".aside").rename(file)
    renamed.run_epoch()
    assert content(renamed, {"values": "moved"}) == {"values": [(v,) for v in range(1, 7)]}


def test_the_refusal_offers_it_and_nothing_is_touched_while_something_else_is_to_be_decided(tmp_path: Path) -> None:
    fed(tmp_path, {kind: kind for kind in ("rows", "values", "counts")})
    names = {"rows": "moved", "values": "values", "counts": "totals"}
    with pytest.raises(UndecidedChangeError) as refused:
        program(tmp_path, 3, names).run_epoch()
    assert str(refused.value).count("if it was renamed, say so in the program: renamed_from=") == 2
    assert "renamed_from='counts'" in str(refused.value)
    said = program(tmp_path, 3, names, {"moved": "rows"})
    with pytest.raises(UndecidedChangeError, match="table totals") as left:
        said.run_epoch()
    assert "moved" not in str(left.value)
    assert [one.transition for one in said.history()] == ["", ""]
    said.decide("table totals", "keep")
    said.run_epoch()
    assert content(said, {"counts": "totals"}) == {"counts": [("b", 2), ("c", 1)]}, "as it was decided"
    assert len(content(said, {"rows": "moved"})["rows"]) == 6


@pytest.mark.parametrize("way", ["rollback", "rebuild", "drop", "compact", "reset", "clean"])
def test_what_may_be_done_to_a_pipeline_may_be_done_behind_it(tmp_path: Path, way: str) -> None:
    root = tmp_path / "root"
    fed(root, FEW)
    renamed = program(root, 3, FEW_SHIFTED, since(FEW, FEW_SHIFTED))
    renamed.run_epoch()
    if way == "rollback":
        renamed.rollback(to=1)
        assert content(program(root, 3, FEW), FEW) == whole(tmp_path / "then", 1, FEW)
        assert content(program(root, 3, FEW_SHIFTED), {"rows": "free"}) == {"rows": []}
    elif way == "rebuild":
        renamed.rebuild()
    elif way == "drop":
        program(root, 3, FEW_NEW, since(FEW_SHIFTED, FEW_NEW)).run_until_caught_up()
        renamed = program(root, 3, FEW_NEW)
        renamed.drop("free")
    elif way == "compact":
        renamed.compact()
    elif way == "reset":
        renamed.reset("in", 0, tables="restart")
    else:
        renamed.clean(keep_epochs=1)
    renamed.run_until_caught_up()
    names = FEW_NEW if way == "drop" else FEW_SHIFTED
    assert content(renamed, names) == whole(tmp_path, 3, names)


def test_a_rebuild_by_a_program_with_new_names_renames_before(tmp_path: Path) -> None:
    fed(tmp_path / "root", FEW)
    renamed = program(tmp_path / "root", 2, FEW_SHIFTED, since(FEW, FEW_SHIFTED))
    renamed.rebuild("values")
    assert content(renamed, FEW_SHIFTED) == whole(tmp_path, 2, FEW_SHIFTED)
    assert [one.transition.partition(" ")[0] for one in renamed.history()] == ["", "", "rename", "rebuild"]


def test_a_table_is_added_with_the_rows_of_before_behind_a_renaming(tmp_path: Path) -> None:
    fed(tmp_path, {"counts": "counts"})
    program(tmp_path, 3, {"counts": "totals"}, {"totals": "counts"}).run_epoch()
    names = {"counts": "totals", "many": "many"}
    made = program(tmp_path, 3, names)
    made.run_until_caught_up()
    assert content(made, names) == {
        "many": [("a", 3), ("b", 2)],
        "counts": [("a", 3), ("b", 2), ("c", 1)],
    }


def test_who_reads_the_table_is_told_its_new_name_or_that_its_rows_are_others(tmp_path: Path) -> None:
    def reader(table: str) -> Any:
        made = do.Pipeline("reader", root=str(tmp_path / "reader"), engine=SAIL)
        made.source("read", do.PipelineSource(str(tmp_path / "root"), table)).to_table("copy")
        return made

    fed(tmp_path / "root", FEW)
    reader("rows").run_epoch()
    names = {**FEW, "rows": "first"}
    program(tmp_path / "root", 2, names, {"first": "rows"}).run_until_caught_up()
    program(tmp_path / "root", 3, names | {"rows": "second"}, {"second": "first"}).run_until_caught_up()
    with pytest.raises(EndedInputError, match=r"no longer writes the table 'rows'.*name the one that it is now \('second'\)"):
        reader("rows").run_epoch()
    later = reader("second")
    later.reset("read", 0, tables="restart")
    later.decide("source read", "restart")
    later.run_until_caught_up()
    assert len(later.read("copy").collect()) == 6
    swapped = {**names, "rows": "values", "values": "second"}
    program(tmp_path / "root", 3, swapped, {"values": "second", "second": "values"}).run_until_caught_up()
    with pytest.raises(BadInputError, match="epoch 6, a rename values to second, second to values, of the pipeline"):
        later.run_epoch()


@pytest.mark.parametrize(
    ("names", "was", "told"),
    [
        (
            {"rows": "x"},
            {"x": "nothing"},
            r"never had a table of that name.*\(the tables of the last epoch that are gone: 'rows', 'values'\)",
        ),
        ({"rows": "rows", "values": "x"}, {"x": "rows"}, "'rows', which is still there"),
        ({"rows": "values"}, {"values": "rows"}, "in the last epoch there was 'values' beside 'rows'"),
    ],
    ids=["unknown", "still there", "taken"],
)
def test_what_cannot_have_been(tmp_path: Path, names: dict[str, str], was: dict[str, str], told: str) -> None:
    program(tmp_path, 1, {kind: kind for kind in ("rows", "values")}).run_epoch()
    for look in (program(tmp_path, 2, names, was).run_epoch, program(tmp_path, 2, names, was).changes):
        with pytest.raises(ChangedPipelineError, match=told):
            look()


@pytest.mark.parametrize(
    ("was", "told"),
    [
        ({"rows": "rows"}, "its own name"),
        ({"rows": "x", "values": "x"}, "'rows' is said to be renamed from 'x' already"),
        ({"rows": 1}, "no table's name"),
        ({"rows": "a/b"}, "a/b"),
    ],
    ids=["own", "twice", "no text", "no name"],
)
def test_mistakes(tmp_path: Path, was: dict[str, Any], told: str) -> None:
    with pytest.raises(PipelineError, match=told):
        program(tmp_path, 1, {"rows": "rows", "values": "values"}, was)


def test_a_plan_has_it(tmp_path: Path) -> None:
    made = program(tmp_path, 1, {"rows": "x"}, {"x": "rows"})
    assert do.Pipeline.from_plan(made.to_plan(), root=str(tmp_path)).dataflow.tables["x"].renamed_from == "rows"
