"""Sail, as it is started here, does not take what a file's footer says for what is in the file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dagster_operators import MemorySource, Pipeline
from dagster_operators.runtime.engine import Spark
from tests.engines import SAIL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def shown(rows: DataFrame) -> list[str]:
    return sorted(str(row[0]) for row in rows.collect())


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_nan_beside_one_other_number(sail: SparkSession, tmp_path: Path, kind: pa.DataType) -> None:
    """A footer's smallest and largest number leave NaN out, which for Spark is the largest number of all."""
    path = str(tmp_path / "numbers.parquet")
    pq.write_table(pa.table({"v": pa.array([2.0, math.nan], kind)}), path)
    rows = sail.read.parquet(path)
    assert shown(rows) == ["2.0", "nan"]
    assert shown(rows.selectExpr("max(v)")) == ["nan"]
    assert shown(rows.selectExpr("v + 1")) == ["3.0", "nan"]
    assert shown(rows.filter("v > 5")) == ["nan"]
    assert shown(rows.filter("v != 2")) == ["nan"]
    assert shown(rows.groupBy("v").count().select("v")) == ["2.0", "nan"]


def test_nan_from_a_source_through_state_to_a_table(sail: SparkSession, tmp_path: Path) -> None:
    assert sail
    pipeline = Pipeline("nan", root=str(tmp_path), engine=SAIL)
    rows = pipeline.source("rows", MemorySource([[("a", 2.0), ("a", math.nan)], [("a", 2.0)]], schema="k string, v double"))
    rows.start_new_stage().to_table("copy")
    rows.key_by("v").aggregate(n="count(*)").to_table("counts")
    rows.key_by("k").aggregate(largest="max(v)").to_table("largest")
    pipeline.run_until_caught_up()
    assert shown(pipeline.read("copy").select("v")) == ["2.0", "2.0", "nan"]
    assert sorted(map(str, map(tuple, pipeline.read("counts").collect()))) == ["(2.0, 2)", "(nan, 1)"]
    assert shown(pipeline.read("largest").select("largest")) == ["nan"]


@pytest.mark.parametrize(
    ("engine", "told"), [(Spark(), "false"), (Spark(remote="sail"), "false"), (Spark(remote="sc://h:1"), None)]
)
def test_no_call_that_builds_a_column_is_noted_with_its_line(engine, told):
    assert engine.settings().get("spark.python.sql.dataFrameDebugging.enabled") == told
