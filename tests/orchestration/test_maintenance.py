"""The jobs between epochs, over roots that need no engine; waiting that is told; tags of runs from the asset graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import dagster_operators as do
from dagster_operators.errors import PipelineBusyError
from dagster_operators.orchestration.keys import AssetKeys
from dagster_operators.orchestration.options import Options
from dagster_operators.orchestration.reporting import events, unreported
from dagster_operators.orchestration.steps import PipelineSteps
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.owner import Owner
from tests.orchestration import demo
from tests.transactions.flow import Flow

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def defs(tmp_path: Path) -> dg.Definitions:
    """Of a pipeline whose root has three epochs."""
    with Coordinator("numbers", str(tmp_path / "root")) as run:
        flow = Flow(run, last=3)
        while flow.epoch():
            pass
    pipeline = do.Pipeline("numbers", root=str(tmp_path / "root"))
    pipeline.source("numbers", do.MemorySource(schema="n long")).to_table("clean")
    return do.build_definitions(pipeline, maintenance="0 3 * * *", compact=True)


def execute(defs: dg.Definitions, instance: dg.DagsterInstance, job: str, **config: object) -> dg.ExecuteInProcessResult:
    name = job.rpartition("_")[2]
    return defs.resolve_job_def(job).execute_in_process(
        instance=instance, run_config={"ops": {name: {"config": config}}}, raise_on_error=False
    )


def logged(instance: dg.DagsterInstance, run_id: str) -> str:
    return "\n".join(entry.user_message for entry in instance.all_logs(run_id))


def test_maintenance_deletes_what_old_epochs_need(tmp_path: Path, defs: dg.Definitions, instance: dg.DagsterInstance) -> None:
    result = execute(defs, instance, "numbers_maintenance", keep="0 seconds", keep_epochs=1)
    assert result.success
    told = logged(instance, result.run_id)
    assert "epoch 4: clean: 3 files joined into 1." in told
    assert "5 files that only old epochs needed are deleted." in told
    assert do.StoredPipeline(str(tmp_path / "root")).status().oldest_epoch == 4
    assert defs.resolve_schedule_def("numbers_maintenance_schedule").cron_schedule == "0 3 * * *"


def test_joined_files_are_no_news(tmp_path: Path, defs: dg.Definitions, instance: dg.DagsterInstance) -> None:
    """The rows are as they were, so nothing that is made from the table is behind it."""
    pipeline = do.Pipeline("numbers", root=str(tmp_path / "root"))
    pipeline.source("numbers", do.MemorySource(schema="n long")).to_table("clean")
    steps, context = PipelineSteps(pipeline, AssetKeys(pipeline), Options()), dg.build_op_context(instance=instance)
    epochs = steps.observer(instance)
    (before,) = unreported(context, steps, epochs, 99)
    instance.report_runless_asset_event(before)  # type: ignore[arg-type]
    result = execute(defs, instance, "numbers_maintenance", keep="7 days")
    (told,) = [event.asset_observation_data.asset_observation for event in result.get_asset_observation_events()]
    assert (told.asset_key.path, told.tags) == (["numbers", "clean"], {})
    assert {name: value.value for name, value in told.metadata.items()} == {"epoch": 4, "files": "3 files joined into 1"}
    assert list(unreported(context, steps, epochs, 99)) == []
    (event,) = events(steps, epochs, epochs.coordinator.versions())
    tags = getattr(event, "tags", {})
    assert (tags["epoch"], tags["dagster/data_version"]) == ("4", "epoch-3")


def test_files_are_joined_only_where_that_was_said(tmp_path: Path, defs: dg.Definitions, instance: dg.DagsterInstance) -> None:
    told = logged(instance, execute(defs, instance, "numbers_maintenance", compact=False).run_id)
    assert "joined" not in told
    pipeline = do.Pipeline("numbers", root=str(tmp_path / "root"))
    pipeline.source("numbers", do.MemorySource(schema="n long")).to_table("clean")
    told = logged(instance, execute(do.build_definitions(pipeline), instance, "numbers_maintenance", keep="7 days").run_id)
    assert "joined" not in told
    assert do.StoredPipeline(str(tmp_path / "root")).last_epoch() == 3


def test_maintenance_leaves_an_epoch_that_is_begun_to_its_next_try(
    tmp_path: Path, defs: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    with Coordinator("numbers", str(tmp_path / "root")) as run:
        flow = Flow(run)
        run.open(Owner.of_process())
        assert run.begin(flow.plan, flow.choose) is not None
    result = execute(defs, instance, "numbers_maintenance", keep="0 seconds", keep_epochs=1)
    assert result.success
    assert "No files were joined: epoch 4 is begun and not complete" in logged(instance, result.run_id)
    assert do.StoredPipeline(str(tmp_path / "root")).status().oldest_epoch == 3


def test_repair_settles_tables(tmp_path: Path, defs: dg.Definitions, instance: dg.DagsterInstance) -> None:
    stored = do.StoredPipeline(str(tmp_path / "root"))
    for config in ({"keep": "OURS", "table": "clean"}, {"keep": "OURS"}):
        write_deltalake(tmp_path / "root/tables/clean", pa.table({"n": pa.array([7], pa.int64())}), mode="append")
        assert stored.status().wrong
        result = execute(defs, instance, "numbers_repair", **config)
        assert result.success
        assert "Settled: tables/clean (kept ours, at version " in logged(instance, result.run_id)
        assert not stored.status().wrong
    assert "nothing was wrong" in logged(instance, execute(defs, instance, "numbers_repair", keep="THEIRS").run_id)


def test_a_run_that_dagster_knows_to_be_over_is_in_nobodys_way(
    tmp_path: Path, defs: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    over = execute(defs, instance, "numbers_maintenance", compact=False)
    for job, config in (("numbers_repair", {"keep": "OURS"}), ("numbers_maintenance", {"keep_epochs": 1, "keep": "0 seconds"})):
        lost = Coordinator("numbers", str(tmp_path / "root"))
        lost.open(Owner.of_dagster_run(over.run_id))
        lost.close()  # as a step does; the next one, that would go on, never comes
        with pytest.raises(PipelineBusyError):
            do.Pipeline("numbers", root=str(tmp_path / "root")).repair_all("ours")
        assert execute(defs, instance, job, **config).success


@pytest.mark.usefixtures("on_sail")
def test_a_run_says_for_whom_it_waits_and_has_the_pipelines_tag(folder: Path, instance: dg.DagsterInstance) -> None:
    defs = do.build_definitions(demo.pipeline(folder), wait_seconds=0.01, retry_policy=demo.FAST)
    job = defs.resolve_implicit_global_asset_job_def()
    with Coordinator("demo", str(folder / "demo")) as other:
        other.open(Owner.of_process("other"))
        waited = job.execute_in_process(instance=instance, raise_on_error=False)
    assert "run other (host" in logged(instance, waited.run_id)
    assert "is at work on demo: waiting for it, up to 0 s." in logged(instance, waited.run_id)
    assert instance.get_run_by_id(waited.run_id).tags["dagster_operators/pipeline"] == "demo"  # type: ignore[union-attr]
