"""Entries of a table's log that somebody wrote over: readers notice, wherever in the log they are, and repair settles it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from dagster_operators.api.stored_pipeline import StoredPipeline
from dagster_operators.errors import ForeignWriteError, LostFileError, RestoredTableError
from dagster_operators.runtime.doctor import examine
from dagster_operators.storage.delta_log import entry_path
from dagster_operators.transactions import commit, coordinator, own_commits
from dagster_operators.transactions.content_sums import sum_of
from dagster_operators.transactions.contents import KINDS
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.ledger import DeltaLedger
from dagster_operators.transactions.lost import repair_command
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.records import Entry
from dagster_operators.transactions.rollback import roll_back
from tests.commands import commands_in
from tests.transactions.test_repair import CLEAN, check, epochs, numbers, refused, repair, write


def written_over(root: Path, version: int, last: int) -> None:
    """A writer without conditional put prepares a version before our epoch, and puts it there behind the last one."""
    copy = root.parent / "copy"
    epochs(root, version - 1)
    shutil.copytree(root / CLEAN, copy)
    write(copy, 99)
    epochs(root, last)
    for file in copy.glob("*.parquet"):
        shutil.copy(file, root / CLEAN)
    (root / CLEAN / entry_path(version)).unlink()  # it may be a hard link
    shutil.copy(copy / entry_path(version), root / CLEAN / entry_path(version))


def content(root: Path, epoch: int | None = None) -> list[int]:
    run = Coordinator("numbers", str(root))
    complete = run.versions(epoch)
    _, files = run.content(complete, CLEAN)
    return sorted(n for file in files for n in pq.read_table(root / CLEAN / file.path)["n"].to_pylist())


@pytest.mark.parametrize("version", [2, 3], ids=["an earlier entry", "the last entry"])
def test_nobody_reads_what_is_not_ours(tmp_path: Path, version: int) -> None:
    root = tmp_path / "root"
    written_over(root, version, 3)
    with pytest.raises(ForeignWriteError, match=f"version {version} is WRITE by delta-rs.* at 2") as caught:
        content(root)
    assert f"`dagster-operators repair {root} clean --keep ours" in caught.value.remedy
    assert content(root, 1) == numbers(1), "what is right is read"
    run = Coordinator("numbers", str(root))
    assert run.wrong_tables() == [CLEAN]
    assert "delta-rs" in run.tell(CLEAN)
    assert [record.dataset for record in run.repair_all("ours")] == [CLEAN]
    assert content(root) == numbers(1, 2, 3)
    epochs(root, 4)
    check(root, 4)
    assert content(root) == numbers(1, 2, 3, 4)


@pytest.mark.parametrize("version", [2, 3])
def test_what_was_accepted_is_read(tmp_path: Path, version: int) -> None:
    root = tmp_path / "root"
    written_over(root, version, 3)
    assert repair(root, CLEAN, "theirs").keep == "theirs"
    accepted = sorted([99, *numbers(*({1, 2, 3} - {version}))])
    assert content(root) == accepted
    epochs(root, 4)
    assert content(root) == sorted([*accepted, *numbers(4)])
    assert Coordinator("numbers", str(root)).wrong_tables() == []


def test_nobody_goes_back_to_what_is_not_ours(tmp_path: Path) -> None:
    root = tmp_path / "root"
    written_over(root, 2, 3)
    run = Coordinator("numbers", str(root))
    run.open(Owner.of_process())
    with pytest.raises(ForeignWriteError):
        roll_back(run, 2)
    with pytest.raises(ForeignWriteError, match="version 2 of a table is not what epoch 2 committed") as caught:
        run.content(run.versions(2), CLEAN)
    assert commands_in(caught.value.remedy) == [["doctor", str(root)]], "a repair puts back the last epoch only"
    run.close()


def test_a_process_that_has_read_it_looks_whether_it_is_still_the_same(tmp_path: Path) -> None:
    root, aside = tmp_path / "root", tmp_path / "aside"
    epochs(root, 1)
    shutil.copytree(root, aside / "root")
    epochs(root, 2)
    run = Coordinator("numbers", str(root))
    run.content(run.versions(), CLEAN)
    written_over(aside / "root", 2, 2)
    shutil.copy(aside / "root" / CLEAN / entry_path(2), root / CLEAN / "theirs")
    (root / CLEAN / "theirs").replace(root / CLEAN / entry_path(2))
    with pytest.raises(ForeignWriteError, match="version 2 of a table is not what epoch 2 committed"):
        run.content(run.versions(), CLEAN)


def test_the_next_epoch_says_what_happened(tmp_path: Path) -> None:
    root = tmp_path / "root"
    written_over(root, 2, 2)
    error = refused(
        root, Exception, "or was written over: its version 2 is not the one that epoch 2 committed: version 2 is WRITE"
    )
    assert "by delta-rs" in error.problem


def test_a_checkpoint_of_ours_tells_instead_of_its_entry(tmp_path: Path) -> None:
    """Readers begin with it: what it sums up is what they read, whatever the entry is now."""
    root, aside = tmp_path / "root", tmp_path / "aside" / "root"
    epochs(root, 2)
    DeltaTable(str(root / CLEAN)).create_checkpoint()
    written_over(aside, 2, 2)
    (root / CLEAN / entry_path(2)).unlink()
    shutil.copy(aside / CLEAN / entry_path(2), root / CLEAN / entry_path(2))
    assert content(root) == numbers(1, 2)
    (root / CLEAN / entry_path(2)).unlink()
    assert content(root) == numbers(1, 2)


def test_a_checkpoint_of_what_was_written_over_is_noticed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    written_over(root, 2, 3)
    DeltaTable(str(root / CLEAN)).create_checkpoint()
    for version in range(4):
        (root / CLEAN / entry_path(version)).unlink()
    with pytest.raises(ForeignWriteError, match="has other rows than the epochs up to 3 committed"):
        content(root)


def test_of_ledgers_of_earlier_versions_the_entry_of_the_epoch_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any) -> Mapping[str, str]:
        return {}

    root = tmp_path / "root"
    with monkeypatch.context() as before:
        before.setattr(commit, "sums_after", unknown)
        written_over(root, 2, 2)
        with pytest.raises(ForeignWriteError):
            content(root)
        repair(root, CLEAN, "ours")
    epochs(root, 4)
    assert content(root) == numbers(1, 2, 3, 4)
    assert not Coordinator("numbers", str(root)).versions().contents.get(CLEAN), "nobody looked what it was"
    assert Coordinator("numbers", str(root)).wrong_tables(by_content=True) == []


def test_an_earlier_entry_in_a_ledger_of_an_earlier_version_is_told_by_the_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    monkeypatch.setattr(commit, "sums_after", lambda *_: {})
    written_over(root, 2, 3)
    assert Coordinator("numbers", str(root)).wrong_tables() == []
    assert Coordinator("numbers", str(root)).wrong_tables(by_content=True) == [CLEAN]
    assert repair(root, CLEAN, "ours").keep == "ours"
    assert content(root) == numbers(1, 2, 3)


def test_a_table_whose_last_entry_is_gone_is_told_with_what_puts_it_back(tmp_path: Path) -> None:
    root = tmp_path / "root"
    epochs(root, 3)
    (root / CLEAN / entry_path(3)).unlink()
    with pytest.raises(RestoredTableError, match="its log ends with version 2") as caught:
        content(root)
    assert 'pipeline.repair("clean", keep="ours")' in caught.value.remedy
    repair(root, CLEAN, "ours")
    assert content(root) == numbers(1, 2, 3)


@pytest.mark.parametrize(("known", "match"), [(True, "has other content than was written"), (False, "cannot be decoded")])
def test_a_file_that_cannot_be_decoded_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, match: str, *, known: bool
) -> None:
    root = tmp_path / "root"
    if not known:
        monkeypatch.setattr(coordinator, "with_digests", lambda _, manifest: manifest)  # as an earlier version wrote it
    epochs(root, 2)
    (file,) = (root / CLEAN).glob("e2-*/*.parquet")
    whole = file.read_bytes()
    file.write_bytes(whole[:4] + bytes(len(whole) - 12) + whole[-8:])
    with pytest.raises(LostFileError, match=f"a file that was written {match}") as caught:
        StoredPipeline(str(root)).to_arrow("clean")
    assert caught.value.file.startswith("tables/clean/e2-")
    file.write_bytes(whole)
    assert StoredPipeline(str(root)).to_arrow("clean").num_rows == 6


def test_rows_of_accepted_files_without_statistics_are_read(tmp_path: Path) -> None:
    root = tmp_path / "root"
    epochs(root, 2)
    write(root / CLEAN, 99)
    log = root / CLEAN / entry_path(3)
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    log.write_text("\n".join(map(json.dumps, actions)))
    repair(root, CLEAN, "theirs")
    epochs(root, 3)
    assert sorted(StoredPipeline(str(root)).to_arrow("clean")["n"].to_pylist()) == sorted([*numbers(1, 2, 3), 99])


def test_the_doctor_reads_the_ledger_once_for_all_tables_and_leaves_out_those_that_are_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, scan, scanned = tmp_path / "root", DeltaLedger.scan, list[frozenset[str]]()

    def told(ledger: DeltaLedger, kinds: Collection[str], after: int = 0) -> Iterator[Entry]:
        scanned.append(frozenset(kinds))
        return scan(ledger, kinds, after)

    monkeypatch.setattr(commit, "sums_after", lambda *_: {})
    written_over(root, 2, 3)
    monkeypatch.setattr(DeltaLedger, "scan", told)
    findings = {finding.check: finding for finding in examine(Coordinator("numbers", str(root)))}
    assert findings["tables"].remedy == repair_command(str(root), CLEAN)
    assert findings["files"].verdict == "ok"
    assert scanned.count(KINDS) == 1


def test_the_files_of_a_table_are_summed_up_once_as_long_as_they_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, summed = tmp_path / "root", list[list[str]]()

    def told(paths: list[str]) -> str:
        summed.append(paths)
        return sum_of(paths)

    epochs(root, 2)
    monkeypatch.setattr(own_commits, "sum_of", told)
    run = Coordinator("numbers", str(root))
    version = run.versions().versions[CLEAN]
    assert run.files(CLEAN, version) == run.files(CLEAN, version)
    assert len(summed) == 1
    run._own.require_files(run.versions(), CLEAN, list(reversed(summed[0])))
    with pytest.raises(ForeignWriteError, match="has other rows"):
        run._own.require_files(run.versions(), CLEAN, summed[0][1:])
    with pytest.raises(ForeignWriteError, match="has other rows"):
        run._own.require_files(run.versions(), CLEAN, summed[0][1:])
