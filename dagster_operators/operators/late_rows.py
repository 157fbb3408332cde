"""Rows that come after the watermark has passed what they belong to: told apart, counted, and handed to those who read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster_operators.operators.physical import StageContext
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def late_condition(time: str, too_late: str, watermark: int) -> str:
    """When a row is late, as SQL; a row without a time, which only a transform can make, always is.

    Args:
        time: The column with the row's time.
        too_late: When the watermark has passed what a row of this time belongs to.
        watermark: The operator's at the beginning of the epoch.

    >>> late_condition("t", "t < 5L", 5), late_condition("t", "", MIN_WATERMARK), late_condition("t", "", MAX_WATERMARK)
    ('t IS NULL OR t < 5L', 't IS NULL', 'true')
    """
    if watermark == MAX_WATERMARK:
        return "true"
    return f"{time} IS NULL" if watermark == MIN_WATERMARK else f"{time} IS NULL OR {too_late}"


def on_time(context: StageContext, operator: str, rows: DataFrame, late: str, *, time: str, port: str = "late") -> DataFrame:
    """The rows that are not late; the others are counted as late and go to a side output.

    Args:
        context: Where the operator runs.
        operator: Its name.
        rows: Its new rows.
        late: When one is late, as SQL.
        time: A column that the late rows are handed on without.
        port: The side output; that of one of several inputs is ``late_`` with its name.
    """
    context.put_out(operator, port, lambda: rows.filter(late).drop(time))
    counted = operator if port == "late" else f"{operator}.{port.removeprefix('late_')}"
    return context.count_late(counted, rows, late).filter(f"NOT ({late})")
