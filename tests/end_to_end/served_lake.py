"""The first location of the browser test: two merged build_definitions, and plain assets whose I/O manager is DuckDB."""

from __future__ import annotations

import os
from pathlib import Path

import dagster as dg
import duckdb
import pyarrow as pa

import dagster_operators as do
from tests.end_to_end.served import FOLDER
from tests.orchestration import demo


class DuckDBTables(dg.ConfigurableIOManager):
    """Keeps each asset as a table of one file of DuckDB's: it knows Arrow tables, and nothing of pipelines."""

    file: str

    def handle_output(self, context: dg.OutputContext, obj: pa.Table) -> None:
        """Write the table anew."""
        if not isinstance(obj, pa.Table):
            raise TypeError(f"{type(obj).__name__} is no table")
        with duckdb.connect(self.file) as connection:
            connection.register("given", obj)
            connection.sql(f'CREATE OR REPLACE TABLE "{context.asset_key.path[-1]}" AS SELECT * FROM given')

    def load_input(self, context: dg.InputContext) -> pa.Table:
        """Read the table."""
        with duckdb.connect(self.file) as connection:
            return connection.sql(f'SELECT * FROM "{context.asset_key.path[-1]}"').to_arrow_table()


def copies(folder: Path) -> do.Pipeline:
    """A pipeline that reads a table of the demo."""
    made = do.Pipeline("copies", root=str(folder / "copies"))
    made.source("theirs", do.DeltaSource(str(folder / "demo/tables/clean"))).to_table("copied")
    return made


@dg.asset(deps=[["copies", "copied"]])
def copied_keys(lake: do.PipelineResource) -> pa.Table:
    """A plain asset behind the second pipeline, kept in DuckDB."""
    return lake.to_arrow("copied", ["k"])


@dg.asset
def number_of_keys(copied_keys: pa.Table) -> pa.Table:
    """One behind it, which gets its input from DuckDB."""
    return pa.table({"n": [len(set(copied_keys["k"].to_pylist()))]})


@dg.definitions
def defs() -> dg.Definitions:
    folder = Path(os.environ[FOLDER])
    own = dg.Definitions(
        assets=[copied_keys, number_of_keys],
        jobs=[dg.define_asset_job("nightly", executor_def=dg.in_process_executor)],
        resources={
            "io_manager": DuckDBTables(file=str(folder / "lake.duckdb")),
            "lake": do.PipelineResource(root=str(folder / "copies")),
        },
    )
    second = do.build_definitions(copies(folder), retry_policy=demo.FAST, wait_seconds=0)
    return dg.Definitions.merge(own, demo.definitions(folder), second)
