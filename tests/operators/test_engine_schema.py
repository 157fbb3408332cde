"""A DataFrame without rows is the one that PySpark makes, and on a classic session none of PySpark's own machinery is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import StructType

from dagster_operators.operators.engine_schema import empty, empty_as_declared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (
    "d decimal(12,2) not null comment 'what it costs', b binary, t timestamp, n timestamp_ntz, day date, y byte, f float, "
    "s struct<a:int not null, b:map<string,array<timestamp_ntz>>> not null, v variant, i interval day to second, x void"
)


def of_pyspark(session: SparkSession, ddl: str) -> Any:
    return session.createDataFrame([], ddl)


@pytest.mark.parametrize("ddl", [COLUMNS, "", "g time"])
def test_it_is_what_pyspark_makes(spark: SparkSession, ddl: str) -> None:
    wanted = of_pyspark(spark, ddl)
    for made in (empty(spark, wanted.schema.json()), empty_as_declared(spark, ddl)):
        assert made.schema == wanted.schema
        assert made.select("*").schema.json() == wanted.select("*").schema.json()


def test_what_pyspark_refuses_is_refused_with_its_error(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="nonsense") as wanted:
        of_pyspark(spark, "v nonsense")
    with pytest.raises(type(wanted.value), match="nonsense"):
        empty_as_declared(spark, "v nonsense")


@pytest.mark.parametrize("ddl", ["v varchar(3)", "v char(3)"])
def test_texts_with_lengths_are_texts(spark: SparkSession, ddl: str) -> None:
    """PySpark fails with an error within Java."""
    assert empty_as_declared(spark, ddl).schema == of_pyspark(spark, "v string").schema


def test_a_type_alone_is_one_column_called_value(spark: SparkSession) -> None:
    assert empty_as_declared(spark, "bigint").schema == of_pyspark(spark, "bigint").schema


def test_on_a_classic_session_neither_pandas_nor_an_rdd_is_asked_for(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = StructType.fromDDL("k string, v long")
    monkeypatch.setattr(type(spark), "createDataFrame", lambda *_, **__: pytest.fail("PySpark makes it"))
    assert empty(spark, kind.json()).schema == empty_as_declared(spark, "k string, v long").schema == kind
    assert empty(spark, kind.json()).isEmpty()


def test_on_sail_it_is_what_pyspark_makes(sail: SparkSession) -> None:
    wanted = of_pyspark(sail, "k string not null, v decimal(12,2)")
    assert empty(sail, wanted.schema.json()).schema == wanted.schema
    assert empty_as_declared(sail, "k string not null, v decimal(12,2)").schema == wanted.schema
