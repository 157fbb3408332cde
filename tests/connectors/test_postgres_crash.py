"""Processes and the server are killed at every step of the commit; the table in PostgreSQL and the one in Delta stay equal."""

from __future__ import annotations

import os
import signal
import time

import psutil
import pytest

from dagster_operators.errors import FencedError, SinkUnavailableError
from dagster_operators.transactions.failpoints import VARIABLE, watch
from dagster_operators.transactions.owner import Owner
from tests.connectors.sink_flow import TABLE, SinkFlow, coordinator, finish, numbers_of
from tests.forked import PROCESSES

pytestmark = [pytest.mark.crash, pytest.mark.postgres]

STEPS = ("recover_participant", "prepare_participant", "append_decision", "commit_table", "commit_participant")
STRAIGHT = ["sink:written", "after:append_prepared", *(f"{when}:{step}" for step in STEPS for when in ("before", "after"))]


@pytest.fixture
def database(database):
    database.query(TABLE)
    return database


def child_epochs(root, dsn, failpoint, epochs):
    os.environ[VARIABLE] = failpoint
    with coordinator(root, dsn) as run:
        for _ in range(epochs):
            SinkFlow(run).epoch(Owner.of_process())


def was_killed(function, *arguments) -> bool:
    child = PROCESSES.Process(target=function, args=arguments)
    child.start()
    child.join(60)
    assert child.exitcode in {0, -signal.SIGKILL}
    return child.exitcode != 0


@pytest.mark.parametrize("failpoint", STRAIGHT)
def test_killed_in_a_straight_run(tmp_path, database, failpoint):
    times = 1 if "recover" in failpoint else 2
    assert was_killed(child_epochs, tmp_path, database.dsn, f"{failpoint}#{times}", 2)
    finish(tmp_path, database, 3)


@pytest.mark.parametrize(
    "failpoint", [f"{when}:{step}_participant" for step in ("recover", "abort") for when in ("before", "after")]
)
def test_killed_while_taking_over(tmp_path, database, failpoint):
    """One run leaves a prepared transaction behind, the next dies as it drops it."""
    assert was_killed(child_epochs, tmp_path, database.dsn, "before:append_decision", 1)
    assert len(database.prepared()) == 1
    assert was_killed(child_epochs, tmp_path, database.dsn, failpoint, 1)
    finish(tmp_path, database, 2)


@pytest.mark.parametrize("step", ["before:append_decision", "before:commit_participant:1"])
def test_the_server_is_killed_between_prepare_and_commit(tmp_path, database, postgres, step):
    """Prepared transactions survive the server; the epoch waits for it, decided or not, and goes on when it is back."""
    times = []

    def power_off(name):
        if name == step and not times:
            times.append(name)
            postgres.kill()
            if step == "before:append_decision":
                raise SinkUnavailableError("the power is off")

    with coordinator(tmp_path, database.dsn) as run:
        SinkFlow(run).epoch()
        with watch(power_off), pytest.raises(SinkUnavailableError) as failure:
            SinkFlow(run).epoch()
        assert failure.value.retryable
        if step != "before:append_decision":
            assert failure.value.sink == "warehouse"
            assert run.view().decision.epoch == 2
        postgres.start()
        assert len(database.prepared()) == 1
    finish(tmp_path, database, 3)


def test_a_server_that_is_away_when_a_run_begins_holds_nothing_up(tmp_path, database):
    """The pipeline is free at once for whoever comes next, in this process or another."""
    finish(tmp_path, database, 1)
    with coordinator(tmp_path, "host=127.0.0.1 port=1") as run, pytest.raises(SinkUnavailableError):
        SinkFlow(run).epoch(Owner.of_process("first"))
    finish(tmp_path, database, 2)


def take_over(root, database, epochs):
    """Another run waits until the lease of the first ends, then completes so many epochs."""
    with coordinator(root, database.dsn, lease_seconds=0.3) as other:
        other.open(Owner.of_process("other"), wait_seconds=20)
        flow = SinkFlow(other, last=epochs)
        while flow.epoch(Owner.of_process("other")):
            pass


@pytest.mark.parametrize(
    "step",
    [
        "sink:written",
        "before:prepare_participant:1",
        "before:append_decision",
        "before:commit_participant:1",
        "before:append_complete",
    ],
)
def test_a_zombie_that_comes_back_is_refused(tmp_path, database, step):
    """A run is stopped at a step, another one takes over and completes two epochs, then the first goes on."""
    stopped = []

    def stop(name):
        if name == step and not stopped:
            stopped.append(name)
            run._lease._end()  # a stopped process has no heartbeat
            take_over(tmp_path, database, 2)

    run = coordinator(tmp_path, database.dsn, lease_seconds=0.3)
    with watch(stop), pytest.raises(FencedError):
        SinkFlow(run).epoch(Owner.of_process("first"))
    assert stopped == [step]
    finish(tmp_path, database, 3)
    assert [n for (n,) in database.query("SELECT n FROM numbers ORDER BY n")] == numbers_of(3)


def child_zombie(root, dsn, at_step):
    """Copies rows, stops itself before it prepares the transaction, and goes on when it is told to."""

    def stop(name):
        if name == at_step:
            os.kill(os.getpid(), signal.SIGSTOP)

    run = coordinator(root, dsn, lease_seconds=0.5)
    with watch(stop), pytest.raises(FencedError):
        SinkFlow(run).epoch(Owner.of_process())


def test_a_stopped_process_whose_commit_comes_late_is_refused(tmp_path, database):
    child = PROCESSES.Process(target=child_zombie, args=(tmp_path, database.dsn, "before:append_decision"))
    child.start()
    wait_until(lambda: psutil.Process(child.pid).status() == psutil.STATUS_STOPPED)
    try:
        assert len(database.prepared()) == 1
        take_over(tmp_path, database, 1)
    finally:
        os.kill(child.pid, signal.SIGCONT)
    child.join(60)
    assert child.exitcode == 0
    finish(tmp_path, database, 2)


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
