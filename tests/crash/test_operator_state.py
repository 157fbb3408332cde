"""Kills processes that run an operator with every kind of state and a sink in PostgreSQL; each goes on at another parallelism.

Nothing is lost or doubled, in the tables, in the state or over there.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dagster_operators.transactions.failpoints import VARIABLE
from tests.crash.operator_flow import EPOCHS, ROWS, TABLE, build, result

if TYPE_CHECKING:
    from tests.connectors.postgres_server import Database, PostgresServer

pytestmark = [pytest.mark.crash, pytest.mark.sail, pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(600)]

REPOSITORY = Path(__file__).parents[2]
KILLS = [
    ("sink:written", 3),
    ("stage:half_files#2", 1),
    ("before:append_decision", 2),
    ("after:append_prepared#2", 3),
    ("after:append_decision", 2),
    ("after:commit_table:3", 1),
    ("before:commit_participant:1", 3),
    ("after:commit_participant:1", 2),
    ("before:append_complete#2", 3),
    ("stage:files_written#2", 2),
]


def run(root: Path, dsn: str, parallelism: int, failpoint: str = "") -> int:
    environment = {**os.environ, VARIABLE: failpoint, "DAGSTER_OPERATORS_CACHE": str(root.parent / "cache")}
    if not failpoint:
        del environment[VARIABLE]
    command = [sys.executable, "-m", "tests.crash.operator_flow", str(root), dsn, str(parallelism)]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode in {0, -signal.SIGKILL}, done.stderr[-2000:]
    return done.returncode


def told_to(database: Database) -> list[tuple[object, ...]]:
    return database.query("SELECT k, epoch, kind, n FROM told ORDER BY k, epoch, kind, n")


def test_state_and_sink_are_as_if_nothing_had_happened(
    sail: object, database: Database, postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sail
    monkeypatch.setenv("DAGSTER_OPERATORS_CACHE", str(tmp_path / "cache"))
    database.query(TABLE)
    spared = [place for place, parallelism in KILLS if run(tmp_path / "root", database.dsn, parallelism, place) == 0]
    assert not spared, "some places are no longer reached"
    run(tmp_path / "root", database.dsn, 2)
    with postgres.database() as plain:
        plain.query(TABLE)
        build(str(tmp_path / "plain"), plain.dsn, 2).run_until_caught_up()
        expected = result(str(tmp_path / "plain"), plain.dsn)
        assert told_to(database) == told_to(plain) == expected["told"]
    assert expected["rows"] == EPOCHS * ROWS
    assert {kind for _, _, kind, _ in expected["told"]} == {"timer", "total", "history", "recent"}
    assert result(str(tmp_path / "root"), database.dsn) == expected
    assert database.prepared() == []


def test_a_rescale_between_epochs_changes_nothing(
    sail: object, database: Database, postgres: PostgresServer, tmp_path: Path
) -> None:
    assert sail
    database.query(TABLE)
    for parallelism in (1, 3, 2):
        build(str(tmp_path / "rescaled"), database.dsn, parallelism).run_epoch()
    build(str(tmp_path / "rescaled"), database.dsn, 3).run_until_caught_up()
    with postgres.database() as plain:
        plain.query(TABLE)
        build(str(tmp_path / "plain"), plain.dsn, 2).run_until_caught_up()
        assert told_to(database) == told_to(plain)
        assert result(str(tmp_path / "rescaled"), database.dsn) == result(str(tmp_path / "plain"), plain.dsn)
