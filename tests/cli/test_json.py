"""Every command tells its answer, and its errors, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import dagster_operators as do
from dagster_operators.cli.main import main
from dagster_operators.runtime.engine import ENGINE_VARIABLE
from tests.engines import SAIL

QUERIES = """
pipeline: late
sources:
  flights: {{files: {{path: {folder}/in, format: csv, schema: "origin string, delay int"}}}}
streams:
  late: {{from: flights, steps: [filter: delay > 15]}}
tables:
  late_flights: late
"""


def called(*arguments: object, code: int = 0) -> Any:
    result = CliRunner().invoke(main, [*map(str, arguments), "--json"], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return json.loads(result.stdout or result.stderr)


def commands(group: click.Group, *names: str) -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, *names, name)
        else:
            yield " ".join((*names, name)), command


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("origin,delay\nJFK,20\nLGA,3\n")
    made = tmp_path / "late.yaml"
    made.write_text(QUERIES.format(folder=tmp_path))
    return made


def test_every_command_has_it() -> None:
    assert [name for name, command in commands(main) if "--json" not in {o for p in command.params for o in p.opts}] == []


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (["check", "nowhere.yml"], "'nowhere.yml' does not exist"),
        (["run", "nowhere.yml"], "'nowhere.yml' does not exist"),
        (["status"], "Missing argument 'ROOT'"),
        (["stauts", "lake"], "No such command 'stauts'"),
        (["plan", "shwo"], "No such command 'shwo'"),
        (["rebuild", "lake", "--sinec", "1"], "No such option"),
    ],
)
def test_a_wrong_call_is_told_as_json(call: list[str], problem: str) -> None:
    told = called(*call, code=2)
    assert problem in told["problem"]
    assert (told["error"], told["remedy"].split(":")[0]) == ("UsageError", "Usage")


def test_check_tells_that_a_file_is_right(file: Path) -> None:
    found = {"file": str(file), "right": True, "pipeline": "late", "tables": ["late_flights"], "notes": [], "diagnostics": []}
    assert called("check", file) == found


def test_check_tells_each_error_with_its_place(file: Path) -> None:
    file.write_text(file.read_text().replace("delay > 15", "dely > 15").replace("late_flights: late", "late_flights: lte"))
    found = called("check", file, code=1)
    assert not found["right"]
    first, second = found["diagnostics"]
    assert (first["file"], first["line"], first["error"], first["where"]["column"]) == (str(file), 6, "SchemaError", "dely")
    assert first["column"] > 1
    assert (second["line"], "'lte'" in second["message"]) == (8, True)
    refused = called("plan", "run", file, "--root", "nowhere", code=1)
    assert refused["error"] == "QueryError"
    assert [one["line"] for one in refused["where"]["errors"]] == [6, 8]


def test_check_of_what_is_no_yaml_or_no_pipeline(file: Path) -> None:
    file.write_text("a: [")
    (only,) = called("check", file, code=1)["diagnostics"]
    assert "this is no YAML" in only["message"]
    assert only["line"]
    file.write_text("streams: {}")
    assert called("check", file, code=1)["diagnostics"][0]["message"]


@pytest.mark.sail
def test_runs_tell_their_epochs(sail: object, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sail is not None
    monkeypatch.setenv(ENGINE_VARIABLE, "sail")
    result = CliRunner().invoke(main, ["run", str(file), "--root", str(tmp_path / "one"), "--json"], catch_exceptions=False)
    epoch, last = map(json.loads, result.stdout.splitlines())
    assert (epoch["epoch"], epoch["rows"], last) == (1, {"late_flights": 1}, {"epochs": 1, "root": str(tmp_path / "one")})
    (only,) = called("plan", "run", file, "--root", tmp_path / "two", "--until-caught-up")
    assert only["rows"] == {"late_flights": 1}
    assert called("plan", "run", file, "--root", tmp_path / "two", "--until-caught-up") == []


def test_what_is_written_is_told(file: Path, tmp_path: Path) -> None:
    written = called("plan", "write", file, tmp_path / "plan")
    assert (written["pipeline"], written["bytes"]) == ("late", (tmp_path / "plan").stat().st_size)
    assert CliRunner().invoke(main, ["plan", "write", str(file), "-", "--json"]).exit_code == 2
    begun = called("init", tmp_path / "a pipeline")
    assert f"{tmp_path}/a pipeline/definitions.py" in begun["files"]
    assert begun["next"][0] == f"cd '{tmp_path}/a pipeline' && python definitions.py"
    assert called("init", tmp_path / "a pipeline", code=1)["error"] == "PipelineError"
    made = called("new", "operator", "drop_nulls", "--into", tmp_path)
    assert {Path(path).exists() for path in made["files"]} == {True}
    assert "pip install -e" in made["next"][0]
    assert called("new", "operator", "drop_nulls", "--into", tmp_path, code=1)["error"] == "PipelineError"


def test_a_graph_and_its_refusal(file: Path, tmp_path: Path) -> None:
    assert called("graph", file, code=1)["problem"] == "the file is no dataflow of event operators"
    files = "{path: in, format: csv, schema: 'v long, t timestamp'}"
    nodes = f"nodes:\n  - id: rows\n    source: {{files: {files}, event_time: t}}\n    outputs: {{n: v}}\n"
    (tmp_path / "flow.yml").write_text(nodes)
    assert called("graph", tmp_path / "flow.yml")["mermaid"].startswith("flowchart TB")


@pytest.mark.sail
def test_explain_tells_what_a_root_keeps(tmp_path: Path) -> None:
    for condition in ("v > 0", "v > 1"):
        made = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
        rows = made.source("rows", do.MemorySource([[(1,)], [(2,)]], schema="v long")).filter(condition, name="big")
        rows.to_table("kept")
        rows.key_by("v").aggregate(n="count(*)", name="per_v").select("v", "n").to_table("counts")
        if condition == "v > 0":
            made.run_epoch()
    made.run_epoch()
    text = CliRunner().invoke(main, ["explain", str(tmp_path)], catch_exceptions=False).stdout
    assert text.startswith("epoch 2\npipeline p (dagster_operators ")
    assert "  big <- rows: filter(condition='v > 1')\n" in text
    assert "  table kept <- big\n" in text
    found, first = called("explain", tmp_path), called("explain", tmp_path, "--epoch", 1)
    assert [node["settings"] for node in (one["nodes"][1] for one in (first, found))] == [
        {"condition": "v > 0"}, {"condition": "v > 1"},
    ]  # fmt: skip
    assert found["state"] == ["state/per_v.partials"]
    assert found["stages"].keys() == {"kept", "counts"}
    do.StoredPipeline(str(tmp_path)).compact()
    assert called("explain", tmp_path)["stages"] == found["stages"], "an epoch that computes nothing has none"
    assert called("explain", tmp_path, "--epoch", 9, code=1)["error"] == "UnknownEpochError"
