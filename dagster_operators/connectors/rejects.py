"""Records that cannot be parsed: the columns they travel in, and how they leave the rows that can.

A reader that rejects adds three columns to those of the schema. They are null in a good row; in a rejected one they hold the
record as it stood in the file, the file, and the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dagster_operators.connectors.connector import PART
from dagster_operators.connectors.required_places import RequiredPlace
from dagster_operators.connectors.sql_text import literal
from dagster_operators.graph.changes import ENTRY, MOVE, OPERATION, told_column
from dagster_operators.graph.places import PLACES
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CORRUPT_RECORD: Final = "_corrupt_record"
CORRUPT_FILE: Final = "_corrupt_file"
CORRUPT_REASON: Final = "_corrupt_reason"

INCOMPLETE: Final = "not a complete record of the schema"
"""The reason where no single column is to blame."""

NO_UTF8: Final = "bytes that are no UTF-8; of files in another encoding say which, as in options={'encoding': 'ISO-8859-1'}"
"""The reason where a record cannot be decoded."""

UNTIMED: Final = "the event time is null"
"""The reason where a row says no time."""

MISSING: Final = "{} is null, and declared NOT NULL"
"""The reason where a row has no value at a place of that path."""

REJECTS_SCHEMA: Final = "file string, record string, reason string"
"""The schema of the rejects, as DDL."""


def split_rejects(rows: DataFrame) -> tuple[DataFrame, DataFrame]:
    """The good rows in the columns of the schema, and the rejects in those of ``REJECTS_SCHEMA``.

    Rows of a source that never rejects have no such columns: they are all good, and the rejects are empty.
    """
    if CORRUPT_RECORD not in rows.columns:
        return rows, rows.where("false").selectExpr("'' AS file", "'' AS record", "'' AS reason")
    good = rows.where(f"{CORRUPT_RECORD} IS NULL").drop(CORRUPT_RECORD, CORRUPT_FILE, CORRUPT_REASON)
    bad = rows.where(f"{CORRUPT_RECORD} IS NOT NULL")
    return good, bad.selectExpr(f"{CORRUPT_FILE} AS file", f"{CORRUPT_RECORD} AS record", f"{CORRUPT_REASON} AS reason")


def as_rejects(rows: DataFrame, reason: str) -> DataFrame:
    """Rows that can be parsed and are rejected all the same, in the columns of ``REJECTS_SCHEMA``."""
    if OPERATION in rows.columns:  # of an event that does two things one is told
        rows = rows.where(f"{OPERATION} <> '{MOVE}'")
    columns = ", ".join(quoted(name) for name in rows.columns if name not in (PART, *PLACES, *ENTRY))
    return rows.selectExpr(
        "CAST(NULL AS STRING) AS file", f"to_json(struct({columns})) AS record", f"{literal(reason)} AS reason"
    )


def lacks_time(column: str, columns: Sequence[str], *, with_moves: bool = False) -> str:
    """SQL for whether a row has no event time and should, as :func:`lacks_value` says it.

    >>> lacks_time("at", ["at"])
    '`at` IS NULL'
    """
    return lacks_value(RequiredPlace(column, column, f"{quoted(column)} IS NULL"), columns, with_moves=with_moves)


def lacks_value(place: RequiredPlace, columns: Sequence[str], *, with_moves: bool = False) -> str:
    """SQL for whether a row has no value and should; a change event that brings no row, or not this value, need not.

    Args:
        place: The place of the value.
        columns: The columns there are.
        with_moves: Whether an event that gives a row another key counts in both of the things that it does.
    """
    if OPERATION not in columns:
        return place.is_null
    moves = f", '{MOVE}'" if with_moves else ""
    brings = f"substring_index({OPERATION}, ' ', 1) IN ('insert', 'update', 'upsert'{moves})"
    return f"({place.is_null} AND {brings} AND instr(concat({OPERATION}, ' '), ' {told_column(place.column)} ') = 0)"


def split_untimed(rows: DataFrame, column: str) -> tuple[DataFrame, DataFrame]:
    """The rows with an event time, and the others as rejects."""
    lacks = lacks_time(column, rows.columns, with_moves=True)
    return rows.where(f"NOT {lacks}"), as_rejects(rows.where(lacks), UNTIMED)


def split_missing(rows: DataFrame, place: RequiredPlace) -> tuple[DataFrame, DataFrame]:
    """The rows with a value at a place, and the others as rejects."""
    lacks = lacks_value(place, rows.columns, with_moves=True)
    if place.is_nested:  # Sail hands conditions to Parquet scans, which know no lambdas; one with a random number it keeps
        lacks = f"({lacks} = (rand() < 2))"
    return rows.where(f"NOT {lacks}"), as_rejects(rows.where(lacks), MISSING.format(place.path))
