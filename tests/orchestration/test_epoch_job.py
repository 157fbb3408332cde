"""Runs of the epoch job on Sail: what happens in Dagster and what in the tables, when all goes well and when it does not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dagster_operators.errors import StorageError
from dagster_operators.runtime.epochs import Epochs
from dagster_operators.transactions.failpoints import watch
from dagster_operators.transactions.manifest import Manifest
from dagster_operators.transactions.plan import EpochHandle
from tests.orchestration import demo

pytestmark = pytest.mark.usefixtures("on_sail")
KEYS = demo.KEYS
TABLES = {KEYS["clean"], KEYS["totals"], KEYS["hourly"]}


@contextmanager
def failing(place: str, times: int, error: Exception, *, skip: int = 0) -> Iterator[list[str]]:
    """While this is open, the failpoint ``place`` raises, ``times`` times after having been passed ``skip`` times."""
    reached: list[str] = []

    def fail(name: str) -> None:
        if name == place:
            reached.append(name)
            if skip < len(reached) <= skip + times:
                raise error

    with watch(fail):
        yield reached


def run(folder: Path, instance: dg.DagsterInstance) -> dg.JobExecutionResult:
    return dg.execute_job(demo.reconstructable(folder, "demo_epoch"), instance)


def rerun(folder: Path, instance: dg.DagsterInstance, failed: str) -> dg.JobExecutionResult:
    options = dg.ReexecutionOptions.from_failure(failed, instance)
    return dg.execute_job(demo.reconstructable(folder, "demo_epoch"), instance, reexecution_options=options)


def steps(result: dg.JobExecutionResult, kind: dg.DagsterEventType) -> list[str]:
    return [event.step_key.split(".")[-1] for event in result.all_events if event.event_type is kind and event.step_key]


def materialised(result: dg.JobExecutionResult) -> dict[dg.AssetKey, dg.AssetMaterialization]:
    events = [event for event in result.all_events if event.event_type is dg.DagsterEventType.ASSET_MATERIALIZATION]
    return {event.asset_key: event.step_materialization_data.materialization for event in events if event.asset_key}


def evaluated(result: dg.JobExecutionResult) -> dict[str, bool]:
    return {evaluation.check_name: evaluation.passed for evaluation in result.get_asset_check_evaluations()}


def rows(folder: Path, table: str) -> list[Any]:
    return sorted(demo.pipeline(folder).read(table).collect())


def failure(result: dg.JobExecutionResult) -> dg.DagsterEvent:
    return next(event for event in result.all_events if event.event_type is dg.DagsterEventType.STEP_FAILURE)


def test_a_run_commits_one_epoch_and_tells_of_it(folder: Path, instance: dg.DagsterInstance) -> None:
    first, second = run(folder, instance), run(folder, instance)
    assert first.success
    assert steps(first, dg.DagsterEventType.STEP_SUCCESS) == ["begin", "clean", "hourly", "totals", "commit"]
    assert materialised(first).keys() == TABLES
    assert evaluated(first) == {"positive": True, "short": True}
    assert rows(folder, "totals") == [("a", 11), ("b", 2)]
    clean = materialised(second)[KEYS["clean"]]
    shown = {name: value.value for name, value in clean.metadata.items()}
    assert clean.tags is not None
    assert (clean.tags["epoch"], clean.tags["dagster/data_version"]) == ("2", "epoch-2")
    assert (shown["epoch"], shown["delta_version"], shown["rows_in_epoch"], shown["dagster/row_count"]) == (2, 2, 1, 3)
    assert (shown["late_rows"], shown["watermark"]) == (0, "2024-01-01T02:00:00Z")
    assert shown["dagster/uri"] == str(folder / "demo/tables/clean")
    assert shown["seconds"] > 0
    assert shown["preview"].splitlines()[2] == "| a | 10 | 2024-01-01 03:00:00+00:00 |"
    assert [(column.name, column.type) for column in shown["dagster/column_schema"].columns] == [
        ("k", "string"), ("v", "long"), ("t", "timestamp"),
    ]  # fmt: skip
    lineage = materialised(second)[KEYS["totals"]].metadata["dagster/column_lineage"].value
    assert lineage.deps_by_column["total"] == [dg.TableColumnDep(KEYS["clean"], "v")]
    assert instance.get_run_by_id(second.run_id).tags["dagster_operators/epoch"] == "2"


def test_nothing_new_is_a_success_that_materialises_nothing(folder: Path, instance: dg.DagsterInstance) -> None:
    run(folder, instance), run(folder, instance)
    third = run(folder, instance)
    assert third.success
    assert steps(third, dg.DagsterEventType.STEP_SKIPPED) == ["clean", "hourly", "totals", "commit"]
    assert not materialised(third)
    log = [entry.user_message for entry in instance.all_logs(third.run_id)]
    assert "Nothing new after epoch 2 in rows: nothing to do." in log


def test_a_stage_that_fails_once_is_retried(folder: Path, instance: dg.DagsterInstance) -> None:
    with failing("stage:files_written", 1, RuntimeError("lost")):  # in clean, the first stage
        result = run(folder, instance)
    assert result.success
    assert steps(result, dg.DagsterEventType.STEP_UP_FOR_RETRY) == ["clean"]
    assert materialised(result).keys() == TABLES
    assert rows(folder, "totals") == [("a", 1), ("b", 2)]


def test_a_rerun_from_failure_runs_only_what_failed(folder: Path, instance: dg.DagsterInstance) -> None:
    with failing("stage:files_written", 2, RuntimeError("lost"), skip=2):
        failed = run(folder, instance)
    assert not failed.success
    assert not materialised(failed)
    again = rerun(folder, instance, failed.run_id)
    assert again.success
    assert steps(again, dg.DagsterEventType.STEP_START) == [*steps(failed, dg.DagsterEventType.STEP_FAILURE), "commit"]
    assert set(steps(again, dg.DagsterEventType.STEP_START)) < {"totals", "hourly", "commit"}, "whichever came second"
    assert materialised(again).keys() == TABLES
    assert rows(folder, "totals") == [("a", 1), ("b", 2)]
    assert [complete.epoch for complete in demo.pipeline(folder).history()] == [1]


def test_a_new_run_takes_up_the_epoch_and_what_is_valid_of_it(folder: Path, instance: dg.DagsterInstance) -> None:
    with failing("stage:files_written", 2, RuntimeError("lost"), skip=2):
        run(folder, instance)
    with failing("stage:files_written", 0, RuntimeError()) as reached:
        result = run(folder, instance)
    assert result.success
    assert len(reached) == 1  # totals or hourly; clean and the other had run before
    assert {made.tags["epoch"] for made in materialised(result).values() if made.tags} == {"1"}
    assert rows(folder, "totals") == [("a", 1), ("b", 2)]


PLACES = ["before:append_decision", "before:commit_table:2", "before:append_complete"]


@pytest.mark.parametrize("place", PLACES)
def test_a_commit_that_breaks_off_is_finished_by_the_retry(folder: Path, instance: dg.DagsterInstance, place: str) -> None:
    with failing(place, 1, StorageError("the disk is gone")):
        result = run(folder, instance)
    assert result.success
    assert steps(result, dg.DagsterEventType.STEP_UP_FOR_RETRY) == ["commit"]
    assert materialised(result).keys() == TABLES
    assert rows(folder, "totals") == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("place", ["after:append_decision", "after:append_complete"])
def test_a_record_that_is_there_although_an_error_came_needs_no_retry(
    folder: Path, instance: dg.DagsterInstance, place: str
) -> None:
    """An answer that got lost: the same try looks whether its record is there."""
    with failing(place, 1, StorageError("the disk is gone")) as reached:
        result = run(folder, instance)
    assert reached
    assert result.success
    assert steps(result, dg.DagsterEventType.STEP_UP_FOR_RETRY) == []
    assert materialised(result).keys() == TABLES
    assert rows(folder, "totals") == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("place", PLACES)
def test_a_commit_that_breaks_off_is_finished_by_a_rerun(folder: Path, instance: dg.DagsterInstance, place: str) -> None:
    with failing(place, 2, StorageError("the disk is gone")):
        failed = run(folder, instance)
    assert not failed.success
    assert not materialised(failed)
    again = rerun(folder, instance, failed.run_id)
    assert again.success
    assert steps(again, dg.DagsterEventType.STEP_START) == ["commit"]
    assert materialised(again).keys() == TABLES
    assert rows(folder, "totals") == [("a", 1), ("b", 2)]


def test_a_decided_epoch_is_rolled_forward_and_told_by_the_next_run(folder: Path, instance: dg.DagsterInstance) -> None:
    with failing("before:commit_table:2", 2, StorageError("the disk is gone")):
        run(folder, instance)
    result = run(folder, instance)
    assert result.success
    told = [event.step_materialization_data.materialization for event in result.all_events
            if event.event_type is dg.DagsterEventType.ASSET_MATERIALIZATION]  # fmt: skip
    assert [(made.asset_key, made.tags["epoch"]) for made in told[:3]] == [
        (key, "1") for key in (KEYS["clean"], KEYS["totals"], KEYS["hourly"])
    ]
    assert {made.tags["epoch"] for made in told[3:]} == {"2"}
    assert rows(folder, "totals") == [("a", 11), ("b", 2)]
    assert not materialised(run(folder, instance))  # told once


def test_a_blocking_check_stops_the_epoch_and_is_reported(folder: Path, instance: dg.DagsterInstance) -> None:
    demo.drop(folder, 0, [("a", 1), ("long", -1)])
    result = run(folder, instance)
    assert not result.success
    assert not materialised(result)
    assert evaluated(result) == {"positive": False, "short": False}
    failed = result.get_asset_check_evaluations()[0]
    assert (failed.severity, failed.description) == (dg.AssetCheckSeverity.ERROR, "1 of 2 rows do not satisfy v > 0")
    assert steps(result, dg.DagsterEventType.STEP_UP_FOR_RETRY) == []
    assert "nothing was committed" in (failure(result).event_specific_data.error_display_string or "")
    assert demo.pipeline(folder).history() == []
    assert demo.pipeline(folder).repair_all("ours") == []  # nobody waits for the run, which is over


def test_an_error_that_a_retry_cannot_help_is_not_retried(folder: Path, instance: dg.DagsterInstance) -> None:
    (folder / "in/003.json").unlink()
    (folder / "in/000.json").write_text('{"k": ["not a string"]')
    result = run(folder, instance)
    assert steps(result, dg.DagsterEventType.STEP_UP_FOR_RETRY) == []
    data = failure(result).event_specific_data
    assert data.user_failure_data.metadata["error"].value == "BadInputError"
    assert data.user_failure_data.metadata["pipeline"].value == "demo"
    assert "000.json" in data.user_failure_data.description


def test_a_second_run_is_refused_while_one_is_at_work(folder: Path, instance: dg.DagsterInstance) -> None:
    second: list[dg.JobExecutionResult] = []

    def start(name: str) -> None:
        if name == "stage:files_written" and not second:
            second.append(run(folder, instance))

    with watch(start):
        first = run(folder, instance)
    assert first.success
    assert not second[0].success
    fields = failure(second[0]).event_specific_data.user_failure_data.metadata
    assert fields["error"].value == "PipelineBusyError"
    assert fields["run_id"].value == first.run_id
    assert rows(folder, "totals") == [("a", 1), ("b", 2)]


def test_a_run_that_was_given_up_and_comes_back_is_fenced_off(folder: Path, instance: dg.DagsterInstance) -> None:
    second: list[dg.JobExecutionResult] = []
    paused: list[str] = []

    def take_over(name: str) -> None:
        if name == "stage:files_written" and not paused:
            paused.append(name)
            instance.report_run_canceled(instance.get_runs()[0])
            second.append(dg.execute_job(demo.reconstructable(folder, "demo_epoch"), instance))

    with watch(take_over):
        first = run(folder, instance)
    assert second[0].success
    assert not first.success
    assert failure(first).event_specific_data.user_failure_data.metadata["error"].value == "FencedError"
    assert steps(first, dg.DagsterEventType.STEP_UP_FOR_RETRY) == []
    assert rows(folder, "totals") == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    "place", ["stage:files_written", "before:append_decision", "before:commit_table:2", "before:append_complete"]
)
def test_a_terminated_run_ends_and_the_next_takes_up_its_epoch(folder: Path, instance: dg.DagsterInstance, place: str) -> None:
    def terminate(name: str) -> None:
        if name == place and not instance.get_runs()[0].is_finished:
            instance.report_run_canceling(instance.get_runs()[0])
            raise dg.DagsterExecutionInterruptedError

    with watch(terminate):
        terminated = run(folder, instance)
    assert instance.get_runs()[0].status is dg.DagsterRunStatus.CANCELED
    assert not materialised(terminated)
    assert steps(terminated, dg.DagsterEventType.STEP_UP_FOR_RETRY) == []
    assert demo.pipeline(folder).epochs.coordinator.owner_at_work() is None
    assert demo.pipeline(folder).history() == []
    while materialised(run(folder, instance)):
        pass
    assert rows(folder, "totals") == [("a", 11), ("b", 2)]
    assert [complete.epoch for complete in demo.pipeline(folder).history()] == [1, 2]


def test_stages_of_ops_to_come_run_beside_the_op_that_dagster_runs(folder: Path, instance: dg.DagsterInstance) -> None:
    """In one process Dagster runs one op at a time; totals and hourly, which both read clean, meet all the same."""
    meeting, met = threading.Barrier(2), []

    def wait_for_the_other(place: str) -> None:
        if place == "before:write_manifest":
            met.append(place)
            if len(met) > 1:
                meeting.wait(30)

    with watch(wait_for_the_other):
        result = run(folder, instance)
    assert result.success
    assert len(met) == 3
    assert sorted(steps(result, dg.DagsterEventType.STEP_SUCCESS)) == ["begin", "clean", "commit", "hourly", "totals"]
    told = {event.step_key.split(".")[-1]: event.event_specific_data.metadata
            for event in result.all_events if event.event_type is dg.DagsterEventType.STEP_OUTPUT and event.step_key}  # fmt: skip
    assert [told[stage][f"rows in {stage}"].value for stage in ("clean", "totals", "hourly")] == [2, 2, 0]
    assert set(materialised(result)) == TABLES
    assert rows(folder, "totals") == [("a", 1), ("b", 2)]


def test_a_stage_that_fails_beside_another_fails_its_own_op_which_is_tried_again(
    folder: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[str] = []
    run_stage = Epochs.run_stage

    def fail_once(self: Epochs, handle: EpochHandle, stage: str) -> Manifest:
        if stage == "hourly" and not failed:
            failed.append(threading.current_thread().name)
            raise StorageError("the disk is full")
        return run_stage(self, handle, stage)

    monkeypatch.setattr(Epochs, "run_stage", fail_once)
    result = run(folder, instance)
    assert result.success
    assert failed[0].startswith("stages_")
    assert steps(result, dg.DagsterEventType.STEP_UP_FOR_RETRY) == ["hourly"]
    assert steps(result, dg.DagsterEventType.STEP_SUCCESS)[-1] == "commit"


def test_after_a_failure_only_the_stages_that_failed_run_again(folder: Path, instance: dg.DagsterInstance) -> None:
    with failing("before:append_prepared", 4, StorageError("the disk is full"), skip=1):
        first = run(folder, instance)
    assert not first.success
    assert sorted(steps(first, dg.DagsterEventType.STEP_FAILURE)) == ["hourly", "totals"]
    with failing("before:append_prepared", 0, StorageError("")) as reached:
        again = rerun(folder, instance, first.run_id)
    assert again.success
    assert sorted(steps(again, dg.DagsterEventType.STEP_SUCCESS)) == ["commit", "hourly", "totals"]
    assert len(reached) == 2


def test_one_stage_at_a_time_needs_no_other_thread(
    folder: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[str] = set()
    monkeypatch.setenv("DEMO_STAGES", "1")
    with watch(lambda place: seen.add(threading.current_thread().name)):
        assert run(folder, instance).success
    assert seen == {threading.current_thread().name}
