"""``dagster-operators init``: the pipeline that it writes runs, and is what Dagster loads."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import CliRunner

from dagster_operators.cli.main import main
from dagster_operators.runtime.engine import ENGINE_VARIABLE

if TYPE_CHECKING:
    import pytest


def init(*arguments: str) -> str:
    done = CliRunner().invoke(main, ["init", *arguments])
    return f"{done.exit_code} {done.output}"


def test_what_it_writes_runs(
    sail: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sail is not None
    monkeypatch.setenv(ENGINE_VARIABLE, "sail")
    told = init(str(tmp_path / "the first"), "--name", "air")
    subprocess.run(["bash", "-nc", told.partition("Next:")[2]], check=True)
    assert f"    cd '{tmp_path}/the first' && python definitions.py\n" in told
    lines = (tmp_path / "the first" / "definitions.py").read_text().splitlines()
    assert len([line for line in lines if line and not line.startswith(('"""', "import"))]) <= 10
    monkeypatch.chdir(tmp_path / "the first")
    made = runpy.run_path("definitions.py", run_name="__main__")
    assert capsys.readouterr().out.startswith("epoch 1: 2 rows in late_flights, 2 rows in hourly_delays")
    assert {job.name for job in made["defs"].resolve_all_job_defs()} >= {"air_epoch", "air_catch_up"}
    assert sorted(row.origin for row in made["pipeline"].read("hourly_delays").collect()) == ["JFK", "LGA"]


def test_nothing_is_overwritten_and_a_name_has_to_be_one(tmp_path: Path) -> None:
    assert init(str(tmp_path)).startswith("0 ")
    (tmp_path / "input" / "2024-01-01.csv").write_text("mine")
    again = init(str(tmp_path))
    assert again.startswith("1 ")
    assert "is there already" in again
    assert (tmp_path / "input" / "2024-01-01.csv").read_text() == "mine"
    assert init(str(tmp_path / "other"), "--name", "no name").startswith("1 ")
    assert not (tmp_path / "other").exists()


def test_the_package_is_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dagster_operators", "status", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "there is no pipeline in the storage root" in done.stderr
