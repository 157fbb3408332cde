from __future__ import annotations

import pytest

from jobs.nexmark import run
from jobs.nexmark.job import build
from jobs.nexmark.queries import QUERIES
from jobs.nexmark.run import main
from tests.test_public_names import loaded_after

SMALL = ["--events", "2000", "--rate", "20", "--epochs", "2"]


def test_the_job_has_a_described_table_for_every_query(tmp_path):
    pipeline = build(tmp_path)
    assert list(pipeline.tables) == list(QUERIES)
    assert all(table.description for table in pipeline.tables.values())


def test_describing_the_job_loads_nothing_heavy():
    program = "from pathlib import Path; from jobs.nexmark.job import build; build(Path('nowhere')).explain()"
    assert not loaded_after(program) & {"pyspark", "dagster", "deltalake", "pysail"}


@pytest.mark.usefixtures("sail")
def test_the_command_runs_goes_on_and_checks(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "sail")
    command = ["q2", "q12", "--folder", str(tmp_path), "--start", "2015-07-15T23:59:00", *SMALL, "--check"]
    assert main(command) == 0
    first = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in first] == ["epoch 1", "epoch 2", "q2", "q12"]
    assert all(line.endswith("as DuckDB has them") for line in first[2:])
    monkeypatch.setattr(run, "difference", lambda found, expected: "3 rows missing")
    assert main(command) == 1
    again = capsys.readouterr().out.splitlines()
    assert len(again) == 2
    assert all(line.endswith("rows, 3 rows missing") for line in again)


def test_an_unknown_query_is_named(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["q24", "--folder", str(tmp_path)])
    assert "there is no query q24; there are: q0, q1" in capsys.readouterr().err
