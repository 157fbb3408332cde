"""What Dagster is told of a pipeline, without an engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

import dagster_operators as do
from dagster_operators.errors import PipelineError
from tests.orchestration import demo

KEYS = demo.KEYS


def tables_of(defs: dg.Definitions, pipeline: str = "demo") -> dg.AssetsDefinition:
    graphs = (asset for asset in defs.assets or () if isinstance(asset, dg.AssetsDefinition))
    return next(graph for graph in graphs if graph.node_def.name == pipeline)


def test_stages_are_ops_between_begin_and_commit(folder: Path) -> None:
    graph = tables_of(demo.definitions(folder)).node_def
    assert isinstance(graph, dg.GraphDefinition)
    reads = {
        node.alias: [
            part.node for step in wired.values() if isinstance(step, dg.MultiDependencyDefinition) for part in step.dependencies
        ]
        for node, wired in graph.dependencies.items()
        if isinstance(node, dg.NodeInvocation)
    }
    assert reads == {
        "begin": [],
        "clean": ["begin"],
        "totals": ["clean"],
        "hourly": ["clean"],
        "commit": ["totals", "hourly", "begin"],
    }
    assert all(node.definition.retry_policy == demo.FAST for node in graph.nodes if isinstance(node.definition, dg.OpDefinition))


def test_tables_are_assets_with_their_real_upstream(folder: Path) -> None:
    defs = demo.definitions(folder)
    tables = tables_of(defs)
    assert {spec.key: {dep.asset_key for dep in spec.deps} for spec in tables.specs} == {
        KEYS["clean"]: {KEYS["rows"]},
        KEYS["totals"]: {KEYS["clean"]},
        KEYS["hourly"]: {KEYS["clean"]},
    }
    clean = tables.specs_by_key[KEYS["clean"]]
    assert clean.description == "What is known"
    assert {spec.key.path[-1]: spec.description for spec in tables.specs if spec is not clean} == {
        "totals": "Table totals of the pipeline demo: updating, one row per k",
        "hourly": "Table hourly of the pipeline demo: append",
    }, "not that of the graph, which is about an epoch"
    assert clean.kinds in ({"spark", "deltalake"}, {"sail", "deltalake"}), "by the engine of the environment"
    assert clean.group_name == "demo"
    assert clean.metadata["dagster/uri"] == str(folder / "demo/tables/clean")
    assert clean.metadata["dagster/table_name"] == "demo.clean"
    assert clean.code_version
    source = next(asset for asset in defs.assets or () if isinstance(asset, dg.AssetSpec))
    assert source.key == KEYS["rows"]
    assert source.metadata["dagster/uri"].endswith("/in")
    assert source.description == "Source rows of the pipeline demo: event time t, lateness 1 hour"


def test_the_epoch_job_shows_the_plan(folder: Path) -> None:
    job = demo.definitions(folder).resolve_job_def("demo_epoch")
    assert "stage totals" in str(job.metadata["explain"].value)


def test_an_epoch_is_all_or_nothing(folder: Path) -> None:
    with pytest.raises(dg.DagsterInvalidSubsetError):
        dg.define_asset_job("some", selection=[KEYS["totals"]]).resolve(
            asset_graph=demo.definitions(folder).resolve_asset_graph()
        )


def test_the_code_version_changes_with_the_stage() -> None:
    def version(condition: str) -> str | None:
        pipeline = do.Pipeline("p", root="unused")
        pipeline.source("rows", do.MemorySource(schema="v long")).filter(condition).to_table("t")
        return tables_of(do.build_definitions(pipeline), "p").specs_by_key[dg.AssetKey(["p", "t"])].code_version

    assert version("v > 1") == version("v > 1") != version("v > 2")


def test_checks_are_declared_with_the_assets(folder: Path) -> None:
    specs = {spec.name: spec for spec in tables_of(demo.definitions(folder)).check_specs}
    assert {name: spec.blocking for name, spec in specs.items()} == {"positive": True, "short": False}
    assert specs["positive"].asset_key == KEYS["clean"]
    assert specs["positive"].description == "Every new row satisfies v > 0"


def test_options_reach_assets_ops_schedule_and_sensor(folder: Path) -> None:
    pipeline = demo.pipeline(folder)
    defs = do.build_definitions(
        pipeline, schedule="*/10 * * * *", sensor=True, execution_timezone="Europe/Berlin", minimum_interval_seconds=7,
        default_status="RUNNING", group_name="lake", owners=["team:data"], tags={"tier": "gold"},
        automation_condition=dg.AutomationCondition.eager(),
    )  # fmt: skip
    spec = tables_of(defs).specs_by_key[KEYS["totals"]]
    assert (spec.group_name, list(spec.owners), spec.tags["tier"]) == ("lake", ["team:data"], "gold")
    assert spec.automation_condition is not None
    schedule = defs.resolve_schedule_def("demo_schedule")
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("*/10 * * * *", "Europe/Berlin")
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    sensor = defs.resolve_sensor_def("demo_sensor")
    assert (sensor.minimum_interval_seconds, sensor.job_name) == (7, "demo_epoch")
    assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
    for status in (dg.DefaultSensorStatus.RUNNING, dg.DefaultScheduleStatus.RUNNING):
        sensor = do.build_definitions(pipeline, sensor=True, catch_up=True, default_status=status).resolve_sensor_def(
            "demo_sensor"
        )
        assert (sensor.job_name, sensor.default_status) == ("demo_catch_up", dg.DefaultSensorStatus.RUNNING)
    assert not list(do.build_definitions(pipeline).schedules or ())


def test_a_neighbours_table_is_one_asset(tmp_path: Path) -> None:
    first = do.Pipeline("first", root=str(tmp_path / "first"))
    first.source("rows", do.MemorySource(schema="k string")).to_table("clean")
    second = do.Pipeline("second", root=str(tmp_path / "second"))
    clean = second.source("clean", do.DeltaSource(str(tmp_path / "first/tables/clean")))
    clean.lookup(do.DeltaSource(str(tmp_path / "elsewhere")), on="k", columns=["n"], name="names").to_table("named")
    defs = do.build_definitions(first, second)
    upstream = {dep.asset_key for dep in tables_of(defs, "second").specs_by_key[dg.AssetKey(["second", "named"])].deps}
    assert upstream == {dg.AssetKey(["first", "clean"]), dg.AssetKey(["second", "names"])}
    external = {asset.key for asset in defs.assets or () if isinstance(asset, dg.AssetSpec)}
    assert external == {dg.AssetKey(["first", "rows"]), dg.AssetKey(["second", "names"])}
    dg.Definitions.validate_loadable(defs)
    alone = tables_of(do.build_definitions(second), "second").specs_by_key[dg.AssetKey(["second", "named"])]
    assert dg.AssetKey(["second", "clean"]) in {dep.asset_key for dep in alone.deps}


def test_names_that_are_taken_are_avoided(tmp_path: Path) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path))
    rows = pipeline.source("flights", do.MemorySource(schema="k string"))
    rows.filter("k > 'a'").to_table("commit").select("k").to_table("flights")
    defs = do.build_definitions(pipeline)
    dg.Definitions.validate_loadable(defs)
    graph = tables_of(defs, "p")
    assert {spec.key.path[1]: {dep.asset_key.path[1] for dep in spec.deps} for spec in graph.specs} == {
        "commit": {"flights_source"},
        "flights": {"commit"},
    }
    assert (
        "commit_stage" in {node.name for node in graph.node_def.nodes}
        if isinstance(graph.node_def, dg.GraphDefinition)
        else False
    )


def test_rejected_records_are_an_asset_too(tmp_path: Path) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path))
    rows = pipeline.source("rows", do.FileSource(str(tmp_path / "in"), format="json", schema="k string", corrupt="reject"))
    rows.to_table("clean")
    spec = tables_of(do.build_definitions(pipeline), "p").specs_by_key[dg.AssetKey(["p", "rows_rejects"])]
    assert {dep.asset_key for dep in spec.deps} == {dg.AssetKey(["p", "rows"])}


def test_what_cannot_be_deployed_is_refused(folder: Path) -> None:
    with pytest.raises(PipelineError, match="no pipeline"):
        do.build_definitions()
    with pytest.raises(PipelineError, match="writes no table"):
        do.build_definitions(do.Pipeline("empty", root="unused"))
    with pytest.raises(PipelineError, match="two pipelines are named 'demo'"):
        do.build_definitions(demo.pipeline(folder), demo.pipeline(folder))


def test_an_automation_condition_by_a_name_there_is_not(folder: Path) -> None:
    with pytest.raises(PipelineError, match=r"automation_condition is 'news'.*'new input', or give one of Dagster's: dg\.Auto"):
        do.build_definitions(demo.pipeline(folder), automation_condition="news")  # type: ignore[arg-type]
    defs = do.build_definitions(demo.pipeline(folder), automation_condition=dg.AutomationCondition.eager())
    assert [sensor.name for sensor in defs.sensors] == ["demo_sources"]


def test_each_news_start_one_run_only(folder: Path) -> None:
    """The remedy is either of the two; a condition of the user's own is for them to choose."""
    with pytest.raises(PipelineError, match=r"would start two runs for the same news.*leave one of them out"):
        do.build_definitions(demo.pipeline(folder), sensor=True, automation_condition="new input")
    eager: Any = dg.AutomationCondition.eager()
    settings: list[dict[str, Any]] = [
        {"sensor": True}, {"automation_condition": "new input"}, {"sensor": True, "automation_condition": eager},
    ]  # fmt: skip
    made = [do.build_definitions(demo.pipeline(folder), **given).sensors or () for given in settings]
    assert [[sensor.name for sensor in sensors] for sensors in made] == [["demo_sensor"], ["demo_sources"], ["demo_sensor"]]


def test_no_secret_of_a_root_is_shown() -> None:
    pipeline = do.Pipeline("p", root="s3://user:secret@bucket/lake")
    pipeline.source("rows", do.MemorySource(schema="k string")).to_table("t")
    assert "secret" not in repr(tables_of(do.build_definitions(pipeline), "p").specs_by_key)


def test_loading_definitions_starts_no_engine_and_touches_no_storage(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tests.orchestration import demo; import dagster as dg\n"
        "defs = demo.definitions(Path(sys.argv[1])); dg.Definitions.validate_loadable(defs)\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'pyspark', 'py4j', 'pysail', 'deltalake'}))\n"
        "print(sorted(name for name in sys.modules if name.startswith('dagster_operators.operators.events.')))"
    )
    told = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True)
    engines, of_events = told.stdout.splitlines()
    assert engines == "[]"
    assert of_events == "['dagster_operators.operators.events.stopped']"  # the demo has no event operators
    assert not list(tmp_path.iterdir())
