"""Rows that come and go, each with how often it is there: what the state of operators on changes is made of.

A row's weight is how often it was added less how often it was taken back, so rows of any epochs merge by adding up (a Z-set:
Budiu et al., DBSP, 2023).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dagster_operators.graph.changes import ADDS, CHANGE
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WEIGHT: Final = "__rows"
"""How often a row is there."""

ADDED: Final = f"{CHANGE} IN ({', '.join(map(repr, ADDS))})"
"""SQL for whether a change brings a row."""


def weighted(changes: DataFrame) -> DataFrame:
    """Changes as rows with weights, without those that cancel out.

    Args:
        changes: Rows with the column ``_change``.
    """
    columns = [quoted(name) for name in changes.columns if name != CHANGE]
    return _added_up(changes.selectExpr(*columns, f"IF({ADDED}, 1L, -1L) AS {WEIGHT}"))


def added_up(rows: DataFrame) -> DataFrame:
    """Rows with weights as few as can be, without those that cancel out."""
    return _added_up(rows)


def repeated(rows: DataFrame, most: int | None = None) -> DataFrame:
    """All rows there are, each as often as it is there, from all rows with weights of some keys.

    The query fails where a row was taken back that was not there.

    Args:
        rows: Rows with weights.
        most: How many copies of a row are wanted at most.
    """
    columns = [quoted(name) for name in rows.columns if name != WEIGHT]
    told = "raise_error('a change takes a row back that is not there')"
    checked = f"CASE WHEN {WEIGHT} < 0 THEN CAST({told} AS BIGINT) ELSE {WEIGHT} END"
    copies = checked if most is None else f"least({checked}, {most}L)"
    return _added_up(rows).selectExpr(*columns, f"explode(sequence(1L, {copies})) AS {WEIGHT}").selectExpr(*columns)


def _added_up(rows: DataFrame) -> DataFrame:
    columns = [quoted(name) for name in rows.columns if name != WEIGHT]
    summed = rows.groupBy(*columns).agg({WEIGHT: "sum"})
    return summed.selectExpr(*columns, f"`sum({WEIGHT})` AS {WEIGHT}").filter(f"{WEIGHT} <> 0")
