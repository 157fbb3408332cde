"""Looks through a pipeline for what its engine computes otherwise than Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from dagster_operators.errors import located
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.engine_kind import reads_like_spark
from dagster_operators.planner.differences.read_rows import read_rows
from dagster_operators.planner.differences.refusing import accepted_differences, refuse_differences, types_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def refuse_in_pipeline(
    session: SparkSession, dataflow: Dataflow, schemas: Mapping[StreamRef, str], tables: Mapping[str, str]
) -> None:
    """Refuse a pipeline that would commit something else on Sail than on Spark.

    What ``transform`` does with DataFrames is not looked through.

    Args:
        session: The engine; Spark itself, which is the measure, is not asked.
        dataflow: The pipeline as it was written.
        schemas: The schema of each stream.
        tables: The schema of each source and lookup table, by operator.

    Raises:
        SchemaError: An expression is computed otherwise; names it, its operator or table, and what to write instead.
    """
    if reads_like_spark(session):
        return
    refuse_in_operators(session, dataflow, schemas, tables)
    for table in dataflow.tables.values():
        if table.checks:
            with located(pipeline=dataflow.name, table=table.name):
                _look(session, (check.expression for check in table.checks.values()), schemas[table.stream])


def refuse_in_operators(
    session: SparkSession, dataflow: Dataflow, schemas: Mapping[StreamRef, str], tables: Mapping[str, str]
) -> None:
    """Refuse what operators would compute otherwise, of those that read streams whose schemas are known.

    Raises:
        SchemaError: As above.
    """
    if reads_like_spark(session):
        return
    for node in dataflow:
        schema = read_rows(node, schemas, tables) if node.operator.sql() else None
        if schema is not None:
            with located(pipeline=dataflow.name, operator=node.name):
                _look(session, node.operator.sql(), schema)


def _look(session: SparkSession, expressions: Iterable[str], schema: str) -> None:
    type_of, accepted = types_of(session, schema), accepted_differences(session)
    for expression in expressions:
        refuse_differences(expression, type_of, accepted)
