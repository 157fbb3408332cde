"""Copies of large values that are made where their messages are stored from: a message and its row are the same memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

import pyarrow as pa

from dagster_operators.operators.events.message_bytes import frame_of, plain_bytes

_SMALLEST: Final = 2**16
"""From so many bytes on a value is copied here; small ones are put together as fast when all are there."""

_FIRST: Final = 2**18
_MOST: Final = 2**23
"""How many bytes a piece of memory has; the first is small, as an output may have few messages."""

_TOGETHER: Final = 16
"""How many messages a piece of memory is made for at most: who keeps one value keeps all that are in its piece."""

_WIDEST: Final = 64
"""Bits of the widest values: wider ones want to begin at more than each eighth byte."""

FEWEST: Final = _SMALLEST * 8 // _WIDEST
"""Arrays with fewer values are small."""


@dataclass(frozen=True)
class Placed:
    """A value that was copied.

    Attributes:
        value: The copy.
        memory: The piece of memory that it is in.
        start: Where its bytes in Arrow's IPC format begin there.
        end: Where they end.
        is_last: Whether no further message like it fits behind it.
    """

    value: pa.Array
    memory: pa.Buffer
    start: int
    end: int
    is_last: bool


class FramedMemory:
    """Memory for the messages of an output, one behind the other in Arrow's IPC format.

    >>> memory, given = FramedMemory(), pa.array(range(10_000))
    >>> placed = [memory.place(given), memory.place(given)]
    >>> [one.value == given for one in placed], column_of(placed)[1].as_buffer().size == placed[1].end - placed[1].start
    ([True, True], True)
    >>> memory.place(pa.array([1])) is None
    True
    """

    def __init__(self) -> None:
        self._memory: pa.Buffer | None = None
        self._view: memoryview | None = None
        self._at = self._size = 0
        self._next = _FIRST
        self._frames: dict[tuple[pa.DataType, int], tuple[bytes, bytes] | None] = {}
        self._lock = Lock()  # an operator may send from threads of its own

    def place(self, value: pa.Array) -> Placed | None:
        """Copy a value; None if it is small, or not so simple that it is but its bytes within a frame."""
        kind = value.type
        if not pa.types.is_primitive(kind) or kind.bit_width % 8 or kind.bit_width > _WIDEST or value.null_count:
            return None
        if len(value) * kind.bit_width // 8 < _SMALLEST:
            return None
        key = kind, len(value)
        if key not in self._frames:
            self._frames[key] = frame_of(value)
        frame = self._frames[key]
        return None if frame is None else self._place(value, *frame)

    def _place(self, value: pa.Array, head: bytes, tail: bytes) -> Placed:
        raw = plain_bytes(value)
        with self._lock:
            size = len(head) + raw.size + len(tail)
            if self._memory is None or self._view is None or self._at + size > self._size:
                self._allocate(size)
            start, self._at = self._at, self._at + size
            memory: Any = self._memory
            view: Any = self._view
            is_last = self._at + size > self._size
        begin = start + len(head)
        end = begin + raw.size
        view[start:begin], view[begin:end], view[end : start + size] = head, memoryview(raw).cast("B"), tail
        own = pa.Array.from_buffers(value.type, len(value), [None, memory.slice(begin, raw.size)])
        return Placed(own, memory, start, start + size, is_last)

    def _allocate(self, size: int) -> None:
        self._size = max(min(self._next, _TOGETHER * size), size)
        self._next = min(_MOST, 2 * self._next)
        self._memory, self._at = pa.allocate_buffer(self._size), 0
        self._view = memoryview(self._memory).cast("B")


def column_of(placed: Sequence[Placed]) -> pa.Array | None:
    """Messages as the values of a binary column, without a copy; None if they are not one behind the other in one piece."""
    memory, ends = placed[0].memory, [placed[0].start]
    for one in placed:
        if one.memory is not memory or one.start != ends[-1]:
            return None
        ends.append(one.end)
    return pa.Array.from_buffers(pa.binary(), len(placed), [None, pa.array(ends, pa.int32()).buffers()[1], memory])
