"""The first location of the browser test: merged build_definitions beside assets of dlt's, and plain ones kept in DuckDB."""

# No postponed annotations here: Dagster reads those of ``context`` as they are.

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd

import dagster_operators as do
from tests.end_to_end.served import FOLDER
from tests.orchestration import demo

CUSTOMERS = dg.AssetKey("dlt_crm_customers")


def loaded(folder: Path) -> dg.AssetsDefinition:
    """What dlt loads into files; a pipeline's source reads them, and is dlt's asset."""
    import dlt  # here, as whoever collects the tests imports this
    from dagster_dlt import DagsterDltResource, dlt_assets

    os.environ |= {"NORMALIZE__DATA_WRITER__DISABLE_COMPRESSION": "true", "RUNTIME__DLTHUB_TELEMETRY": "false"}

    @dlt.source(name="crm")
    def crm() -> Any:
        return dlt.resource([{"k": "a", "city": "Oslo"}, {"k": "b", "city": "Bonn"}], name="customers")

    files = dlt.destinations.filesystem(bucket_url=str(folder / "loaded"))
    into = dlt.pipeline("crm", pipelines_dir=str(folder / "dlt"), dataset_name="crm", destination=files)

    @dlt_assets(dlt_source=crm(), dlt_pipeline=into)
    def load(context: dg.AssetExecutionContext, loader: DagsterDltResource) -> Iterator[Any]:
        yield from loader.run(context=context)

    return load


def customers(folder: Path) -> do.Pipeline:
    """A pipeline of what dlt has loaded."""
    made = do.Pipeline("customers", root=str(folder / "customers"))
    landed = do.FileSource(str(folder / "loaded/crm/customers"), format="json", schema="k string, city string")
    made.source("landed", landed).to_table("cities")
    return made


def copies(folder: Path) -> do.Pipeline:
    """A pipeline that reads a table of the demo."""
    made = do.Pipeline("copies", root=str(folder / "copies"))
    made.source("theirs", do.DeltaSource(str(folder / "demo/tables/clean"))).to_table("copied")
    return made


@dg.asset(deps=[["copies", "copied"]])
def copied_keys(lake: do.PipelineResource) -> pd.DataFrame:
    """A plain asset behind the second pipeline, kept in DuckDB."""
    return lake.to_arrow("copied", ["k"]).to_pandas()


@dg.asset
def number_of_keys(copied_keys: pd.DataFrame) -> pd.DataFrame:
    """One behind it, which gets its input from DuckDB."""
    return pd.DataFrame({"n": [copied_keys["k"].nunique()]})


@dg.definitions
def defs() -> dg.Definitions:
    from dagster_dlt import DagsterDltResource
    from dagster_duckdb_pandas import DuckDBPandasIOManager

    folder = Path(os.environ[FOLDER])
    chain = dg.AssetSelection.groups("demo", "copies") | dg.AssetSelection.assets(copied_keys, number_of_keys)
    own = dg.Definitions(
        assets=[copied_keys, number_of_keys, loaded(folder)],
        jobs=[
            dg.define_asset_job("first", chain | dg.AssetSelection.groups("customers") | dg.AssetSelection.assets(CUSTOMERS),
                                executor_def=dg.in_process_executor),
            dg.define_asset_job("chain", chain, executor_def=dg.in_process_executor),
        ],
        resources={
            "io_manager": DuckDBPandasIOManager(database=str(folder / "lake.duckdb")),
            "lake": do.PipelineResource(root=str(folder / "copies")),
            "loader": DagsterDltResource(),
        },
    )  # fmt: skip
    second = do.build_definitions(
        copies(folder), asset_keys={"theirs": demo.KEYS["clean"]}, retry_policy=demo.FAST, wait_seconds=0
    )
    third = do.build_definitions(customers(folder), asset_keys={"landed": CUSTOMERS}, retry_policy=demo.FAST, wait_seconds=0)
    return dg.Definitions.merge(own, demo.definitions(folder), second, third)
