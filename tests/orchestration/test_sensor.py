"""When the sensor and the schedule start a run, and when not. They look without an engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

import dagster_operators as do
from dagster_operators.errors import StorageError
from dagster_operators.runtime.engine import ENGINE_VARIABLE
from dagster_operators.transactions.failpoints import watch
from dagster_operators.transactions.owner import Owner
from tests.orchestration import demo


def tick(folder: Path, instance: dg.DagsterInstance, cursor: str | None = None) -> Any:
    sensor = demo.definitions(folder).resolve_sensor_def("demo_sensor")
    return sensor(dg.build_sensor_context(instance=instance, cursor=cursor))


def run(folder: Path, instance: dg.DagsterInstance) -> None:
    assert dg.execute_job(demo.reconstructable(folder, "demo_epoch"), instance).success


@pytest.fixture
def without_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENGINE_VARIABLE, "sc://there-is-no-such-host:1")


@pytest.mark.usefixtures("without_engine")
def test_news_start_one_run(folder: Path, instance: dg.DagsterInstance) -> None:
    result = tick(folder, instance)
    (request,) = result.run_requests
    assert request.run_key.startswith("demo:1:")
    assert json.loads(result.cursor)["sources"].keys() == {"rows"}
    again = tick(folder, instance, result.cursor)
    assert isinstance(again, dg.SkipReason)
    assert again.skip_message is not None
    assert again.skip_message.startswith("A run was started for this already: rows up to")
    forgotten = tick(folder, instance)
    assert forgotten.run_requests[0].run_key == request.run_key  # Dagster starts no second run of this key


@pytest.mark.usefixtures("without_engine")
def test_nothing_new_starts_nothing(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    pipeline = do.Pipeline("demo", root=str(tmp_path / "demo"))
    pipeline.source("rows", do.MemorySource(schema="k string")).to_table("t")
    sensor = do.build_definitions(pipeline, sensor=True).resolve_sensor_def("demo_sensor")
    assert sensor(dg.build_sensor_context(instance=instance)) == dg.SkipReason("Nothing new after epoch 0 in rows")


@pytest.mark.usefixtures("on_sail")
def test_each_epoch_of_a_backlog_gets_its_run(folder: Path, instance: dg.DagsterInstance) -> None:
    first = tick(folder, instance)
    run(folder, instance)
    second = tick(folder, instance, first.cursor)
    assert second.run_requests[0].run_key.startswith("demo:2:")
    run(folder, instance)
    assert tick(folder, instance, second.cursor) == dg.SkipReason("Nothing new after epoch 2 in rows")


@pytest.mark.usefixtures("on_sail")
def test_an_epoch_that_waits_to_be_carried_out_gets_one_more_run(folder: Path, instance: dg.DagsterInstance) -> None:
    first = tick(folder, instance)

    def fail(name: str) -> None:
        if name == "before:commit_table:2":
            raise StorageError("the disk is gone")

    with watch(fail):
        dg.execute_job(demo.reconstructable(folder, "demo_epoch"), instance)
    second = tick(folder, instance, first.cursor)
    assert second.run_requests[0].run_key != first.run_requests[0].run_key
    assert isinstance(tick(folder, instance, second.cursor), dg.SkipReason)


@pytest.mark.usefixtures("without_engine")
def test_nothing_starts_while_another_process_is_at_work(folder: Path, instance: dg.DagsterInstance) -> None:
    with demo.pipeline(folder).epochs.coordinator as other:
        other.open(Owner.of_process())
        skipped = tick(folder, instance)
        assert "is working on the pipeline" in skipped.skip_message
    assert tick(folder, instance).run_requests


def a_run(folder: Path, instance: dg.DagsterInstance, status: dg.DagsterRunStatus) -> str:
    job = demo.definitions(folder).resolve_job_def("demo_epoch")
    made = instance.create_run_for_job(job, tags=job.tags)
    if status is not dg.DagsterRunStatus.NOT_STARTED:
        instance.report_dagster_event(dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, job.name), made.run_id)
    if status is dg.DagsterRunStatus.FAILURE:
        instance.report_run_failed(made)
    return made.run_id


@pytest.mark.usefixtures("without_engine")
@pytest.mark.parametrize("status", [dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTED])
def test_nothing_starts_while_a_run_goes_on(folder: Path, instance: dg.DagsterInstance, status: dg.DagsterRunStatus) -> None:
    run_id = a_run(folder, instance, status)
    words = f"run {run_id} (demo_epoch) is {status.value.lower()}: looking again when it is done"
    assert tick(folder, instance) == dg.SkipReason(words)


@pytest.mark.usefixtures("without_engine")
def test_a_run_that_failed_holds_nothing_up(folder: Path, instance: dg.DagsterInstance) -> None:
    a_run(folder, instance, dg.DagsterRunStatus.FAILURE)
    assert tick(folder, instance).run_requests


@pytest.mark.usefixtures("without_engine")
def test_a_run_that_was_killed_does_not_hold_the_sensor_up(
    folder: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed run stays "started" for ever; without a heartbeat it counts no longer."""
    monkeypatch.setattr("dagster_operators.orchestration.in_progress._GRACE_SECONDS", -1.0)
    a_run(folder, instance, dg.DagsterRunStatus.STARTED)
    assert tick(folder, instance).run_requests


def test_a_missing_folder_is_an_error_of_the_tick(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    with pytest.raises(Exception, match="in"):
        tick(tmp_path, instance)


@pytest.mark.usefixtures("without_engine")
def test_the_schedule_starts_a_run_unless_one_goes_on(folder: Path) -> None:
    schedule = do.build_definitions(demo.pipeline(folder), schedule="*/10 * * * *").resolve_schedule_def("demo_schedule")
    with dg.instance_for_test() as instance:
        assert isinstance(schedule(dg.build_schedule_context(instance=instance)), dg.RunRequest)
        run_id = a_run(folder, instance, dg.DagsterRunStatus.NOT_STARTED)
        skipped = schedule(dg.build_schedule_context(instance=instance))
    assert skipped == dg.SkipReason(f"run {run_id} (demo_epoch) is not_started")
