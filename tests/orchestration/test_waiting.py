"""A run that finds another one at work on its pipeline: it waits once, not once for each try, and then says what to do."""

from __future__ import annotations

import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

import dagster_operators as do
from dagster_operators.errors import PipelineBusyError, StorageError
from dagster_operators.orchestration.waiting import _seconds, once_free
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.failpoints import watch
from dagster_operators.transactions.owner import Owner
from tests.orchestration import demo

pytestmark = pytest.mark.usefixtures("on_sail")


def launch(folder: Path, instance: dg.DagsterInstance, job: str, config: Any = None, **options: Any) -> dg.ExecuteInProcessResult:
    defs = do.build_definitions(demo.pipeline(folder), **options)
    return defs.resolve_job_def(job).execute_in_process(instance=instance, run_config=config, raise_on_error=False)


def failed(result: dg.ExecuteInProcessResult) -> str:
    """What the one failure says, of a run whose step was not tried again."""
    of = {kind: [e for e in result.all_events if e.event_type is kind] for kind in dg.DagsterEventType}
    assert not of[dg.DagsterEventType.STEP_UP_FOR_RETRY]
    [event] = of[dg.DagsterEventType.STEP_FAILURE]
    return str(event.step_failure_data.error.message)  # type: ignore[union-attr]


def logged(instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult) -> str:
    return "\n".join(entry.user_message for entry in instance.all_logs(result.run_id))


JOBS = {
    "demo_epoch": {},
    "demo_catch_up": {},
    "demo_rebuild": {"rebuild": {"widen": ["totals"]}},
    "demo_repair": {"repair": {"keep": "OURS"}},
    "demo_maintenance": {"maintenance": {"wait_seconds": 0.3, "compact": True}},
}


@pytest.mark.parametrize("job", JOBS)
def test_a_run_waits_once_and_then_says_for_whom_and_what_to_do(folder: Path, instance: dg.DagsterInstance, job: str) -> None:
    config = {"ops": {name: {"config": given} for name, given in JOBS[job].items()}}
    with Coordinator("demo", str(folder / "demo")) as other:
        other.open(Owner.of_process("other"))
        result = launch(folder, instance, job, config, wait_seconds=0.3)
        told = failed(result)
        assert "PipelineBusyError: another run is working on the pipeline: run other (host" in told
        assert re.search(r"; waited [1-9]\d*(\.\d)? s for it \[|; waited 0\.[3-9] s for it \[", told)
        assert "wait for it to end (wait_seconds), or end it; if it hangs, take the pipeline from it" in told
        assert "a limit of 1 for the pool 'demo' has them queue" in told
        assert "is at work on demo: waiting for it, up to 0.3 s." in logged(instance, result)
        assert f"dagster-operators unlock {folder / 'demo'}" in told
    assert launch(folder, instance, "demo_epoch").success


def test_a_run_of_dagsters_is_told_with_its_state(folder: Path, instance: dg.DagsterInstance) -> None:
    second: list[dg.ExecuteInProcessResult] = []

    def start(name: str) -> None:
        if name == "stage:files_written" and not second:
            second.append(launch(folder, instance, "demo_epoch", wait_seconds=0))

    with watch(start):
        first = launch(folder, instance, "demo_epoch")
    assert first.success
    told = failed(second[0])
    assert f"Dagster run {first.run_id}" in told
    assert "state 'started (demo_epoch)'" in told


def test_a_run_goes_on_when_the_other_one_has_ended(
    folder: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Coordinator("demo", str(folder / "demo")) as other:
        other.open(Owner.of_process("other"))
        ends = SimpleNamespace(**{**vars(time), "sleep": lambda _: other.close()})  # while the run waits for it
        monkeypatch.setattr("dagster_operators.transactions.coordinator.time", ends)
        result = launch(folder, instance, "demo_epoch", wait_seconds=60)
    assert result.success
    assert "is at work on demo: waiting for it, up to 60 s." in logged(instance, result)


def test_what_may_pass_is_tried_again_as_before(folder: Path, instance: dg.DagsterInstance) -> None:
    tries: list[str] = []

    def fail(name: str) -> None:
        if name == "stage:files_written" and not tries:
            tries.append(name)
            raise StorageError("the connection broke")

    with watch(fail):
        result = launch(folder, instance, "demo_epoch", retry_policy=demo.FAST)
    assert result.success
    assert [event for event in result.all_events if event.event_type is dg.DagsterEventType.STEP_UP_FOR_RETRY]


def test_work_that_does_not_wait_itself_is_tried_until_the_pipeline_is_free() -> None:
    left = [PipelineBusyError("busy"), None]

    def work() -> str:
        if (error := left.pop(0)) is not None:
            raise error
        return "done"

    assert once_free(work)(5) == "done"
    left[:] = [PipelineBusyError("busy")]
    with pytest.raises(PipelineBusyError):
        once_free(work)(0)


@pytest.mark.parametrize(("seconds", "told"), [(0.3, "0.3"), (5, "5"), (9.96, "10"), (60.4, "60"), (1_000_000, "1000000")])
def test_few_seconds_are_told_with_a_tenth_of_them(seconds: float, told: str) -> None:
    assert _seconds(seconds) == told
