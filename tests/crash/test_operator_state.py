"""Kills processes that run an operator with every kind of state; each goes on at another parallelism, and nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dagster_operators.transactions.failpoints import VARIABLE
from tests.crash.operator_flow import EPOCHS, ROWS, build, result

pytestmark = [pytest.mark.crash, pytest.mark.sail, pytest.mark.slow, pytest.mark.timeout(600)]

REPOSITORY = Path(__file__).parents[2]
KILLS = [
    ("stage:half_files#2", 1),
    ("after:append_prepared#2", 3),
    ("after:append_decision", 2),
    ("after:commit_table:3", 1),
    ("before:append_complete#2", 3),
    ("stage:files_written#2", 2),
]


def run(root: Path, parallelism: int, failpoint: str = "") -> int:
    environment = {**os.environ, VARIABLE: failpoint, "DAGSTER_OPERATORS_CACHE": str(root.parent / "cache")}
    if not failpoint:
        del environment[VARIABLE]
    command = [sys.executable, "-m", "tests.crash.operator_flow", str(root), str(parallelism)]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode in {0, -signal.SIGKILL}, done.stderr[-2000:]
    return done.returncode


def test_state_is_as_if_nothing_had_happened(sail: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sail
    monkeypatch.setenv("DAGSTER_OPERATORS_CACHE", str(tmp_path / "cache"))
    build(str(tmp_path / "plain"), 2).run_until_caught_up()
    killed = sum(run(tmp_path / "root", parallelism, place) != 0 for place, parallelism in KILLS)
    assert killed >= 4, "some places are no longer reached"
    run(tmp_path / "root", 2)
    expected = result(str(tmp_path / "plain"))
    assert expected["rows"] == EPOCHS * ROWS
    assert {kind for _, _, kind, _ in expected["told"]} == {"timer", "total", "history", "recent"}
    assert result(str(tmp_path / "root")) == expected
