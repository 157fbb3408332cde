"""A ledger that is not whole is told at once, and made whole, or ended before what is lost; then the epochs run again.

Stands for the fault script a6b.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dagster_operators.errors import DamagedLedgerError, DamagedTableError, LedgerError, LostFileError, PipelineBusyError
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.failpoints import watch
from dagster_operators.transactions.owner import Owner
from tests.transactions.flow import Flow
from tests.transactions.test_repair import check, epochs


class DiedError(Exception):
    pass


def coordinator(root: Path, **settings: Any) -> Coordinator:
    return Coordinator("numbers", str(root), **settings)


def entry_of(root: Path, kind: str, epoch: int) -> Path:
    """The log entry that brought the first record of a kind in an epoch."""
    run = coordinator(root)
    seq = next(entry.seq for entry in run._ledger.scan({kind}) if entry.record.epoch == epoch)
    entries = sorted((root / "ledger/_delta_log").glob("*.json"))
    return next(path for path in entries if f'"path":"r{seq:012d}-' in path.read_text())


def file_of(root: Path, kind: str, epoch: int) -> Path:
    run = coordinator(root)
    seq = next(entry.seq for entry in run._ledger.scan({kind}) if entry.record.epoch == epoch)
    return next(iter((root / "ledger").glob(f"r{seq:012d}-*")))


def run_and_die(root: Path, place: str, epoch: int) -> None:
    with coordinator(root) as run:

        def reached(name: str) -> None:
            if name == place and run.view().last_epoch == epoch - 1:
                raise DiedError

        flow = Flow(run)
        with watch(reached), suppress(DiedError):
            while True:
                flow.epoch()


def is_told(root: Path, match: str) -> None:
    with pytest.raises(DamagedLedgerError, match=match) as caught:
        epochs(root, 5)
    assert "pipeline.repair_ledger()" in caught.value.remedy


@pytest.mark.parametrize("how", ["empty", "cut short", "gone"])
@pytest.mark.parametrize(("kind", "epoch"), [("begin", 3), ("complete", 2), ("prepared", 3), ("decision", 2), ("begin", 1)])
def test_a_record_whose_file_is_there_is_found_again(tmp_path: Path, kind: str, epoch: int, how: str) -> None:
    """Without it an epoch's input would be skipped, or a decision taken for another epoch's."""
    run_and_die(tmp_path, "after:append_decision", 3)
    entry = entry_of(tmp_path, kind, epoch)
    text = entry.read_bytes()
    entry.unlink()
    if how != "gone":
        entry.write_bytes(b"" if how == "empty" else text[: len(text) // 2])
    is_told(tmp_path, r"record \d+ is missing|entry \d+ of its log is")
    done = coordinator(tmp_path).repair_ledger()
    assert (done.last_epoch, done.found_again, done.dropped) == (2, 1, 0)
    assert done.tables == (), "nothing was lost"
    epochs(tmp_path, 5)
    check(tmp_path, 5)


@pytest.mark.parametrize("how", ["empty", "gone"])
@pytest.mark.parametrize(("kind", "epoch", "last"), [("begin", 2, 1), ("complete", 1, 0), ("decision", 2, 1), ("begin", 1, 0)])
def test_behind_a_lost_record_epochs_run_again(tmp_path: Path, kind: str, epoch: int, last: int, how: str) -> None:
    epochs(tmp_path, 2)
    file = file_of(tmp_path, kind, epoch)
    file.unlink()
    if how == "empty":
        file.write_bytes(b"")
    with pytest.raises(DamagedLedgerError, match=r"is empty, cut short|is missing") as caught:
        coordinator(tmp_path).repair("tables/clean", "ours")
    assert "pipeline.repair_ledger()" in caught.value.remedy
    done = coordinator(tmp_path).repair_ledger()
    assert done.last_epoch == last
    assert done.dropped > 0
    assert done.tables == ("state/sums.totals", "tables/clean", "tables/sums")
    epochs(tmp_path, 4)
    check(tmp_path, 4)


def test_the_files_that_a_lost_fold_was_made_of_are_found_again(tmp_path: Path) -> None:
    epochs(tmp_path, 4)
    names = {path.name for path in (tmp_path / "ledger").glob("r000000000002-*")}
    assert len(names) == 2, "a record, and the fold that begins with it"
    max((tmp_path / "ledger" / name for name in names), key=lambda path: path.stat().st_size).unlink()
    done = coordinator(tmp_path).repair_ledger()
    assert done.found_again == 16
    assert (done.last_epoch, done.dropped) == (4, 0)
    epochs(tmp_path, 5)
    check(tmp_path, 5)


@pytest.mark.parametrize(("more", "way"), [(0, "repair_ledger()"), (2, "repair_ledger(last_epoch=4)")])
def test_what_was_dropped_is_not_gone_back_behind(tmp_path: Path, more: int, way: str) -> None:
    """Its files are deleted: the ledger stays as it is, and goes back as far as is said."""
    epochs(tmp_path, 3)
    with coordinator(tmp_path) as run:
        run.open(Owner.of_process())
        run.drop(["state/sums.totals"])
    epochs(tmp_path, 3 + more)
    before = coordinator(tmp_path).view()
    for last_epoch in (1, 3):
        with pytest.raises(
            LedgerError, match=rf"would end with epoch {last_epoch}, which needs what was dropped after epoch 3"
        ) as caught:
            coordinator(tmp_path).repair_ledger(last_epoch)
        assert f"pipeline.{way} " in caught.value.remedy
    assert coordinator(tmp_path).view() == before
    assert coordinator(tmp_path).repair_ledger(4 if more else None).last_epoch == (4 if more else 3)
    epochs(tmp_path, 6)
    assert coordinator(tmp_path).view().last_epoch == 6
    assert coordinator(tmp_path).repair_ledger(0).last_epoch == 0, "nothing that was there then is dropped"


@pytest.mark.parametrize("table", ["tables/clean", "tables/sums", "state/sums.totals"])
@pytest.mark.parametrize("place", ["end", "after:append_decision", "after:commit_table:2"])
def test_back_to_before_a_file_was_lost(tmp_path: Path, table: str, place: str) -> None:
    """What the error about a lost file names as the way out without a backup."""
    if place == "end":
        epochs(tmp_path, 3)
    else:
        run_and_die(tmp_path, place, 3)
    shutil.rmtree(next(iter((tmp_path / table).glob("e3-*"))))
    coordinator(tmp_path).repair_ledger(last_epoch=2)
    epochs(tmp_path, 5)
    check(tmp_path, 5)


def test_a_ledger_that_goes_back_too_little_says_how_far(tmp_path: Path) -> None:
    epochs(tmp_path, 3)
    shutil.rmtree(next(iter((tmp_path / "tables/clean").glob("e2-*"))))
    before = coordinator(tmp_path).view()
    with pytest.raises(LostFileError, match="would end with epoch 2, whose content cannot be put back") as caught:
        coordinator(tmp_path).repair_ledger(last_epoch=2)
    assert "pipeline.repair_ledger(last_epoch=1)" in caught.value.remedy
    assert coordinator(tmp_path).view() == before, "what is still there of later epochs is not forgotten for nothing"
    entry_of(tmp_path, "complete", 3).write_bytes(b"")
    with pytest.raises(LostFileError, match=r"cannot be put back"):
        coordinator(tmp_path).repair_ledger(last_epoch=2)
    coordinator(tmp_path).repair_ledger(last_epoch=1)
    epochs(tmp_path, 4)
    check(tmp_path, 4)


def test_what_was_cleaned_away_does_not_come_back(tmp_path: Path) -> None:
    epochs(tmp_path, 4)
    with coordinator(tmp_path) as run:
        run.open(Owner.of_process())
        run.clean(3)
    with pytest.raises(LedgerError, match="only epochs before 3 need were cleaned away") as caught:
        coordinator(tmp_path).repair_ledger(last_epoch=2)
    assert "backup" in caught.value.remedy
    coordinator(tmp_path).repair_ledger(last_epoch=3)
    epochs(tmp_path, 5)
    check(tmp_path, 5)


def test_a_run_at_work_is_left_alone_and_one_that_wakes_is_fenced(tmp_path: Path) -> None:
    epochs(tmp_path, 2)
    with coordinator(tmp_path, lease_seconds=30) as run:
        flow = Flow(run)
        run.open(Owner.of_process())
        handle = run.begin(flow.plan, flow.choose)
        with pytest.raises(PipelineBusyError, match="a sign of life") as caught:
            coordinator(tmp_path).repair_ledger()
        assert "try again in" in caught.value.remedy
        run._lease.release(run._generation)
        coordinator(tmp_path).repair_ledger()
        with pytest.raises(LedgerError, match="taken over"):
            run.prepare(handle, "clean", flow.work)
    epochs(tmp_path, 3)
    check(tmp_path, 3)


@pytest.mark.parametrize("last_epoch", [0, 1, 2])
@pytest.mark.parametrize("meanwhile", [0, 1, 6], ids="{} epochs meanwhile".format)
def test_a_process_that_knows_what_was_forgotten_goes_on_with_what_there_is(
    tmp_path: Path, last_epoch: int, meanwhile: int
) -> None:
    """As Dagster's, which was there before somebody typed the command, and is there afterwards."""
    with coordinator(tmp_path) as before:
        flow = Flow(before)
        for _ in range(3):
            flow.epoch()
        assert [complete.epoch for complete in before.history()] == [1, 2, 3]
        coordinator(tmp_path).repair_ledger(last_epoch=last_epoch)
        epochs(tmp_path, last_epoch + meanwhile)
        assert before.view().last_epoch == last_epoch + meanwhile
        assert [complete.epoch for complete in before.history()] == [*range(1, last_epoch + meanwhile + 1)]
        if last_epoch + meanwhile < 8:
            flow.epoch()
    epochs(tmp_path, 8)
    check(tmp_path, 8)


