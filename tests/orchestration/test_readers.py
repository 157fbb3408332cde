"""A pipeline's tables in assets of other people, without its program and without an engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame  # noqa: TC002 - Dagster reads the annotation

import dagster_operators as do
from dagster_operators.errors import PipelineError, UnknownEpochError
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.owner import Owner
from tests.transactions.flow import Flow

SUMS = dg.AssetKey(["numbers", "sums"])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two epochs of the tests' small pipeline."""
    epochs(tmp_path / "root", 2)
    return tmp_path / "root"


def epochs(root: Path, last: int) -> None:
    with Coordinator("numbers", str(root)) as run:
        flow = Flow(run, last=last)
        while flow.epoch():
            pass


def execute(asset: dg.AssetsDefinition, resources: dict[str, Any], *more: dg.AssetSpec) -> dg.ExecuteInProcessResult:
    return dg.materialize([asset, *more], resources=resources, instance=dg.DagsterInstance.ephemeral())


def test_a_resource_reads_all_tables_as_of_one_epoch(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBERS", str(root))
    seen = []

    @dg.asset(deps=[SUMS])
    def report(numbers: do.PipelineResource) -> None:
        seen.append(numbers.to_arrow("sums").to_pylist())
        epochs(root, 3)
        seen.append(numbers.to_arrow("clean", columns=["n"], limit=100).num_rows)

    assert execute(report, {"numbers": do.PipelineResource(root=dg.EnvVar("NUMBERS"))}).success
    assert seen == [[{"n": 33 + 63}], 6], "an epoch that was completed meanwhile is not seen"
    assert do.PipelineResource(root=str(root), epoch=1).to_arrow("clean").num_rows == 3


def test_an_asset_may_take_a_table_as_arrow_or_pandas(root: Path) -> None:
    reader = do.PipelineIOManager(source=do.PipelineResource(root=str(root)))
    taken: list[Any] = []

    def taking(kind: Any) -> dg.AssetsDefinition:
        def taker(sums) -> None:  # type: ignore[no-untyped-def]
            taken.append(sums)

        taker.__annotations__["sums"] = kind
        return dg.asset(name="taker", ins={"sums": dg.AssetIn(SUMS)})(taker)

    for kind in (pa.Table, pd.DataFrame, Any):
        assert execute(taking(kind), {"numbers": reader}, dg.AssetSpec(SUMS).with_io_manager_key("numbers")).success
    assert [type(rows) for rows in taken] == [pa.Table, pd.DataFrame, pa.Table]
    assert taken[1]["n"].tolist() == [96]


def test_a_data_frame_of_another_library_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of one below PySpark: it is not Spark's, and no engine is started for it."""
    frame = type("DataFrame", (), {"__module__": "pyspark.pandas.frame"})
    monkeypatch.setattr(do.PipelineResource, "to_spark", lambda *_: pytest.fail("an engine was started"))
    reader = do.PipelineIOManager(source=do.PipelineResource(root=str(root)))

    def taker(sums) -> None:  # type: ignore[no-untyped-def]
        pytest.fail("it was given a table")

    taker.__annotations__["sums"] = frame
    made = dg.asset(name="taker", ins={"sums": dg.AssetIn(SUMS)})(taker)
    with pytest.raises(
        Exception, match=r"not handed in as pyspark\.pandas\.frame\.DataFrame.*pa\.Table or as the DataFrame of pandas, pol"
    ):
        execute(made, {"numbers": reader}, dg.AssetSpec(SUMS).with_io_manager_key("numbers"))


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_an_asset_may_take_a_table_as_sparks(engine: str, request: pytest.FixtureRequest, root: Path) -> None:
    """As of one epoch, by the engine that the resource names."""
    request.getfixturevalue(engine)
    source = do.PipelineResource(root=str(root), engine=engine)
    seen: list[Any] = []

    @dg.asset(ins={"clean": dg.AssetIn(["numbers", "clean"])})
    def taker(clean: DataFrame) -> None:
        epochs(root, 3)
        seen.append(sorted(row.n for row in clean.collect()))

    reader = do.PipelineIOManager(source=source)
    assert execute(taker, {"numbers": reader}, dg.AssetSpec(["numbers", "clean"]).with_io_manager_key("numbers")).success
    assert seen == [[10, 11, 12, 20, 21, 22]]
    assert do.StoredPipeline(str(root)).to_spark("clean", engine).count() == 9
    with pytest.raises(PipelineError, match=r"there is no table 'orders'.*there are: clean, sums"):
        source.to_spark("orders")


def test_an_asset_may_take_a_table_as_polars(root: Path) -> None:
    import polars as pl

    taken: list[Any] = []

    def taker(sums) -> None:  # type: ignore[no-untyped-def]
        taken.append(sums)

    taker.__annotations__["sums"] = pl.DataFrame
    made = dg.asset(name="taker", ins={"sums": dg.AssetIn(SUMS)})(taker)
    reader = do.PipelineIOManager(source=do.PipelineResource(root=str(root)))
    assert execute(made, {"numbers": reader}, dg.AssetSpec(SUMS).with_io_manager_key("numbers")).success
    assert taken[0].to_dicts() == [{"n": 96}]


def test_the_reader_writes_nothing(root: Path) -> None:
    @dg.asset(io_manager_key="numbers")
    def own() -> int:
        return 1

    reader = do.PipelineIOManager(source=do.PipelineResource(root=str(root)))
    with pytest.raises(Exception, match="this I/O manager only reads"):
        execute(own, {"numbers": reader})


def test_secrets_are_not_shown_and_an_empty_root_is_told(tmp_path: Path) -> None:
    resource = do.PipelineResource(root=str(tmp_path), storage_options={"aws_secret_access_key": "hidden"})
    assert "hidden" not in repr(resource)
    with Coordinator("numbers", str(tmp_path / "new")) as run:
        run.open(Owner.of_process())
    with pytest.raises(UnknownEpochError, match="none is complete yet"):
        do.PipelineResource(root=str(tmp_path / "new")).to_arrow("clean")
