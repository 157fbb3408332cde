"""A pipeline that is renamed keeps its assets, jobs and sensors in Dagster, and readers of its tables find them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa  # noqa: TC002 - Dagster reads the annotation
import pytest

import dagster_operators as do
from dagster_operators.errors import PipelineError

pytestmark = pytest.mark.usefixtures("on_sail")


def program(folder: Path, name: str, **more: Any) -> do.Pipeline:
    made = do.Pipeline(name, root=str(folder / "root"), **more)
    rows = made.source("rows", do.FileSource(str(folder / "in"), schema="k string, v long", max_files=1))
    rows.key_by("k").aggregate(n="count(*)", name="per_key").to_table("totals")
    return made


def defined(folder: Path, name: str, **more: Any) -> dg.Definitions:
    made = program(folder, name, **more)
    return do.build_definitions(made, sensor=True, schedule="@daily", maintenance="@daily", wait_seconds=0)


def names_in(definitions: dg.Definitions) -> dict[str, set[str]]:
    found = definitions.get_repository_def()
    return {
        "assets": {key.to_user_string() for key in found.asset_graph.get_all_asset_keys()},
        "jobs": set(found.job_names),
        "sensors": {sensor.name for sensor in found.sensor_defs},
        "schedules": {schedule.name for schedule in found.schedule_defs},
    }


def arrive(folder: Path, number: int) -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / f"{number}.csv").write_text("k,v\na,1\n")


def test_its_assets_runs_and_readers_go_on(tmp_path: Path) -> None:
    arrive(tmp_path, 1)
    before, after = defined(tmp_path, "old"), defined(tmp_path, "new", renamed_from="old")
    assert names_in(before) == names_in(after)
    assert "old/totals" in names_in(after)["assets"]
    graph = after.get_repository_def().asset_graph
    assert graph.get(dg.AssetKey(["old", "totals"])).group_name == "new"
    instance = dg.DagsterInstance.ephemeral()
    for number, definitions in enumerate((before, after), 1):
        arrive(tmp_path, number)
        assert definitions.resolve_job_def("old_epoch").execute_in_process(instance=instance).success
        event = instance.get_latest_materialization_event(dg.AssetKey(["old", "totals"]))
        assert event is not None
        assert event.asset_materialization is not None
        assert event.asset_materialization.metadata["epoch"].value == number
    tags = [{k: v for k, v in run.tags.items() if "pipeline" in k or "root" in k} for run in instance.get_runs()]
    assert tags[0] == tags[1], "whoever looks for runs of the pipeline finds those of before"

    seen: list[pa.Table] = []

    @dg.asset(ins={"totals": dg.AssetIn(dg.AssetKey(["old", "totals"]), input_manager_key="tables")})
    def report(totals: pa.Table) -> None:
        seen.append(totals)

    reader = do.PipelineIOManager(source=do.PipelineResource(root=str(tmp_path / "root")))
    specs = [one for one in after.resolve_all_asset_specs() if one.key == dg.AssetKey(["old", "totals"])]
    assert dg.materialize([report, *specs], resources={"tables": reader}, instance=instance).success
    assert seen[0].to_pylist() == [{"k": "a", "n": 2}]


def test_who_reads_its_tables_elsewhere_names_their_assets(tmp_path: Path) -> None:
    made = program(tmp_path, "new", renamed_from="old")
    reader = do.Pipeline("reader", root=str(tmp_path / "reader"))
    reader.source("totals", do.PipelineSource(made, "totals")).to_table("copied")
    assert "old/totals" in names_in(do.build_definitions(reader))["assets"]
    assert "old/totals" in names_in(do.build_definitions(made, reader))["assets"]


def test_another_pipeline_of_its_old_name_is_refused_beside_it(tmp_path: Path) -> None:
    other = do.Pipeline("old", root=str(tmp_path / "other"))
    other.source("rows", do.MemorySource([[(1,)]], schema="v long")).to_table("kept")
    with pytest.raises(PipelineError, match="two pipelines are named 'old', as 'new' was"):
        do.build_definitions(program(tmp_path, "new", renamed_from="old"), other)
