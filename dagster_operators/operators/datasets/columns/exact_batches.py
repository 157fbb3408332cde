"""Rows of Python's values as Arrow batches that give back the same rows: what is not exact in Arrow stays a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dagster_operators.operators.datasets.columns.column_rows import RowLayout
from dagster_operators.operators.datasets.rows import Row, is_named

_PYTHON: Final[tuple[tuple[Callable[[pa.DataType], bool], type], ...]] = (
    (pa.types.is_boolean, bool), (pa.types.is_signed_integer, int), (pa.types.is_float32, float), (pa.types.is_float64, float),
    (pa.types.is_string, str), (pa.types.is_binary, bytes), (pa.types.is_date32, date), (pa.types.is_timestamp, datetime),
    (pa.types.is_decimal128, Decimal),
)  # fmt: skip
"""The type of Python that the values of an Arrow type have in rows."""
_NULL: Final = type(None)


def has_exact_batches(layout: RowLayout) -> bool:
    """Whether rows of a layout may become batches: values within others stay rows.

    >>> has_exact_batches(RowLayout((pa.int64(),), ("k",))), has_exact_batches(RowLayout((pa.list_(pa.int64()),), ("k",)))
    (True, False)
    """
    return bool(layout.types) and all(_python_type(kind) is not None for kind in layout.types)


def exact_batch(layout: RowLayout, rows: Sequence[Row]) -> pa.RecordBatch | None:
    """Rows as a batch; None where the rows of the batch would be others.

    Args:
        layout: The layout.
        rows: The rows; there is at least one.

    >>> layout = RowLayout((pa.float64(),), None)
    >>> exact_batch(layout, [(0.5,), (None,)]).num_rows, exact_batch(layout, [(1,)])
    (2, None)
    """
    if layout.names is None:
        fits = set(map(type, rows)) == {tuple} and set(map(len, rows)) == {len(layout.types)}
    else:
        fits = is_named(rows) == layout.names
    if not fits:
        return None
    arrays = []
    for kind, values in zip(layout.types, zip(*rows, strict=True), strict=True):
        array = _exact_array(kind, values)
        if array is None:
            return None
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=layout.schema)


def _python_type(kind: pa.DataType) -> type | None:
    return next((python for test, python in _PYTHON if test(kind)), None)


def _exact_array(kind: pa.DataType, values: Sequence[Any]) -> pa.Array | None:
    if not set(map(type, values)) <= {_python_type(kind), _NULL} or not _are_as_read(kind, values):
        return None
    try:
        array = pa.array(values, kind)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):  # beyond its type, or no UTF-8
        return None
    return array if not pa.types.is_float32(kind) or _has_all_digits(array, values) else None


def _are_as_read(kind: pa.DataType, values: Sequence[Any]) -> bool:
    """Whether values are written as Arrow's are read: times in their zone, decimals with all digits behind the point."""
    if pa.types.is_timestamp(kind):
        zone = UTC if kind.tz else None
        return all(value is None or (value.tzinfo is zone and not value.fold) for value in values)
    if pa.types.is_decimal128(kind):
        return all(value is None or _is_as_read(value, kind.scale) for value in values)
    return True


def _is_as_read(value: Decimal, scale: int) -> bool:
    return value.as_tuple().exponent == -scale and not (value.is_zero() and value.is_signed())


def _has_all_digits(array: pa.Array, values: Sequence[Any]) -> bool:
    digits = pa.array(values, pa.float64()).to_numpy(zero_copy_only=False)
    return np.array_equal(array.cast(pa.float64()).to_numpy(zero_copy_only=False), digits, equal_nan=True)
