"""Joins of rows with the same key, where a null equals a null."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from dagster_operators.operators.engine_kind import reads_like_spark
from dagster_operators.operators.engine_schema import schema_of
from dagster_operators.operators.one_task import joined, part_of
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dagster_operators.types.data_type import DataType


def join_by_keys(
    rows: DataFrame,
    others: DataFrame,
    keys: Sequence[str],
    how: Literal["left_semi", "left_anti"],
    *,
    conditions: Sequence[str] = (),
    value: Callable[[str, str], str] = lambda column, key: column,  # noqa: ARG005 - most keys are compared as they are
    like: DataFrame | None = None,
) -> DataFrame:
    """The rows that have a partner among the others (``left_semi``), or those that have none (``left_anti``).

    Args:
        rows: The rows; conditions know them as ``one``.
        others: Possible partners; conditions know them as ``other``.
        keys: The columns that have to be equal.
        how: Which rows are wanted.
        conditions: What else has to hold.
        value: From the SQL for a key column and the column's name to what is compared.
        like: Rows with the same key columns whose types may be known already; by default the others.
    """
    from pyspark.sql import functions as F

    kinds = kinds_to_compare(others if like is None else like) if keys else {}
    equal = [same_key(value(f"one.{quoted(key)}", key), value(f"other.{quoted(key)}", key), kinds.get(key)) for key in keys]
    on = F.expr(" AND ".join([*equal, *conditions]) or "true")
    one, other = part_of(rows.alias("one"), rows), part_of(others.alias("other"), others)
    return joined(one, other, on, how) if equal else one.join(other, on, how)


def with_keys_of(rows: DataFrame, others: DataFrame, keys: Sequence[str], *, is_unique: bool = False) -> DataFrame:
    """The rows that have a key of the others; all of them when there are no keys.

    Args:
        rows: The rows.
        others: Rows with the keys.
        keys: The key columns.
        is_unique: Whether the others have one row for each key already.
    """
    if not keys:
        return rows
    wanted = others.select(*map(quoted, keys))
    if not (is_unique or reads_like_spark(rows.sparkSession)):  # Sail looks at all of a key's rows, Spark stops at the first
        wanted = wanted.distinct()
    return join_by_keys(rows, part_of(wanted, others), keys, "left_semi", like=others)


def same_key(one: str, other: str, kind: DataType | None) -> str:
    """SQL for whether two keys are equal; those with values in them as texts where their type is told, as for Sail.

    Sail looks keys up between the least and the greatest of one side, sooner than their rows are sorted. Of arrays and structs
    with a null in them it finds bounds that leave rows out. JSON tells all texts apart, the other text all numbers.

    >>> same_key("`k`", "__old_0", None)
    '`k` <=> __old_0'
    """
    if kind is None or not kind.is_nested:
        return f"{one} <=> {other}"
    texts = ("to_json(named_struct('value', {0}))", "CAST({0} AS STRING)")
    return " AND ".join(f"{text.format(one)} <=> {text.format(other)}" for text in texts)


def kinds_to_compare(rows: DataFrame) -> Mapping[str, DataType]:
    """The types of columns that :func:`same_key` is to be told: none on Apache Spark."""
    return {} if reads_like_spark(rows.sparkSession) else schema_of(rows).types
