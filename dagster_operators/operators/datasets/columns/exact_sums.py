"""Sums of columns by group, as Python's numbers have them: what does not fit its type is not wrapped, but left to rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dagster_operators.errors import PipelineError

_BITS: Final = 32
_LONGEST: Final = 2**63
_DIGITS: Final = 38
"""The most digits of a decimal number."""


def is_summed(kind: pa.DataType) -> bool:
    """Whether sums of a type are those of Python's numbers; those of a FLOAT have more digits on the way.

    >>> is_summed(pa.int64()), is_summed(pa.float32())
    (True, False)
    """
    return bool(pa.types.is_signed_integer(kind) or pa.types.is_float64(kind) or pa.types.is_decimal128(kind))


def sums(
    columns: Mapping[int, Any], before: int, grouped: Callable[[dict[str, Any], Sequence[tuple[str, str]]], pa.Table]
) -> tuple[pa.Table, dict[int, Any]] | None:
    """The sums of some columns by group, beside what else is computed of the groups; None where a sum does not fit its type.

    Args:
        columns: The columns, by field.
        before: So many of the first rows are sums already, at most one of each group.
        grouped: Computes aggregates of named columns.
    """
    given: dict[str, Any] = {}
    wanted: dict[int, str] = {}
    for field, column in columns.items():
        parts = _parts(column, before)
        if parts is None:
            return None
        wanted[field] = "whole" if len(parts) == 1 else "halves"
        given |= {f"{field} {name}": part for name, part in parts.items()}
    table = grouped(given, [(name, "sum") for name in given])
    totals: dict[int, Any] = {}
    for field, how in wanted.items():
        kind = columns[field].type
        if how == "whole":
            total = table.column(f"{field} whole_sum")
        else:
            total = _joined(table.column(f"{field} high_sum"), table.column(f"{field} low_sum"))
        if total is None or not _holds(kind, total):
            return None
        totals[field] = total.cast(kind)
    return table, totals


def _parts(column: Any, before: int) -> dict[str, Any] | None:
    """A column as those whose sums cannot be too large on the way."""
    kind = column.type
    if pa.types.is_float64(kind):
        return {"whole": column}
    most = _largest(column.slice(0, before)) + _largest(column.slice(before)) * (len(column) - before)
    if pa.types.is_decimal128(kind):
        return {"whole": column.cast(pa.decimal128(_DIGITS, kind.scale))} if most < 10**_DIGITS else None
    whole = column.cast(pa.int64())
    if most < _LONGEST:
        return {"whole": whole}
    numbers = whole.to_numpy()
    return {"high": numbers >> _BITS, "low": numbers & (2**_BITS - 1)}


def _largest(column: Any) -> int:
    """The largest value of a column without its sign; a decimal without its point."""
    least, most = pc.min_max(column).as_py().values()
    if least is None:
        return 0
    largest = max(-least, most)
    return int(largest.scaleb(column.type.scale)) if pa.types.is_decimal(column.type) else int(largest)


def _joined(high: Any, low: Any) -> Any:
    """Numbers whose halves are given; None where one does not fit 64 bits."""
    highs, lows = high.to_numpy(), low.to_numpy()
    highs = highs + (lows >> _BITS)
    if len(highs) and (highs.min() < -(2 ** (_BITS - 1)) or highs.max() >= 2 ** (_BITS - 1)):
        return None
    return pa.chunked_array([(highs << _BITS) | (lows & (2**_BITS - 1))])


def _holds(kind: pa.DataType, totals: Any) -> bool:
    """Whether a type holds some sums."""
    if pa.types.is_float64(kind) or not len(totals):
        return True
    if pa.types.is_decimal128(kind):
        return bool(_largest(totals) < 10**kind.precision)
    if not pa.types.is_signed_integer(kind):
        raise PipelineError(f"{kind} has no sums by columns", remedy="report it with the program")
    limits = np.iinfo(kind.to_pandas_dtype())
    least, most = pc.min_max(totals).as_py().values()
    return bool(limits.min <= least and most <= limits.max)
