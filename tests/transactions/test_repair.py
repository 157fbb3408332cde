"""A table that is not as the ledger says is settled by what was decided, never by the numbers of versions.

Stands for the fault scripts a3 and a5.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from dagster_operators.errors import (
    DamagedTableError,
    ForeignWriteError,
    LedgerError,
    LostFileError,
    RestoredTableError,
    UnknownEpochError,
)
from dagster_operators.storage.log_history import marked_files
from dagster_operators.storage.root import Root
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.failpoints import watch
from tests.transactions.flow import TABLES, Flow, read_numbers

CLEAN = "tables/clean"


def epochs(root: Path, last: int) -> None:
    with Coordinator("numbers", str(root)) as run:
        flow = Flow(run, last=last)
        while flow.epoch() is not None:
            pass


def numbers(*epochs: int) -> list[int]:
    return [10 * epoch + step for epoch in epochs for step in range(3)]


def check(root: Path, epochs: int, *, clean: list[int] | None = None) -> None:
    """All tables have the rows of all epochs, whatever their versions."""
    run = Coordinator("numbers", str(root))
    complete, expected = run.versions(), numbers(*range(1, epochs + 1))
    assert complete.epoch == epochs
    assert run.view().open_begin is None
    assert read_numbers(run, CLEAN, complete.versions[CLEAN]) == (expected if clean is None else clean)
    assert read_numbers(run, "tables/sums", complete.versions["tables/sums"]) == [sum(expected)]
    assert sum(read_numbers(run, "state/sums.totals", complete.versions["state/sums.totals"])) == sum(expected)


def write(table: Path, *rows: int) -> None:
    for row in rows:
        write_deltalake(str(table), pa.table({"n": [row]}), mode="append")


def refused(root: Path, kind: type[Exception], match: str) -> Any:
    with Coordinator("numbers", str(root)) as run, pytest.raises(kind, match=match) as caught:
        Flow(run, last=9).epoch()
    return caught.value


def repair(root: Path, table: str, keep: str) -> Any:
    return Coordinator("numbers", str(root)).repair(table, keep)  # type: ignore[arg-type]


@pytest.mark.parametrize("foreign", [0, 1, 2, 3])
def test_an_older_copy_that_was_written_to_has_the_numbers_and_not_the_content(tmp_path: Path, foreign: int) -> None:
    root, backup = tmp_path / "root", tmp_path / "backup"
    epochs(root, 2)
    shutil.copytree(root / CLEAN, backup)
    epochs(root, 3)
    for folder in (root / CLEAN).glob("e3-*"):
        shutil.copytree(folder, backup / folder.name)  # the file of the third epoch is there, its commit is not
    shutil.rmtree(root / CLEAN)
    backup.rename(root / CLEAN)
    write(root / CLEAN, *range(777, 777 + foreign))
    error = refused(root, LedgerError, "older than the ledger says" if foreign < 2 else "written by someone else")
    assert 'pipeline.repair("clean", keep="ours")' in error.remedy
    assert repair(root, CLEAN, "ours").keep == "ours"
    run = Coordinator("numbers", str(root))
    assert read_numbers(run, CLEAN, run.versions().versions[CLEAN]) == numbers(1, 2, 3)
    epochs(root, 4)
    check(root, 4)
    with pytest.raises(UnknownEpochError, match="epochs 4 to 4 can be read"):
        Coordinator("numbers", str(root)).versions(3)  # its number means another version now


def test_content_whose_files_are_gone_is_not_put_back(tmp_path: Path) -> None:
    root, backup = tmp_path / "root", tmp_path / "backup"
    epochs(root, 2)
    shutil.copytree(root / CLEAN, backup)
    epochs(root, 3)
    shutil.rmtree(root / CLEAN)
    backup.rename(root / CLEAN)
    refused(root, RestoredTableError, "older than the ledger says")
    with pytest.raises(LostFileError, match="cannot be put back: a file that was written is missing"):
        repair(root, CLEAN, "ours")
    assert repair(root, CLEAN, "theirs").applied_epoch == 2
    epochs(root, 4)
    check(root, 4, clean=numbers(1, 2, 4))


@pytest.mark.parametrize("more", [1, 2])
@pytest.mark.parametrize("decided", [False, True], ids=["", "with a decided epoch"])
def test_a_ledger_that_is_older_than_its_tables(tmp_path: Path, more: int, decided: bool) -> None:  # noqa: FBT001
    """As in a copy of a live root that took the ledger first."""
    live, copy = tmp_path / "live", tmp_path / "copy"
    epochs(live, 1)

    def copy_the_ledger(name: str) -> None:
        if name == "after:append_decision" and not copy.exists():
            shutil.copytree(live / "ledger", copy / "ledger")

    if decided:
        with watch(copy_the_ledger):
            epochs(live, 2)
    else:
        epochs(live, 2)
        shutil.copytree(live / "ledger", copy / "ledger")
    epochs(live, 2 + more)
    for folder in ("manifests", "owners", "state", "streams", "tables"):
        shutil.copytree(live / folder, copy / folder)
    error = refused(copy, RestoredTableError, f"the ledger is older than its tables: it ends with epoch 2, and epoch {2 + more}")
    assert 'pipeline.repair_all(keep="ours")' in error.remedy
    assert f"of epoch {2 + more} by dagster_operators at 2" in error.problem, "who wrote it, and when"
    for table in TABLES:
        with pytest.raises(LedgerError, match="its rows would be there twice") as caught:
            repair(copy, table, "theirs")
        assert 'keep="ours"' in caught.value.remedy
    assert len(Coordinator("numbers", str(copy)).repair_all("ours")) == 3
    assert Coordinator("numbers", str(copy)).repair_all("ours") == []
    epochs(copy, 6)
    check(copy, 6)


def test_a_ledger_from_before_the_first_epoch(tmp_path: Path) -> None:
    live, copy = tmp_path / "live", tmp_path / "copy"
    Coordinator("numbers", str(live)).view()
    shutil.copytree(live / "ledger", copy / "ledger")
    epochs(live, 2)
    for folder in ("state", "tables"):
        shutil.copytree(live / folder, copy / folder)
    refused(copy, RestoredTableError, "the ledger is older than its tables")
    with pytest.raises(LedgerError, match="does not know the table yet"):
        repair(copy, CLEAN, "theirs")
    assert len(Coordinator("numbers", str(copy)).repair_all("ours")) == 3
    epochs(copy, 3)
    check(copy, 3)


def foreign_writes() -> list[Callable[[Path], Any]]:
    def append(table: Path) -> None:
        write(table, 7)

    def delete(table: Path) -> None:
        DeltaTable(str(table)).delete()

    def restore(table: Path) -> None:
        DeltaTable(str(table)).restore(1)

    def optimize(table: Path) -> None:
        DeltaTable(str(table)).optimize.compact()

    return [append, delete, restore, optimize]


@pytest.mark.parametrize("place", ["between epochs", "after:append_decision", "after:commit_table:3"])
@pytest.mark.parametrize("change", foreign_writes(), ids=lambda change: change.__name__)
@pytest.mark.parametrize("twice", [False, True])
def test_our_content_comes_back_wherever_the_epoch_stood(
    tmp_path: Path,
    place: str,
    change: Callable[[Path], Any],
    twice: bool,  # noqa: FBT001
) -> None:
    """Also twice, and also when the epoch was in the table already, whose application transaction says so still."""
    epochs(tmp_path, 2)
    done: list[str] = []

    def reached(name: str) -> None:
        if name == place and not done:
            done.append(name)
            change(tmp_path / CLEAN)
            raise RuntimeError("the process dies")

    if place == "between epochs":
        change(tmp_path / CLEAN)
    else:
        with watch(reached), pytest.raises(RuntimeError):
            epochs(tmp_path, 3)
    error = refused(tmp_path, ForeignWriteError, "written by someone else: version")
    assert "by delta-rs" in error.problem
    assert error.table == CLEAN
    assert repair(tmp_path, CLEAN, "ours") is not None
    if twice:
        change(tmp_path / CLEAN)
        refused(tmp_path, ForeignWriteError, "written by someone else")
        assert repair(tmp_path, CLEAN, "ours") is not None
    assert repair(tmp_path, CLEAN, "ours") is None
    epochs(tmp_path, 4)
    check(tmp_path, 4)


def test_what_was_accepted_is_ours_from_then_on(tmp_path: Path) -> None:
    epochs(tmp_path, 2)
    write(tmp_path / CLEAN, 7)
    assert repair(tmp_path, CLEAN, "theirs").commit
    epochs(tmp_path, 3)
    DeltaTable(str(tmp_path / CLEAN)).delete()
    assert repair(tmp_path, CLEAN, "ours") is not None
    epochs(tmp_path, 4)
    check(tmp_path, 4, clean=[7, *numbers(1, 2, 3, 4)])


@pytest.mark.parametrize("table", [CLEAN, "tables/sums"])
def test_what_was_accepted_is_in_what_is_put_back_before_the_next_epoch(tmp_path: Path, table: str) -> None:
    epochs(tmp_path, 1)
    for keep, row in (("theirs", 7), ("ours", 8), ("theirs", 9), ("ours", 6)):
        write(tmp_path / table, row)
        assert Coordinator("numbers", str(tmp_path)).wrong_tables() == [table]
        assert repair(tmp_path, table, keep) is not None
        assert Coordinator("numbers", str(tmp_path)).wrong_tables() == []
    run = Coordinator("numbers", str(tmp_path))
    _, files = run.content(run.versions(), table)
    rows = [n for file in files for n in pq.read_table(tmp_path / table / file.path)["n"].to_pylist()]
    assert sorted(rows) == sorted([*(numbers(1) if table == CLEAN else [sum(numbers(1))]), 7, 9])
    epochs(tmp_path, 2)
    if table == CLEAN:
        check(tmp_path, 2, clean=[7, 9, *numbers(1, 2)])


def test_what_was_accepted_and_is_gone_is_told(tmp_path: Path) -> None:
    """The version's number is there, another commit has it."""
    root, backup = tmp_path / "root", tmp_path / "backup"
    epochs(root, 2)
    shutil.copytree(root / CLEAN, backup)
    write(root / CLEAN, 7)
    repair(root, CLEAN, "theirs")
    shutil.rmtree(root / CLEAN)
    backup.rename(root / CLEAN)
    write(root / CLEAN, 8, 9)
    refused(root, ForeignWriteError, "written by someone else")
    with pytest.raises(RestoredTableError, match="what was accepted in version 3 of the table is not in its log") as caught:
        repair(root, CLEAN, "ours")
    assert "keep='theirs'" in caught.value.remedy
    assert repair(root, CLEAN, "theirs") is not None
    epochs(root, 3)
    check(root, 3, clean=[8, 9, *numbers(1, 2, 3)])


