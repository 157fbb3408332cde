"""Replaced tables, and those of all rows of another one, as assets."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

import dagster_operators as do
from tests.engines import SAIL


@pytest.mark.sail
def test_a_table_of_all_rows_is_an_asset_behind_the_other_one(sail: object, tmp_path: Path) -> None:
    made = do.Pipeline("p", root=str(tmp_path / "root"), engine=SAIL)
    made.source("rows", do.MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("t")
    made.table("t").to_table("copy", mode="replace")
    defs = do.build_definitions(made)
    specs = {spec.key.path[-1]: spec for spec in defs.resolve_all_asset_specs()}
    assert [dep.asset_key.path[-1] for dep in specs["copy"].deps] == ["t"]
    assert specs["copy"].description == "Table copy of the pipeline p: append, replaced in each epoch"
    with dg.DagsterInstance.ephemeral() as instance:
        for rows in (1, 2):
            result = defs.resolve_job_def("p_epoch").execute_in_process(instance=instance)
            told = {
                event.asset_key.path[-1]: event.materialization.metadata for event in result.get_asset_materialization_events()
            }
            assert told["copy"]["dagster/row_count"].value == rows
