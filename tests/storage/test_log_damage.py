"""What a store does not give is not damaged: nothing is told of it, and nothing moved out of the way."""

from __future__ import annotations

import pytest

from dagster_operators.errors import DamagedLedgerError, StorageError
from dagster_operators.storage.log_damage import damage, mend
from dagster_operators.storage.log_entries import versions_of
from dagster_operators.storage.root import Root
from dagster_operators.transactions.coordinator import Coordinator
from tests.transactions.flow import Flow, check_result

ENTRY, CHECKPOINT = r"/_delta_log/0+2\.json", r"/_delta_log/.*\.checkpoint\.parquet"


@pytest.fixture
def numbers(s3):
    with Coordinator("numbers", f"{s3.bucket()}/numbers", storage_options=s3.options()) as run:
        for _ in range(3):
            Flow(run).epoch()
        run._ledger._log._checkpoint(run._ledger.look().version)
    return Root(run.root.uri, s3.options())


@pytest.mark.parametrize("refused", [ENTRY, CHECKPOINT], ids=["entry", "checkpoint"])
def test_what_is_denied_is_not_damaged(numbers, s3, refused):
    log = numbers.children("ledger/_delta_log")
    s3.behave(refuse=f"(GET|HEAD) .*{refused}")
    for ask in (damage, mend):
        with pytest.raises(StorageError, match=r"cannot be read: .*(denied|403)"):
            ask(numbers, "ledger")
    s3.behave()
    assert numbers.children("ledger/_delta_log") == log
    assert damage(numbers, "ledger") == ""


@pytest.mark.parametrize("refused", [r"/ledger/_delta_log/.*\.(json|parquet)", r"/ledger/r.*\.parquet"], ids=["log", "records"])
def test_a_ledger_that_is_denied_is_neither_damaged_nor_repaired(numbers, s3, refused):
    versions = versions_of(numbers, "ledger")
    s3.behave(refuse=f"(GET|HEAD) .*{refused}")
    for ask in (lambda run: run.versions(), lambda run: run.repair_ledger()):
        with Coordinator("numbers", numbers.uri, storage_options=s3.options()) as run, pytest.raises(StorageError) as told:
            ask(run)
        assert not isinstance(told.value, DamagedLedgerError), told.value
    s3.behave()
    assert versions_of(numbers, "ledger") == versions
    with Coordinator("numbers", numbers.uri, storage_options=s3.options()) as run:
        check_result(run, 3)


def test_a_damaged_entry_is_told_and_moved_out_of_the_way(numbers):
    numbers.write("ledger/_delta_log/00000000000000000002.json", b'{"add')
    for name in numbers.children("ledger/_delta_log"):
        if "checkpoint" in name:
            numbers.delete_file(f"ledger/_delta_log/{name}")
    assert damage(numbers, "ledger") == "entry 2 of its log is empty or cut short"
    assert mend(numbers, "ledger")
    assert versions_of(numbers, "ledger") == [0, 1]


def test_a_repair_that_is_denied_halfway_can_be_done_again(numbers, s3):
    denied = 0
    with Coordinator("numbers", numbers.uri, storage_options=s3.options()) as run:
        while True:
            s3.behave(refuse="GET .*/ledger/_delta_log/_last_checkpoint", after=denied, times=1)
            try:
                run.repair_ledger()
                break
            except StorageError:
                denied += 1
    s3.behave()
    assert denied > 1
    with Coordinator("numbers", numbers.uri, storage_options=s3.options()) as run:
        check_result(run, 3)