@pytest.mark.parametrize("keep", ["ours", "theirs"])
def test_rows_that_are_only_marked_as_deleted_are_purged_first(tmp_path: Path, keep: str) -> None:
    """Neither way would see the marks; an entry as Delta's DELETE writes it, then one as a purge does."""
    epochs(tmp_path, 2)
    table = tmp_path / CLEAN
    file = next(iter(Coordinator("numbers", str(tmp_path)).files(CLEAN, 2)))
    add = {"path": file.path, "partitionValues": {}, "size": file.size, "modificationTime": 0, "dataChange": True}
    remove = {"path": file.path, "deletionTimestamp": 1, "dataChange": True}
    vector = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1}

    def commit(version: int, *actions: dict[str, Any]) -> None:
        lines = "\n".join(json.dumps(action) for action in ({"commitInfo": {"operation": "DELETE"}}, *actions))
        (table / f"_delta_log/{version:020d}.json").write_text(lines)

    commit(3, {"remove": remove}, {"add": {**add, "deletionVector": vector}})
    with pytest.raises(LedgerError, match="rows of 1 files are marked as deleted") as caught:
        repair(tmp_path, CLEAN, keep)
    assert "APPLY (PURGE)" in caught.value.remedy
    shutil.copy(table / file.path, table / "purged.parquet")
    commit(4, {"remove": {**remove, "deletionVector": vector}}, {"add": {**add, "path": "purged.parquet"}})
    assert repair(tmp_path, CLEAN, keep) is not None
    epochs(tmp_path, 3)
    check(tmp_path, 3)


