"""Pipelines in a location with definitions of other people: I/O manager (``demo.Refusing``), executor, resources, assets."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

import dagster_operators as do
from dagster_operators.errors import StorageError
from dagster_operators.orchestration.keys import PIPELINE_TAG, ROOT_TAG, pipeline_tag
from dagster_operators.transactions.failpoints import watch
from tests.orchestration import demo


def run(folder: Path, instance: dg.DagsterInstance) -> dg.JobExecutionResult:
    return dg.execute_job(demo.reconstructable(folder, "demo_epoch"), instance)


def rerun(folder: Path, instance: dg.DagsterInstance, failed: str) -> dg.JobExecutionResult:
    options = dg.ReexecutionOptions.from_failure(failed, instance)
    return dg.execute_job(demo.reconstructable(folder, "demo_epoch"), instance, reexecution_options=options)


def started(result: dg.JobExecutionResult) -> set[str]:
    events = [event for event in result.all_events if event.event_type is dg.DagsterEventType.STEP_START]
    return {event.step_key.split(".")[-1] for event in events if event.step_key}


def fail_before_decision(name: str) -> None:
    if name == "before:append_decision":
        raise StorageError("the disk is gone")


@pytest.mark.usefixtures("on_sail")
def test_an_epoch_and_its_rerun_ask_no_io_manager(folder: Path, instance: dg.DagsterInstance) -> None:
    with watch(fail_before_decision):
        failed = run(folder, instance)
    assert not failed.success
    again = rerun(folder, instance, failed.run_id)
    assert again.success
    assert started(again) == {"commit"}
    assert sorted(demo.pipeline(folder).read("totals").collect()) == [("a", 1), ("b", 2)]


@pytest.mark.usefixtures("on_sail")
def test_a_rerun_of_a_rerun_knows_the_epoch(folder: Path, instance: dg.DagsterInstance) -> None:
    with watch(fail_before_decision):
        first = run(folder, instance)
        second = rerun(folder, instance, first.run_id)
    third = rerun(folder, instance, second.run_id)
    assert third.success
    assert [complete.epoch for complete in demo.pipeline(folder).history()] == [1]


@pytest.mark.usefixtures("on_sail")
def test_a_rerun_whose_epoch_another_run_completed_is_refused(folder: Path, instance: dg.DagsterInstance) -> None:
    with watch(fail_before_decision):
        first = run(folder, instance)
    assert run(folder, instance).success  # takes the epoch up
    assert rerun(folder, instance, first.run_id).success  # and hears its result
    assert run(folder, instance).success  # epoch 2
    late = rerun(folder, instance, first.run_id)
    assert not late.success
    (failure,) = [event for event in late.all_events if event.event_type is dg.DagsterEventType.STEP_FAILURE]
    assert "epoch 2 is complete" in failure.step_failure_data.user_failure_data.description
    assert [complete.epoch for complete in demo.pipeline(folder).history()] == [1, 2]


def test_a_run_that_began_nothing_says_so(instance: dg.DagsterInstance, folder: Path) -> None:
    job = demo.reconstructable(folder, "demo_epoch")
    result = dg.execute_job(job, instance, op_selection=["demo.commit"])
    assert "no run is known that began the epoch" in str(result.all_events)


def reading(folder: Path, name: str, table: str) -> do.Pipeline:
    """A pipeline that reads a table of another."""
    pipeline = do.Pipeline(name, root=str(folder / name))
    pipeline.source("theirs", do.DeltaSource(str(folder / table))).to_table("copied")
    return pipeline


def chain(folder: Path) -> dg.JobDefinition:
    """The demo, a pipeline that reads it, one that does not, and plain assets behind both, as one job."""
    seen = folder / "seen"

    @dg.asset(deps=[["b", "copied"], ["demo", "totals"]])
    def report() -> None:
        seen.write_text(seen.read_text() + "x" if seen.exists() else "x")

    alone = do.Pipeline("alone", root=str(folder / "alone"))
    alone.source("rows", do.FileSource(str(folder / "in"), format="json", schema=demo.SCHEMA)).to_table("kept")
    pipelines = demo.pipeline(folder), reading(folder, "b", "demo/tables/clean"), alone
    defs = do.build_definitions(*pipelines, retry_policy=demo.FAST, wait_seconds=0)
    job = dg.define_asset_job("nightly", executor_def=dg.in_process_executor)
    return dg.Definitions.merge(defs, dg.Definitions(assets=[report], jobs=[job])).resolve_job_def("nightly")


@pytest.mark.usefixtures("on_sail")
def test_what_is_downstream_goes_on_when_nothing_is_new(folder: Path, instance: dg.DagsterInstance) -> None:
    (folder / "in/003.json").unlink()
    first = chain(folder).execute_in_process(instance=instance)
    assert first.success
    second = chain(folder).execute_in_process(instance=instance)
    assert second.success
    assert (folder / "seen").read_text() == "xx"
    events = [event.step_materialization_data.materialization for event in second.all_events
              if event.event_type is dg.DagsterEventType.ASSET_MATERIALIZATION]  # fmt: skip
    told = {event.asset_key.to_user_string(): (event.tags or {}).get("epoch") for event in events}
    assert told == {"demo/clean": "1", "demo/totals": "1", "demo/hourly": "1", "b/copied": "1", "alone/kept": "1", "report": None}
    skipped = {event.step_key for event in second.all_events if event.is_step_skipped}
    assert skipped == {"demo.clean", "demo.totals", "demo.hourly", "b.copied", "alone.kept"}
    demo.drop(folder, 5, [("c", 1)])
    third = chain(folder).execute_in_process(instance=instance)
    assert third.success
    assert len(reading(folder, "b", "demo/tables/clean").history()) == 2
    tags = instance.get_run_by_id(third.run_id).tags  # type: ignore[union-attr]
    assert len({tags[f"dagster_operators/begin_id.{name}"] for name in ("demo", "b", "alone")}) == 3
    roots = {name: tags[pipeline_tag(name)] for name in ("demo", "b", "alone")}
    assert len(set(roots.values())) == 3
    assert tags[ROOT_TAG] == roots[tags[PIPELINE_TAG]], "of one of them"


def test_nothing_is_set_for_the_whole_location(tmp_path: Path) -> None:
    def build(name: str, engine: do.SparkEngine | None = None) -> do.Pipeline:
        pipeline = do.Pipeline(name, root=str(tmp_path / name), engine=engine)
        pipeline.source("rows", do.MemorySource(schema="k string")).to_table("t")
        return pipeline

    @dg.asset(deps=[["one", "t"]], required_resource_keys={"engine"})
    def report() -> None: ...

    sail, given = do.SparkEngine(remote="sail"), do.SparkEngine(remote="sc://spark:15002")
    own = dg.Definitions(assets=[report], executor=dg.multiprocess_executor, resources={"engine": 1}, loggers={})
    calls = [
        do.build_definitions(build("one")),
        do.build_definitions(build("two", sail), build("four")),
        do.build_definitions(build("three", sail), engine=given),
    ]
    assert all(made.executor is None for made in calls)
    merged = dg.Definitions.merge(own, *calls)
    dg.Definitions.validate_loadable(merged)
    assert merged.resources == {
        "engine": 1, "one_engine": do.SparkEngine(), "two_engine": sail, "three_engine": given, "four_engine": do.SparkEngine(),
    }  # fmt: skip
    assert {job.executor_def.name for job in merged.resolve_all_job_defs() if job.name.endswith("_epoch")} == {"in_process"}
