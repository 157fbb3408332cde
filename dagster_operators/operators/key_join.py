"""Joins of rows with the same key, where a null equals a null."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from dagster_operators.operators.engine_kind import reads_like_spark
from dagster_operators.operators.one_task import joined, part_of
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def join_by_keys(
    rows: DataFrame,
    others: DataFrame,
    keys: Sequence[str],
    how: Literal["left_semi", "left_anti"],
    *,
    conditions: Sequence[str] = (),
    value: Callable[[str, str], str] = lambda column, key: column,  # noqa: ARG005 - most keys are compared as they are
) -> DataFrame:
    """The rows that have a partner among the others (``left_semi``), or those that have none (``left_anti``).

    Args:
        rows: The rows; conditions know them as ``one``.
        others: Possible partners; conditions know them as ``other``.
        keys: The columns that have to be equal.
        how: Which rows are wanted.
        conditions: What else has to hold.
        value: From the SQL for a key column and the column's name to what is compared.
    """
    from pyspark.sql import functions as F

    equal = [f"{value(f'one.{quoted(key)}', key)} <=> {value(f'other.{quoted(key)}', key)}" for key in keys]
    on = F.expr(" AND ".join([*equal, *conditions]) or "true")
    one, other = part_of(rows.alias("one"), rows), part_of(others.alias("other"), others)
    return joined(one, other, on, how) if equal else one.join(other, on, how)


def with_keys_of(rows: DataFrame, others: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The rows that have a key of the others; all of them when there are no keys."""
    if not keys:
        return rows
    wanted = others.select(*map(quoted, keys))
    if not reads_like_spark(rows.sparkSession):  # Sail looks at all of a key's rows for each row, where Spark stops at the first
        wanted = wanted.distinct()
    return join_by_keys(rows, part_of(wanted, others), keys, "left_semi")
