"""What Dagster gets to know of a pipeline's tables."""

from __future__ import annotations

from dagster_operators import MemorySource, Pipeline
from dagster_operators.orchestration.keys import AssetKeys
from dagster_operators.orchestration.tables import table_assets


def test_a_table_behind_many_diamonds_knows_its_operators_and_sources() -> None:
    pipeline = Pipeline("p", root="unused")
    rows = pipeline.source("rows", MemorySource([], schema="v long, t timestamp"), event_time="t")
    first = rows.filter("v > 0", name="first").to_table("kept")
    stream = first
    for _ in range(40):
        stream = stream.filter("v > 1").union(stream.filter("v < 1"))
    stream.to_table("last")
    assets = table_assets(pipeline, AssetKeys(pipeline))
    assert assets["kept"].operators == ("rows", "first")
    assert assets["last"].sources == ("rows",)
    assert len(assets["last"].operators) == len(set(assets["last"].operators)) == 120
    assert "rows" not in assets["last"].operators
    assert [key.path for key in assets["last"].upstream] == [["p", "kept"]]
