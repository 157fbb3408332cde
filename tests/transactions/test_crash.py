"""A process is killed at every failpoint; the next run brings everything to the same result."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from dagster_operators.errors import FencedError, ForeignWriteError, StorageError
from dagster_operators.storage.root import Root
from dagster_operators.transactions.failpoints import FAILPOINTS, VARIABLE
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.records import Decide
from tests.forked import PROCESSES
from tests.transactions.flow import Flow, check_result, coordinator, leftovers, plan_of

pytestmark = pytest.mark.crash

REPAIR = [name for name in FAILPOINTS if name.endswith((":append_repair", ":restore_table"))]
MEND = [name for name in FAILPOINTS if name.endswith(":mend_log")]
CLEAN = [name for name in FAILPOINTS if name.endswith((":append_clean", ":delete_outdated"))]
DECIDE = [name for name in FAILPOINTS if name.endswith((":append_decide", ":append_drop", ":drop_dataset"))]
OLD = "tables/old"
TAKEOVER = [name for name in FAILPOINTS if name.endswith((":abort_participant", ":delete_attempts"))]
ELSEWHERE = {*REPAIR, *MEND, *CLEAN, *DECIDE}
STRAIGHT = [name for name in FAILPOINTS if name not in ELSEWHERE and not name.endswith(":abort_participant")]


def child_epochs(root, failpoint, epochs):
    os.environ[VARIABLE] = failpoint
    with coordinator(root) as run:
        for _ in range(epochs):
            Flow(run).epoch(Owner.of_process())


def child_repair(root, failpoint):
    os.environ[VARIABLE] = failpoint
    with coordinator(root) as run:
        run.repair("tables/clean", "ours")


def leave(run):
    """An epoch behind which nobody uses a table any more, as it was decided."""
    return Flow(run, replace(plan_of(), deleted=(OLD,))).epoch()


def child_decide(root, failpoint):
    os.environ[VARIABLE] = failpoint
    with coordinator(root) as run:
        run.open(Owner.of_process("test"))
        run.decide(Decide(0, 0, "operator sums", "restart", "asked"))
        leave(run)


def was_killed(function, *arguments) -> bool:
    child = PROCESSES.Process(target=function, args=arguments)
    child.start()
    child.join(60)
    assert child.exitcode in {0, -signal.SIGKILL}
    return child.exitcode != 0


def finish(root, epochs):
    """A fresh run ends with exactly ``epochs`` epochs, nothing missing, nothing twice, nothing left over."""
    with coordinator(root) as run:
        while (run.last_complete().epoch if run.last_complete() else 0) < epochs:
            Flow(run, last=epochs).epoch()
        assert Flow(run, last=epochs).epoch() is None
        check_result(run, epochs)
        assert leftovers(run) == []
        assert run._participants["sink"].committed() == list(range(1, epochs + 1))


@pytest.mark.parametrize("failpoint", STRAIGHT)
def test_killed_in_a_straight_run(tmp_path, failpoint):
    """The first and the second time; what happens later is the same again, and explored without processes elsewhere."""
    for time_reached in (1, 2):
        root = tmp_path / str(time_reached)
        if not was_killed(child_epochs, root, f"{failpoint}#{time_reached}", 2):
            assert time_reached > 1, "never reached"
            return
        finish(root, 3)


@pytest.mark.parametrize("failpoint", TAKEOVER)
def test_killed_while_taking_over(tmp_path, failpoint):
    """Two runs are killed before the third: one with a stage prepared and another half done, one as it cleans up."""
    assert was_killed(child_epochs, tmp_path, "stage:files_written#2", 1)
    assert was_killed(child_epochs, tmp_path, failpoint, 1)
    finish(tmp_path, 2)


@pytest.mark.parametrize("failpoint", REPAIR)
def test_killed_while_repairing(tmp_path, failpoint):
    finish(tmp_path, 1)
    write_deltalake(str(tmp_path / "pipeline/tables/clean"), pa.table({"n": [4]}), mode="append")
    with coordinator(tmp_path) as run, pytest.raises(ForeignWriteError):
        Flow(run).epoch()
    assert was_killed(child_repair, tmp_path, failpoint)
    with coordinator(tmp_path) as run:
        run.repair("tables/clean", "ours")
        assert Flow(run).epoch().epoch == 2
        assert dict(run.versions().versions)["tables/sums"] == 2


@pytest.mark.parametrize("failpoint", DECIDE)
def test_killed_while_what_was_decided_is_carried_out(tmp_path, failpoint):
    """What is left without use is deleted by the next run, if not by the epoch itself."""
    with coordinator(tmp_path) as run:
        plan = plan_of()
        Flow(run, replace(plan, datasets={**plan.datasets, OLD: plan.datasets["tables/clean"]})).epoch()
    assert was_killed(child_decide, tmp_path, failpoint)
    with coordinator(tmp_path) as run:
        if run.last_complete().epoch < 2:
            leave(run)
        assert Flow(run).epoch().epoch == 3
        assert OLD not in run.view().versions
        assert not (tmp_path / "pipeline" / OLD).exists()
        assert run.view().decisions == ()
        assert leftovers(run) == []


@pytest.mark.parametrize("failpoint", MEND)
def test_killed_while_a_damaged_log_is_mended(tmp_path, failpoint):
    finish(tmp_path, 1)
    (tmp_path / "pipeline/tables/clean/_delta_log/00000000000000000001.json").write_bytes(b"{")
    assert was_killed(child_repair, tmp_path, failpoint)
    with coordinator(tmp_path) as run:
        run.repair("tables/clean", "ours")
        assert Flow(run).epoch().epoch == 2


@pytest.mark.parametrize("failpoint", ["before:commit_table:2", "after:commit_table:3", "after:create_table:1"])
def test_killed_at_one_of_several(tmp_path, failpoint):
    assert was_killed(child_epochs, tmp_path, failpoint, 1)
    finish(tmp_path, 2)


def test_a_new_plan_after_a_crash_reuses_what_did_not_change(tmp_path):
    assert was_killed(child_epochs, tmp_path, "before:append_decision", 1)
    with coordinator(tmp_path) as run:
        flow = Flow(run, plan_of(sums="s2"))
        flow.epoch()
        assert flow.worked == ["sums"]
        assert leftovers(run) == []
        check_result(run, 1)


def child_zombie(root, started, go):
    """Gets to the given effect, is stopped there, and afterwards reports how it ended."""
    with coordinator(root, lease_seconds=0.6) as run:
        run.open(Owner.of_process())
        flow = Flow(run)
        handle = run.begin(flow.plan, flow.choose)
        run.prepare(handle, "clean", flow.work)

        def work(attempt):
            manifest = flow.work(attempt)
            started.set()
            go.wait(60)
            return manifest

        try:
            run.prepare(handle, "sums", work)
        except FencedError:
            os._exit(3)
        os._exit(4)


@pytest.mark.alone
def test_a_stopped_run_loses_its_lease_and_is_fenced_when_it_goes_on(tmp_path):
    started, go = PROCESSES.Event(), PROCESSES.Event()
    zombie = PROCESSES.Process(target=child_zombie, args=(tmp_path, started, go))
    zombie.start()
    with contextlib.ExitStack() as ends, coordinator(tmp_path, lease_seconds=0.6) as run:
        ends.callback(zombie.kill)  # a process left stopped would be waited for for ever
        assert started.wait(30)
        with contextlib.suppress(Exception):
            run.open(Owner.of_process())
            pytest.fail("a live owner was taken over from")
        os.kill(zombie.pid, signal.SIGSTOP)
        begun = time.monotonic()
        assert run.open(Owner.of_process(), wait_seconds=10) == 2
        assert time.monotonic() - begun < 5
        os.kill(zombie.pid, signal.SIGCONT)
        go.set()  # only now: it waits until the waiter is awake
        zombie.join(30)
        assert zombie.exitcode == 3
        flow = Flow(run)
        handle = run.begin(flow.plan, flow.choose)
        run.prepare(handle, "clean", flow.work)
        run.prepare(handle, "sums", flow.work)
        run.commit(handle)
        assert flow.worked == ["sums"], "the zombie's first stage was taken up"
        check_result(run, 1)


def test_a_manifest_that_cannot_be_written_after_another_run_took_over_is_that_runs_doing(tmp_path, monkeypatch):
    """It deleted the files of attempts that nothing records, and with them the one that was to become the manifest."""
    write, mine = Root.write, Owner.of_process()
    with coordinator(tmp_path) as run, coordinator(tmp_path) as other:
        run.open(replace(mine, run_id="other", pid_started=1.0))  # a process that has ended, as far as the other can see
        flow = Flow(run)
        handle = run.begin(flow.plan, flow.choose)

        def taken_over(self, path, content, **settings):
            if path.startswith("manifests/") and other.view().generation == 1:
                other.open(mine)
                raise StorageError("a file cannot be written: No such file or directory", file=path)
            write(self, path, content, **settings)

        monkeypatch.setattr(Root, "write", taken_over)
        with pytest.raises(FencedError, match="taken over"):
            run.prepare(handle, "clean", flow.work)
        assert Flow(other).epoch(mine).epoch == 1
        check_result(other, 1)


@pytest.mark.parametrize("stage", ["clean", "sums"], ids=["its own manifest", "that of a stage before it"])
def test_a_zombie_that_misses_a_manifest_is_told_who_took_over(stage, tmp_path, monkeypatch):
    """The manifest was deleted by the run that took over, so that nothing is wrong with the ledger."""
    read, mine = Root.read, Owner.of_process()
    with coordinator(tmp_path) as run, coordinator(tmp_path) as other:
        run.open(replace(mine, run_id="other", pid_started=1.0))
        flow = Flow(run)
        handle = run.begin(flow.plan, flow.choose)
        run.prepare(handle, "clean", flow.work)
        run._world._written.clear()  # as after a restart of the stage's process

        def deleted(self, path):
            if path.startswith("manifests/") and other.view().generation == 1:
                other.open(mine)
                return None
            return read(self, path)

        monkeypatch.setattr(Root, "read", deleted)
        with pytest.raises(FencedError, match="taken over"):
            run.prepare(handle, stage, flow.work)
        monkeypatch.setattr(Root, "read", read)
        assert Flow(other).epoch(mine).epoch == 1
        check_result(other, 1)
