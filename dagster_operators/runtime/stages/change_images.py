"""What becomes of rows as Delta's change data feed tells it: inserts, deletes, and both sides of updates.

(Delta's transaction log protocol, "Add CDC File". What stays as it is has no images.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dagster_operators.operators.aggregates.partial_results import one_zero_one_nan
from dagster_operators.operators.engine_schema import schema_of
from dagster_operators.operators.key_join import join_by_keys
from dagster_operators.operators.one_task import joined, part_of
from dagster_operators.operators.relational.to_changes import same_value
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHANGE_TYPE: Final = "_change_type"
"""The column in which the feed says what a row is."""

_OLD: Final = "__old_"
_THERE: Final = "__there"
_NEW: Final = "__new"


def images_of(old: DataFrame | None, new: DataFrame, keys: Sequence[str]) -> DataFrame:
    """What makes of some rows others.

    Args:
        old: The rows that were there; None if there were none.
        new: The rows that take their place, in the same columns.
        keys: Of which there is one row each, before and after; without any there is one row at most.
    """
    names = list(map(quoted, new.columns))
    if old is None:
        return new.selectExpr(*names, f"'insert' AS {CHANGE_TYPE}")
    kinds = schema_of(new).types
    gone = join_by_keys(old, new, keys, "left_anti", value=lambda column, key: one_zero_one_nan(column, str(kinds[key])))
    return _given(old, new, keys).unionByName(gone.selectExpr(*names, f"'delete' AS {CHANGE_TYPE}"))


def _given(old: DataFrame, new: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The inserts, and both sides of the updates."""
    from pyspark.sql import functions as F

    kinds = schema_of(new).types
    named = {name: f"{_OLD}{number}" for number, name in enumerate(new.columns)}
    before = old.selectExpr(*(f"{quoted(name)} AS {old_name}" for name, old_name in named.items()), f"true AS {_THERE}")

    def compared(column: str, key: str) -> str:
        return one_zero_one_nan(column, str(kinds[key]))

    on = " AND ".join(f"{compared(quoted(key), key)} <=> {compared(named[key], key)}" for key in keys) or "true"
    same = " AND ".join(same_value(quoted(name), old_name, kinds[name]) for name, old_name in named.items())
    told = f"CASE WHEN {_THERE} IS NULL THEN array(true) WHEN NOT ({same}) THEN array(false, true) ELSE array() END"
    pairs = joined(new, part_of(before, old), F.expr(on), "left") if keys else new.join(before, F.expr(on), "left")
    sides = pairs.selectExpr("*", f"explode(CAST({told} AS array<boolean>)) AS {_NEW}")
    chosen = (f"CASE WHEN {_NEW} THEN {quoted(name)} ELSE {old_name} END AS {quoted(name)}" for name, old_name in named.items())
    images = f"CASE WHEN {_THERE} IS NULL THEN 'insert' WHEN {_NEW} THEN 'update_postimage' ELSE 'update_preimage' END"
    return sides.selectExpr(*chosen, f"{images} AS {CHANGE_TYPE}")
