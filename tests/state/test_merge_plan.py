"""Which runs are merged: how many there are at any time, how much is rewritten, and which files may go unread."""

from __future__ import annotations

from dagster_operators import KeyedState, ListState, TimeState
from dagster_operators.graph.state_tables import StateTable
from dagster_operators.state.merge_plan import Merge, expired_files, plan_merges
from dagster_operators.state.state_file import BASE, StateFile, new_file

KEYED = KeyedState("k string, t bigint", key="k", retention=10, time="t")


def simulate(declaration: StateTable, epochs: int, rows: int, keys: int) -> tuple[int, int]:
    """Epochs that change ``rows`` of ``keys`` rows. The largest number of runs, and how often a row is written."""
    files: list[StateFile] = []
    written, most = 0, 0
    for epoch in range(1, epochs + 1):
        added = [new_file("", rows // 2, epochs=(epoch, epoch), subtask=s, hashes=(s * 50, s * 50 + 49)) for s in (0, 1)]
        for merge in plan_merges(declaration, files):
            check(merge, files)
            total = sum(file.rows for file in merge.files)
            size = min(total, keys) if merge.level == BASE else total
            added += [new_file("", size, epochs=(merge.first_epoch, merge.last_epoch), level=merge.level, hashes=(0, 99))]
            files = [file for file in files if file not in merge.files]
        files += added
        written += sum(file.rows for file in added)
        most = max(most, len({file.epochs for file in files}))
    return most, written // (rows * epochs)


def check(merge: Merge, files: list[StateFile]) -> None:
    """A merge takes whole runs, and neighbouring ones."""
    epochs = range(merge.first_epoch, merge.last_epoch + 1)
    inside = [file for file in files if file.first_epoch in epochs or file.last_epoch in epochs]
    assert sorted(inside, key=lambda file: file.name) == sorted(merge.files, key=lambda file: file.name)
    assert merge.oldest == (merge.first_epoch == min(file.first_epoch for file in files))


def test_runs_stay_few_and_little_is_rewritten() -> None:
    assert simulate(KEYED, 600, 1000, 1_000_000) <= (32, 8)
    assert simulate(KEYED, 200, 1000, 1000) <= (10, 3)
    assert simulate(TimeState("t bigint", time="t"), 600, 1000, 10**9) <= (24, 4)


def test_a_large_first_epoch_is_not_soon_rewritten() -> None:
    files = [new_file("", 1_000_000, epochs=(1, 1), hashes=(0, 9))]
    for epoch in range(2, 40):
        for merge in plan_merges(KEYED, files):
            check(merge, files)
            assert merge.first_epoch > 1
            rows = sum(file.rows for file in merge.files)
            files = [file for file in files if file not in merge.files]
            files.append(new_file("", rows, epochs=(merge.first_epoch, merge.last_epoch), level=merge.level, hashes=(0, 9)))
        files.append(new_file("", 1000, epochs=(epoch, epoch), hashes=(0, 9)))
    assert len(files) <= 14


def test_a_file_with_a_later_row_of_an_older_key_stays() -> None:
    old = new_file("", 1, epochs=(1, 1), hashes=(0, 9), times=(100, 100))
    new = new_file("", 1, epochs=(2, 2), hashes=(5, 20), times=(3, 3))
    elsewhere = new_file("", 1, epochs=(2, 2), hashes=(10, 20), times=(3, 3))
    assert expired_files(KEYED, [old, new, elsewhere], 50) == [elsewhere]
    assert set(expired_files(KEYED, [old, new, elsewhere], 111)) == {old, new, elsewhere}


def test_a_file_that_hides_nothing_goes_when_it_is_expired() -> None:
    lists = ListState("k string, t bigint", key="k", retention=10, time="t")
    old = new_file("", 1, epochs=(1, 1), hashes=(0, 9), times=(100, 100))
    plain, deletes = (new_file("", 1, epochs=(2, 2), hashes=(0, 9), times=(3, 3), deletes=deletes) for deletes in (False, True))
    assert expired_files(lists, [old, plain, deletes], 50) == [plain]
    assert expired_files(KeyedState("k string", key="k"), [old], 10**9) == []
