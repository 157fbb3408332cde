"""Kills processes that run an operator with every kind of state and a sink in PostgreSQL; each goes on at another parallelism.

Nothing is lost or doubled, in the tables, in the state or over there.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.crash.killed import run_and_kill
from tests.crash.operator_flow import EPOCHS, ROWS, TABLE, build, result

if TYPE_CHECKING:
    from tests.connectors.postgres_server import Database, PostgresServer

pytestmark = [pytest.mark.crash, pytest.mark.sail, pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(600)]

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


def told_to(database: Database) -> list[tuple[object, ...]]:
    return database.query("SELECT k, epoch, kind, n FROM told ORDER BY k, epoch, kind, n")


def test_state_and_sink_are_as_if_nothing_had_happened(
    sail: object, database: Database, postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sail
    monkeypatch.setenv("DAGSTER_OPERATORS_CACHE", str(tmp_path / "cache"))
    database.query(TABLE)
    place = (str(tmp_path / "root"), database.dsn)
    calls = [f"build{(*place, parallelism)!r}.run_until_caught_up()" for _, parallelism in KILLS]
    run_and_kill("tests.crash.operator_flow", calls, [failpoint for failpoint, _ in KILLS], tmp_path)
    build(*place, 2).run_until_caught_up()
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
