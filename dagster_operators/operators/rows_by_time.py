"""Rows of a state that are known by their event time: what is before a time that moves on, and what is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dagster_operators.operators.physical import Varying
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TIME: Final = "__time"
"""The column with the event time in microseconds."""


def timed(rows: DataFrame, event_time: str) -> DataFrame:
    """The rows with their event time."""
    return rows.selectExpr("*", f"unix_micros(CAST({quoted(event_time)} AS TIMESTAMP)) AS {TIME}")


def since(rows: DataFrame, time: int, number: Varying) -> DataFrame:
    """The rows from a time on."""
    if time in (MIN_WATERMARK, MAX_WATERMARK):
        return rows if time == MIN_WATERMARK else rows.filter("false")
    return rows.filter(f"{TIME} >= {number(time, TIME)}")


def until(rows: DataFrame, time: int, number: Varying) -> DataFrame:
    """The rows before a time."""
    if time in (MIN_WATERMARK, MAX_WATERMARK):
        return rows if time == MAX_WATERMARK else rows.filter("false")
    return rows.filter(f"{TIME} < {number(time, TIME)}")
