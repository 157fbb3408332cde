"""Schemas as an engine takes and gives them: the way between :class:`~dagster_operators.types.schema.Schema` and PySpark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def struct(schema_json: str) -> StructType:
    """Spark's type for a schema in JSON."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(schema_json))


def arrow_as_spark(schema_json: str) -> pa.Schema:
    """The Arrow schema that Spark itself has for a schema in JSON, also for types that workers are not given."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(struct(schema_json), timezone="UTC")


def schema_of(frame: DataFrame) -> Schema:
    """The columns of a DataFrame; asks the engine, but runs nothing."""
    return Schema.from_json(frame.schema.json())


def empty(session: SparkSession, schema_json: str) -> DataFrame:
    """A DataFrame without rows."""
    return session.createDataFrame([], struct(schema_json))
