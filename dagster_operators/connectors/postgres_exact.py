"""Values that a column of PostgreSQL would round or cut without a word, so that they are refused instead.

The server rounds a number to the scale of ``numeric(p, s)`` and a moment to the precision of ``timestamp(p)``, cuts blanks off
text that is too long, and reads a whole number into ``double precision`` as the nearest double.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.connectors.postgres_times import far_times, is_time
from dagster_operators.errors import SinkError

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.connectors.postgres_columns import TableColumn

_HEADER: Final = 4
"""PostgreSQL adds it to the lengths and scales that it keeps of a type."""

_LONGEST_NAME: Final = 63
_EXACT_IN_DOUBLES: Final = 2**53
_MICROS: Final = 6
_MOST_POWER: Final = 22
"""Ten to the power of it is exact as a double."""


def scale_of(modifier: int) -> int | None:
    """The scale in the modifier of a ``numeric`` type; None for any.

    >>> scale_of(((10 << 16) | 2) + 4), scale_of(((3 << 16) | (-2 & 0x7FF)) + 4), scale_of(-1)
    (2, -2, None)
    """
    if modifier < _HEADER:
        return None
    return (((modifier - _HEADER) & 0x7FF) ^ 1024) - 1024


def check_exact(batch: pa.RecordBatch, columns: Mapping[str, TableColumn], before: int) -> None:
    """Refuse a value that its column would change.

    Args:
        batch: The rows.
        columns: The table's column of each of the stream's.
        before: The number of rows before the batch.

    Raises:
        SinkError: The value, with its row and column.
    """
    for name, column in columns.items():
        place = _first_changed(batch.column(name), column)
        if place is None:
            continue
        values = batch.column(name)
        value = (far_times(values) if is_time(values.type) else values)[place].as_py()
        raise SinkError(
            f"the value {value!r} does not go into the table's column {column.name!r} of type {column.type} as it is: "
            "the server would round or cut it",
            column=name,
            row=before + place + 1,
            remedy="cast, round or truncate it in the pipeline, or change the column's type: "
            f'ALTER TABLE ... ALTER COLUMN "{column.name}" TYPE {_wider(column)}',
        )


def _wider(column: TableColumn) -> str:
    wider = {"bpchar": "text", "varchar": "text", "name": "text", "char": "text", "float8": "numeric"}
    return wider.get(column.base, column.base) + ("[]" if column.is_array else "")


def _first_changed(values: pa.Array, column: TableColumn) -> int | None:
    """The place of the first value that the column would change."""
    import pyarrow.compute as pc
    import pyarrow.types as pt

    if column.is_array and (pt.is_list(values.type) or pt.is_large_list(values.type)):
        place = _first_changed(values.flatten(), column)
        return None if place is None else int(pc.list_parent_indices(values)[place].as_py())
    changed = _changed(values, column)
    if changed is None:
        return None
    place = int(pc.index(changed, True).as_py())
    return None if place < 0 else place


def _changed(values: pa.Array, column: TableColumn) -> pa.Array | None:
    """Which values the column would change, null and false for none; None where the types say that it is none."""
    import pyarrow.types as pt

    kind, base, modifier = values.type, column.base, column.modifier
    if base == "numeric" and (scale := scale_of(modifier)) is not None:
        return _rounded(values, scale)
    if base == "float8" and pt.is_integer(kind) and kind.bit_width > 32:  # noqa: PLR2004 - fewer bits always fit
        return _where(values, lambda number: abs(number) > _EXACT_IN_DOUBLES and int(float(number)) != number)
    if pt.is_timestamp(kind) and 0 <= modifier < _MICROS and base in {"timestamp", "timestamptz"}:
        return _no_multiple(values, 10 ** (_MICROS - modifier))
    if pt.is_string(kind) or pt.is_large_string(kind):
        return _cut(values, base, modifier)
    return None


def _rounded(values: pa.Array, scale: int) -> pa.Array | None:
    import pyarrow.compute as pc
    import pyarrow.types as pt

    if pt.is_floating(values.type):
        if 0 <= scale <= _MOST_POWER:
            changed = pc.not_equal(pc.round(values.cast("float64"), ndigits=scale), values.cast("float64"))
            if not pc.any(changed).as_py():
                return None
        return _where(values.cast("string"), lambda text: _digits_after(text) > scale)
    if pt.is_decimal(values.type) and values.type.scale <= scale:
        return None
    if pt.is_integer(values.type) and scale >= 0:
        return None
    return pc.not_equal(pc.round(values, ndigits=scale, round_mode="towards_zero"), values)


def _digits_after(text: str) -> int:
    """The place of a number's last digit behind the point, less than nothing before it.

    >>> [_digits_after(text) for text in ("1.50", "2e-3", "1200", "nan")]
    [1, 3, -2, -9223372036854775807]
    """
    if not math.isfinite(float(text)):
        return 1 - 2**63
    exponent = Decimal(text).normalize().as_tuple().exponent if float(text) else 0
    return -exponent if isinstance(exponent, int) else 0


def _no_multiple(values: pa.Array, unit: int) -> pa.Array:
    import pyarrow.compute as pc

    numbers = values.cast("int64")
    return pc.not_equal(pc.multiply(pc.divide(numbers, unit), unit), numbers)


def _cut(values: pa.Array, base: str, modifier: int) -> pa.Array | None:
    import pyarrow.compute as pc

    if base in {"varchar", "bpchar"} and modifier >= _HEADER:
        most = modifier - _HEADER
        fits = pc.less_equal(pc.utf8_length(pc.utf8_rtrim(values, " ")), most)
        return pc.and_(pc.greater(pc.utf8_length(values), most), fits)
    if base in {"name", "char"}:
        return pc.greater(pc.binary_length(values), _LONGEST_NAME if base == "name" else 1)
    return None


def _where(values: pa.Array, changed: Callable[[Any], bool]) -> pa.Array:
    import pyarrow as pa

    return pa.array([value is not None and changed(value) for value in values.to_pylist()], pa.bool_())