def test_marks_that_only_a_checkpoint_tells_are_seen(tmp_path: Path) -> None:
    """Delta deletes entries of the log that a checkpoint sums up."""
    epochs(tmp_path, 2)
    log = tmp_path / CLEAN / "_delta_log"
    DeltaTable(str(tmp_path / CLEAN)).create_checkpoint()
    (path,) = log.glob("*.checkpoint.parquet")
    table = pq.read_table(path)
    rows = table.to_pylist()
    for add in (row["add"] for row in rows if row["add"]):
        add["deletionVector"] = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1}
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)
    for entry in log.glob("*.json"):
        entry.unlink()
    assert len(marked_files(Root(str(tmp_path)), CLEAN)) == 2
    remove = {"path": next(row["add"]["path"] for row in rows if row["add"]), "deletionTimestamp": 1, "dataChange": True}
    (log / f"{3:020d}.json").write_text(json.dumps({"remove": remove}))
    assert len(marked_files(Root(str(tmp_path)), CLEAN)) == 1
    (log / f"{4:020d}.json").write_text('{"remo')
    with pytest.raises(DamagedTableError, match="entry 4 of a table's log cannot be read"):
        marked_files(Root(str(tmp_path)), CLEAN)


def test_tables_behind_one_that_cannot_be_settled_are_settled(tmp_path: Path) -> None:
    epochs(tmp_path, 2)
    for table in TABLES:
        write(tmp_path / table, 4)
    next((tmp_path / CLEAN).glob("e1-*/*.parquet")).unlink()
    with pytest.raises(LostFileError, match="a file that was written is missing") as caught:
        Coordinator("numbers", str(tmp_path)).repair_all("ours")
    assert caught.value.table == CLEAN
    assert {record.dataset for record in Coordinator("numbers", str(tmp_path)).view().repairs()} == {*TABLES} - {CLEAN}


