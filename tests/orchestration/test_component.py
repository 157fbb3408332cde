"""The component: from a place in Python, from queries in YAML, from a plan; scaffolded, checked and listed by ``dg``."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster.components.testing import create_defs_folder_sandbox
from pydantic import ValidationError

import dagster_operators as do
from dagster_operators.errors import PipelineError
from dagster_operators.orchestration.translator import AssetData

REPOSITORY = Path(__file__).parents[2]


def pipeline() -> do.Pipeline:
    made = do.Pipeline("flights", root="unused")
    made.source("landed", do.FileSource("in", schema="origin string, delay int")).filter("delay > 15").to_table("late")
    return made


PIPELINE = pipeline()
NONE = 3


PATIENT = dg.RetryPolicy(max_retries=7)


class OfTheLake(do.PipelineTranslator):
    def get_asset_spec(self, data: AssetData) -> dg.AssetSpec:
        return super().get_asset_spec(data).replace_attributes(key=["of_the_lake", data.name])


def at_night() -> dg.AutomationCondition[dg.AssetKey]:
    return dg.AutomationCondition.on_cron("0 3 * * *")


def both() -> list[do.Pipeline]:
    other = do.Pipeline("other", root="unused_other")
    other.source("landed", do.FileSource("in", schema="v int")).to_table("rows")
    return [PIPELINE, other]


def loaded(folder: Path, component: do.PipelineComponent) -> dg.Definitions:
    return component.build_defs(dg.ComponentTree.for_test().load_context)


@pytest.mark.parametrize(
    ("name", "jobs"),
    [("PIPELINE", {"flights_epoch"}), ("pipeline", {"flights_epoch"}), ("both", {"flights_epoch", "other_epoch"})],
)
def test_a_pipeline_at_a_place_in_python(name: str, jobs: set[str], tmp_path: Path) -> None:
    defs = loaded(tmp_path, do.PipelineComponent(pipeline=f"{__name__}:{name}", group_name="air", key_prefix="lake"))
    assert jobs <= {job.name for job in defs.resolve_all_job_defs()}
    late = defs.resolve_asset_graph().get(dg.AssetKey(["lake", "flights", "late"]))
    assert late.group_name == "air"


@pytest.mark.parametrize(
    ("place", "message"),
    [("nothing", "write module:name"), ("no_such_module:x", "cannot be imported"), (f"{__name__}:NONE", "is no pipeline")],
    ids=["form", "module", "object"],
)
def test_what_is_no_pipeline(place: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=message):
        loaded(tmp_path, do.PipelineComponent(pipeline=place))


def test_one_of_both_and_a_root_for_a_file() -> None:
    for wrong in ({}, {"pipeline": "a:b", "file": "c.yaml", "root": "r"}, {"file": "c.yaml"}, {"pipeline": "a:b", "root": "r"}):
        with pytest.raises(ValidationError, match=r"name one of both|needs root"):
            do.PipelineComponent(**wrong)


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        ({"pipeline": "a:b", "name": "other"}, "leave out name: a pipeline has its own"),
        (
            {"pipeline": "a:b", "storage_options": {}, "secrets": {}},
            "leave out storage_options and secrets: a pipeline has its own",
        ),
        ({"file": "a.plan", "root": "r", "name": "other"}, "leave out name: a plan has its own"),
        ({"file": "a.yaml", "root": "r", "secrets": {"a": {}}}, "leave out secrets: only a plan has any"),
    ],
)
def test_what_would_be_ignored_is_refused(attributes: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=told):
        do.PipelineComponent(**attributes)
    (tmp_path / "queries.yaml").write_text("pipeline: p\nsources: {}\n", "utf-8")
    with pytest.raises(PipelineError, match=r"queries say themselves what their pipeline is called.*leave name out"):
        do.Pipeline.from_yaml(tmp_path / "queries.yaml", root="r", name="other")


def test_what_dg_scaffolds_is_loaded_with_the_root_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FLIGHTS_ROOT", str(tmp_path / "root"))
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.scaffold_component(
            component_cls=do.PipelineComponent, defs_path="flights", scaffold_params={"root": "{{ env.FLIGHTS_ROOT }}"}
        )
        written = (folder / "defs.yaml").read_text()
        assert "dagster_operators" in written
        assert "FLIGHTS_ROOT" in written
        with sandbox.load_component_and_build_defs(defs_path=folder) as (component, defs):
            assert isinstance(component, do.PipelineComponent)
            table = defs.resolve_assets_def(dg.AssetKey(["flights", "hourly_delays"]))
            metadata = table.metadata_by_key[dg.AssetKey(["flights", "hourly_delays"])]
            assert metadata["dagster/uri"] == f"{tmp_path}/root/tables/hourly_delays"
            assert [sensor.name for sensor in defs.sensors or ()] == ["flights_sensor"]


def test_two_scaffolded_pipelines_share_neither_root_nor_input() -> None:
    with create_defs_folder_sandbox() as sandbox:
        folders = [sandbox.scaffold_component(component_cls=do.PipelineComponent, defs_path=name) for name in ("one", "two")]
        roots = [yaml.safe_load((folder / "defs.yaml").read_text())["attributes"]["root"] for folder in folders]
        assert roots == ["data/one", "data/two"]
        paths = [
            yaml.safe_load((folder / "pipeline.yaml").read_text())["sources"]["landed"]["files"]["path"] for folder in folders
        ]
        assert paths == ["input/one/*.csv", "input/two/*.csv"]
        with sandbox.build_all_defs() as defs:
            assert {"one_epoch", "two_epoch"} <= {job.name for job in defs.resolve_all_job_defs()}


def test_a_plan_beside_the_definitions() -> None:
    with create_defs_folder_sandbox() as sandbox:
        attributes = {"file": "flights.plan", "root": "unused"}
        body = {"type": "dagster_operators.PipelineComponent", "attributes": attributes}
        folder = sandbox.scaffold_component(component_cls=do.PipelineComponent, defs_path="plan", defs_yaml_contents=body)
        (folder / "pipeline.yaml").unlink()
        (folder / "flights.plan").write_bytes(PIPELINE.to_plan())
        with sandbox.load_component_and_build_defs(defs_path=folder) as (_, defs):
            assert defs.resolve_assets_def(dg.AssetKey(["flights", "late"]))


def loaded_with(**attributes: Any) -> dg.Definitions:
    """The definitions of a ``defs.yaml`` with these attributes."""
    with create_defs_folder_sandbox() as sandbox:
        body = {"type": "dagster_operators.PipelineComponent", "attributes": {"pipeline": f"{__name__}:PIPELINE", **attributes}}
        folder = sandbox.scaffold_component(component_cls=do.PipelineComponent, defs_path="air", defs_yaml_contents=body)
        (folder / "defs.yaml").write_text(yaml.safe_dump(body), "utf-8")
        with sandbox.load_component_and_build_defs(defs_path=folder) as (_, defs):
            return defs


def test_every_setting_of_definitions_is_an_attribute() -> None:
    assert set(inspect.signature(do.build_definitions).parameters) - {"pipelines"} <= set(do.PipelineComponent.model_fields)


def test_what_is_python_is_named_by_its_place() -> None:
    defs = loaded_with(
        executor="dagster:multiprocess_executor", retry_policy=f"{__name__}:PATIENT", translator=f"{__name__}:OfTheLake"
    )
    assert defs.resolve_job_def("flights_epoch").executor_def is dg.multiprocess_executor
    late = defs.resolve_assets_def(dg.AssetKey(["of_the_lake", "late"]))
    assert {op.retry_policy for op in late.node_def.iterate_op_defs()} == {PATIENT}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("new input", None),
        ("{{ dg.AutomationCondition.eager() }}", dg.AutomationCondition.eager()),
        ("{{ dg.AutomationCondition.on_cron('0 3 * * *') }}", at_night()),
        (f"{__name__}:at_night", at_night()),
    ],
)
def test_an_automation_condition_is_written_as_dagsters_or_named(given: str, wanted: object) -> None:
    defs = loaded_with(automation_condition=given)
    condition = defs.resolve_asset_graph().get(dg.AssetKey(["flights", "late"])).automation_condition
    assert condition == wanted if wanted else condition is not None
    assert [sensor.name for sensor in defs.sensors or ()] == ["flights_sources"]


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        ({"executor": "dagster:nothing"}, "'dagster:nothing' is no executor. To do: name an executor, or a function"),
        ({"executor": f"{__name__}:PATIENT"}, "is no executor"),
        ({"retry_policy": "no_such_module:x"}, "the module 'no_such_module' cannot be imported"),
        ({"translator": f"{__name__}:at_night"}, "is no PipelineTranslator"),
        ({"automation_condition": "eager"}, "'eager' names no automation condition. To do: write module:name"),
        ({"translater": "a:b"}, "translater"),
    ],
)
def test_a_place_of_something_else_is_refused_and_so_is_an_unknown_attribute(attributes: dict[str, Any], told: str) -> None:
    with pytest.raises(Exception, match="Error while loading component") as caught:
        loaded_with(**attributes)
    chain: list[str] = []
    error: BaseException | None = caught.value
    while error is not None:
        chain.append(str(error))
        error = error.__cause__ or error.__context__
    assert told in "\n".join(chain)


DATAFLOW = """
nodes:
  - id: rows
    source: {files: {path: in, schema: "t timestamp, v int"}, event_time: t}
    outputs: {v: v}
  - id: double
    operator: {python: double.py, inputs: {v: rows/v}, outputs: [twice]}
