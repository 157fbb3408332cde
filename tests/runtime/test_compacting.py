"""Small files of tables are joined in an epoch that changes no row, whatever dies in between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

import dagster_operators as do
from dagster_operators.errors import EpochUnderWayError, LostFileError, PipelineError
from dagster_operators.runtime.compacting import Compaction, Joined, compact, groups_of
from dagster_operators.runtime.engine import Spark
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.failpoints import watch
from dagster_operators.transactions.manifest import FileEntry
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.records import Decide
from dagster_operators.transactions.rollback import roll_back
from tests.engines import ENGINES, SAIL
from tests.transactions.flow import Flow, leftovers
from tests.transactions.test_repair import epochs, numbers
from tests.transactions.test_rollback import CLEAN, PASSED, DiedError, content


def joined(root: Path, table: str | None = None, **more: Any) -> Compaction:
    with Coordinator("numbers", str(root)) as run:
        run.open(Owner.of_process())
        return compact(run, table, **more)


def commit(root: Path, version: int) -> dict[str, list[dict[str, Any]]]:
    """The actions of a version of the table of all numbers, by kind."""
    found: dict[str, list[dict[str, Any]]] = {}
    for line in (root / CLEAN / f"_delta_log/{version:020}.json").read_text().splitlines():
        ((kind, action),) = json.loads(line).items()
        found.setdefault(kind, []).append(action)
    return found


def test_small_files_become_one_and_no_row_changes(tmp_path: Path) -> None:
    epochs(tmp_path, 5)
    done = joined(tmp_path)
    assert (done.epoch, list(done.tables), done.tables["clean"].files, done.tables["clean"].into) == (6, ["clean"], 5, 1)
    run = Coordinator("numbers", str(tmp_path))
    assert content(run) == content(run, 5)
    assert [file.rows for file in run.files(CLEAN, run.versions().versions[CLEAN])] == [15]
    actions = commit(tmp_path, 6)
    assert {one["dataChange"] for kind in ("add", "remove") for one in actions[kind]} == {False}
    assert [one["operation"] for one in actions["commitInfo"]] == ["OPTIMIZE"]
    assert json.loads(actions["add"][0]["stats"])["maxValues"] == {"n": 52}
    assert run.history()[-1].transition == "compact clean"
    assert sorted(DeltaTable(tmp_path / CLEAN).to_pyarrow_table()["n"].to_pylist()) == numbers(1, 2, 3, 4, 5)
    assert joined(tmp_path) == Compaction(6), "there is nothing left to be joined"
    epochs(tmp_path, 7)
    assert content(run)[CLEAN] == numbers(1, 2, 3, 4, 5, 6, 7)
    assert [part.start for _, part in run.slices("numbers")] == list(range(7))


def test_files_of_half_the_size_stay(tmp_path: Path) -> None:
    epochs(tmp_path, 4)
    size = max(file.stat().st_size for file in (tmp_path / CLEAN).rglob("e*/*.parquet"))
    assert joined(tmp_path, "clean", target_size=size) == Compaction(4)
    done = joined(tmp_path, "clean", target_size=2 * size + 2)
    assert done.tables == {"clean": Joined(4, 2, done.tables["clean"].bytes)}


@pytest.mark.parametrize(
    ("size", "told"),
    [
        (0, "target_size is 0.*give a number of bytes"),
        ("1 GB", "argument target_size of Pipeline.compact is '1 GB'.*give a whole number"),
        (1e9, "argument target_size of Pipeline.compact is 1000000000.0.*give a whole number"),
        (True, "argument target_size of Pipeline.compact is True.*give a whole number"),
    ],
)
def test_a_size_that_is_no_number_of_bytes_is_refused(size: Any, told: str) -> None:
    with pytest.raises(PipelineError, match=told):
        do.Pipeline("numbers", root="nowhere").compact(target_size=size)


def test_files_that_others_wrote_stay() -> None:
    files = [FileEntry(f"part-{number}", 1, 1) for number in range(3)]
    assert list(groups_of(files, 100)) == []


def test_what_is_under_way_goes_first(tmp_path: Path) -> None:
    epochs(tmp_path, 2)
    with Coordinator("numbers", str(tmp_path)) as run:
        run.open(Owner.of_process())
        with pytest.raises(PipelineError, match=r"there is no such table.*there are: clean, sums"):
            compact(run, "none")
        run.decide(Decide(0, 0, "operator sums", "restart", "asked"))
        with pytest.raises(EpochUnderWayError, match="what was decided about operator sums"):
            compact(run)
        run.decide(Decide(0, 0, "operator sums", "withdraw", "asked"))
        flow = Flow(run)
        handle = run.begin(flow.plan, flow.choose)
        assert handle is not None
        with pytest.raises(EpochUnderWayError, match="epoch 3 is begun and not complete"):
            compact(run)
    epochs(tmp_path, 3)
    assert joined(tmp_path).epoch == 4


@pytest.mark.parametrize("place", [f"{when}:{name}" for name in PASSED for when in ("before", "after")])
def test_a_run_that_dies_on_the_way(tmp_path: Path, place: str) -> None:
    """Undecided it is forgotten, decided it is carried out, by whoever comes next; the rows are the same."""
    epochs(tmp_path, 3)

    def reached(name: str) -> None:
        if name.removesuffix(":1") == place:
            raise DiedError

    with watch(reached), pytest.raises(DiedError):
        joined(tmp_path)
    decided = ("decision" in place[place.index(":") :] and place.startswith("after")) or "commit" in place or "complete" in place
    epochs(tmp_path, 4)
    run = Coordinator("numbers", str(tmp_path))
    assert content(run)[CLEAN] == numbers(1, 2, 3, 4)
    assert run.versions().epoch == (5 if decided else 4)
    assert leftovers(run) == []


@pytest.mark.parametrize("place", ["after:append_begin", "after:append_prepared", "after:append_decision"])
def test_a_second_try_is_not_held_up_by_the_first(tmp_path: Path, place: str) -> None:
    epochs(tmp_path, 2)

    def reached(name: str) -> None:
        if name == place:
            raise DiedError

    with watch(reached), pytest.raises(DiedError):
        joined(tmp_path)
    assert joined(tmp_path).epoch == 3
    assert content(Coordinator("numbers", str(tmp_path)))[CLEAN] == numbers(1, 2)


def test_older_epochs_stay_until_they_are_cleaned_away(tmp_path: Path) -> None:
    epochs(tmp_path, 3)
    joined(tmp_path)
    run = Coordinator("numbers", str(tmp_path))
    with run:
        run.open(Owner.of_process())
        assert roll_back(run, 2).epoch == 5
        assert content(run)[CLEAN] == numbers(1, 2)
        assert roll_back(run, 4).epoch == 6
        assert run.clean(6) > 0
    assert content(run)[CLEAN] == numbers(1, 2, 3)
    assert len(list((tmp_path / CLEAN).rglob("e*/**/*.parquet"))) == 1
    epochs(tmp_path, 4)
    assert content(run)[CLEAN] == numbers(1, 2, 3, 4)


def test_a_file_that_is_lost_stops_it(tmp_path: Path) -> None:
    epochs(tmp_path, 3)
    (lost,) = (tmp_path / CLEAN).glob("e2-*/part-0.parquet")
    lost.unlink()
    with pytest.raises(LostFileError, match=r"files cannot be joined: a file that was written is missing.*last_epoch=1"):
        joined(tmp_path)
    with Coordinator("numbers", str(tmp_path)) as run:
        assert run.versions().epoch == 3


ROWS = [{"k": f"k{i % 3}", "xs": [i, None], "s": {"t": None, "d": f"{i}.25"}} for i in range(4)]
BATCHES = [[{**row, "v": 10 * number + i} for i, row in enumerate(ROWS)] for number in range(3)]
SCHEMA = "k string, v long, xs array<int>, s struct<t: timestamp, d: decimal(10, 2)>"


def pipeline(root: Path, batches: int, engine: Spark) -> do.Pipeline:
    made = do.Pipeline("numbers", root=str(root), engine=engine)
    rows = made.source("rows", do.MemorySource(BATCHES[:batches], schema=SCHEMA))
    rows.to_table("raw")
    rows.select("map(k, v) AS m").to_table("maps")
    rows.key_by("k").aggregate(n="count(*)", s="sum(v)").to_table("totals")
    rows.key_by("k").top(2, by="v DESC").to_table("last")
    return made


def rows_of(one: do.Pipeline) -> dict[str, list[str]]:
    return {name: sorted(map(repr, one.read(name).collect())) for name in one.tables}


def read_along(root: Path, upstream: Path, engine: Spark) -> do.Pipeline:
    """A pipeline that has read what there is of the other one's tables."""
    made = do.Pipeline("reader", root=str(root), engine=engine)
    made.source("raw", do.PipelineSource(str(upstream), "raw")).select("v").to_table("seen")
    changes = made.source("totals", do.PipelineSource(str(upstream), "totals", changes=True))
    changes.select("k", "n", "_change_type AS what").to_table("changes")
    made.run_until_caught_up()
    return made


def in_turns(folder: Path, engine: Spark, *, joining: bool) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """What a pipeline and its reader come to, epoch by epoch, with and without a compaction on the way."""
    root, reader = folder / "numbers", folder / "reader"
    for batches in range(1, len(BATCHES) + 1):
        made = pipeline(root, batches, engine)
        made.run_until_caught_up()
        if joining and batches == 3:
            made.compact()
        along = read_along(reader, root, engine)
        if joining and batches == 2:
            before, read, found = rows_of(made), rows_of(along), made.compact().tables
            assert "raw" in found
            assert "maps" not in found, "Sail does not read maps of several writers together"
            assert rows_of(made) == before
            assert rows_of(read_along(reader, root, engine)) == read
    return rows_of(made), rows_of(along)


@pytest.mark.sail
@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])])
def test_tables_of_all_kinds_go_on_and_readers_see_nothing_of_it(tmp_path: Path, engine: str) -> None:
    assert in_turns(tmp_path / "a", ENGINES[engine], joining=True) == in_turns(tmp_path / "b", SAIL, joining=False)
