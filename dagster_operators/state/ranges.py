"""Ranges of values that a scan is narrowed to, and the times by which rows expire."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from dagster_operators.state.columns import to_numpy
from dagster_operators.state.table_part import TablePart
from dagster_operators.time.watermark import MAX_WATERMARK, to_micros


@dataclass(frozen=True)
class Range:
    """Values from ``low`` up to but not including ``high``; None is no bound.

    Attributes:
        column: The column of the values.
        low: The smallest value in the range, as an Arrow scalar.
        high: The smallest value above it.
    """

    column: str
    low: Any
    high: Any

    @classmethod
    def of(cls, part: TablePart, bounds: tuple[Any, Any] | None, column: str | None) -> Range | None:
        """The range that an operator asked for; None for all rows.

        Raises:
            SchemaError: There is no such column, or a bound has another type.
        """
        if bounds is None:
            return None
        name = column or part.declaration.time or part.declaration.key[0]
        if name not in part.schema.names:
            raise part.error(f"the state has no column {name!r}", name, f"use one of: {', '.join(part.schema.names)}")
        kind = part.schema.field(name).type
        try:
            low, high = (None if bound is None else _scalar(bound, kind) for bound in bounds)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise part.error(
                f"a bound of the range does not fit {kind}: {error}", name, "give bounds of the column's type"
            ) from error
        return cls(name, low, high)


def _scalar(bound: Any, kind: Any) -> Any:
    if isinstance(bound, pa.Scalar):
        return bound.cast(kind)
    if kinds.is_timestamp(kind) and isinstance(bound, int | datetime):
        return pa.scalar(micros(bound), pa.int64()).cast(kind)
    return pa.scalar(bound, kind)


def micros(moment: int | datetime) -> int:
    """A moment as microseconds since 1970."""
    return to_micros(moment) if isinstance(moment, datetime) else int(moment)


def in_range(table: Any, wanted: Range | None) -> Any:
    """The rows of a batch whose value lies in the range."""
    if wanted is None:
        return table
    values = table.column(wanted.column)
    rows = pc.is_valid(values)
    if wanted.low is not None:
        rows = pc.and_kleene(rows, pc.greater_equal(values, wanted.low))
    if wanted.high is not None:
        rows = pc.and_kleene(rows, pc.less(values, wanted.high))
    return table.filter(rows)


def times_of(part: TablePart, table: Any) -> np.ndarray | None:
    """The time of each row in microseconds, the latest time for rows without one; None when the state has no time."""
    if part.declaration.time is None:
        return None
    return column_times(table.column(part.declaration.time))


def column_times(column: Any) -> np.ndarray:
    """A time column in microseconds, the latest time where it is null."""
    values = to_numpy(column)
    return np.where(pc.is_null(column).to_numpy(zero_copy_only=False), MAX_WATERMARK, values) if column.null_count else values
