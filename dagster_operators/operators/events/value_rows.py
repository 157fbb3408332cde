"""The values of messages for readers in Spark: of Arrow's types those that Spark has not become ones that hold their values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from dagster_operators.operators.events.message_bytes import from_ipc

_WIDER: Final[dict[Any, Any]] = {
    pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(), pa.null(): pa.string(), pa.large_string(): pa.string(), pa.large_binary(): pa.binary(),
    pa.string_view(): pa.string(), pa.binary_view(): pa.binary(),
}  # fmt: skip


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
