"""Kills on both sides of the decision: a replaced table has the rows of one epoch, old or new, and each epoch's once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.runtime.doctor import examine
from dagster_operators.transactions.failpoints import VARIABLE
from tests.crash.killed import run_and_kill
from tests.engines import SAIL

pytestmark = [pytest.mark.crash, pytest.mark.sail, pytest.mark.slow, pytest.mark.timeout(600)]

EPOCHS = [[1, 2], [2, 3], [2, 3]]
"""The files of the second epoch are equal to those of the third."""

KILLS = {
    "stage:files_written": EPOCHS[0],
    "after:write_manifest": EPOCHS[0],
    "before:append_decision": EPOCHS[0],
    "after:append_decision": EPOCHS[0],
    "after:commit_table:1": EPOCHS[1],
    "before:append_complete": EPOCHS[1],
}
"""What the table has behind each, killed one after the other in the second epoch; the last ones have the epoch's commit."""


def build(root: str) -> do.Pipeline:
    made = do.Pipeline("p", root=root, engine=SAIL)
    epochs: list[Any] = [[{"v": v} for v in epoch] for epoch in EPOCHS]
    rows = made.source("rows", do.MemorySource(epochs, schema="v long"))
    rows.to_table("t", mode="replace").start_new_stage().filter("v > 0").to_table("all")
    made.table("all").to_table("copy", mode="replace")  # all rows of a table, of which some are of the epoch
    return made


def in_log(root: Path) -> list[int]:
    """The rows as other readers of Delta have them, whatever the ledger says."""
    from deltalake import DeltaTable

    return sorted(DeltaTable(str(root / "tables/t")).to_pyarrow_table()["v"].to_pylist())


def test_a_table_is_old_or_new_wherever_an_epoch_is_killed(sail: object, tmp_path: Path) -> None:
    root = tmp_path / "root"
    assert VARIABLE not in os.environ
    build(str(root)).run_epoch()
    for place, rows in KILLS.items():
        run_and_kill(__name__, [f"build({str(root)!r}).run_epoch()"], [place], tmp_path)
        assert in_log(root) == rows, place
    made = build(str(root))
    made.run_until_caught_up()
    assert in_log(root) == EPOCHS[-1]
    for table in ("all", "copy"):
        assert sorted(row["v"] for row in made.to_arrow(table).to_pylist()) == sorted(v for epoch in EPOCHS for v in epoch)
    assert [one for one in examine(made.epochs.coordinator, deep=True) if one.verdict == "error"] == []
