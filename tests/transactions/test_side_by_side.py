"""Stages prepared by several threads and processes of one run at once, on real storage."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dagster_operators.errors import StorageError
from dagster_operators.graph.slice import SourceSlice
from dagster_operators.storage.root import Root
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.effects import Conflict, StageAttempt
from dagster_operators.transactions.failpoints import watch
from dagster_operators.transactions.lease import Lease
from dagster_operators.transactions.ledger import DeltaLedger
from dagster_operators.transactions.manifest import Change, Manifest
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.plan import DatasetRecord, EpochHandle, PlanRecord, Slices, StageRecord
from tests.transactions.flow import SCHEMA, read_numbers, write_file

STAGES = tuple(f"s{number}" for number in range(8))
PLAN = PlanRecord(
    "p",
    tuple(StageRecord(stage, "f") for stage in STAGES),
    {"numbers": "n"},
    {f"tables/{stage}": DatasetRecord(SCHEMA, "append") for stage in STAGES},
)


def slices(view: Any) -> Slices:
    return Slices({"numbers": SourceSlice(view.last_epoch, view.last_epoch + 1, [view.last_epoch + 1])})


def begin(run: Coordinator, owner: Owner) -> EpochHandle:
    run.open(owner)
    handle = run.begin(PLAN, slices)
    assert handle is not None
    return handle


def work_of(run: Coordinator, meeting: threading.Barrier | None = None):
    """Writes the epoch's number to the stage's table, once as many attempts as the meeting wants are at it."""

    def work(attempt: StageAttempt) -> Manifest:
        if meeting:
            meeting.wait(20)
        table = f"tables/{attempt.stage}"
        before = len(run.files(table, attempt.begin.base_versions[table]))
        file = write_file(run, table, attempt.directory(""), "part-0", [attempt.epoch])
        assert before == attempt.epoch - 1
        changes = (Change(table, (file,)),)
        return Manifest(run.pipeline, attempt.epoch, attempt.stage, attempt.attempt, attempt.fingerprint, attempt.reads, changes)

    return work


def check(run: Coordinator, epochs: int) -> None:
    for stage in STAGES:
        assert read_numbers(run, f"tables/{stage}", epochs) == list(range(1, epochs + 1))
        folders = [name for name in run.root.children(f"tables/{stage}") if name.startswith("e")]
        assert len(folders) == epochs, "an attempt that was not chosen was left behind"


def test_threads_prepare_the_stages_of_an_epoch_together(tmp_path):
    with Coordinator("p", str(tmp_path)) as run, ThreadPoolExecutor(len(STAGES)) as pool:
        for epoch in (1, 2, 3):
            handle = begin(run, Owner.of_process("test"))
            work = work_of(run, threading.Barrier(len(STAGES)))
            made = list(pool.map(lambda stage: run.prepare(handle, stage, work), STAGES))  # noqa: B023 - done before the next
            assert [manifest.stage for manifest in made] == list(STAGES)
            assert run.commit(handle).epoch == epoch
        check(run, 3)
    assert len(list(Coordinator("p", str(tmp_path))._ledger.scan({"prepared"}))) == 3 * len(STAGES)


def test_processes_of_one_run_prepare_stages_together_and_the_first_attempt_at_each_counts(tmp_path):
    owner = Owner.of_dagster_run("run")
    with Coordinator("p", str(tmp_path)) as first, ThreadPoolExecutor(2 * len(STAGES)) as pool:
        handle = begin(first, owner)
        meeting = threading.Barrier(2 * len(STAGES))

        def prepare(stage: str) -> Manifest:
            with Coordinator("p", str(tmp_path)) as run:
                return run.prepare(run.resume(handle.begin_id, owner), stage, work_of(run, meeting))

        made = list(pool.map(prepare, [*STAGES, *STAGES]))
        assert made[: len(STAGES)] == made[len(STAGES) :], "both processes know one attempt"
        first.commit(handle)
        check(first, 1)


def test_a_process_that_hears_late_that_its_work_is_recorded_deletes_nothing(tmp_path, monkeypatch):
    """The answer to its record is lost; before it looks, others complete the epoch and prepare the same stage in the next."""
    append, owner = DeltaLedger.append, Owner.of_dagster_run("run")

    def lose(ledger: DeltaLedger, record: Any, version: int) -> Any:
        append(ledger, record, version)
        monkeypatch.undo()
        with Coordinator("p", str(tmp_path)) as other:
            handle = begin(other, owner)
            made = [other.prepare(handle, stage, work_of(other)) for stage in STAGES]
            assert made[0].attempt == record.attempt
            other.commit(handle)
            following = begin(other, owner)
            assert other.prepare(following, STAGES[0], work_of(other)).attempt != record.attempt
        raise StorageError("operation timed out")

    with Coordinator("p", str(tmp_path)) as run:
        handle = begin(run, owner)
        monkeypatch.setattr(DeltaLedger, "append", lose)
        run.prepare(handle, STAGES[0], work_of(run))
        goes_on = begin(run, owner)
        for stage in STAGES:
            run.prepare(goes_on, stage, work_of(run))
        assert run.commit(goes_on).epoch == 2
        check(run, 2)


def test_a_process_that_stood_still_does_not_complete_the_next_epoch_instead_of_its_own(tmp_path):
    """Others complete its epoch while its tables are committed, and decide the next, which is in no table yet."""
    owner, state = Owner.of_dagster_run("run"), {"stands": False}

    def stand(name: str) -> None:
        if state["stands"] or not name.startswith("after:commit_table") or f"{len(STAGES)}" not in name:
            return
        state["stands"] = True
        with Coordinator("p", str(tmp_path)) as other:
            other.open(owner)
            other.commit(handle)
            following = begin(other, owner)
            for stage in STAGES:
                other.prepare(following, stage, work_of(other))

            def die(name: str) -> None:
                if name.startswith("before:commit_table"):
                    raise StorageError("killed")

            with watch(die), pytest.raises(StorageError, match="killed"):
                other.commit(following)

    with Coordinator("p", str(tmp_path)) as run:
        handle = begin(run, owner)
        for stage in STAGES:
            run.prepare(handle, stage, work_of(run))
        with watch(stand):
            assert run.commit(handle).epoch == 1
        assert state["stands"]
    with Coordinator("p", str(tmp_path)) as fresh:
        fresh.open(owner)
        fresh.settle()
        check(fresh, 2)


@pytest.mark.parametrize("answer", ["somebody was first", "lost"])
def test_a_process_that_is_told_late_that_its_work_is_recorded_deletes_nothing(tmp_path, monkeypatch, answer):
    """Its own record is taken for another's, as by a server that was asked twice; meanwhile others complete the epoch."""
    append, owner = DeltaLedger.append, Owner.of_dagster_run("run")

    def conflict(ledger: DeltaLedger, record: Any, version: int) -> Any:
        append(ledger, record, version)
        monkeypatch.undo()
        with Coordinator("p", str(tmp_path)) as other:
            other.resume(handle.begin_id, owner)
            for stage in STAGES:
                other.prepare(handle, stage, work_of(other))
            other.commit(handle)
        if answer == "lost":
            raise StorageError("operation timed out")
        return Conflict(ledger.view())

    with Coordinator("p", str(tmp_path)) as run:
        handle = begin(run, owner)
        monkeypatch.setattr(DeltaLedger, "append", conflict)
        assert run.prepare(handle, STAGES[0], work_of(run)).epoch == 1
        check(run, 1)