def test_other_columns_are_not_accepted(tmp_path: Path) -> None:
    """The next epoch could not write to such a table, and the ledger would know our content no more."""
    epochs(tmp_path, 2)
    write_deltalake(str(tmp_path / CLEAN), pa.table({"m": ["x"]}), mode="overwrite", schema_mode="overwrite")
    refused(tmp_path, ForeignWriteError, "written by someone else")
    with pytest.raises(
        LedgerError, match=r"other columns than the pipeline writes: n \(long\) is gone; m \(string\) is new"
    ) as caught:
        repair(tmp_path, CLEAN, "theirs")
    assert caught.value.remedy == 'pipeline.repair("clean", keep="ours") puts the content of the last epoch back'
    assert repair(tmp_path, CLEAN, "ours") is not None
    epochs(tmp_path, 3)
    check(tmp_path, 3)


def append_only(table: DeltaTable) -> None:
    table.alter.set_table_properties({"delta.appendOnly": "true"})


def constraint(table: DeltaTable) -> None:
    table.alter.add_constraint({"small": "n < 1000"})


@pytest.mark.parametrize(("forbid", "name"), [(append_only, "delta.appendOnly"), (constraint, "delta.constraints.small")])
@pytest.mark.parametrize("rows", [(), (7,)], ids=["alone", "with rows"])
def test_settings_that_are_not_kept_to_are_not_accepted(
    forbid: Callable[[DeltaTable], None], name: str, rows: tuple[int, ...], tmp_path: Path
) -> None:
    """Epochs that take files out of such a table were decided and could not be carried out; and rows broke its constraints."""
    epochs(tmp_path, 2)
    sums = tmp_path / "tables/sums"
    forbid(DeltaTable(str(sums)))
    write(sums, *rows)
    with pytest.raises(LedgerError, match=f"settings that the pipeline does not keep to .{name}.") as caught:
        repair(tmp_path, "tables/sums", "theirs")
    assert caught.value.remedy.startswith('pipeline.repair("sums", keep="ours") puts the content of the last epoch back, without')
    assert repair(tmp_path, "tables/sums", "ours") is not None
    assert name not in DeltaTable(str(sums)).metadata().configuration
    epochs(tmp_path, 3)
    check(tmp_path, 3)


@pytest.mark.parametrize(("table", "keep"), [*zip(TABLES, ("ours", "theirs", "ours"), strict=True)])
def test_a_table_that_only_lacks_a_file_is_not_called_fine(tmp_path: Path, table: str, keep: str) -> None:
    """Nobody wrote to it; the way out that is told works."""
    epochs(tmp_path, 3)
    file = next((tmp_path / table).glob("e3-*/*.parquet"))
    file.rename(tmp_path / "away")
    with pytest.raises(LostFileError, match="as the ledger says, and not all of its files are") as caught:
        repair(tmp_path, table, keep)
    assert (caught.value.table, caught.value.lost) == (table, 1)
    assert "pipeline.repair_ledger(last_epoch=2)" in caught.value.remedy
    Coordinator("numbers", str(tmp_path)).repair_ledger(last_epoch=2)
    epochs(tmp_path, 4)
    check(tmp_path, 4)
