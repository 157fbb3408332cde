"""Every NaN as the same one, for an engine that takes two with other bits for two values.

Processors make several: 0/0 is one with a sign, in NumPy and in Sail, and a text ``NaN`` is one without. To Spark all are one
value, larger than any number. Sail puts the one with a sign before all numbers, equal to no other, and into a group of its own.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from dagster_operators.operators.engine_kind import reads_like_spark
from dagster_operators.types.names import quoted
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KINDS = ("float", "double")


def one_nan(value: str, kind: str) -> str:
    """The value with every NaN as the same one.

    Args:
        value: Spark SQL.
        kind: Its type.

    >>> one_nan("sqrt(x)", "double"), one_nan("n", "int")
    ("nanvl(sqrt(x), CAST('NaN' AS double))", 'n')
    """
    return f"nanvl({value}, CAST('NaN' AS {kind}))" if kind in _KINDS else value


def with_one_nan(rows: DataFrame, schema_json: str) -> DataFrame:
    """Rows as they were read, on Sail with every NaN of these columns as the same one; within arrays and structs they stay."""
    changed = _changed(schema_json)
    if not changed or reads_like_spark(rows.sparkSession):
        return rows
    from pyspark.sql import functions as F

    return rows.withColumns({name: F.expr(text) for name, text in changed})


@lru_cache(maxsize=256)
def _changed(schema_json: str) -> tuple[tuple[str, str], ...]:
    kinds = Schema.from_json(schema_json).types.items()
    return tuple((name, one_nan(quoted(name), str(kind))) for name, kind in kinds if str(kind) in _KINDS)
