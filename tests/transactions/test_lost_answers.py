"""What was done is reported as failed, as after a request that timed out: no record is appended twice, none is given up.

These stand for the fault scripts a7 and a7b, and the last one, with ``tests/storage/test_parquet_stats.py``, for a15.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from dagster_operators.errors import StorageError
from dagster_operators.storage.root import Root
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.failpoints import watch
from dagster_operators.transactions.ledger import DeltaLedger
from tests.transactions.flow import Flow, check_result, leftovers

EPOCHS = 4
KINDS = ["generation", "begin", "prepared", "decision", "complete"]
EFFECTS = ["create_table", "write_manifest", "commit_table", "delete_attempts"]


def run_epochs(root: Path) -> None:
    with Coordinator("numbers", str(root)) as run:
        flow = Flow(run, last=EPOCHS)
        while flow.epoch() is not None:
            pass


def goes_on(root: Path) -> int:
    """How many runs fail before all epochs are there, at most three."""
    for failed in range(4):
        try:
            run_epochs(root)
        except StorageError:
            continue
        check_result(Coordinator("numbers", str(root)), EPOCHS)
        return failed
    pytest.fail("the pipeline is stuck")


@pytest.mark.parametrize("answers", ["one answer is lost", "nothing can be read for a while"])
@pytest.mark.parametrize("time", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_record_that_is_there_and_reported_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, time: int, answers: str
) -> None:
    append, view = DeltaLedger.append, DeltaLedger.view
    state = {"left": time, "down": 0}

    def lose(self: DeltaLedger, record: Any, version: int) -> Any:
        done = append(self, record, version)
        if record.kind == kind:
            state["left"] -= 1
            if state["left"] == 0:
                state["down"] = 3 if answers.startswith("nothing") else 0
                raise StorageError("operation timed out")
        return done

    def down(self: DeltaLedger) -> Any:
        if state["down"]:
            state["down"] -= 1
            raise StorageError("operation timed out")
        return view(self)

    monkeypatch.setattr(DeltaLedger, "append", lose)
    monkeypatch.setattr(DeltaLedger, "view", down)
    failed = goes_on(tmp_path)
    if answers == "one answer is lost":
        assert failed == 0, "it is seen that the record is there"
        assert leftovers(Coordinator("numbers", str(tmp_path))) == []


@pytest.mark.parametrize("effect", EFFECTS)
def test_an_effect_that_took_place_and_is_reported_as_failed(tmp_path: Path, effect: str) -> None:
    done: list[str] = []

    def lose(name: str) -> None:
        if name.startswith(f"after:{effect}") and len(done) < 2:
            done.append(name)
            raise StorageError("operation timed out")

    with watch(lose):
        goes_on(tmp_path)
    assert len(done) == 2


@pytest.mark.parametrize("time", range(1, 12))
def test_a_hidden_file_that_cannot_be_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, time: int) -> None:
    """The entry of the log is linked to its place; then the file system gives an error for the file it was linked from."""
    unlink, calls = Path.unlink, []

    def fail(self: Path, **settings: Any) -> None:
        unlink(self, **settings)
        if self.name.endswith(".tmp"):
            calls.append(self)
            if len(calls) == time:
                raise OSError(errno.EIO, "Input/output error", str(self))

    monkeypatch.setattr(Path, "unlink", fail)
    assert goes_on(tmp_path) == 0


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_file_system_without_hard_links_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def link(*_: Any) -> None:
        raise OSError(number, "Operation not permitted")

    monkeypatch.setattr("os.link", link)
    with pytest.raises(StorageError, match="makes no hard links") as caught:
        Root(str(tmp_path)).create("1.json", b"ours")
    assert "choose a storage root" in caught.value.remedy
    assert list(tmp_path.iterdir()) == []
