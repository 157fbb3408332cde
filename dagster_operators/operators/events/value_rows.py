"""The values of messages for readers in Spark: of Arrow's types those that Spark has not become ones that hold their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from dagster_operators.operators.events.message_bytes import from_ipc

_WIDER: Final[dict[Any, Any]] = {
    pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(), pa.null(): pa.string(), pa.large_string(): pa.string(), pa.large_binary(): pa.binary(),
    pa.string_view(): pa.string(), pa.binary_view(): pa.binary(),
}  # fmt: skip


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


def widened(kind: pa.DataType) -> pa.DataType:
    """A type that Spark has and that holds all values of a type.

    >>> widened(pa.list_(pa.uint8())), widened(pa.struct([("x", pa.float16())])), widened(pa.int64())
    (ListType(list<item: int16>), StructType(struct<x: float>), DataType(int64))
    """
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, widened(field.type), field.nullable) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(widened(kind.value_type))
    if pa.types.is_dictionary(kind):
        return widened(kind.value_type)
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return _WIDER.get(kind, kind)


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


def with_values(batches: Iterator[pa.RecordBatch], kind: pa.DataType) -> Iterator[pa.RecordBatch]:
    """Rows of an output without a declared type, with the values themselves in place of their bytes.

    Args:
        batches: The rows as they are stored.
        kind: The type of the values, as readers get them.
    """
    for batch in batches:
        place = batch.schema.get_field_index("value")
        read = [from_ipc(data).cast(kind, safe=False) for data in batch.column(place).to_pylist()]
        offsets = [0]
        for value in read:
            offsets.append(offsets[-1] + len(value))
        values = pa.concat_arrays(read) if read else pa.array([], kind)
        lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)
        columns = [lists if number == place else column for number, column in enumerate(batch.columns)]
        yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
