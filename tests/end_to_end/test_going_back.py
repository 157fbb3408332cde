"""Sources put elsewhere, a pipeline put back, time moved on: what the tables hold then is what follows from it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import dagster_operators as do
from dagster_operators.cli.main import main
from dagster_operators.errors import LedgerError, PipelineError, UndecidedChangeError, UnknownEpochError
from tests.end_to_end.landing import put
from tests.engines import SAIL

pytestmark = pytest.mark.usefixtures("sail")

BATCHES = [
    [("a", 1, "2026-01-01 00:00:10"), ("b", 2, "2026-01-01 00:00:20")],
    [("a", 3, "2026-01-01 00:01:10"), ("a", 3, "2026-01-01 00:00:50")],
    [("b", 4, "2026-01-01 00:02:30"), ("c", 5, "2026-01-01 00:02:40")],
    [("a", 6, "2026-01-01 00:03:10")],
]
TABLES = ("clean", "totals", "minutes", "newest")


def pipeline(root: Path, batches: list[Any] | None = None) -> do.Pipeline:
    made = do.Pipeline("back", root=str(root), engine=SAIL)
    source = do.MemorySource(BATCHES if batches is None else batches, schema="k string, v long, at timestamp")
    rows = made.source("rows", source, event_time="at", lateness="30 seconds")
    rows.filter("v > 1").to_table("clean")
    rows.key_by("k").aggregate(n="count(*)", total="sum(v)", name="per_key").to_table("totals")
    rows.key_by("k").window(do.Tumbling("1 minute")).aggregate(n="count(*)", name="per_minute").to_table("minutes")
    rows.key_by("k").deduplicate(keep="last", name="last").to_table("newest")
    return made


def content(made: do.Pipeline, epoch: int | None = None) -> dict[str, Counter[Any]]:
    return {table: Counter(map(tuple, made.read(table, epoch).collect())) for table in TABLES}


def test_back_to_each_epoch_and_on_again(tmp_path: Path) -> None:
    made = pipeline(tmp_path)
    made.run_until_caught_up()
    for epoch in (3, 1):
        result = made.rollback(epoch)
        assert content(made) == content(made, epoch)
        assert made.history()[-1].transition == f"rollback to epoch {epoch}"
        last = pipeline(tmp_path).run_until_caught_up()[-1].epoch
        assert last == result.epoch + 4 - epoch
        assert content(made) == content(made, 4)


def test_a_source_that_is_put_back_has_to_say_what_becomes_of_its_tables(tmp_path: Path) -> None:
    made = pipeline(tmp_path)
    with pytest.raises(LedgerError, match="no epoch was completed yet"):
        made.reset("rows", 0)
    made.run_until_caught_up()
    before = content(made)
    with pytest.raises(PipelineError, match=r"read again what 2 epochs have read.*tables="):
        made.reset("rows", 2)
    with pytest.raises(PipelineError, match=r"no such source.*name one of: rows"):
        made.reset("row", 2)
    with pytest.raises(PipelineError, match="that is where it stands"):
        made.reset("rows", 4)
    with pytest.raises(UnknownEpochError, match="no epoch was complete at 2020-01-01"):
        made.reset("rows", "2020-01-01")
    with pytest.raises(UnknownEpochError, match="no completed epoch 9"):
        made.reset("rows", 9)
    with pytest.raises(PipelineError, match="nobody knows which rows of rows would be left out"):
        made.reset("rows", {"batches": 7})
    assert len(made.history()) == 4
    made.reset("rows", 3, tables="keep")
    assert content(made) == before
    made.run_until_caught_up()
    assert content(made)["clean"] == before["clean"] + Counter(map(tuple, made.read("clean").where("v = 6").distinct().collect()))


@pytest.mark.parametrize("to", [0, 2])
def test_tables_and_state_that_begin_anew(tmp_path: Path, to: int | None) -> None:
    made = pipeline(tmp_path / "root")
    made.run_until_caught_up()
    made.reset("rows", to, tables="restart")
    assert not any(content(made).values())
    assert made.history()[-1].times == {}, "or who reads them takes rows that come again as late"
    made.run_until_caught_up()
    fresh = pipeline(tmp_path / "fresh", BATCHES[to or 0 :])
    fresh.run_until_caught_up()
    assert content(made) == content(fresh)


@pytest.mark.parametrize("back", ["reset", "rollback"])
def test_a_sink_of_changes_is_not_told_that_they_are_gone(tmp_path: Path, back: str) -> None:
    """The way on that is told: another sink has them, each once."""

    def made(count: int, sink: str = "") -> do.Pipeline:
        pipeline = do.Pipeline("told", root=str(tmp_path / "root"), engine=SAIL)
        rows = pipeline.source("rows", do.MemorySource([[("a", 1)], [("a", 2)], [("b", 3)]][:count], schema="k string, v long"))
        changes = rows.to_changes("k", order_by="v", name="changes")
        changes.latest("k").to_table("now")
        if sink:
            changes.to_sink(do.FileSink(str(tmp_path / sink), format="debezium-json", key="k"), name=sink)
        return pipeline

    made(2, "first").run_until_caught_up()
    if back == "reset":
        with pytest.raises(PipelineError, match="nothing is taken back of the changes that first has: to have them right"):
            made(2, "first").reset("rows", 0, tables="restart")
    else:
        with pytest.raises(LedgerError, match=r"a sink of changes is not told .*reset\(\['rows'\], 0, tables='restart', keep"):
            made(2, "first").rollback(to=1)
    made(2, "first").reset("rows", 0, tables="restart", keep_sinks=True)  # without new rows, too
    anew = made(2, "second")
    with pytest.raises(UndecidedChangeError, match=r"decide\('sink second', 'keep'\)"):
        anew.run_epoch()
    anew.decide("sink second", "keep")
    anew.run_until_caught_up()
    made(3, "second").run_until_caught_up()
    lines = [json.loads(line) for file in sorted((tmp_path / "second").glob("*.json")) for line in file.read_text().splitlines()]
    assert [(line["op"], line["after"]["v"]) for line in lines] == [("c", 1), ("u", 2), ("c", 3)]


def test_sources_that_feed_the_same_tables_are_put_back_together(tmp_path: Path) -> None:
    made = do.Pipeline("two", root=str(tmp_path), engine=SAIL)
    left, right = (made.source(name, do.MemorySource([[(1,)], [(2,)]], schema="v long")) for name in ("left", "right"))
    left.union(right).to_table("both")
    made.run_until_caught_up()
    with pytest.raises(PipelineError, match="rows of right went to the same tables"):
        made.reset("left", 1, tables="restart")
    made.reset(["left", "right"], 1, tables="restart")
    made.run_until_caught_up()
    assert sorted(row.v for row in made.read("both").collect()) == [2, 2]


def test_time_is_moved_on_by_hand(tmp_path: Path) -> None:
    made = pipeline(tmp_path)
    made.run_epoch()
    assert not content(made)["minutes"]
    result = made.set_watermark("rows", "2026-01-01 00:01:00")
    assert (result.rows["minutes"], result.rows["clean"]) == (2, 0)
    late = made.run_epoch()
    assert late.late_rows["per_minute"] == 1
    with pytest.raises(PipelineError, match="at 2026-01-01T00:01:00Z, and never moves back"):
        made.set_watermark("rows", "2026-01-01 00:00:59")
    with pytest.raises(PipelineError, match="no source of that name with an event time"):
        made.set_watermark("clean", "2026-01-01")
    with pytest.raises(PipelineError, match="'soon' is no time"):
        made.set_watermark("rows", "soon")


def command(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, list(arguments), catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def test_the_commands(tmp_path: Path) -> None:
    made = pipeline(tmp_path)
    made.run_until_caught_up()
    root = str(tmp_path)
    assert command("rollback", root, "2") == "epoch 5 is as epoch 2 was\n"
    assert "has to be" not in command("reset", root, "rows", "--to", "1", code=1)
    told = command("reset", root, "rows", "--to", '{"batches": 1}', "--tables", "restart")
    assert told == "epoch 6: reset rows to {'batches': 1}\n"
    assert "is no time" in command("reset", root, "rows", "--to", "soon", "--tables", "keep", code=1)
    assert "{ is no position" in command("reset", root, "rows", "--to", "{", "--tables", "keep", code=2)
    made.run_until_caught_up()
    assert len(content(made)["clean"]) == 5


def test_files_are_found_again_on_a_way_that_was_left(tmp_path: Path) -> None:
    """Epochs are cut otherwise, and the source gets another name: what was read is told by the epoch that is gone back to."""
    (tmp_path / "in").mkdir()

    def program(name: str, most: int, **more: Any) -> do.Pipeline:
        made = do.Pipeline("files", root=str(tmp_path / "root"), engine=SAIL)
        source = do.FileSource(str(tmp_path / "in/*.csv"), schema="v long", max_files=most)
        made.source(name, source, **more).to_table("all")
        return made

    def found(made: do.Pipeline) -> list[int]:
        return sorted(row.v for row in made.read("all").collect())

    for number in range(4):
        put(tmp_path / "in" / f"{number}.csv", f"v\n{number}\n", number)
    assert len(program("rows", 1).run_until_caught_up()) == 4
    made = program("rows", 3)
    made.rollback(1)
    assert len(made.run_until_caught_up()) == 1
    made.rollback(3)  # which another way led to
    assert found(made) == [0, 1, 2]
    made.run_until_caught_up()
    made.reset("rows", 2, tables="keep")
    made.run_until_caught_up()
    assert found(made) == [0, 1, 2, 2, 3, 3]
    renamed = program("lines", 1, renamed_from="rows")
    put(tmp_path / "in" / "4.csv", "v\n4\n", 4)
    renamed.run_until_caught_up()
    renamed.reset("lines", 2, tables="restart")  # what was called otherwise then
    renamed.run_until_caught_up()
    assert found(renamed) == [2, 3, 4]
    made.rollback(2)
    made.run_until_caught_up()
    assert found(made) == [0, 1, 2, 3, 4]
    made.rebuild()
    assert found(made) == [0, 1, 2, 3, 4]


def test_what_nobody_read_is_not_computed_anew(tmp_path: Path) -> None:
    made = do.Pipeline("ahead", root=str(tmp_path), engine=SAIL)
    made.source("rows", do.MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("all")
    made.run_until_caught_up()
    made.reset("rows", {"batches": 7}, tables="keep")
    with pytest.raises(PipelineError, match=r"no epoch has read up to where the source stands.*'rows'.*keep"):
        made.rebuild()
    assert sorted(row.v for row in made.read("all").collect()) == [1, 2]
    made.reset("rows", 2, tables="keep")
    made.rebuild()
    assert sorted(row.v for row in made.read("all").collect()) == [1, 2]


def test_a_source_that_has_a_name_that_another_had(tmp_path: Path) -> None:
    def program(one: str, batches: int, two: str, **renamed: str) -> do.Pipeline:
        made = do.Pipeline("names", root=str(tmp_path), engine=SAIL)
        for name, rows, table in ((one, range(batches), "first"), (two, range(10, 13), "second")):
            more = {"renamed_from": renamed[name]} if name in renamed else {}
            made.source(name, do.MemorySource([[(row,)] for row in rows], schema="v long"), **more).to_table(table)
        return made

    program("a", 2, "b").run_until_caught_up()
    program("c", 3, "b", c="a").run_until_caught_up()
    made = program("c", 4, "a", a="b")
    made.run_until_caught_up()
    made.reset("a", 1, tables="restart")  # which was b, and not the a of then
    made.run_until_caught_up()
    assert sorted(row.v for row in made.read("first").collect()) == [0, 1, 2, 3]
    assert sorted(row.v for row in made.read("second").collect()) == [11, 12]
    made.reset("c", 1, tables="restart")
    made.run_until_caught_up()
    assert sorted(row.v for row in made.read("first").collect()) == [1, 2, 3]


@pytest.mark.parametrize("change", ["renamed", "restarted"])
def test_back_over_a_change_of_the_source(tmp_path: Path, change: str) -> None:
    def program(name: str, folder: str, **more: Any) -> do.Pipeline:
        made = do.Pipeline("over", root=str(tmp_path / "root"), engine=SAIL)
        source = do.FileSource(str(tmp_path / folder / "*.csv"), schema="v long", max_files=1)
        made.source(name, source, **more).to_table("all")
        return made

    for number in range(3):
        for folder in ("in", "other"):
            (tmp_path / folder).mkdir(exist_ok=True)
            put(tmp_path / folder / f"{number}.csv", f"v\n{number}\n", number)
    made = program("rows", "in")
    made.run_epoch()
    made.run_epoch()
    changed = program("lines", "in", renamed_from="rows") if change == "renamed" else program("rows", "other")
    if change == "restarted":
        changed.decide("source rows", "restart")
    changed.run_until_caught_up()
    if change == "restarted":
        with pytest.raises(PipelineError, match=r"epoch 1 did not have that source.*name a later epoch, or a position"):
            changed.reset("rows", 1, tables="keep")
    made.rollback(1)
    made.run_epoch()
    made.rebuild()
    made.run_until_caught_up()
    assert sorted(row.v for row in made.read("all").collect()) == [0, 1, 2]


@pytest.mark.parametrize(
    "backfill", [pytest.param(True, id="filled", marks=pytest.mark.slow), pytest.param(False, id="from here on")]
)
def test_what_was_added_since_is_new_again(tmp_path: Path, *, backfill: bool) -> None:
    """A rollback empties what the epoch did not have: that it is put back is no reason to go on with it as it was."""

    def program(added: str = "", batches: int = 3) -> do.Pipeline:
        made = do.Pipeline("again", root=str(tmp_path), engine=SAIL)
        rows = made.source("rows", do.MemorySource([[("a", one)] for one in range(batches)], schema="k string, v long"))
        rows.to_table("all")
        if added:
            rows.filter("v >= 0").to_table("more", backfill=backfill)
            rows.key_by("k").aggregate(n=added, name="per_key").to_table("counts", backfill=backfill)
        return made

    def content(made: do.Pipeline) -> tuple[list[int], list[int]]:
        return sorted(row.v for row in made.read("more").collect()), [row.n for row in made.read("counts").collect()]

    def begin(made: do.Pipeline) -> None:
        """Let the aggregate have the rows from here on, unless it is filled."""
        if not backfill:
            made.decide("operator per_key", "keep")
        made.run_until_caught_up()

    program(batches=2).run_until_caught_up()
    made = program("count(*)")
    begin(made)
    assert content(made) == (([0, 1, 2], [3]) if backfill else ([2], [1]))
    made.rollback(2)
    assert content(made) == ([], [])
    assert {one.subject for one in made.changes()} == {"table more", "table counts", "operator per_key"}
    program().run_until_caught_up()  # stands where it was before
    made = program("max(v)", 4)  # and its state would mean something else
    begin(made)
    assert content(made) == (([0, 1, 2, 3], [3]) if backfill else ([3], [3]))
    made = program("max(v)", 5)
    made.run_until_caught_up()
    assert content(made) == (([0, 1, 2, 3, 4], [4]) if backfill else ([3, 4], [4]))
    program(batches=6).run_until_caught_up()
    with pytest.raises(UndecidedChangeError, match="was taken out and is put back"):
        program("max(v)", 7).run_epoch()


def test_a_position_means_something_only_where_it_was_taken(tmp_path: Path) -> None:
    def program(source: Any) -> do.Pipeline:
        made = do.Pipeline("back", root=str(tmp_path / "root"), engine=SAIL)
        made.source("rows", source).to_table("all")
        return made

    memory = program(do.MemorySource([[(1,)], [(2,)]], schema="v long"))
    memory.run_until_caught_up()
    for wrong in ({"nonsense": 1}, {"batches": "1"}, {"batches": True}, {"batches": 1, "more": 1}):
        with pytest.raises(PipelineError, match=r"no position of the source.*'rows'.*'batches' \(int\); or name an epoch"):
            memory.reset("rows", wrong, tables="keep")
    assert memory.reset("rows", {"batches": 1}, tables="keep").epoch == 3
    (tmp_path / "in").mkdir()
    put(tmp_path / "in/0.csv", "v\n3\n", 0)
    files = program(do.FileSource(str(tmp_path / "in"), format="csv", schema="v long"))
    files.decide("source rows", "restart")
    with pytest.raises(LedgerError, match="source rows takes effect with the pipeline's next epoch"):
        files.rollback(1)
    files.run_until_caught_up()
    with pytest.raises(PipelineError, match="epoch 2 did not have that source"):
        files.reset("rows", 2, tables="keep")
    with pytest.raises(PipelineError, match=r"'files' \(int\), 'digest' \(str\)"):
        files.reset("rows", {"batches": 1}, tables="keep")
    assert files.reset("rows", 0, tables="keep").epoch == 5
