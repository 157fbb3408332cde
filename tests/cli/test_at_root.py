"""The commands on a storage root alone: no program and no engine is there."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake

import dagster_operators as do
from dagster_operators.cli.main import main
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.owner import Owner
from tests.commands import commands_in
from tests.engines import SAIL
from tests.transactions.flow import Flow

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three epochs of the tests' small pipeline."""
    with Coordinator("numbers", str(tmp_path / "root")) as run:
        flow = Flow(run, last=3)
        while flow.epoch():
            pass
    return tmp_path / "root"


def told(*arguments: object, code: int = 0, **more: Any) -> str:
    result = CliRunner().invoke(main, list(map(str, arguments)), catch_exceptions=False, **more)
    assert result.exit_code == code, result.output + result.stderr
    return result.stdout if code == 0 else result.output


def found(*arguments: object, code: int = 0) -> Any:
    result = CliRunner().invoke(main, [*map(str, arguments), "--json"], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return json.loads(result.stdout or result.stderr)


def write_to(table: Path) -> None:
    write_deltalake(table, pa.table({"n": pa.array([7], pa.int64())}), mode="append")


def test_status_tells_how_a_pipeline_stands(root: Path) -> None:
    lines = told("status", root).splitlines()
    assert lines[0] == f"pipeline numbers in {root}"
    assert lines[1].startswith("epoch 3 was completed at 2")
    assert lines[2:4] == ["  table clean: 9 rows, version 3", "  table sums: 1 row, version 3"]
    assert lines[-1] == "nobody is at work"
    state = found("status", root)
    assert (state["epoch"], state["rows"], state["open"], state["wrong"]) == (3, {"clean": 9, "sums": 1}, None, [])


def test_status_tells_of_an_epoch_under_way_and_of_whose_it_is(root: Path) -> None:
    with Coordinator("numbers", str(root)) as run:
        flow = Flow(run)
        run.open(Owner.of_process("me"))
        handle = run.begin(flow.plan, flow.choose)
        assert handle is not None
        run.prepare(handle, "clean", flow.work)
        text, state = told("status", root), found("status", root)
    assert "epoch 4 is begun, not prepared: sums" in text
    assert "run me (host" in text
    assert state["open"] == {"epoch": 4, "state": "begun", "prepared": ["clean", "sums"], "missing": ["sums"]}


def test_going_back_as_json_and_remedies_as_commands(root: Path) -> None:
    assert found("rollback", root, 2) == {"epoch": 4, "transition": "rollback to epoch 2"}
    unsaid = told("reset", root, "numbers", "--to", 1, code=1)
    assert f"dagster-operators reset {root} numbers --to 1 --tables keep leaves the tables as they are" in unsaid
    assert "restart" not in unsaid  # no plan was kept of this pipeline, so that nobody knows what is behind the source
    assert f"dagster-operators rollback {root} 1" in unsaid
    assert found("reset", root, "numbers", "--to", 1, code=1)["error"] == "PipelineError"
    assert found("reset", root, "numbers", "--to", 1, "--tables", "keep") == {
        "epoch": 5, "transition": "reset numbers to epoch 1"
    }  # fmt: skip
    assert found("drop", root, "nothing", code=1)["error"] == "LedgerError"
    assert found("diff", root, code=1)["where"]["pipeline"] == "numbers"


@pytest.mark.sail
def test_drop_deletes_a_table_that_the_pipeline_no_longer_has(tmp_path: Path) -> None:
    def run(*tables: str) -> None:
        pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
        rows = pipeline.source("rows", do.MemorySource([[(1,)], [(2,)]][: 3 - len(tables)], schema="v long"))
        for table in tables:
            rows.filter("v > 0", name=f"of_{table}").to_table(table)
        pipeline.run_until_caught_up()

    run("kept", "left")
    refused = told("drop", tmp_path, "left", code=1)
    assert "the last epoch had 'left'" in refused
    run("kept")
    assert found("drop", tmp_path, "left") == {"deleted": ["tables/left"]}
    assert not (tmp_path / "tables/left").exists()
    assert "there is no table 'left'" in told("read", tmp_path, "left", code=1)
    assert [json.loads(row) for row in told("read", tmp_path, "kept", "--json").splitlines()] == [{"v": 1}, {"v": 2}]
    assert found("drop", tmp_path, "left", code=1)["error"] == "PipelineError"


def test_history_tells_of_the_last_epochs(root: Path) -> None:
    lines = told("history", root, "--limit", 2).splitlines()
    assert [line.split("  ")[0] for line in lines] == ["epoch 2", "epoch 3"]
    assert "3 rows in clean" in lines[1]
    assert [epoch["run"] for epoch in found("history", root)] == ["test"] * 3
    told("rollback", root, 2)
    assert told("history", root, "--limit", 1).split("  ")[-1].startswith("rollback to epoch 2")
    assert found("history", root)[-1]["transition"] == "rollback to epoch 2"


def test_read_gives_rows_of_any_epoch(root: Path) -> None:
    assert told("read", root, "clean", "--limit", 2).splitlines() == ["n", "10", "11"]
    assert len(told("read", root, "clean", "--limit", 0).splitlines()) == 10
    rows = told("read", root, "sums", "--epoch", 1, "--columns", "n", "--json")
    assert [json.loads(row) for row in rows.splitlines()] == [{"n": 33}]
    assert told("read", root, "clean", "--limit", 2, "--columns", "n, n").splitlines() == ["n", "10", "11"]
    assert "there is no table 'none'" in told("read", root, "none", code=1)
    assert found("read", root, "clean", "--columns", "m", code=1)["error"] == "PipelineError"
    assert "epochs 1 to 3 can be read" in told("read", root, "clean", "--epoch", 9, code=1)


def test_compact_joins_small_files(root: Path) -> None:
    assert found("compact", root, "none", code=1)["error"] == "PipelineError"
    assert told("compact", root, "clean") == "epoch 4: clean: 3 files joined into 1\n"
    assert told("compact", root) == "no table has small files to be joined\n"
    assert found("compact", root, "clean", "--target-size", 1000) == {"epoch": 4, "tables": {}}
    assert "9 rows" in told("status", root)


def test_repair_settles_what_somebody_else_wrote(root: Path) -> None:
    write_to(root / "tables/clean")
    assert found("status", root)["wrong"] == ["tables/clean"]
    text = told("status", root)
    assert "  table clean: it is not as the ledger says" in text
    (command,) = commands_in(text)
    assert told(*command) == "tables/clean: kept ours, at version 5\n"
    assert told("repair", root, "--keep", "theirs") == "nothing was wrong\n"
    assert "9 rows" in told("status", root)
    write_to(root / "tables/clean")
    assert found("repair", root, "--keep", "theirs") == [{"table": "tables/clean", "keep": "theirs", "version": 6}]


def test_repair_says_what_it_needs(root: Path) -> None:
    assert "give --keep ours or --keep theirs" in told("repair", root, code=2)
    assert "or --ledger" in told("repair", root, "--keep", "ours", "--ledger", code=2)
    assert told("repair", root, "--ledger", "--last-epoch", 2).startswith("the ledger ends with epoch 2")
    assert found("status", root)["epoch"] == 2


def test_clean_gives_space_back(root: Path) -> None:
    assert told("clean", root) == "0 files deleted\n"
    assert found("clean", root, "--keep", "0 seconds", "--keep-epochs", 1)["deleted_files"] == 2
    assert "epochs 3 to 3 can be read" in told("read", root, "clean", "--epoch", 1, code=1)


def test_unlock_takes_the_pipeline_from_a_run_which_then_can_write_no_more(root: Path) -> None:
    assert told("unlock", root) == "nobody was at work\n"
    with Coordinator("numbers", str(root), lease_seconds=3600) as run:
        flow = Flow(run)
        run.open(Owner.of_process("stuck"))
        handle = run.begin(flow.plan, flow.choose)
        assert handle is not None
        assert "another run is working on the pipeline" in told("clean", root, "--keep", "0 seconds", code=3)
        for command in (["rollback", root, 1], ["reset", root, "numbers", "--to", 1, "--tables", "keep"]):
            assert "another run is working on the pipeline" in told(*command, code=3)
        assert "Aborted" in told("unlock", root, code=1, input="n\n")
        assert "run stuck" in told("unlock", root, "--yes")
        with pytest.raises(Exception, match="another run has taken over"):
            run.prepare(handle, "clean", flow.work)
    assert found("unlock", root) == {"taken_from": None}


def test_doctor_finds_nothing_in_a_sound_root(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "sail")
    findings = found("doctor", root)
    assert {finding["check"] for finding in findings if finding["verdict"] != "ok"} <= {"space"}
    assert len(findings) == 11
    assert not [path for path in (root / "owners").iterdir() if "probe" in path.name]


def test_doctor_finds_what_is_wrong_with_its_remedy(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "sail")
    write_to(root / "tables/clean")
    for path in DeltaTable(str(root / "tables/sums")).file_uris():
        (root / "tables/sums" / path).unlink()
    lines = told("doctor", root, code=1).splitlines()
    wrong = [line for line in lines if line.startswith("error")]
    assert wrong[0].startswith("error    tables: not as the ledger says: tables/clean (version 4 is WRITE by delta-rs")
    assert commands_in(wrong[0]) == [["repair", str(root), "clean", "--keep", "ours"]]
    assert "1 of " in wrong[1]
    assert "is missing" in wrong[1]
    assert f"or dagster-operators repair {root} --ledger --last-epoch " in wrong[1]


def test_a_folder_that_is_no_root_is_told(tmp_path: Path) -> None:
    for command in ("status", "history", "clean", "doctor", "unlock"):
        assert "there is no pipeline in the storage root" in told(command, tmp_path, code=1)
    assert found("status", tmp_path, code=1)["error"] == "LedgerError"


def test_reading_loads_neither_an_engine_nor_dagster(root: Path) -> None:
    program = (
        "import sys; from dagster_operators.cli.main import main\n"
        "main(sys.argv[1:], standalone_mode=False)\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'pyspark', 'dagster', 'pysail', 'deltalake'}))"
    )

    done = subprocess.run([sys.executable, "-c", program, "read", root, "clean"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['deltalake']"
