"""The names of Spark's functions are those of the PySpark that is installed."""

from __future__ import annotations

from pyspark.sql import functions

from dagster_operators.graph.spark_functions import BUILT_IN

OTHERS = frozenset({
    "arrow_udf", "arrow_udtf", "asc", "asc_nulls_first", "asc_nulls_last", "broadcast", "call_function", "call_udf", "col",
    "column", "desc", "desc_nulls_first", "desc_nulls_last", "expr", "lit", "pandas_udf", "session_window", "udf", "udtf",
    "unwrap_udt", "when", "window", "window_time",
})  # fmt: skip
"""What stands beside them in PySpark and is no function of an expression."""


def test_the_names_are_those_of_pyspark() -> None:
    assert {name for name in functions.__all__ if name.islower()} - BUILT_IN == OTHERS