"""


def test_a_dataflow_of_event_operators_beside_the_definitions() -> None:
    with create_defs_folder_sandbox() as sandbox:
        attributes = {"file": "dataflow.yml", "root": "data/double", "name": "double"}
        path = sandbox.scaffold_component(do.PipelineComponent, defs_path="double")
        (path / "defs.yaml").write_text(
            yaml.safe_dump({"type": "dagster_operators.PipelineComponent", "attributes": attributes}), "utf-8"
        )
        (path / "dataflow.yml").write_text(DATAFLOW, "utf-8")
        (path / "double.py").write_text("class Operator:\n    def on_event(self, event, send_output): ...\n", "utf-8")
        with sandbox.load_component_and_build_defs(defs_path=path) as (_, defs):
            keys = {"/".join(key.path) for key in defs.resolve_asset_graph().get_all_asset_keys()}
            assert {"double/rows", "double/events", "double/double__twice"} <= keys
            assert "double_epoch" in {job.name for job in defs.resolve_all_job_defs()}


def test_dg_finds_it_by_the_packages_entry_point() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["dagster_dg_cli.registry_modules"] == {"dagster_operators": "dagster_operators"}
    assert "PipelineComponent" in dir(do)
    assert hasattr(do.PipelineComponent, "__dg_package_entry__"), "the mark that dg looks for"


@pytest.mark.timeout(600)
def test_dg_lists_scaffolds_and_checks_it(tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("dg")
    if not command.exists():
        if os.environ.get("CI") == "true":
            pytest.fail("CI needs dagster-dg-cli")
        pytest.skip("needs dagster-dg-cli")
    package = tmp_path / "air"
    shutil.copytree(REPOSITORY / "tests" / "orchestration" / "dg_project", package)
    (package / "air" / "defs").mkdir()
    (package / "air" / "defs" / "__init__.py").touch()
    environment = {
        **os.environ,
        "PYTHONPATH": f"{REPOSITORY}:{package}",
        "VIRTUAL_ENV": str(command.parents[1]),
        "COLUMNS": "200",
    }
    environment["PATH"] = f"{command.parent}:{environment['PATH']}"

    def dg_told(*arguments: str) -> str:
        done = subprocess.run([command, *arguments], cwd=package, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    assert "dagster_operators.PipelineComponent" in dg_told("list", "components")
    dg_told("scaffold", "defs", "dagster_operators.PipelineComponent", "flights", "--root", str(tmp_path / "root"))
    written = package / "air" / "defs" / "flights" / "defs.yaml"
    body = yaml.safe_load(written.read_text())
    body["attributes"] |= {
        "executor": "dagster:multiprocess_executor", "automation_condition": "{{ dg.AutomationCondition.eager() }}"
    }  # fmt: skip
    written.write_text(yaml.safe_dump(body))
    assert "validated successfully" in dg_told("check", "yaml")
    assert "loaded successfully" in dg_told("check", "defs")
    written.write_text(yaml.safe_dump(body).replace("sensor: true", "sensors: true"))
    done = subprocess.run([command, "check", "yaml"], cwd=package, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "'sensors' was unexpected" in done.stdout + done.stderr
