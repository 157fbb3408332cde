"""The commands that run a pipeline's program: which one it is, in which forms it may be given, and where it cannot be found."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import dagster_operators as do
from dagster_operators.cli.main import main
from tests.engines import SAIL

QUERIES = """
pipeline: p
sources: {{rows: {{files: {{path: {folder}/*.csv, schema: v int}}}}}}
tables: {{t: {{from: rows, steps: [filter: v > {least}]}}}}
"""
SCRIPT = """
import pyarrow.compute as pc
import dagster_operators as do
{declared}
pipeline = do.Pipeline("p", root="root")
pipeline.source("rows", do.FileSource("in/*.csv", schema="v long")).with_columns(w="twice(v)").to_table("out")
if __name__ == "__main__":
    print({call})
"""
DECLARED = """
@do.udf(returns="long")
def twice(v):
    return pc.multiply(v, 2)
"""


@pytest.fixture(autouse=True)
def _on_sail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "sail")


def command(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(main, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def rows(folder: Path) -> Path:
    (folder / "in").mkdir()
    (folder / "in" / "1.csv").write_text("v\n1\n2\n3\n")
    return folder / "in"


def ran(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, (str(Path.cwd()), os.environ.get("PYTHONPATH"))))
    called = [sys.executable, *arguments]
    return subprocess.run(
        called, cwd=folder, capture_output=True, text=True, check=False, timeout=300, env={**os.environ, "PYTHONPATH": path}
    )


@pytest.mark.sail
def test_a_program_may_be_given_as_queries_and_which_it_is_is_told(tmp_path: Path) -> None:
    folder, root, file = rows(tmp_path), tmp_path / "root", tmp_path / "flow.yml"
    file.write_text(QUERIES.format(folder=folder, least=1))
    do.Pipeline.from_yaml(file, root=str(root), engine=SAIL).run_epoch()
    file.write_text(QUERIES.format(folder=folder, least=2))
    assert "condition was 'v > 1', is 'v > 2'" in command("diff", root, file)
    assert command("rebuild", root, "t", "--plan", file).splitlines()[1:] == [f"the program was that of {file}"]
    assert do.StoredPipeline(str(root)).to_arrow("t").to_pydict() == {"v": [3]}
    first, rebuilt = do.StoredPipeline(str(root)).history()
    assert first.seconds.keys() != rebuilt.seconds.keys() == {"rebuild"}
    (line,) = json.loads(command("history", root, "--limit", "1", "--json"))
    assert line["seconds"] > rebuilt.seconds["rebuild"] > 0, "with the time that it was computed, beside the pipeline"
    said = json.loads(command("rebuild", root, "t", "--json"))
    assert said["program"].startswith("that of the last epoch, ")
    assert "[program 'that of the last epoch, " in command("rebuild", root, "other", code=1).replace("pipeline 'p', ", "")


@pytest.mark.sail
def test_what_is_no_plan_is_told_with_its_name(tmp_path: Path) -> None:
    file, other = tmp_path / "flow.yml", tmp_path / "other.txt"
    file.write_text(QUERIES.format(folder=rows(tmp_path), least=1))
    do.Pipeline.from_yaml(file, root=str(tmp_path / "root"), engine=SAIL).run_epoch()
    other.write_text("{}")
    for arguments in (["diff", tmp_path / "root", other], ["rebuild", tmp_path / "root", "t", "--plan", other]):
        assert f"[file '{other}']" in command(*arguments, code=1)


@pytest.mark.sail
def test_functions_of_a_script_are_asked_for_in_a_way_that_works(tmp_path: Path) -> None:
    rows(tmp_path)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(declared=DECLARED, call="pipeline.run_epoch()"))
    assert "3 rows in out" in ran(tmp_path, str(script)).stdout
    asked = command("rebuild", tmp_path / "root", "out", "--since", "1", "--epochs-at-once", "7", "--empty", code=1)
    assert "put it into a module" in asked
    (call,) = re.findall(r"call in Python: (pipeline.rebuild\(.*\))", asked)
    assert call == "pipeline.rebuild('out', epochs_at_once=7, empty=True, since=1)", "all that the command was given"

    script.write_text(SCRIPT.format(declared=DECLARED, call=call))
    assert "rebuild out" in ran(tmp_path, str(script)).stdout

    (tmp_path / "mine.py").write_text(f"import pyarrow.compute as pc\nimport dagster_operators as do\n{DECLARED}")
    write = "open('new.plan', 'wb').write(pipeline.to_plan())"
    script.write_text(SCRIPT.format(declared="import mine", call=write))
    assert ran(tmp_path, str(script)).returncode == 0
    done = ran(tmp_path, "-m", "dagster_operators", "rebuild", "root", "out", "--plan", "new.plan")
    assert "rebuild out\nthe program was that of new.plan" in done.stdout, done.stderr
    seen = ran(tmp_path, "-m", "dagster_operators", "diff", "root", "new.plan", "--engine")
    assert "nothing changed" in seen.stdout, seen.stderr


@pytest.mark.sail
def test_a_plan_with_secrets_is_compared_on_an_engine(tmp_path: Path) -> None:
    root, plan, secrets = tmp_path / "root", tmp_path / "new plan", tmp_path / "secrets.json"

    def program(column: str, *, sink: bool) -> do.Pipeline:
        made = do.Pipeline("p", root=str(root), engine=SAIL)
        rows = made.source("rows", do.MemorySource([[(1,)]], schema="v int")).select(column)
        rows.to_table("t")
        if sink:
            rows.to_sink(do.PostgresSink("postgresql://u:secret@localhost/db", "t"), name="out")
        return made

    program("v", sink=False).run_epoch()
    plan.write_bytes(program("CAST(v AS bigint) AS v", sink=True).to_plan())
    secrets.write_text(json.dumps({"secrets": {"out": {"dsn": "postgresql://u:secret@localhost/db"}}}))
    assert not json.loads(command("diff", root, plan, "--json"))["types_compared"]
    (told,) = command("diff", root, plan).splitlines()[-1:]
    typed = shlex.split(told.partition("dagster-operators ")[2])
    assert 'give it again: --secrets FILE, with {"secrets": {"out": {"dsn": "the secret"}}}' in command(*typed, code=1)
    seen = json.loads(command(*typed, "--secrets", secrets, "--json"))
    assert seen["types_compared"]
    assert any("v was integer and is long" in one["problem"] for one in seen["verdicts"])
    assert "is for --engine" in command("diff", root, plan, "--secrets", secrets, code=2)


def test_a_source_is_told_the_time(tmp_path: Path) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource([[("2024-01-01 12:30",)]], schema="at timestamp"), event_time="at")
    rows.window(do.Tumbling("1 hour")).aggregate(n="count(*)", name="counted").select("n").to_table("hours")
    assert pipeline.run_epoch().rows == {"hours": 0}
    file = tmp_path / "p.plan"
    file.write_bytes(pipeline.to_plan())
    told = json.loads(command("set-watermark", tmp_path / "root", "rows", "2024-01-01 13:00", "--plan", file, "--json"))
    assert told["rows"] == {"hours": 1}
    refused = command("set-watermark", tmp_path / "root", "rows", "2024-01-01 13:00", "--plan", file, code=1)
    assert "never moves back" in refused
