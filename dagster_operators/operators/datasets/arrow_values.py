"""Arrow arrays as values of Python: structs are named tuples, maps are dictionaries, moments are aware of UTC."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal as Number
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from dagster_operators.errors import BadInputError
from dagster_operators.operators.datasets.rows import named_rows
from dagster_operators.types.data_type import Array, DataType, Decimal, Map, Plain, Struct

if TYPE_CHECKING:
    from dagster_operators.operators.datasets.arrow_columns import Place

_DAYS: Final = (-719162, 2932896)
"""The first and the last day that Python has, counted from 1970."""
_MICROSECONDS: Final = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)


def values_of(column: pa.Array, kind: DataType, place: Place, *, hashable: bool = False) -> list[Any]:
    """The values of an array.

    Args:
        column: The array, in the Arrow type of ``kind``.
        kind: The type of the values.
        place: Where they are, for errors.
        hashable: Whether arrays are tuples, as in keys of maps, and not lists.

    Raises:
        BadInputError: A date or time is outside of Python's years, or a map has a key twice.
    """
    match kind:
        case Struct():
            return _structs(column, kind, place, hashable=hashable)
        case Array():
            return _arrays(column, kind, place, hashable=hashable)
        case Map():
            return _maps(column, kind, place)
        case _:
            return _plain(column, kind, place)


def _plain(column: pa.Array, kind: DataType, place: Place) -> list[Any]:
    match kind:
        case Decimal():
            return [None if text is None else Number(text) for text in column.cast(pa.string()).to_pylist()]
        case Plain("date"):
            return _moments(column.cast(pa.int32()), "D", _DAYS, place)
        case Plain("timestamp_ntz"):
            return _moments(column.cast(pa.int64()), "us", _MICROSECONDS, place)
        case Plain("timestamp"):
            naive = _moments(column.cast(pa.int64()), "us", _MICROSECONDS, place)
            return [moment if moment is None else _aware(moment) for moment in naive]
        case _:
            plain: list[Any] = column.to_pylist()
            return plain


def _structs(column: pa.Array, kind: Struct, place: Place, *, hashable: bool) -> list[Any]:
    make = named_rows(tuple(field.name for field in kind.fields))._make
    parts = [
        values_of(part, field.type, place.within(field.name), hashable=hashable)
        for field, part in zip(kind.fields, column.flatten(), strict=True)
    ]
    rows: list[Any] = list(map(make, zip(*parts, strict=True)))
    return _with_nulls(rows, column)


def _arrays(column: pa.Array, kind: Array, place: Place, *, hashable: bool) -> list[Any]:
    start, ends = _bounds(column)
    elements = column.values.slice(start, ends[-1] - start)
    values = values_of(elements, kind.element, place.within("element"), hashable=hashable)
    lists: list[Any] = [values[first - start : last - start] for first, last in pairwise(ends)]
    return _with_nulls([tuple(one) for one in lists] if hashable else lists, column)


def _maps(column: pa.Array, kind: Map, place: Place) -> list[Any]:
    start, ends = _bounds(column)
    length = ends[-1] - start
    keys = values_of(column.keys.slice(start, length), kind.key, place.within("key"), hashable=True)
    items = values_of(column.items.slice(start, length), kind.value, place.within("value"))
    maps: list[Any] = []
    for first, last in pairwise(ends):
        entries = dict(zip(keys[first - start : last - start], items[first - start : last - start], strict=True))
        if len(entries) < last - first:
            raise BadInputError(
                "a map has a key twice", operator=place.operator, column=".".join(place.path), remedy="give each key once"
            )
        maps.append(entries)
    return _with_nulls(maps, column)


def _bounds(column: pa.Array) -> tuple[int, list[int]]:
    ends: list[int] = column.offsets.to_pylist()
    return ends[0], ends


def _aware(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC)


def _moments(numbers: pa.Array, unit: str, bounds: tuple[int, int], place: Place) -> list[Any]:
    limits: Any = pc.min_max(numbers)
    least, most = limits["min"].as_py(), limits["max"].as_py()
    if least is not None and (least < bounds[0] or most > bounds[1]):
        raise BadInputError(
            "a date or time is outside of the years 1 to 9999, which Python has", operator=place.operator,
            column=".".join(place.path), remedy="leave such rows out before, or cast the column to a string",
        )  # fmt: skip
    filled: Any = numbers.fill_null(0)
    values: Sequence[Any] = filled.to_numpy(zero_copy_only=False).astype(f"datetime64[{unit}]").tolist()
    return _with_nulls(list(values), numbers)


def _with_nulls(values: list[Any], column: pa.Array) -> list[Any]:
    if column.null_count:
        for number, is_null in enumerate(column.is_null().to_pylist()):
            if is_null:
                values[number] = None
    return values
