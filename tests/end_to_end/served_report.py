"""The second location of the browser test: it knows the first's storage root alone, and keeps its own assets in DuckDB, too."""

from __future__ import annotations

import os
from pathlib import Path

import dagster as dg
import pandas as pd  # noqa: TC002  # Dagster looks the types up

import dagster_operators as do
from tests.end_to_end.served import FOLDER
from tests.orchestration import demo


def report(folder: Path) -> do.Pipeline:
    """Reads two tables of the demo as of one of its epochs."""
    made = do.Pipeline("report", root=str(folder / "report"))
    theirs = do.PipelineSource(str(folder / "demo"), ["clean", "totals"], pipeline="demo")
    made.source("seen", theirs["clean"]).lookup(theirs["totals"], on="k", columns=["total"], name="sums").to_table("joined")
    return made


@dg.asset(deps=[["report", "joined"]])
def summary(rows: do.PipelineResource) -> pd.DataFrame:
    """A plain asset, kept in DuckDB."""
    return rows.to_arrow("joined", ["k", "total"]).to_pandas()


@dg.asset
def largest(summary: pd.DataFrame) -> pd.DataFrame:
    """One behind it, which gets its input from DuckDB."""
    return summary.nlargest(1, "total")


@dg.definitions
def defs() -> dg.Definitions:
    from dagster_duckdb_pandas import DuckDBPandasIOManager

    folder = Path(os.environ[FOLDER])
    own = dg.Definitions(
        assets=[summary, largest],
        jobs=[dg.define_asset_job("weekly", executor_def=dg.in_process_executor)],
        resources={
            "io_manager": DuckDBPandasIOManager(database=str(folder / "report.duckdb")),
            "rows": do.PipelineResource(root=str(folder / "report")),
        },
    )
    return dg.Definitions.merge(own, do.build_definitions(report(folder), retry_policy=demo.FAST, wait_seconds=0))
