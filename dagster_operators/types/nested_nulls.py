"""Nulls in nested values: what lies within a null struct or list is null too.

Arrow leaves open what the fields of a null struct hold, and its builders put zeros there. An engine that takes a field without
looking at the struct's own nulls (Sail) then finds values in rows that have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def with_nested_nulls(array: pa.Array) -> pa.Array:
    """The same values, with every field of a null struct being null, at any depth, unless it is declared NOT NULL.

    >>> import pyarrow as pa
    >>> pairs = pa.array([{"a": 1}, None], pa.struct({"a": pa.int64()}))
    >>> pairs.field("a").to_pylist(), with_nested_nulls(pairs).field("a").to_pylist()
    ([1, 0], [1, None])
    """
    import pyarrow as pa

    kind = array.type
    if not _has_structs(kind):
        return array
    if pa.types.is_struct(kind):
        whole, own = array.flatten(), (array.field(number) for number in range(kind.num_fields))
        # What flatten gives has the struct's nulls, which a field that is declared NOT NULL may not have.
        fields = [nulled if field.nullable else plain for field, nulled, plain in zip(kind, whole, own, strict=True)]
        return pa.StructArray.from_arrays(list(map(with_nested_nulls, fields)), fields=list(kind), mask=array.is_null())
    offsets: Any = pa.array(array.offsets.to_numpy())  # a copy, since those of a slice take no mask
    if pa.types.is_map(kind):
        keys, items = array.keys, with_nested_nulls(array.items)
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=array.is_null())
    return type(array).from_arrays(offsets, with_nested_nulls(array.values), type=kind, mask=array.is_null())


def _has_structs(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_map(kind):
        return _has_structs(kind.item_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _has_structs(kind.value_type)
    return bool(pa.types.is_struct(kind))
