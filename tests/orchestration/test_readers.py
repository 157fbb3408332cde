"""A pipeline's tables in assets of other people, without its program and without an engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

import dagster as dg
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame  # noqa: TC002 - Dagster reads the annotation

import dagster_operators as do
from dagster_operators.errors import EndedInputError, PipelineError, UnknownEpochError
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.owner import Owner
from tests.transactions.flow import Flow, plan_of

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


def test_an_asset_may_take_a_table_as_polars_and_what_may_be_none(root: Path) -> None:
    import polars as pl

    taken: list[Any] = []

    def taking(kind: Any) -> dg.AssetsDefinition:
        def taker(sums) -> None:  # type: ignore[no-untyped-def]
            taken.append(sums)

        taker.__annotations__["sums"] = kind
        return dg.asset(name="taker", ins={"sums": dg.AssetIn(SUMS)})(taker)

    reader = do.PipelineIOManager(source=do.PipelineResource(root=str(root)))
    kinds = (
        pl.DataFrame,
        pl.LazyFrame,
        pl.LazyFrame | None,
        Optional[pd.DataFrame],  # noqa: UP045 - as people write it
        pa.Table | None,
    )
    for kind in kinds:
        assert execute(taking(kind), {"numbers": reader}, dg.AssetSpec(SUMS).with_io_manager_key("numbers")).success
    assert [type(rows) for rows in taken] == [pl.DataFrame, pl.LazyFrame, pl.LazyFrame, pd.DataFrame, pa.Table]
    assert taken[0].to_dicts() == taken[1].collect().to_dicts() == taken[2].collect().to_dicts() == [{"n": 96}]
    for kind in (dict, list[dict], pa.RecordBatch, pd.Series | None):
        with pytest.raises(
            Exception, match=r"tables are not handed in as .*annotate the argument as pa.Table or as the DataFrame"
        ):
            execute(taking(kind), {"numbers": reader}, dg.AssetSpec(SUMS).with_io_manager_key("numbers"))


def hand_in(root: Path, key: str, *specs: Any, **settings: Any) -> list[Any]:
    """What an asset is handed in that takes the asset with the key."""
    source = {name: settings.pop(name) for name in ("epoch",) if name in settings}
    reader = do.PipelineIOManager(source=do.PipelineResource(root=str(root), **source), **settings)
    taken: list[Any] = []

    @dg.asset(ins={"rows": dg.AssetIn(dg.AssetKey.from_user_string(key), input_manager_key="reader")})
    def taker(rows) -> None:  # type: ignore[no-untyped-def]
        taken.extend(rows["n"].to_pylist())

    own = dg.Definitions(assets=[taker], resources={"reader": reader}, jobs=[dg.define_asset_job("taking", selection=[taker])])
    with dg.DagsterInstance.ephemeral() as instance:
        dg.Definitions.merge(own, *specs).resolve_job_def("taking").execute_in_process(instance=instance)
    return taken


def test_an_asset_with_a_key_of_its_own_is_the_table_that_its_pipeline_says(root: Path) -> None:
    """Also where the key ends as another table's name does."""
    pipeline = do.Pipeline("numbers", root=str(root))
    numbers = pipeline.source("numbers", do.MemorySource(schema="n long"))
    numbers.to_table("clean")
    numbers.filter("n > 0").to_table("sums")
    defs = do.build_definitions(pipeline, asset_keys={"clean": "mart/sums", "sums": "numbers/clean"})
    assert hand_in(root, "mart/sums", defs) == [10, 11, 12, 20, 21, 22]
    assert hand_in(root, "numbers/clean", defs) == [96]
    other = do.Pipeline("letters", root=str(root / "other"))
    other.source("rows", do.MemorySource(schema="n long")).to_table("clean")
    with pytest.raises(PipelineError, match=r"is of the pipeline 'letters'.*this I/O manager reads 'numbers'"):
        hand_in(root, "letters/clean", do.build_definitions(other))


def test_where_the_pipeline_is_elsewhere_a_key_of_its_own_has_to_be_explained(root: Path) -> None:
    theirs = dg.Definitions(assets=[dg.AssetSpec(["mart", "sums"])])
    with pytest.raises(PipelineError, match=r"cannot be told from its key.*tables=\{'mart/sums': TABLE\}.*one of clean, sums"):
        hand_in(root, "mart/sums", theirs)
    assert len(hand_in(root, "mart/sums", theirs, tables={"mart/sums": "clean"})) == 6


def test_a_table_that_is_no_longer_written_is_not_handed_in(root: Path) -> None:
    with Coordinator("numbers", str(root)) as run:
        plan = plan_of()
        fewer = replace(plan, stages=plan.stages[:1], datasets={"tables/clean": plan.datasets["tables/clean"]})
        assert Flow(run, fewer).epoch()
    theirs = dg.Definitions(assets=[dg.AssetSpec(SUMS)])
    with pytest.raises(
        EndedInputError,
        match=r"no longer writes the table 'sums': its epoch 2 was.*PipelineResource\(root=..., epoch=2\)",
    ):
        hand_in(root, "numbers/sums", theirs)
    assert hand_in(root, "numbers/sums", theirs, epoch=2) == [96]
    assert len(hand_in(root, "numbers/sums", theirs, tables={"numbers/sums": "clean"})) == 9


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