@pytest.mark.parametrize("how", ["cut short", "gone"])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_damaged_log_of_a_table(tmp_path: Path, version: int, how: str) -> None:
    epochs(tmp_path, 3)
    entry = tmp_path / f"tables/clean/_delta_log/{version:020d}.json"
    text = entry.read_bytes()
    entry.unlink()
    if how == "cut short":
        entry.write_bytes(text[:-9])
    with pytest.raises(DamagedTableError, match="of its log is") as caught:
        epochs(tmp_path, 5)
    assert 'pipeline.repair("clean", keep="ours")' in caught.value.remedy
    assert coordinator(tmp_path).repair("tables/clean", "ours") is not None
    epochs(tmp_path, 5)
    check(tmp_path, 5)


def spoil(log: Path, how: str) -> None:
    """Something happens to the last checkpoint."""
    checkpoint = max(log.glob("*.checkpoint.parquet"))
    content = checkpoint.read_bytes()
    checkpoint.unlink()
    if how != "gone":
        middle = len(content) // 2
        checkpoint.write_bytes({"empty": b"", "garbage within": content[:4] + bytes(middle) + content[4 + middle :]}[how])


@pytest.fixture(scope="module")
def long_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logs of the ledger and of a table have checkpoints."""
    root = tmp_path_factory.mktemp("long") / "root"
    epochs(root, 21)
    return root


@pytest.mark.parametrize("how", ["gone", "empty", "garbage within"])
@pytest.mark.parametrize("table", ["ledger", "tables/clean"])
@pytest.mark.parametrize("entries", ["all", "those since"])
def test_a_checkpoint_of_a_log(tmp_path: Path, long_root: Path, table: str, how: str, entries: str) -> None:
    """While the entries tell the same nobody needs it; without them the log is made anew from files."""
    root = tmp_path / "root"
    shutil.copytree(long_root, root)
    log = root / table / "_delta_log"
    last = int(max(log.glob("*.checkpoint.parquet")).name[:20])
    spoil(log, how)
    if entries != "all":
        for path in [*log.glob("*.json"), *log.glob("*.checkpoint.parquet")]:
            if int(path.name[:20]) < last:
                path.unlink()
        with pytest.raises((DamagedLedgerError, DamagedTableError), match=r"checkpoint|entry 0 of its log is") as caught:
            epochs(root, 22)
        remedy = "pipeline.repair_ledger()" if table == "ledger" else 'pipeline.repair("clean", keep="ours")'
        assert remedy in caught.value.remedy
        run = coordinator(root)
        assert run.repair_ledger().last_epoch == 21 if table == "ledger" else run.repair(table, "ours")
    epochs(root, 22)
    check(root, 22)


@pytest.mark.parametrize("table", ["ledger", "tables/clean"])
@pytest.mark.parametrize("since", [0, -2], ids=["its own entry", "and two before"])
def test_the_entries_at_the_end_of_a_log_with_its_last_checkpoint_left(
    tmp_path: Path, long_root: Path, table: str, since: int
) -> None:
    """A power cut took them: readers begin with the checkpoint, and nothing can be appended to the version that it sums up."""
    root = tmp_path / "root"
    shutil.copytree(long_root, root)
    log = root / table / "_delta_log"
    last = int(max(log.glob("*.checkpoint.parquet")).name[:20])
    for path in log.glob("*.json"):
        if int(path.name[:20]) >= last + since:
            path.unlink()
    with pytest.raises((DamagedLedgerError, DamagedTableError), match=rf"entry {last + since} of its log is missing") as caught:
        epochs(root, 22)
    remedy = "pipeline.repair_ledger()" if table == "ledger" else 'pipeline.repair("clean", keep="ours")'
    assert remedy in caught.value.remedy
    run = coordinator(root)
    assert run.repair_ledger() if table == "ledger" else run.repair(table, "ours")
    epochs(root, 22)
    check(root, 22)


def lose_the_end(root: Path, kind: str, epoch: int) -> None:
    """A power cut takes what the ledger's log has of a record and of those behind it."""
    first = entry_of(root, kind, epoch)
    for path in (root / "ledger/_delta_log").glob("*.json"):
        if path.name >= first.name:
            path.unlink()


