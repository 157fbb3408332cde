"""The values of messages in Arrow's IPC format, many of them at once: what their bytes have in common is made once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa

_FORMAT: Final = pa.ipc.IpcWriteOptions()
_END: Final = 8
"""How many bytes end a stream; the values before them are filled up to a multiple of as many."""

_LARGE: Final = 2**12

_Frames: TypeAlias = dict[tuple[pa.DataType, int], tuple[bytes, bytes]]
"""What is before and behind the values of a type, of some number."""


def ipc(value: pa.Array) -> bytes:
    """A message's value in Arrow's IPC format, the same for equal values: of a slice, Arrow itself writes what is behind it, too.

    >>> ipc(pa.array([1, 1]).slice(0, 1)) == ipc(pa.array([1]))
    True
    >>> from_ipc(ipc(pa.array([1, 2]))).to_pylist()
    [1, 2]
    """
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([pa.concat_arrays([value, value.slice(0, 0)])], names=["value"])
    with pa.ipc.new_stream(sink, batch.schema, options=_FORMAT) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def from_ipc(data: bytes) -> pa.Array:
    """The value that ``ipc`` wrote."""
    return pa.ipc.open_stream(pa.py_buffer(data)).read_next_batch().column(0)


def ipc_column(values: Sequence[pa.Array]) -> pa.Array:
    """The values of messages in Arrow's IPC format, each as one binary value.

    >>> [from_ipc(data).to_pylist() for data in ipc_column([pa.array([1, 2]), pa.array(["a"])]).to_pylist()]
    [[1, 2], ['a']]
    """
    parts: list[Any] = []
    ends, end = [0], 0
    frames: _Frames = {}
    for value in values:
        for part in _parts(value, frames):
            parts.append(part)
            end += len(part)
        ends.append(end)
    offsets = pa.array(ends, pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), len(values), [None, offsets, _joined(parts, end)])


def _joined(parts: Sequence[Any], size: int) -> pa.Buffer:
    """Bytes one behind the other; large ones in memory of Arrow's, which is used again, where Python's is got from the system."""
    if size < _LARGE * len(parts):
        return pa.py_buffer(b"".join(parts))
    whole = pa.allocate_buffer(size)
    view, at = memoryview(whole).cast("B"), 0
    for part in parts:
        view[at : (at := at + len(part))] = memoryview(part).cast("B")
    return whole


def frame_of(value: pa.Array) -> tuple[bytes, bytes] | None:
    """What is before and behind the bytes of as many values of its type, without nulls; None if it is not as simple as that."""
    return _framed(value, ipc(value))


def _parts(value: pa.Array, frames: _Frames) -> tuple[Any, ...]:
    """The bytes of a value, one behind the other; what its frame is becomes known with the first of its type and length."""
    key = value.type, len(value)
    frame = frames.get(key)
    if frame is not None and not value.null_count:
        return frame[0], plain_bytes(value), frame[1]
    whole = ipc(value)
    if (found := _framed(value, whole)) is not None:
        frames[key] = found
    return (whole,)


def _framed(value: pa.Array, whole: bytes) -> tuple[bytes, bytes] | None:
    if value.null_count or not pa.types.is_primitive(value.type) or value.type.bit_width % 8:
        return None
    raw = plain_bytes(value)
    stop = len(whole) - _END - -len(raw) % _END
    return (whole[: stop - len(raw)], whole[stop:]) if whole[stop - len(raw) : stop] == raw else None


def plain_bytes(value: pa.Array) -> Any:
    """The bytes of the values themselves, where all have the same number of them."""
    width = value.type.bit_width // 8
    return value.buffers()[1].slice(value.offset * width, len(value) * width)
