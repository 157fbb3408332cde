"""Between two steps of a Dagster run nobody's heart beats: the next one may take longer to start than the lease lasts.

Stands for the fault script b1.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from dagster_operators.errors import FencedError, PipelineBusyError
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.lease import STARTING_SECONDS
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.plan import EpochHandle
from tests.transactions.flow import Flow, check_result

LEASE = 30.0


def run(root: Path, *, alive: bool | None = None) -> Coordinator:
    return Coordinator("numbers", str(root), lease_seconds=LEASE, is_run_alive=lambda owner: alive)


def first_step(root: Path, owner: Owner) -> tuple[Flow, EpochHandle]:
    """A run's first step: the epoch is begun, a stage is prepared, and the process ends."""
    with run(root) as steps:
        flow = Flow(steps)
        steps.open(owner)
        handle = steps.begin(flow.plan, flow.choose)
        assert handle is not None
        steps.prepare(handle, "clean", flow.work)
    return flow, handle


def let_pass(root: Path, seconds: float) -> None:
    """As if the last heartbeat had been so long ago."""
    (beat,) = (root / "owners").glob("g*")
    os.utime(beat, (time.time() - seconds,) * 2)


def test_a_run_whose_next_step_is_starting_is_not_taken_over(tmp_path: Path) -> None:
    flow, handle = first_step(tmp_path, Owner.of_dagster_run("A"))
    let_pass(tmp_path, 2 * LEASE)
    with run(tmp_path) as other, pytest.raises(PipelineBusyError, match="its next step is starting"):
        other.open(Owner.of_dagster_run("B"))
    with run(tmp_path) as again:
        flow.run, handle = again, again.resume(handle.begin_id, Owner.of_dagster_run("A"))
        again.prepare(handle, "sums", flow.work)
        again.commit(handle)
        check_result(again, 1)


@pytest.mark.parametrize("how", ["for good", "known to be over", "within a step"])
def test_one_that_does_not_come_back_is(tmp_path: Path, how: str) -> None:
    _, handle = first_step(tmp_path, Owner.of_dagster_run("A"))
    if how == "within a step":
        (beat,) = (tmp_path / "owners").glob("g*")
        beat.write_text(json.dumps({"state": "working"}))
    let_pass(tmp_path, STARTING_SECONDS + 1 if how == "for good" else 2 * LEASE)
    with run(tmp_path, alive=False if how == "known to be over" else None) as other:
        other.open(Owner.of_dagster_run("B"))
    with run(tmp_path) as again, pytest.raises((FencedError, PipelineBusyError)):
        again.resume(handle.begin_id, Owner.of_dagster_run("A"))


def test_a_process_does_not_start_steps(tmp_path: Path) -> None:
    elsewhere = Owner("process", "A", "elsewhere", "boot", 1, 0.0)
    with run(tmp_path) as steps:
        steps.open(elsewhere)
        steps._lease.pause()
        let_pass(tmp_path, 2 * LEASE)
        with run(tmp_path) as other:
            other.open(Owner.of_process())