class Slow:
    """A participant that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def abort(self, epoch: int, generation: int) -> None:
        self.told.append(f"abort {epoch} {generation}")

    def recover(self, decided_epoch: int, generation: int) -> None:
        """Nothing to do."""


def test_participants_drop_a_failed_epoch_only_when_nobody_is_at_work_on_it(tmp_path):
    sink, goes_on, failed = Slow(), threading.Event(), threading.Event()
    with Coordinator("p", str(tmp_path), participants={"sink": sink}) as run, ThreadPoolExecutor(2) as pool:
        handle, plain = begin(run, Owner.of_process("test")), work_of(run)

        def slow(attempt: StageAttempt) -> Manifest:
            assert failed.wait(20)
            assert sink.told == []
            goes_on.set()
            return plain(attempt)

        def fail(attempt: StageAttempt) -> Manifest:
            raise RuntimeError("worker lost")

        running = pool.submit(run.prepare, handle, STAGES[0], slow)
        with pytest.raises(RuntimeError, match="worker lost"):
            run.prepare(handle, STAGES[1], fail)
        failed.set()
        assert goes_on.wait(20)
        running.result(20)
        assert sink.told == ["abort 1 1"]


def test_a_step_keeps_the_heartbeat_until_it_ends_whoever_lets_go_meanwhile(tmp_path):
    root = Root(str(tmp_path))
    lease = Lease(root, 600)

    def beats() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name.startswith("heartbeat")]

    lease.hold(3)
    with lease.during_step(3):
        with lease.during_step(3):
            lease.pause()
        lease.release(3)
        assert beats() == ["heartbeat-g3"]
        assert b"working" in (root.read("owners/g3") or b"")
    assert beats() == []
    assert b"idle" in (root.read("owners/g3") or b"")
    with lease.during_step(3):
        lease.hold(3)
    assert beats() == ["heartbeat-g3"], "held after all"
    lease.release(3)
    assert beats() == []
