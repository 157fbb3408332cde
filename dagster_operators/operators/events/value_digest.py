"""Digests of messages' values: equal values have equal ones, whatever lies beneath nulls or behind a slice in memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

FORM: Final = 2
"""The form of the digests; those of different forms say nothing about each other. The first one was of Arrow's IPC format."""


def digest_of(value: pa.Array) -> bytes:
    """The digest of a value.

    >>> import pyarrow as pa
    >>> beneath = pa.Array.from_buffers(pa.int8(), 2, [pa.py_buffer(bytes([1])), pa.py_buffer(bytes([5, 9]))])
    >>> digest_of(beneath) == digest_of(pa.array([5, None], pa.int8()))
    True
    >>> digest_of(pa.array(["a", "bc"])) == digest_of(pa.array(["ab", "c"]))
    False
    """
    made = blake2b(str(value.type).encode(), digest_size=16)
    _add(made, value)
    return made.digest()


def _add(made: blake2b, value: pa.Array) -> None:
    """Add the length, the nulls and the values; each part has a length that those before it tell."""
    import pyarrow as pa

    kind, types = value.type, pa.types
    made.update(len(value).to_bytes(8, "little"))
    if types.is_null(kind):
        return
    nulls = value.null_count
    made.update(nulls.to_bytes(8, "little"))
    if nulls:
        _add_fixed(made, value.is_null().cast(pa.uint8()))
    parts = _parts(value)
    for part in parts:
        _add(made, part)
    if parts:
        return
    if types.is_boolean(kind):
        _add_fixed(made, value.cast(pa.uint8()).fill_null(0))
    elif kind in _texts():
        _add_text(made, value.fill_null(pa.scalar(b"").cast(kind)) if nulls else value)
    elif types.is_primitive(kind):
        _add_fixed(made, value.fill_null(_zero(kind)) if nulls else value)
    else:
        made.update(repr(value.to_pylist()).encode())


def _parts(value: pa.Array) -> Sequence[pa.Array]:
    """The arrays that a value is made of, without those of its rows that are null; none if it is made of no other."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, types = value.type, pa.types
    if isinstance(value, pa.ExtensionArray):
        return (value.storage,)
    if types.is_dictionary(kind):
        return (value.dictionary_decode(),)
    if types.is_struct(kind):
        return tuple(value.flatten())
    if types.is_map(kind):
        return (value.cast(pa.list_(pa.struct([kind.key_field, kind.item_field]))),)
    if types.is_list(kind) or types.is_large_list(kind):
        return (pc.list_value_length(value).fill_null(0), value.flatten())
    return (value.flatten(),) if types.is_fixed_size_list(kind) else ()


@cache
def _texts() -> Collection[pa.DataType]:
    """The types of texts and bytes whose rows are one behind the other."""
    import pyarrow as pa

    return {pa.string(), pa.binary(), pa.large_string(), pa.large_binary()}


@cache
def _zero(kind: pa.DataType) -> pa.Scalar:
    """The value of a primitive type whose bytes are zero."""
    import pyarrow as pa

    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bytes(kind.bit_width // 8))])[0]


def _add_fixed(made: blake2b, value: pa.Array) -> None:
    """Add the values of a type of whole bytes, without nulls."""
    width, data = value.type.bit_width // 8, value.buffers()[1]
    if data is not None and len(value):
        made.update(memoryview(data)[value.offset * width : (value.offset + len(value)) * width])


def _add_text(made: blake2b, value: pa.Array) -> None:
    """Add texts or bytes, without nulls: their lengths, and all of them in a row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    _add_fixed(made, pc.binary_length(value))
    _, offsets, data = value.buffers()
    if data is None or not len(value):
        return
    large = pa.types.is_large_string(value.type) or pa.types.is_large_binary(value.type)
    ends = memoryview(offsets).cast("q" if large else "i")
    made.update(memoryview(data)[ends[value.offset] : ends[value.offset + len(value)]])
