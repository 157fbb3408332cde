"""Values of Arrow in another type, where they stay what they are: Arrow itself reads text as numbers and cuts times to days."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from datetime import datetime, time
from decimal import Decimal
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

_SORTS: Final[dict[str, tuple[Callable[[pa.DataType], bool], ...]]] = {
    "number": (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
    "truth value": (pa.types.is_boolean,),
    "text": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    "bytes": (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary),
    "time": (pa.types.is_timestamp, pa.types.is_date, pa.types.is_time),
    "duration": (pa.types.is_duration, pa.types.is_interval),
    "list": (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list),
    "list view": (pa.types.is_list_view, pa.types.is_large_list_view),
}


def exact_cast(values: Any, kind: pa.DataType) -> Any:
    """An array, or a chunked one, in a type that holds its values; a FLOAT may round them.

    Raises:
        pyarrow.ArrowInvalid: Values are of another sort, such as text for numbers, or would become other values.

    >>> exact_cast(pa.array([1, 2], pa.int8()), pa.int64()).type
    DataType(int64)
    >>> exact_cast(pa.array(["012"]), pa.int64())
    Traceback (most recent call last):
        ...
    pyarrow.lib.ArrowInvalid: string is no int64
    """
    if values.type == kind:
        return values
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([exact_cast(chunk, kind) for chunk in values.chunks], kind)
    if (wrong := misfit(values.type, kind)) is not None:
        raise pa.ArrowInvalid(wrong)
    made = values.cast(kind)
    if (wrong := changed(values, made)) is not None:
        raise pa.ArrowInvalid(wrong)
    return made


def exact_array(values: Any, kind: pa.DataType, *, from_pandas: bool = False) -> pa.Array:
    """An array of values of Python in a type that holds them; Arrow itself makes 1 of 1.9, and a day of a time.

    Args:
        values: A list, or an array of objects.
        kind: The type.
        from_pandas: NaN is null.

    Raises:
        pyarrow.ArrowInvalid: A value is none of the type, or would become another one.

    >>> exact_array([1, 2.0, None], pa.int64()).to_pylist()
    [1, 2, None]
    >>> exact_array([{"n": [1.9]}], pa.struct({"n": pa.list_(pa.int64())}))
    Traceback (most recent call last):
        ...
    pyarrow.lib.ArrowInvalid: 1.9 is no int64
    """
    made = pa.array(values, kind, from_pandas=from_pandas)
    if (lost := _lost(values, kind)) is not None:
        raise pa.ArrowInvalid(lost)
    return made


def _lost(values: Iterable[Any], kind: pa.DataType) -> str | None:
    """Which value of Python Arrow would make another one of; None if none."""
    if _is_list(kind) or pa.types.is_map(kind):
        inner = kind.value_type if _is_list(kind) else pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        entries = (value.items() if isinstance(value, dict) else value for value in values if value is not None)
        if pa.types.is_map(kind):
            entries = ([dict(zip(("key", "value"), entry, strict=True)) for entry in one if len(entry) == 2] for one in entries)  # noqa: PLR2004 - pairs
        return _lost(chain.from_iterable(entries), inner) if _may_lose(inner) else None
    if pa.types.is_struct(kind):
        rows = [value for value in values if isinstance(value, dict)]
        parts = (_lost((row.get(field.name) for row in rows), field.type) for field in kind if _may_lose(field.type))
        return next(filter(None, parts), None)
    is_other = next((other for is_one, other in _LOSSES if is_one(kind)), None)
    if is_other is None:
        return None
    return next((f"{value!r} is no {kind}" for value in values if value is not None and is_other(value)), None)


def _is_fraction(value: Any) -> bool:
    plain = value.as_py() if isinstance(value, pa.Scalar) else value
    return type(plain) is not int and plain is not None and not math.isnan(plain) and plain != int(plain)


def _is_no_day(value: Any) -> bool:
    """Whether it is a time within a day; days and moments may be whole numbers, as Arrow counts them."""
    return value.time() != time() if isinstance(value, datetime) else _is_no_moment(value)


def _is_no_moment(value: Any) -> bool:
    return isinstance(value, float | Decimal) and _is_fraction(value)


def _is_beyond_float(value: Any) -> bool:
    return isinstance(value, float | int) and math.isfinite(value) and abs(value) > _LARGEST_FLOAT


_LARGEST_FLOAT: Final = 3.4028235677973366e38
"""From here on, numbers are infinite as a FLOAT."""

_LOSSES: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], bool]], ...]] = (
    (pa.types.is_integer, _is_fraction),
    (pa.types.is_date, _is_no_day),
    (pa.types.is_timestamp, _is_no_moment),
    (pa.types.is_float32, lambda value: isinstance(value, bool) or _is_beyond_float(value)),
    (pa.types.is_floating, lambda value: isinstance(value, bool)),
)


def _may_lose(kind: pa.DataType) -> bool:
    if _is_list(kind):
        return _may_lose(kind.value_type)
    if pa.types.is_map(kind):
        return _may_lose(kind.key_type) or _may_lose(kind.item_type)
    if pa.types.is_struct(kind):
        return any(_may_lose(field.type) for field in kind)
    return any(is_one(kind) for is_one, _ in _LOSSES)


def misfit(kind: pa.DataType, declared: pa.DataType) -> str | None:
    """Why values of a type are none of a declared one, where Arrow would make something of them; None if it may try.

    >>> misfit(pa.string(), pa.int64()), misfit(pa.int32(), pa.int64())
    ('string is no int64', None)
    >>> misfit(pa.struct({"x": pa.int64(), "y": pa.int64()}), pa.struct({"x": pa.int64()}))
    "the field 'y' is not in struct<x: int64>"
    """
    if pa.types.is_dictionary(kind):
        return misfit(kind.value_type, declared)
    if pa.types.is_struct(kind) and pa.types.is_struct(declared):
        fields = {field.name: field.type for field in declared}
        for field in kind:
            found = misfit(field.type, fields[field.name]) if field.name in fields else None
            if field.name not in fields or found:
                return found or f"the field {field.name!r} is not in {declared}"
        return None
    if pa.types.is_map(kind) and _has_pairs(declared):
        kind = _pairs_of(kind, declared)
    if _is_list(kind) and _is_list(declared):
        return misfit(kind.value_type, declared.value_type)
    if pa.types.is_map(kind) and pa.types.is_map(declared):
        return misfit(kind.key_type, declared.key_type) or misfit(kind.item_type, declared.item_type)
    is_cut = pa.types.is_timestamp(kind) and pa.types.is_date(declared)
    own, wanted = _sort_of(kind), _sort_of(declared)
    return f"{kind} is no {declared}" if is_cut or (own and wanted and own != wanted) else None


def changed(values: pa.Array, made: pa.Array) -> str | None:
    """Which floating-point number became another one in a type that it was cast to; None if none did. A FLOAT may be rounded.

    >>> changed(pa.array([0.1, 1e300]), pa.array([0.1, float("inf")], pa.float32())), changed(pa.array([0.1]), pa.array([0.1]))
    ('1e+300 is too large for a float', None)
    >>> changed(pa.array([1.5, 1.26]), pa.array([1.5, 1.26]).cast(pa.decimal128(10, 1)))
    '1.26 is no decimal128(10, 1)'
    """
    own, kind = values.type, made.type
    if own == kind:
        return None
    if pa.types.is_struct(own) and pa.types.is_struct(kind):
        parts = dict(zip((field.name for field in own), values.flatten(), strict=True))
        pairs = [(parts[field.name], one) for field, one in zip(kind, made.flatten(), strict=True) if field.name in parts]
    elif pa.types.is_map(own) and pa.types.is_map(kind):
        old, new = (pa.concat_arrays([one, one.slice(0, 0)]) for one in (values, made))  # a part's keys are those of the whole
        pairs = [(old.keys, new.keys), (old.items, new.items)]
    elif pa.types.is_map(own) and _has_pairs(kind):
        return changed(values.cast(_pairs_of(own, kind)), made)
    elif _is_list(own) and _is_list(kind):
        pairs = [(values.flatten(), made.flatten())]
    else:
        return _changed_number(values, made) if pa.types.is_floating(own) else None
    return next(filter(None, (changed(*pair) for pair in pairs)), None)


def _changed_number(values: pa.Array, made: pa.Array) -> str | None:
    if pa.types.is_decimal(made.type):
        others = values.filter(pc.not_equal(values.cast(pa.float64()), made.cast(pa.float64())))
        return f"{others[0]} is no {made.type}" if len(others) else None
    if pa.types.is_floating(made.type):
        others = values.filter(pc.and_(pc.is_inf(made.cast(pa.float64())), pc.is_finite(values.cast(pa.float64()))))
        return f"{others[0]} is too large for a {made.type}" if len(others) else None
    return None


def _is_list(kind: pa.DataType) -> bool:
    return any(is_one(kind) for is_one in _SORTS["list"])


def _has_pairs(kind: pa.DataType) -> bool:
    """Whether it is a list of structs with two fields, as which Arrow takes the entries of a map."""
    return _is_list(kind) and pa.types.is_struct(kind.value_type) and kind.value_type.num_fields == len(("key", "value"))


def _pairs_of(own: pa.MapType, pairs: pa.DataType) -> pa.DataType:
    names = [field.name for field in pairs.value_type]
    return pa.list_(pa.struct(list(zip(names, (own.key_type, own.item_type), strict=True))))


def _sort_of(kind: pa.DataType) -> str | None:
    """What values are, however many bits they have; None of what has no other that could be taken for it."""
    return next((sort for sort, kinds in _SORTS.items() if any(is_one(kind) for is_one in kinds)), None)
