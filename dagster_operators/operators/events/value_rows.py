"""The values of messages for readers in Spark: of Arrow's types those that Spark has not become ones that hold their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa

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
    if _is_list(kind) and _is_list(declared):
        return misfit(kind.value_type, declared.value_type)
    own, wanted = _sort_of(kind), _sort_of(declared)
    return f"{kind} is no {declared}" if own and wanted and own != wanted else None


def _is_list(kind: pa.DataType) -> bool:
    return any(is_one(kind) for is_one in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list))


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
