"""Refuses what an engine is known to compute otherwise, when a pipeline is planned: before any row of it is committed."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from dagster_operators.errors import SchemaError
from dagster_operators.graph.expressions import calls_of
from dagster_operators.graph.user_functions import find
from dagster_operators.operators.engine_schema import empty, schema_of
from dagster_operators.planner.differences.asked import Asked, TypeOf, asked_by
from dagster_operators.planner.differences.difference import Difference
from dagster_operators.planner.differences.known import KNOWN
from dagster_operators.planner.differences.not_compared import NOT_COMPARED
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dagster_operators.types.data_type import DataType

ACCEPTED = "dagster_operators.accepted_differences"
"""A setting of an engine: the functions whose differences somebody knows of and goes on with."""


def accepted_differences(session: SparkSession) -> frozenset[str]:
    """The functions whose differences are accepted, in small letters."""
    return frozenset(name.strip().lower() for name in str(session.conf.get(ACCEPTED, "")).split(",") if name.strip())


def differences_in(expression: str, type_of: TypeOf) -> Iterator[tuple[Asked, Difference]]:
    """What in an expression Sail computes otherwise than Spark, or not at all.

    >>> from dagster_operators.types.data_type import Plain
    >>> [found.instead for _, found in differences_in("rint(x) + 1", lambda text: Plain("double"))]
    ['bround(CAST(x AS DOUBLE))']
    """
    for asked in asked_by(expression, type_of):
        if find(asked.name) is None:
            yield from ((asked, one) for one in KNOWN if asked.name in one.names and one.applies(asked))


def refuse_differences(expression: str, type_of: TypeOf, accepted: Collection[str]) -> None:
    """Refuse an expression that Sail computes otherwise, or may: with a function that was not compared.

    Args:
        expression: Spark SQL.
        type_of: Tells the types that it is computed for.
        accepted: The functions whose differences are known and accepted.

    Raises:
        SchemaError: With the function, what is different, and what to write instead.
    """
    for call in calls_of(expression):
        if call.name in NOT_COMPARED and call.name not in accepted:
            raise SchemaError(
                f"what Sail gives for {call.name}() was not compared with what Spark does",
                expression=expression, function=call.name,
                remedy=f"run on Spark; or look at what Sail gives, and go on with it: {_accepting(call.name)}",
            )  # fmt: skip
    for asked, found in differences_in(expression, type_of):
        if asked.name not in accepted:
            raise SchemaError(
                f"{found.what} ({asked.name}) is something else on Sail than on Spark: {found.why}",
                expression=expression, function=asked.name,
                remedy=f"write {found.instead}, which both answer alike; run on Spark; or go on with Sail's answer: "
                f"{_accepting(asked.name)}",
            )  # fmt: skip


def _accepting(name: str) -> str:
    return f"SparkEngine(remote='sail', config={{'{ACCEPTED}': '{name}'}})"


def types_in(rows: DataFrame, schema: Schema | None = None) -> TypeOf:
    """Tells the types of expressions over rows; asks the engine where they are more than a column, but runs nothing.

    Args:
        rows: The rows.
        schema: Their columns; without it the engine is asked for these, too.
    """
    columns = {name.lower(): kind for name, kind in (schema_of(rows) if schema is None else schema).types.items()}

    @functools.cache
    def type_of(text: str) -> DataType | None:
        from pyspark.errors import PySparkException

        if text.lower() in columns:
            return columns[text.lower()]
        try:
            return schema_of(rows.selectExpr(f"{text} AS asked")).fields[0].type
        except PySparkException:
            return None

    return type_of


def types_of(session: SparkSession, schema_json: str) -> TypeOf:
    """The same over columns that are known, as StructType JSON: the engine is asked for nothing but expressions."""
    return types_in(empty(session, schema_json), Schema.from_json(schema_json))
