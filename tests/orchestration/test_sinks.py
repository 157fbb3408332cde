"""Sinks as assets, keys that tables and sinks are given where they are declared, and what columns are said to be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from deltalake import DeltaTable

import dagster_operators as do
from dagster_operators.errors import PipelineError, SchemaError
from tests.engines import SAIL

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


class Kept(do.Sink):
    """Keeps the values that it is given."""

    values: list[int] = []

    def write(self, rows: Any, attempt: Any) -> Any:
        return [value for batch in rows for value in batch["v"].to_pylist()]

    def prepare(self, epoch: int, commit_data: Any, generation: int) -> None: ...

    def commit(self, epoch: int, commit_data: Any) -> None:
        self.values.extend(commit_data)

    def abort(self, epoch: int, generation: int) -> None: ...

    def recover(self, decided_epoch: int, generation: int) -> None: ...


def pipeline(root: Path, *, described: bool = True) -> do.Pipeline:
    made = do.Pipeline("sales", root=str(root), engine=SAIL)
    said = {"v": "how much", "K": "the shop"} if described else None
    rows = made.source(
        "rows", do.MemorySource([[("a", 1)], [("b", 2), ("b", 3)]], schema="k string, v long"), asset_key="shop/rows"
    )
    clean = rows.filter("v > 0", name="clean").to_table("clean", columns=said, asset_key=["mart", "clean"])
    clean.to_sink(Kept(), description="What was sold")
    clean.filter("v > 1", name="big").to_sink(Kept(), name="elsewhere", asset_key="warehouse/big")
    return made


SINK, BIG, TABLE = (dg.AssetKey(key) for key in (["sales", "clean_sink"], ["warehouse", "big"], ["mart", "clean"]))


def test_sinks_are_assets_that_an_epoch_reports(tmp_path: Path, sail: SparkSession, instance: dg.DagsterInstance) -> None:
    defs = do.build_definitions(pipeline(tmp_path / "root"))
    graph = defs.resolve_asset_graph()
    assert graph.get(SINK).parent_keys == graph.get(BIG).parent_keys == {TABLE}
    assert graph.get(TABLE).parent_keys == {dg.AssetKey(["shop", "rows"])}
    assert not [asset for asset in defs.assets or () if isinstance(asset, dg.AssetSpec)], "who makes the rows declares them"
    assert (graph.get(SINK).kinds, graph.get(SINK).description) == ({"kept"}, "What was sold")
    Kept.values.clear()
    for _ in range(2):
        done = defs.resolve_job_def("sales_epoch").execute_in_process(instance=instance)
    told = {event.asset_key: event.materialization for event in done.get_asset_materialization_events()}
    assert {key: told[key].metadata["rows_in_epoch"].value for key in (SINK, BIG, TABLE)} == {SINK: 2, BIG: 2, TABLE: 2}
    assert told[BIG].tags is not None
    assert (told[BIG].tags["epoch"], told[BIG].tags["dagster/data_version"]) == ("2", "epoch-2")
    assert sorted(Kept.values) == [1, 2, 2, 3, 3]


def test_what_columns_are_is_told_in_dagster_and_kept_in_delta(tmp_path: Path, sail: SparkSession) -> None:
    plain = pipeline(tmp_path / "root", described=False)
    plain.run_epoch()
    table = str(tmp_path / "root" / "tables" / "clean")
    assert [field.metadata for field in DeltaTable(table).schema().fields] == [{}, {}]
    described = pipeline(tmp_path / "root")
    done = do.build_definitions(described).resolve_job_def("sales_epoch").execute_in_process()
    told = next(event for event in done.get_asset_materialization_events() if event.asset_key == TABLE)
    columns: Any = told.materialization.metadata["dagster/column_schema"].value
    assert {column.name: column.description for column in columns.columns} == {"k": "the shop", "v": "how much"}
    assert [field.metadata for field in DeltaTable(table).schema().fields] == [{"comment": "the shop"}, {"comment": "how much"}]
    fresh = pipeline(tmp_path / "other")
    fresh.run_epoch()
    fields = DeltaTable(str(tmp_path / "other" / "tables" / "clean")).schema().fields
    assert [field.metadata for field in fields] == [{"comment": "the shop"}, {"comment": "how much"}]
    assert sorted(tuple(row) for row in described.read("clean").collect()) == [("a", 1), ("b", 2), ("b", 3)]
    plain = pipeline(tmp_path / "root", described=False)
    assert plain.run_epoch().empty


def test_a_plan_holds_all_of_it_and_a_key_is_no_change_of_what_is_computed(tmp_path: Path) -> None:
    made = pipeline(tmp_path)
    plan = do.Pipeline.from_plan(made.to_plan(), root=str(tmp_path))
    assert plan.tables == made.tables
    assert plan.dataflow.sinks["elsewhere"].asset_key == ("warehouse", "big")
    assert plan.dataflow.nodes["rows"].operator.asset_key == ("shop", "rows")  # type: ignore[attr-defined]
    assert plan.to_plan() == made.to_plan()


def test_mistakes(tmp_path: Path) -> None:
    made = do.Pipeline("p", root=str(tmp_path))
    rows = made.source("rows", do.MemorySource([], schema="v long"))
    with pytest.raises(SchemaError, match="description of columns"):
        rows.to_table("t", columns={"w": "nothing"})
    with pytest.raises(PipelineError, match="is no asset key"):
        rows.to_table("t", asset_key="a//b")
    rows.to_table("t", asset_key="x/y")
    rows.to_sink(Kept(), name="s", asset_key="x/y")
    with pytest.raises(PipelineError, match="the same asset key"):
        do.build_definitions(made)
