"""The command dagster-operators plan."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import dagster_operators as do
from dagster_operators.cli.main import main
from tests.engines import SAIL


def pipeline(condition="v > 1", rows=(1, 2, 3)):
    made = do.Pipeline("flights", root="unused")
    batches = [[{"v": row}] for row in rows]
    made.source("rows", do.MemorySource(batches, schema="v long")).filter(condition).to_table("big", checks={"some": "v > 0"})
    return made


@pytest.fixture
def files(tmp_path):
    paths = {"old": pipeline(), "new": pipeline("v > 2")}
    for name, made in paths.items():
        (tmp_path / name).write_bytes(made.to_plan())
    return {name: str(tmp_path / name) for name in paths}


def command(*arguments, code=0, **more):
    result = CliRunner().invoke(main, ["plan", *arguments], catch_exceptions=False, **more)
    assert result.exit_code == code, result.output
    return result.output


def test_show_tells_a_plan_by_line(files):
    lines = command("show", files["old"]).splitlines()
    assert lines[0].startswith("pipeline flights (dagster_operators ")
    assert "  filter <- rows: filter(condition='v > 1')" in lines
    assert lines[-1] == "  table big <- filter (check some: v > 0)"
    assert "[repeatable, row-wise]" in command("show", files["old"], "--details")


def test_show_gives_json(files):
    found = json.loads(command("show", "--json", files["old"]))
    assert found["nodes"][1] == {
        "name": "filter",
        "kind": "filter",
        "package": "dagster_operators",
        "chain": True,
        "inputs": ["rows"],
        "settings": {"condition": "v > 1"},
    }
    assert found["tables"][0]["checks"] == {"some": {"expression": "v > 0", "blocking": True}}


def test_a_plan_may_come_by_standard_input():
    assert "pipeline flights" in command("show", "-", input=pipeline().to_plan())


def test_diff_tells_what_differs(files):
    assert command("diff", files["old"], files["new"]) == "~ filter: condition was 'v > 1', is 'v > 2'\n"
    changed = json.loads(command("diff", "--json", files["old"], files["new"]))["changed"]
    assert changed == {"filter": {"condition": ["v > 1", "v > 2"]}}
    assert command("diff", files["old"], files["old"], "--exit-code") == "the plans are equal\n"
    command("diff", files["old"], files["new"], "--exit-code", code=1)


def test_what_is_no_plan_is_told_without_a_trace(tmp_path):
    (tmp_path / "other").write_text("{}")
    output = command("show", str(tmp_path / "other"), code=1)
    assert output.startswith("Error: this is no plan")
    assert "To do: give the bytes as to_plan() made them" in output


def test_a_secret_that_is_missing_is_told(tmp_path):
    made = do.Pipeline("p", root="unused")
    source = do.FileSource("s3://in", schema="v long", storage_options={"secret": "x"})
    made.source("rows", source).to_table("out")
    (tmp_path / "plan").write_bytes(made.to_plan())
    output = command("run", str(tmp_path / "plan"), "--root", str(tmp_path / "root"), code=1)
    assert "'storage_options' of 'rows' is left out of the plan" in output


@pytest.mark.parametrize(
    ("text", "told"), [("no", "is no JSON"), ('{"token": 1}', "more than storage_options and secrets: token")]
)
def test_secrets_are_a_json_file(files, tmp_path, text, told):
    (tmp_path / "secrets.json").write_text(text)
    output = command("run", files["old"], "--root", "unused", "--secrets", str(tmp_path / "secrets.json"), code=2)
    assert told in " ".join(output.split())


@pytest.mark.sail
def test_run_runs_epochs(files, tmp_path, monkeypatch):
    monkeypatch.setattr("dagster_operators.api.pipeline.default_engine", lambda: SAIL)
    root = str(tmp_path / "root")
    (tmp_path / "secrets.json").write_text('{"storage_options": {}}')
    assert command("run", files["old"], "--root", root) == "epoch 1: 0 rows in big\n"
    more = command("run", files["old"], "--root", root, "--until-caught-up", "--secrets", str(tmp_path / "secrets.json"))
    assert more == "epoch 2: 1 row in big\nepoch 3: 1 row in big\n"
    assert command("run", files["old"], "--root", root, "--until-caught-up") == "the sources hold nothing new\n"
    assert command("run", files["old"], "--root", root) == "nothing new after epoch 3\n"


def test_the_command_says_how_it_is_used():
    assert "Usage" in CliRunner().invoke(main, ["--help"]).output
    assert "version" in CliRunner().invoke(main, ["--version"]).output


QUERIES = """
pipeline: flights
sources: {rows: {memory: {batches: [[{v: 1}], [{v: 2}], [{v: 3}]], schema: v long}}}
tables: {big: {from: rows, steps: [filter: v > 1], checks: {some: v > 0}}}
"""


def test_queries_in_a_text_are_taken_as_their_plan(files, tmp_path):
    file = tmp_path / "flights.yaml"
    file.write_text(QUERIES, "utf-8")
    assert command("show", str(file)) == command("show", files["old"])
    assert command("diff", files["old"], str(file)) == "the plans are equal\n"
    command("write", str(file), str(tmp_path / "written"))
    assert (tmp_path / "written").read_bytes() == pipeline().to_plan()
    file.write_text(QUERIES.replace("v > 1", "w > 1"), "utf-8")
    assert f"{file}:4:36: the condition uses column 'w'" in command("show", str(file), code=1)


def test_secrets_of_queries_are_in_the_environment(tmp_path):
    file, secrets = tmp_path / "flights.yml", tmp_path / "secrets.json"
    file.write_text(QUERIES, "utf-8")
    secrets.write_text('{"secrets": {"rows": {}}}', "utf-8")
    assert "write !env NAME there" in command("run", str(file), "--root", "unused", "--secrets", str(secrets), code=2)


@pytest.mark.sail
def test_queries_in_a_text_can_be_run(tmp_path, monkeypatch):
    monkeypatch.setattr("dagster_operators.api.pipeline.default_engine", lambda: SAIL)
    file = tmp_path / "flights.yaml"
    file.write_text(QUERIES, "utf-8")
    lines = command("run", str(file), "--root", str(tmp_path / "root"), "--until-caught-up").splitlines()
    assert len(lines) == 3
