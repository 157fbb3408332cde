"""Rows of a state that are known by their event time: what is before a time that moves on, and what is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from dagster_operators.operators.physical import Varying
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TIME: Final = "__time"
"""The column with the event time in microseconds."""


def micros_of(event_time: str) -> str:
    """SQL for the microseconds of a column with an event time.

    >>> micros_of("time")
    'unix_micros(CAST(`time` AS TIMESTAMP))'
    """
    return f"unix_micros(CAST({quoted(event_time)} AS TIMESTAMP))"


def timed(rows: DataFrame, event_time: str) -> DataFrame:
    """The rows with their event time."""
    return rows.selectExpr("*", f"{micros_of(event_time)} AS {TIME}")


def since(rows: DataFrame, time: int, number: Varying) -> DataFrame:
    """The rows from a time on."""
    return open_at(rows, time, lambda: f"{TIME} >= {number(time, TIME)}")


def open_at(rows: DataFrame, watermark: int, condition: Callable[[], str]) -> DataFrame:
    """The rows that a watermark has not passed, as a condition says; all or none at the ends of time, which are no numbers."""
    if watermark in (MIN_WATERMARK, MAX_WATERMARK):
        return rows if watermark == MIN_WATERMARK else rows.filter("false")
    return rows.filter(condition())


def until(rows: DataFrame, time: int, number: Varying) -> DataFrame:
    """The rows before a time."""
    if time in (MIN_WATERMARK, MAX_WATERMARK):
        return rows if time == MAX_WATERMARK else rows.filter("false")
    return rows.filter(f"{TIME} < {number(time, TIME)}")
