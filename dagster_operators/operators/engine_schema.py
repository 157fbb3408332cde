# ruff: noqa: SLF001 - PySpark has no public way to Java's own relation without rows
"""Schemas as an engine takes and gives them: the way between :class:`~dagster_operators.types.schema.Schema` and PySpark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

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
    return _empty(session, struct(schema_json))


def empty_as_declared(session: SparkSession, ddl: str) -> DataFrame:
    """A DataFrame without rows, of columns written as text; the engine reads the text."""
    from pyspark.sql.types import StructType

    if "char" in ddl.lower():
        ddl = Schema.from_ddl(ddl).with_texts().to_ddl()
    columns = StructType.fromDDL(ddl) if _is_classic(session) else ddl
    return _empty(session, columns) if isinstance(columns, StructType) else _by_pyspark(session, ddl)


def _empty(session: Any, columns: StructType) -> DataFrame:
    """The rows that ``createDataFrame([], columns)`` gives.

    On a classic session that takes pandas, a pickled function and an RDD, some 20 ms each time and a second or more in a new
    process. There Java makes the relation without rows; what it refuses so, as columns of type ``time``, goes PySpark's way.
    """
    if _is_classic(session):
        from pyspark.errors import PySparkException
        from pyspark.sql import DataFrame

        java = session._jsparkSession
        try:
            made = java.createDataFrame(session._jvm.java.util.ArrayList(), java.parseDataType(columns.json()))
        except PySparkException:
            return _by_pyspark(session, columns)
        return DataFrame(made, session)
    return _by_pyspark(session, columns)


def _by_pyspark(session: SparkSession, columns: StructType | str) -> DataFrame:
    return session.createDataFrame([], columns)


def _is_classic(session: Any) -> bool:
    """Whether Java is in reach, as it is not with Spark Connect and Sail."""
    return hasattr(session, "_jsparkSession")
