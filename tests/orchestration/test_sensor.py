"""When the sensor and the schedule start a run, and when not. They look without an engine."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any, cast

import dagster as dg
import pytest

import dagster_operators as do
from dagster_operators.errors import StorageError
from dagster_operators.orchestration.epoch_of_run import begin_tag
from dagster_operators.orchestration.keys import PIPELINE_TAG, ROOT_TAG, pipeline_tag, root_name
from dagster_operators.orchestration.news import News, Told
from dagster_operators.orchestration.tries import NEWS_TAG, Verdict, judge, judge_last
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
    assert (
        again.run_requests[0].run_key == request.run_key
    )  # as long as no such run is known; Dagster starts no second one of a key


@pytest.mark.usefixtures("without_engine")
def test_a_backlog_that_cannot_be_told_keeps_no_run_from_its_start(
    folder: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> dict[str, int]:
        raise StorageError("the storage says no")

    told = tick(folder, instance)
    monkeypatch.setattr(do.FileSource, "backlog", fail)
    again = tick(folder, instance)
    assert [one.run_key for one in again.run_requests] == [one.run_key for one in told.run_requests]
    (before,), (after,) = told.asset_events, again.asset_events
    assert before.metadata.keys() - after.metadata.keys() == {"unread files", "unread bytes"}


@pytest.mark.usefixtures("without_engine")
def test_nothing_new_starts_nothing(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    pipeline = do.Pipeline("demo", root=str(tmp_path / "demo"))
    names = do.MemorySource([[("a", "Ann")]], schema="k string, name string")
    pipeline.source("rows", do.MemorySource(schema="k string")).lookup(names, on="k").to_table("t")  # a lookup starts nothing
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


def asked(result: Any) -> dict[str, str]:
    (request,) = result.run_requests
    return dict(request.tags)


def killed(folder: Path, instance: dg.DagsterInstance, tags: dict[str, str]) -> dg.DagsterRun:
    """A run that was killed, as Dagster's monitoring puts it down."""
    job = demo.definitions(folder).resolve_job_def("demo_epoch")
    made = instance.create_run_for_job(job, tags={**job.tags, **tags})
    instance.report_dagster_event(dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, job.name), made.run_id)
    return made


