"""Other ways to run the same ops: a process for each, Apache Spark, rejects beside the rows."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

import dagster_operators as do
from dagster_operators.runtime.engine import ENGINE_VARIABLE
from tests.orchestration import demo


def tables_told(result: dg.JobExecutionResult) -> set[str]:
    events = [event for event in result.all_events if event.event_type is dg.DagsterEventType.ASSET_MATERIALIZATION]
    return {event.asset_key.path[-1] for event in events if event.asset_key}


@pytest.mark.slow
@pytest.mark.usefixtures("on_sail")
def test_every_op_may_run_in_its_own_process(folder: Path) -> None:
    with dg.instance_for_test() as instance:
        result = dg.execute_job(demo.reconstructable(folder, "demo_epoch", 2), instance)
        assert result.success
        assert tables_told(result) == {"clean", "totals", "hourly"}
        processes = (
            {event.pid for event in result.all_events if event.is_step_success} if hasattr(result.all_events[0], "pid") else None
        )
    assert processes is None or len(processes) > 1
    (complete,) = demo.pipeline(folder).history()
    assert complete.generation == 1  # one owner, whichever process
    assert sorted(demo.pipeline(folder).read("totals").collect()) == [("a", 1), ("b", 2)]


def test_the_default_engine_is_apache_spark(
    folder: Path, instance: dg.DagsterInstance, spark: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spark is not None
    monkeypatch.delenv(ENGINE_VARIABLE, raising=False)
    result = dg.execute_job(demo.reconstructable(folder, "demo_catch_up"), instance)
    assert result.success
    assert tables_told(result) == {"clean", "totals", "hourly"}
    assert sorted(demo.pipeline(folder).read("totals").collect()) == [("a", 11), ("b", 2)]


@pytest.mark.usefixtures("on_sail")
def test_rejects_are_materialised_too(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.json").write_text('{"k": "good"}\n{"k": "secret"\n')
    pipeline = do.Pipeline("p", root=str(tmp_path / "p"))
    source = do.FileSource(str(tmp_path / "in"), format="json", schema="k string", corrupt="reject")
    pipeline.source("rows", source).to_table("clean")
    defs = do.build_definitions(pipeline, masked_columns=["clean.k"])
    result = defs.resolve_job_def("p_epoch").execute_in_process(instance=instance)
    made = {event.asset_key.path[-1]: event.step_materialization_data.materialization.metadata
            for event in result.get_asset_materialization_events() if event.asset_key}  # fmt: skip
    assert {name: metadata["rows_in_epoch"].value for name, metadata in made.items()} == {"clean": 1, "rows_rejects": 1}
    assert "secret" not in made["rows_rejects"]["preview"].value


def test_the_engine_of_the_resource_runs_the_stages(folder: Path, instance: dg.DagsterInstance, sail: object) -> None:
    assert sail is not None
    defs = do.build_definitions(demo.pipeline(folder), engine=do.SparkEngine(remote="sail"))
    result = defs.resolve_job_def("demo_epoch").execute_in_process(instance=instance)
    assert result.success