@pytest.mark.parametrize("kind", ["begin", "decision", "complete"])
def test_a_process_that_knows_what_was_lost_tells_it(tmp_path: Path, kind: str) -> None:
    """A new one sees a ledger that is whole; this one knows more, until somebody repairs it, there or in another process."""
    with coordinator(tmp_path) as before, coordinator(tmp_path) as other:
        flow = Flow(before)
        for _ in range(3):
            flow.epoch()
        assert other.view().last_epoch == 3
        lose_the_end(tmp_path, kind, 3)
        for _ in range(2):
            with pytest.raises(DamagedLedgerError, match=r"missing at its end, of those that this process knows") as caught:
                flow.epoch()
            assert "pipeline.repair_ledger()" in caught.value.remedy
        done = before.repair_ledger()
        assert done.last_epoch == 2
        assert flow.epoch() is not None
        last = 4 if kind == "complete" else 3  # a decided epoch is carried out, and the next one runs
        assert other.view().last_epoch == last, "what was repaired counts for the others, too"
        assert [complete.epoch for complete in other.history()] == [*range(1, last + 1)]
    epochs(tmp_path, 5)
    check(tmp_path, 5)


@pytest.mark.parametrize("how", ["gone", "another"])
def test_a_ledger_that_is_gone_is_not_made_anew_by_who_knows_it(tmp_path: Path, how: str) -> None:
    epochs(tmp_path / "one", 1)
    epochs(tmp_path / "two", 1)
    with coordinator(tmp_path / "one") as run:
        assert run.view().last_epoch == 1
        (tmp_path / "one/ledger").rename(tmp_path / "kept")
        if how == "another":
            shutil.copytree(tmp_path / "two/ledger", tmp_path / "one/ledger")
            lose_the_end(tmp_path / "one", "complete", 1)
        with pytest.raises(LedgerError, match="removed or replaced while in use") as caught:
            run.view()
        assert "put its folder back" in caught.value.remedy
        shutil.rmtree(tmp_path / "one/ledger", ignore_errors=how == "gone")
        (tmp_path / "kept").rename(tmp_path / "one/ledger")
        assert Flow(run).epoch() is not None
    check(tmp_path / "one", 2)


def test_the_repair_of_a_table_does_not_stand_in_the_way(tmp_path: Path) -> None:
    """Behind one no epoch before the next is read, as if they had been cleaned away; nothing was."""
    epochs(tmp_path, 2)
    max((tmp_path / "tables/clean/_delta_log").glob("*.json")).unlink()
    assert coordinator(tmp_path).repair("tables/clean", "ours") is not None
    epochs(tmp_path, 3)
    lose_the_end(tmp_path, "complete", 3)
    done = coordinator(tmp_path).repair_ledger()
    assert done.last_epoch == 2
    epochs(tmp_path, 4)
    check(tmp_path, 4)
    kept = coordinator(tmp_path).view()
    with pytest.raises(LedgerError, match="a table was repaired since, behind which no epoch before 3 can be gone back to"):
        coordinator(tmp_path).repair_ledger(last_epoch=2)
    assert coordinator(tmp_path).view() == kept