@pytest.mark.usefixtures("without_engine")
def test_a_run_that_was_killed_is_started_again_at_once_then_later_and_not_for_ever(
    folder: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = []
    for number in range(5):
        with monkeypatch.context() as at_once:
            at_once.setattr("dagster_operators.orchestration.tries._PAUSES", (0.0,) * 4)
            result = tick(folder, instance)
        keys.append(result.run_requests[0].run_key)
        run = killed(folder, instance, asked(result))
        instance.report_run_failed(run)
        then = tick(folder, instance)
        if number in (1, 2, 3):
            assert f"run {run.run_id} (demo_epoch), which was started for this, is failure" in then.skip_message
            assert f"try {number + 2} of 5 begins at" in then.skip_message
        elif not number:
            assert then.run_requests
    assert len(set(keys)) == 5
    assert "the last of 5 tries: re-execute it, or launch demo_epoch" in then.skip_message


@pytest.mark.usefixtures("without_engine")
def test_a_run_that_was_killed_and_that_nobody_has_put_down_is_started_again(
    folder: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dagster_operators.orchestration.in_progress._GRACE_SECONDS", -1.0)
    first = tick(folder, instance)
    run = killed(folder, instance, asked(first))
    assert tick(folder, instance).run_requests[0].run_key == f"{first.run_requests[0].run_key}:{run.run_id}"


@pytest.mark.usefixtures("without_engine")
def test_a_run_that_was_deleted_keeps_no_other_from_its_start(
    folder: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster starts no second run of a key, and does not say so."""
    monkeypatch.setattr("dagster_operators.orchestration.tries._PAUSES", (0.0,) * 4)
    keys, runs = list[str](), list[dg.DagsterRun]()
    for _ in range(3):
        result = tick(folder, instance)
        keys.append(result.run_requests[0].run_key)
        runs.append(killed(folder, instance, asked(result)))
        instance.report_run_failed(runs[-1])
        if len(runs) == 2:
            instance.delete_run(runs[0].run_id)
    assert len(set(keys)) == 3


@pytest.mark.usefixtures("without_engine")
def test_a_run_that_a_person_ended_is_not_started_again(folder: Path, instance: dg.DagsterInstance) -> None:
    run = killed(folder, instance, asked(tick(folder, instance)))
    instance.report_run_canceled(run)
    assert f"run {run.run_id} (demo_epoch), which was started for this, is canceled: somebody ended it" in str(
        tick(folder, instance)
    )


@pytest.mark.usefixtures("on_sail")
def test_a_run_is_not_started_again_when_its_cause_does_not_pass(folder: Path, instance: dg.DagsterInstance) -> None:
    (folder / "in/003.json").unlink()
    (folder / "in/000.json").write_text('{"k": ["not a string"]')
    first = tick(folder, instance)
    result = dg.execute_job(demo.reconstructable(folder, "demo_epoch"), instance, tags=asked(first))
    skipped = tick(folder, instance)
    assert f"run {result.run_id} (demo_epoch), which was started for this, is failure: BadInputError: " in skipped.skip_message
    assert "000.json" in skipped.skip_message


@pytest.mark.usefixtures("on_sail")
def test_a_run_is_not_started_again_for_a_value_that_fits_no_expression(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    def definitions() -> dg.Definitions:
        pipeline = do.Pipeline("demo", root=str(tmp_path / "demo"))
        rows = pipeline.source("rows", do.FileSource(str(tmp_path / "in"), schema="v long"))
        rows.with_columns(share="100 div v").to_table("shares")
        return do.build_definitions(pipeline, sensor=True, retry_policy=demo.FAST, wait_seconds=0)

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("v\n1\n0\n")
    look = definitions().resolve_sensor_def("demo_sensor")
    first = look(dg.build_sensor_context(instance=instance))
    job = definitions().resolve_job_def("demo_epoch")
    result = job.execute_in_process(instance=instance, tags=asked(first), raise_on_error=False)
    assert not result.success
    assert not [event for event in result.all_events if event.event_type is dg.DagsterEventType.STEP_UP_FOR_RETRY]
    assert "is failure: UnfitValueError: " in look(dg.build_sensor_context(instance=instance)).skip_message


@pytest.mark.usefixtures("on_sail")
def test_the_sensor_brings_an_epoch_home_whose_run_failed(folder: Path, instance: dg.DagsterInstance) -> None:
    def fail(name: str) -> None:
        if name == "stage:files_written":
            raise StorageError("the disk is full")

    first = tick(folder, instance)
    with watch(fail):
        assert not dg.execute_job(demo.reconstructable(folder, "demo_epoch"), instance, tags=asked(first)).success
    second = tick(folder, instance)
    assert dg.execute_job(demo.reconstructable(folder, "demo_epoch"), instance, tags=asked(second)).success
    assert [complete.epoch for complete in demo.pipeline(folder).history()] == [1]


@pytest.mark.usefixtures("without_engine")
def test_nothing_starts_while_another_process_is_at_work(folder: Path, instance: dg.DagsterInstance) -> None:
    with demo.pipeline(folder).epochs.coordinator as other:
        other.open(Owner.of_process())
        skipped = tick(folder, instance)
        assert "is working on the pipeline" in skipped.skip_message
    assert tick(folder, instance).run_requests


def gone_back(folder: Path, epoch: int) -> None:
    """The root was restored from a copy of then, or removed to begin anew."""
    if epoch:
        copying(folder).repair_ledger(epoch)
    else:
        shutil.rmtree(folder / "demo")


def deployed(folder: Path) -> tuple[dg.SensorDefinition, dg.JobDefinition]:
    """The sensor and the job, as of a location that was just loaded."""
    defs = do.build_definitions(copying(folder), sensor=True)
    return defs.resolve_sensor_def("demo_sensor"), defs.resolve_job_def("demo_epoch")


def asked_again(sensor: dg.SensorDefinition, instance: dg.DagsterInstance, cursor: str | None = None) -> Any:
    return sensor(dg.build_sensor_context(instance=instance, cursor=cursor))


@pytest.mark.usefixtures("on_sail")
@pytest.mark.parametrize("epoch", [0, 1])
def test_what_a_run_did_that_is_gone_is_done_again_and_not_for_ever(
    folder: Path, instance: dg.DagsterInstance, epoch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a key of what is new after an epoch, the run that had done it once held the sensor up for good."""
    if epoch:
        copying(folder).run_epoch()
        demo.drop(folder, 5, [("c", 1)])
    sensor, job = deployed(folder)
    found = asked_again(sensor, instance)
    first = job.execute_in_process(instance=instance, tags=asked(found))
    assert first.success
    assert asked_again(sensor, instance, found.cursor) == dg.SkipReason(f"Nothing new after epoch {epoch + 1} in rows")
    gone_back(folder, epoch)
    _, job = deployed(folder)  # a run has a process of its own
    again = asked_again(sensor, instance, found.cursor)
    assert again.run_requests[0].run_key == f"{found.run_requests[0].run_key}:{first.run_id}"
    last = job.execute_in_process(instance=instance, tags=asked(again))
    assert last.success
    assert asked_again(sensor, instance) == dg.SkipReason(f"Nothing new after epoch {epoch + 1} in rows")
    gone_back(folder, epoch)
    then = asked_again(sensor, instance)
    assert "which was started for this, is success: try 3 of 5 begins at" in then.skip_message
    monkeypatch.setattr("dagster_operators.orchestration.tries._PAUSES", (0.0,) * 4)
    before = last.run_id
    for _ in range(3):
        found = asked_again(sensor, instance)
        assert found.run_requests[0].run_key.endswith(f":{before}")
        run = dg.DagsterRun(job_name="demo_epoch", status=dg.DagsterRunStatus.SUCCESS, tags=asked(found))
        before = instance.add_run(run).run_id
    assert "is success, the last of 5 tries: re-execute it, or launch demo_epoch" in str(asked_again(sensor, instance))


def test_a_success_of_some_other_day_is_no_try(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    """A root that is restored now and then was given up after the fifth time, for good."""
    job = dg.GraphDefinition("demo_epoch").to_job()
    runs = [job.execute_in_process(instance=instance, tags={NEWS_TAG: "n"}) for _ in range(5)]
    assert all(run.success for run in runs)
    assert "is success, the last of 5 tries" in judge(instance, "n", lambda _: False).reason
    monkeypatch.setattr("dagster_operators.orchestration.tries._LOOKED_AT", 3)  # more runs than are looked at
    monkeypatch.setattr("dagster_operators.orchestration.tries._REMEMBERED_SECONDS", 0.0)  # as of a day later
    monkeypatch.setattr("dagster_operators.orchestration.tries._PAUSES", (0.0,) * 4)
    assert judge(instance, "n", lambda _: False) == Verdict(tries=0, last=runs[-1].run_id)
    (last,) = instance.get_run_records(limit=1)
    told = judge_last(instance, last, 5, "demo_epoch", time.time(), which="the last one", nothing=False)
    assert told == Verdict(tries=0), "where the sensor tells of the sources it counts by itself"


@pytest.mark.usefixtures("on_sail")
def test_a_run_that_found_nothing_new_is_not_started_again_until_the_root_goes_back(
    folder: Path, instance: dg.DagsterInstance
) -> None:
    """The sensor may see more than an epoch does; and somebody may read the news before the run that was started for them."""
    sensor, job = deployed(folder)
    found = asked_again(sensor, instance)
    copying(folder).run_epoch()
    assert job.execute_in_process(instance=instance, tags=asked(found)).success
    shutil.rmtree(folder / "demo")
    assert asked_again(sensor, instance).run_requests
    (run,) = instance.get_runs()
    instance.add_run_tags(run.run_id, {"dagster_operators/nothing_after.demo": "0"})
    words = f"run {run.run_id} (demo_epoch), which was started for this, is success: it found nothing new (rows up to"
    assert words in str(asked_again(sensor, instance))


@pytest.mark.usefixtures("on_sail")
def test_the_sensor_of_the_sources_tells_again_what_an_epoch_had_read_that_is_gone(
    folder: Path, automated: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    copying(folder).run_epoch()
    demo.drop(folder, 5, [("c", 1)])
    automation = Automation(automated, instance)
    automation.due()
    job = automated.resolve_job_def("demo_epoch")
    assert (automation.told(), automation.due()) == (1, 1)
    assert job.execute_in_process(instance=instance).success
    assert (automation.told(), automation.due()) == (0, 0)
    gone_back(folder, 1)
    assert (automation.told(), automation.due(), automation.told()) == (1, 1, 0)
    assert job.execute_in_process(instance=instance).success
    assert automation.told() == 0
    gone_back(folder, 1)
    assert "is success: try 3 of 5 begins at" in str(automation.look()), "not at each tick"


@pytest.mark.usefixtures("on_sail")
def test_a_pipeline_of_another_root_has_runs_of_its_own(folder: Path, instance: dg.DagsterInstance) -> None:
    """One of another code location, that is: staging and production, or tenants."""

    def location(tenant: str) -> dg.Definitions:
        made = do.Pipeline("demo", root=str(folder / tenant))
        made.source("rows", do.FileSource(str(folder / "in"), format="json", schema=demo.SCHEMA)).to_table("clean")
        return do.build_definitions(made, sensor=True, key_prefix=tenant)

    a, b = location("a"), location("b")
    first = asked_again(a.resolve_sensor_def("demo_sensor"), instance)
    queued = instance.create_run_for_job(a.resolve_job_def("demo_epoch"), tags=asked(first))
    assert "is not_started" in str(asked_again(a.resolve_sensor_def("demo_sensor"), instance))
    other = asked_again(b.resolve_sensor_def("demo_sensor"), instance)
    assert asked(other)[NEWS_TAG] != asked(first)[NEWS_TAG]
    instance.report_run_canceled(queued)
    assert "is canceled" in str(asked_again(a.resolve_sensor_def("demo_sensor"), instance))
    assert asked_again(b.resolve_sensor_def("demo_sensor"), instance).run_requests
    instance.add_run(dg.DagsterRun(job_name="x", status=dg.DagsterRunStatus.NOT_STARTED, tags={PIPELINE_TAG: "demo"}))
    for defs in (a, b):
        assert "is not_started" in str(asked_again(defs.resolve_sensor_def("demo_sensor"), instance)), "an earlier version's"


@pytest.mark.usefixtures("without_engine")
@pytest.mark.parametrize("root", ["ours", "another"])
def test_a_run_of_several_pipelines_holds_up_each(folder: Path, instance: dg.DagsterInstance, root: str) -> None:
    """As one of the asset graph's: the tag with one name was that of another pipeline, and a second run was started beside it."""
    ours = root_name(demo.pipeline(folder)) if root == "ours" else "another"
    tags = {PIPELINE_TAG: "other", ROOT_TAG: "of the other", pipeline_tag("demo"): ours}
    instance.add_run(dg.DagsterRun(job_name="nightly", status=dg.DagsterRunStatus.NOT_STARTED, tags=tags))
    told = tick(folder, instance)
    assert bool(told.run_requests) if root == "another" else "(nightly) is not_started" in told.skip_message


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


@pytest.mark.usefixtures("without_engine")
@pytest.mark.parametrize("known_by", ["its tag", "the ledger"])
def test_a_run_that_was_killed_after_it_reached_the_ledger_holds_up_nothing_from_when_its_heartbeat_is_over(
    folder: Path, instance: dg.DagsterInstance, known_by: str
) -> None:
    """Were it for what runs may take to get there, that was minutes: an epoch came home five ticks later."""
    run_id = a_run(folder, instance, dg.DagsterRunStatus.STARTED)
    if known_by == "its tag":
        instance.add_run_tags(run_id, {begin_tag("demo"): "x"})
    else:
        with demo.pipeline(folder).epochs.coordinator as killed:
            generation = killed.open(Owner.of_dagster_run(run_id))
            assert "is working on the pipeline" in tick(folder, instance).skip_message
        heartbeat = folder / f"demo/owners/g{generation}"
        heartbeat.write_text('{"state": "working"}')
        os.utime(heartbeat, (1_700_000_000, 1_700_000_000))
    assert tick(folder, instance).run_requests


@pytest.mark.usefixtures("without_engine")
@pytest.mark.parametrize("parent", ["known", "deleted"])
def test_a_re_executed_run_has_begun_nothing_by_the_tags_of_the_one_before(
    folder: Path, instance: dg.DagsterInstance, parent: str
) -> None:
    """Dagster copies them: while such a run was starting its engine, a second one was started beside it."""
    first = a_run(folder, instance, dg.DagsterRunStatus.FAILURE)
    instance.add_run_tags(first, {begin_tag("demo"): "x"})
    failed = instance.get_run_by_id(first)
    assert failed is not None
    job = demo.definitions(folder).resolve_job_def("demo_epoch")
    again = instance.create_run_for_job(job, tags=dict(failed.tags), parent_run_id=first, root_run_id=first)
    instance.report_dagster_event(dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, job.name), again.run_id)
    if parent == "deleted":
        instance.delete_run(first)
    assert tick(folder, instance) == dg.SkipReason(f"run {again.run_id} (demo_epoch) is started: looking again when it is done")
    if parent == "known":
        instance.add_run_tags(again.run_id, {begin_tag("demo"): "y"})
        assert tick(folder, instance).run_requests, "it has begun one of its own, and no heartbeat of it is there"


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


def with_tables(folder: Path, *tables: str) -> do.Pipeline:
    """The demo's source, and tables of it."""
    made = do.Pipeline("demo", root=str(folder / "demo"))
    rows = made.source("rows", do.FileSource(str(folder / "in"), format="json", schema=demo.SCHEMA))
    for table in tables:
        rows.select("k", name=f"of_{table}").to_table(table)
    return made


@pytest.mark.usefixtures("on_sail")
def test_what_was_decided_starts_one_run(folder: Path, instance: dg.DagsterInstance) -> None:
    with_tables(folder, "clean", "copy").run_until_caught_up()
    changed = with_tables(folder, "clean")
    changed.drop("copy")
    made = do.build_definitions(changed, sensor=True, wait_seconds=0)
    look = made.resolve_sensor_def("demo_sensor")
    result: Any = look(dg.build_sensor_context(instance=instance))
    assert json.loads(result.cursor)["changes"] == {"table copy": "drop"}
    assert made.resolve_job_def("demo_epoch").execute_in_process(instance=instance).success
    assert changed.epochs.coordinator.view().last_epoch == 2
    assert not (folder / "demo/tables/copy").exists()
    again = look(dg.build_sensor_context(instance=instance, cursor=result.cursor))
    assert again == dg.SkipReason("Nothing new after epoch 2 in rows")


def by_the_hour(folder: Path, *, finished: bool) -> do.Pipeline:
    made = do.Pipeline("demo", root=str(folder / "demo"))
    source = do.FileSource(str(folder / "in"), format="json", schema=demo.SCHEMA)
    rows = made.source("rows", source, event_time="t", lateness="1 hour", finished=finished)
    rows.key_by("k").window(do.Tumbling("1 hour")).aggregate(n="count(*)", name="counts").to_table("hourly")
    return made


@pytest.mark.usefixtures("on_sail")
def test_a_source_that_is_finished_later_has_its_last_windows_closed(folder: Path, instance: dg.DagsterInstance) -> None:
    """No rows come with that, and the run that read the last ones has left the windows open."""
    by_the_hour(folder, finished=False).run_until_caught_up()
    for finished, closed in ((False, 2), (True, 3)):
        made = by_the_hour(folder, finished=finished)
        look = do.build_definitions(made, sensor=True).resolve_sensor_def("demo_sensor")
        found: Any = look(dg.build_sensor_context(instance=instance))
        assert runs(found) == finished
        if finished:
            assert json.loads(found.cursor)["sources"] == {"rows": {"finished": True}}
        assert made.run_epoch().empty is not finished, "as the sensor says"
        assert len(made.to_arrow("hourly")) == closed
    assert look(dg.build_sensor_context(instance=instance)) == dg.SkipReason("Nothing new after epoch 2 in rows")


def told_of(result: dg.SensorResult) -> dict[tuple[str, ...], dict[str, Any]]:
    return {
        tuple(event.asset_key.path): {name: value.value for name, value in event.metadata.items()}
        for event in result.asset_events
    }


@pytest.mark.usefixtures("on_sail")
def test_the_sensor_tells_what_its_sources_hold_and_once(folder: Path, instance: dg.DagsterInstance) -> None:
    first = tick(folder, instance)
    (told,) = told_of(first).values()
    assert list(told_of(first)) == [("demo", "rows")]
    assert told["offers rows up to"]["position"]["files"] == 1
    assert told["after epoch"] == 0
    sizes = [file.stat().st_size for file in sorted((folder / "in").iterdir())]
    assert (told["unread files"], told["unread bytes"]) == (2, sum(sizes)), "of which an epoch reads one"
    assert tick(folder, instance, first.cursor).asset_events == []
    run(folder, instance)
    second = tick(folder, instance, first.cursor)
    assert (told_of(second)["demo", "rows"]["unread files"], told_of(second)["demo", "rows"]["unread bytes"]) == (1, sizes[1])
    assert told_of(second)["demo", "rows"]["offers rows up to"]["position"]["files"] == 2
    assert tick(folder, instance, json.dumps({"run_key": "as before", "epoch": 1})).asset_events, "a cursor of an older version"


@pytest.mark.usefixtures("on_sail")
def test_new_input_makes_the_tables_due(folder: Path, instance: dg.DagsterInstance) -> None:
    """Once, also what comes while a run is at work; what runs make, and what nobody tells of, are no news."""
    defs = do.build_definitions(demo.pipeline(folder), automation_condition="new input")
    assert [sensor.name for sensor in defs.sensors] == ["demo_sources"]
    sensor, cursor = defs.resolve_sensor_def("demo_sources"), None
    conditions = dg.evaluate_automation_conditions(defs, instance).cursor
    everything = {"clean", "totals", "hourly"}

    def told() -> int:
        """What a tick of the sensor tells Dagster."""
        nonlocal cursor
        found = sensor(dg.build_sensor_context(instance=instance, cursor=cursor))
        if isinstance(found, dg.SkipReason):
            return 0
        cursor = found.cursor
        for event in found.asset_events:
            instance.report_runless_asset_event(event)
        return len(found.asset_events)

    def due() -> set[str]:
        """The tables that a tick of the automation asks for."""
        nonlocal conditions
        evaluated = dg.evaluate_automation_conditions(defs, instance, cursor=conditions)
        conditions = evaluated.cursor
        return {name for name in everything if evaluated.get_num_requested(demo.KEYS[name])}

    assert (due(), told(), due(), due()) == (set(), 1, everything, set())
    run(folder, instance)
    assert (told(), due(), due()) == (1, everything, set()), "the second of its files"
    run(folder, instance)
    assert (told(), due()) == (0, set())
    demo.drop(folder, 2, [("a", 4)])
    assert (told(), due(), told(), due()) == (1, everything, 0, set())


class Automation:
    """Dagster's automation of definitions with ``"new input"``, tick by tick, and the sensor that tells it of the sources."""

    def __init__(self, defs: dg.Definitions, instance: dg.DagsterInstance, name: str = "demo") -> None:
        self._defs, self._instance, self._name = defs, instance, name
        self._cursor: Any = None
        self._conditions: Any = None

    def look(self) -> dg.SensorResult | dg.SkipReason:
        sensor = self._defs.resolve_sensor_def(f"{self._name}_sources")
        found = sensor(dg.build_sensor_context(instance=self._instance, cursor=self._cursor))
        assert isinstance(found, dg.SensorResult | dg.SkipReason)
        if isinstance(found, dg.SensorResult):
            self._cursor = found.cursor
        return found

    def told(self) -> int:
        """How many sources a tick of the sensor tells Dagster of."""
        found = self.look()
        events = found.asset_events if isinstance(found, dg.SensorResult) else []
        for event in events:
            self._instance.report_runless_asset_event(event)
        return len(events)

    def event(self) -> dg.AssetMaterialization:
        """The only source that a tick of the sensor tells Dagster of."""
        (event,) = cast("dg.SensorResult", self.look()).asset_events
        self._instance.report_runless_asset_event(event)
        return cast("dg.AssetMaterialization", event)

    def due(self) -> int:
        """How many assets a tick of the automation asks for."""
        given = {"cursor": self._conditions} if self._conditions else {}
        evaluated = dg.evaluate_automation_conditions(self._defs, self._instance, **given)
        self._conditions = evaluated.cursor
        return evaluated.total_requested


def copying(folder: Path) -> do.Pipeline:
    made = do.Pipeline("demo", root=str(folder / "demo"))
    made.source("rows", do.FileSource(str(folder / "in"), format="json", schema=demo.SCHEMA)).to_table("clean")
    return made


@pytest.fixture
def automation(folder: Path, instance: dg.DagsterInstance) -> Automation:
    return Automation(do.build_definitions(copying(folder), automation_condition="new input"), instance)


@pytest.mark.usefixtures("without_engine")
def test_what_is_told_after_a_run_was_asked_for_and_before_the_next_tick_is_for_another_run(
    folder: Path, automation: Automation
) -> None:
    automation.due()
    assert (automation.due(), automation.told(), automation.due()) == (0, 1, 1)
    demo.drop(folder, 5, [("c", 1)])
    assert (automation.told(), automation.due(), automation.due()) == (1, 1, 0)


@pytest.mark.usefixtures("without_engine")
def test_what_was_told_before_the_first_tick_of_the_automation_is_read(automation: Automation) -> None:
    assert (automation.told(), automation.due(), automation.due(), automation.due()) == (1, 1, 0, 0)


@pytest.mark.usefixtures("without_engine")
def test_a_tick_asks_for_a_run_exactly_when_something_was_told_since_the_one_before(folder: Path, automation: Automation) -> None:
    """As long as no run is at work. N is news, T a tick: each order of three of them is there."""
    told = True  # what was, before the first
    for number, event in enumerate("TNNNTTTNTNTT"):
        if event == "T":
            assert automation.due() == told, number
            told = False
        else:
            demo.drop(folder, 5 + number, [("c", number)])
            assert automation.told() == 1
            told = True


@pytest.mark.usefixtures("on_sail")
def test_what_is_offered_again_behind_a_reset_is_news(folder: Path, automation: Automation) -> None:
    automation.due()
    assert (automation.told(), automation.due(), automation.due()) == (1, 1, 0)
    pipeline = copying(folder)
    pipeline.run_epoch()
    assert (automation.told(), automation.due()) == (0, 0)
    pipeline.reset("rows", to=None, tables="restart")
    assert (automation.told(), automation.due(), automation.told(), automation.due()) == (1, 1, 0, 0)


@pytest.mark.usefixtures("on_sail")
def test_work_that_an_operator_has_left_is_told_after_each_epoch(folder: Path, instance: dg.DagsterInstance) -> None:
    demo.drop(folder, 5, [("c", 1)])
    pipeline = do.Pipeline("demo", root=str(folder / "demo"))
    source = do.FileSource(str(folder / "in"), format="json", schema=demo.SCHEMA)
    rows = pipeline.source("rows", source, event_time="t", lateness="0 seconds")
    do.frontier.limit_rate(rows, 2).to_table("slow")
    automation = Automation(do.build_definitions(pipeline, automation_condition="new input"), instance)
    automation.due()
    epochs = 0
    while automation.told():
        assert automation.due() == 1
        assert not pipeline.run_epoch().empty
        assert automation.due() == 0
        epochs += 1
    assert epochs > 1
    assert pipeline.run_epoch().empty, "all was told"


def asked_for_by_automation(defs: dg.Definitions, instance: dg.DagsterInstance, *selected: dg.AssetKey) -> dg.DagsterRun:
    """A run as Dagster's automation asks for it: only the assets say whose it is."""
    job = defs.resolve_implicit_global_asset_job_def().get_subset(asset_selection=set(selected))
    tags = {"dagster/from_automation_condition": "true"}
    return instance.create_run_for_job(job, asset_selection=frozenset(selected), tags=tags)


@pytest.mark.usefixtures("on_sail")
def test_a_run_that_was_asked_for_and_has_not_begun_is_at_work(folder: Path, instance: dg.DagsterInstance) -> None:
    other = dg.asset(name="other")(lambda: None)
    defs = do.build_definitions(copying(folder), automation_condition="new input")
    automation = Automation(defs, instance)
    automation.due()
    both = dg.Definitions.merge(defs, dg.Definitions(assets=[other]))
    asked_for_by_automation(both, instance, dg.AssetKey("other"))
    assert (automation.told(), automation.due()) == (1, 1)
    run = asked_for_by_automation(both, instance, dg.AssetKey(["demo", "clean"]))
    demo.drop(folder, 5, [("c", 1)])
    words = f"run {run.run_id} ({run.job_name}) is not_started: looking again when it is done"
    assert automation.look() == dg.SkipReason(words)
    assert tick(folder, instance) == dg.SkipReason(words), "nor does the sensor that starts runs"
    assert automation.due() == 0
    instance.report_run_canceled(run)
    assert (automation.told(), automation.due(), automation.due()) == (1, 1, 0)


class Clock:
    """The time of the sensors, which a test moves."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("dagster_operators.orchestration.sensor.time", made)
    return made


@pytest.mark.usefixtures("on_sail")
def test_an_epoch_that_waits_to_be_carried_out_is_told_until_it_is(folder: Path, automation: Automation, clock: Clock) -> None:
    """A run that was asked for it may fail, too; without that it stays half done until new data comes."""

    def fail(name: str) -> None:
        if name.startswith("before:commit_table"):
            raise StorageError("the disk is gone")

    def run_that_fails() -> None:
        with watch(fail), pytest.raises(StorageError):
            copying(folder).run_epoch()

    automation.due()
    assert (automation.told(), automation.due(), automation.told(), automation.due()) == (1, 1, 0, 0)
    run_that_fails()
    event = automation.event()
    assert event.asset_key == dg.AssetKey(["demo", "rows"])
    assert "an epoch that is decided and not complete" in str(event.metadata["left to do"].value)
    assert (automation.due(), automation.told(), automation.due()) == (1, 0, 0)
    for pause in (120, 300, 1800, 1800):
        run_that_fails()
        clock.now += pause - 1
        assert (automation.told(), automation.due()) == (0, 0), "not at each tick"
        clock.now += 1
        assert (automation.told(), automation.due(), automation.told(), automation.due()) == (1, 1, 0, 0)
    copying(folder).run_epoch()
    clock.now += 1800
    assert (automation.told(), automation.due()) == (0, 0)
    assert [complete.epoch for complete in copying(folder).history()] == [1]


def test_a_decided_epoch_that_an_earlier_version_has_told_of_is_told_again() -> None:
    news = News(3, {}, decided=True, changes={}, inputs={"rows": dg.AssetKey("rows")}, others=frozenset())
    told = Told()
    assert len(told.tell(news, 1_000.0)) == 1
    before = json.loads(told.as_cursor())
    del before["rest_told"]
    assert len(Told.of(json.dumps(before)).tell(news, 1_700_000_000.0)) == 1
    assert not Told.of(told.as_cursor()).tell(news, 1_001.0)


@pytest.fixture
def automated(folder: Path) -> dg.Definitions:
    return do.build_definitions(copying(folder), automation_condition="new input")


def failed_run(defs: dg.Definitions, instance: dg.DagsterInstance) -> dg.DagsterRun:
    """A run that the automation has asked for, and that was killed before it has begun anything."""
    run = asked_for_by_automation(defs, instance, dg.AssetKey(["demo", "clean"]))
    instance.report_dagster_event(dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, run.job_name), run.run_id)
    instance.report_run_failed(run)
    return run


@pytest.mark.usefixtures("without_engine")
def test_a_run_of_the_automation_that_failed_before_its_epoch_is_asked_for_again_and_not_for_ever(
    automated: dg.Definitions, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    automation = Automation(automated, instance)
    automation.due()
    assert (automation.told(), automation.told(), automation.due(), automation.due()) == (1, 0, 1, 0), "no run was there yet"
    for number in range(4):
        run = failed_run(automated, instance)
        if number:
            then = cast("dg.SensorResult", automation.look())
            assert f"run {run.run_id} ({run.job_name}), the last one of the pipeline, is failure: try {number + 2} of 5" in str(
                then.skip_reason
            )
        with monkeypatch.context() as at_once:
            at_once.setattr("dagster_operators.orchestration.tries._PAUSES", (0.0,) * 4)
            event = automation.event()
        assert event.asset_key == dg.AssetKey(["demo", "rows"])
        assert str(event.metadata["left to do"].value).startswith("rows up to")
        assert (automation.told(), automation.due(), automation.told(), automation.due()) == (0, 1, 0, 0)
    failed_run(automated, instance)
    monkeypatch.setattr("dagster_operators.orchestration.tries._PAUSES", (0.0,) * 4)
    last = cast("dg.SensorResult", automation.look())
    assert "the last of 5 tries: re-execute it, or launch demo_epoch (rows up to" in str(last.skip_reason)
    assert (automation.told(), automation.due()) == (0, 0)


@pytest.mark.usefixtures("without_engine")
def test_what_came_meanwhile_has_tries_of_its_own(
    folder: Path, automated: dg.Definitions, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dagster_operators.orchestration.tries._PAUSES", (0.0,))
    automation = Automation(automated, instance)
    for files in (5, 6):
        for _ in range(2):
            assert (automation.told(), automation.told()) == (1, 0)
            failed_run(automated, instance)
        assert automation.told() == 0, "two tries"
        demo.drop(folder, files, [("c", files)])


@pytest.mark.usefixtures("without_engine")
def test_a_run_of_the_automation_that_a_person_ended_or_that_was_for_upkeep_is_not_asked_for_again(
    automated: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    automation = Automation(automated, instance)
    automation.due()
    assert (automation.told(), automation.due()) == (1, 1)
    upkeep = automated.resolve_job_def("demo_maintenance")
    instance.report_run_failed(instance.create_run_for_job(upkeep, tags=dict(upkeep.tags)))
    assert automation.told() == 0, "no run of epochs was there"
    run = asked_for_by_automation(automated, instance, dg.AssetKey(["demo", "clean"]))
    instance.report_run_canceled(run)
    then = cast("dg.SensorResult", automation.look())
    assert f"run {run.run_id} ({run.job_name}), the last one of the pipeline, is canceled: somebody ended it" in str(
        then.skip_reason
    )
    assert automation.due() == 0


@pytest.mark.usefixtures("without_engine")
def test_a_run_of_the_automation_that_failed_is_found_behind_any_number_of_others(
    automated: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    automation = Automation(automated, instance)
    assert automation.told() == 1
    failed_run(automated, instance)
    for number in range(110):
        upkeep = {"tags": {PIPELINE_TAG: "demo"}} if number % 4 == 0 else {}
        status = dg.DagsterRunStatus.FAILURE if number % 2 else dg.DagsterRunStatus.SUCCESS
        instance.add_run(dg.DagsterRun(job_name="demo_maintenance" if upkeep else "other", status=status, **upkeep))
    assert (automation.told(), automation.told()) == (1, 0)


@pytest.mark.usefixtures("without_engine")
@pytest.mark.parametrize("status", [dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.FAILURE])
@pytest.mark.parametrize("beside", [False, True])
def test_a_backfill_of_a_range_is_no_run_for_the_news(
    automated: dg.Definitions, instance: dg.DagsterInstance, status: dg.DagsterRunStatus, *, beside: bool
) -> None:
    """Beside assets of others it is a run of an epoch."""
    keys = {dg.AssetKey(["demo", "clean"]), *([dg.AssetKey("other")] if beside else [])}
    days = {"dagster/asset_partition_range_start": "2024-01-02", "dagster/asset_partition_range_end": "2024-01-03"}
    automation = Automation(automated, instance)
    assert automation.told() == 1
    instance.add_run(
        dg.DagsterRun(job_name="__ASSET_JOB", status=status, asset_selection=frozenset(keys), tags={PIPELINE_TAG: "demo", **days})
    )
    found = automation.look()
    if beside and status is dg.DagsterRunStatus.CANCELED:
        assert "the last one of the pipeline, is canceled" in str(found)
    else:
        assert len(cast("dg.SensorResult", found).asset_events) == beside


@pytest.mark.usefixtures("without_engine")
def test_no_runs_are_fetched_where_nothing_is_told_or_unread(
    tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = do.Pipeline("demo", root=str(tmp_path / "demo"))
    pipeline.source("rows", do.MemorySource(schema="k string")).to_table("t")
    monkeypatch.setattr("dagster_operators.orchestration.sensor.work_in_progress", lambda *_: None)
    monkeypatch.setattr(instance, "get_run_records", lambda *_, **__: pytest.fail("runs were fetched"))
    automation = Automation(do.build_definitions(pipeline, automation_condition="new input"), instance)
    assert "nothing that was not told" in str(automation.look())


@pytest.mark.usefixtures("on_sail")
def test_a_run_of_the_automation_is_not_asked_for_again_when_its_cause_does_not_pass(
    folder: Path, automated: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    (folder / "in/000.json").write_text('{"k": ["not a string"]')
    automation = Automation(automated, instance)
    automation.due()
    assert (automation.told(), automation.due()) == (1, 1)
    job = automated.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(instance=instance, raise_on_error=False, asset_selection=[dg.AssetKey(["demo", "clean"])])
    assert not result.success
    then = cast("dg.SensorResult", automation.look())
    assert f"run {result.run_id} (" in str(then.skip_reason)
    assert "the last one of the pipeline, is failure: BadInputError: " in str(then.skip_reason)
    assert automation.due() == 0


def test_a_cursor_of_a_version_that_did_not_count_tries_is_taken_for_the_first(
    automated: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    sensor = automated.resolve_sensor_def("demo_sources")
    told = cast("dg.SensorResult", sensor(dg.build_sensor_context(instance=instance)))
    before = json.loads(told.cursor or "")
    del before["asked"]
    failed_run(automated, instance)
    again = cast("dg.SensorResult", sensor(dg.build_sensor_context(instance=instance, cursor=json.dumps(before))))
    assert len(again.asset_events) == 1
    assert json.loads(again.cursor or "")["asked"][1] == 2


@pytest.mark.usefixtures("on_sail")
def test_what_was_decided_about_a_change_makes_the_tables_due(folder: Path, instance: dg.DagsterInstance, clock: Clock) -> None:
    with_tables(folder, "clean", "copy").run_until_caught_up()
    changed = with_tables(folder, "clean")
    changed.drop("copy")
    automation = Automation(do.build_definitions(changed, automation_condition="new input"), instance)
    automation.due()
    automation.due()
    assert (automation.told(), automation.due(), automation.told(), automation.due()) == (1, 1, 0, 0)
    clock.now += 120  # the run has failed, say
    assert (automation.told(), automation.due()) == (1, 1)
    changed.run_epoch()
    clock.now += 120
    assert (automation.told(), automation.due()) == (0, 0)


def runs(found: dg.SensorResult | dg.SkipReason) -> int:
    return len(found.run_requests or ()) if isinstance(found, dg.SensorResult) else 0


@pytest.mark.usefixtures("on_sail")
def test_where_all_sources_are_others_assets_what_an_epoch_left_is_run(
    folder: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever makes the table tells of it, and not again when an epoch has read some of it only."""

    def behind() -> do.Pipeline:
        pipeline = do.Pipeline("behind", root=str(folder / "behind"))
        pipeline.source("rows", do.PipelineSource(str(folder / "demo"), "clean", max_epochs=1)).to_table("copied")
        return pipeline

    for hour in (4, 5, 6):
        copying(folder).run_epoch()
        demo.drop(folder, hour, [("c", hour)])
        if hour == 4:
            behind().run_epoch()  # the first of all
    automation = Automation(do.build_definitions(behind(), automation_condition="new input"), instance, "behind")
    assert not runs(automation.look()), "left to those who tell"
    behind().run_epoch()
    assert not runs(automation.look())
    monkeypatch.setattr("dagster_operators.orchestration.news._PATIENCE", 0.0)
    assert runs(automation.look()) == 1
    eager = Automation(do.build_definitions(behind(), automation_condition=dg.AutomationCondition.eager()), instance, "behind")
    assert not runs(eager.look()), "another condition is the user's: nothing but what it asks for"
    behind().run_epoch()
    assert not runs(automation.look())


@pytest.mark.usefixtures("on_sail")
def test_what_a_tick_saw_of_others_assets_is_kept_where_it_starts_no_run(folder: Path, instance: dg.DagsterInstance) -> None:
    """As for two minutes they are left to whoever tells of them, from when they were seen."""

    def behind(*tables: str) -> do.Pipeline:
        made = do.Pipeline("behind", root=str(folder / "behind"))
        rows = made.source("rows", do.PipelineSource(str(folder / "demo"), "clean"))
        for table in tables:
            rows.select("k", name=f"of_{table}").to_table(table)
        return made

    copying(folder).run_epoch()
    behind("copied", "more").run_epoch()
    demo.drop(folder, 4, [("c", 4)])
    copying(folder).run_epoch()
    changed = behind("copied")
    changed.drop("more")
    defs = do.build_definitions(changed, automation_condition="new input")
    asked_for = cast("dg.SensorResult", Automation(defs, instance, "behind").look())
    instance.report_run_canceled(killed(folder, instance, asked(asked_for)))
    found = Automation(defs, instance, "behind").look()
    assert isinstance(found, dg.SensorResult)
    assert found.skip_reason
    assert "somebody ended it" in str(found.skip_reason.skip_message)
    assert json.loads(found.cursor or "{}")["seen"].keys() == {"rows"}
