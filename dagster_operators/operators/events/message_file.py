"""Many messages in one file that two processes share: Arrow data, which the other one reads in their place.

The file has no name. It is written once, as streams in Arrow's IPC format, one for each name and type; whoever has read it may
keep what it took of it for as long as it likes.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from mmap import ACCESS_COPY, mmap
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from dagster_operators.operators.events.message import size_of

Numbered: TypeAlias = tuple[int, str, pa.Array, str]
"""The number of the event that a message is or comes of, the id of an input or output, the value, and the context of a trace."""

_CONTEXT: Final = "context"
"""The column with open telemetry contexts, which only messages with some have."""

_LARGE: Final = 2**16
"""From so many bytes on a message is written from where it is, instead of being joined with others first."""


@dataclass
class _Stream:
    """Messages of one name and type, with their places among all; only one, if its values have a dictionary of their own."""

    name: str
    kind: pa.DataType
    alone: bool = False
    places: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    values: list[pa.Array] = field(default_factory=list)
    contexts: list[str] = field(default_factory=list)

    def takes(self, kind: pa.DataType) -> bool:
        """Whether messages of a type go here."""
        return not self.alone and self.kind.equals(kind)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The messages as rows: small ones together, large ones alone."""
        start = 0
        for place, value in enumerate(self.values):
            if size_of(value) >= _LARGE:
                yield from self._batch(start, place)
                yield from self._batch(place, place + 1)
                start = place + 1
        yield from self._batch(start, len(self.values))

    def _batch(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        if stop == start:
            return
        values = self.values[start:stop]
        offsets = np.zeros(stop - start + 1, np.int64)
        np.cumsum([len(value) for value in values], out=offsets[1:])
        whole = values[0] if len(values) == 1 else pa.concat_arrays(values)
        lists = pa.LargeListArray.from_arrays(pa.array(offsets), whole)
        columns = [pa.array(self.places[start:stop], pa.int64()), pa.array(self.numbers[start:stop], pa.int64()), lists]
        if any(self.contexts):
            columns.append(pa.array(self.contexts[start:stop], pa.string()))
        yield pa.RecordBatch.from_arrays(columns, schema=self._schema())

    def _schema(self) -> pa.Schema:
        fields = [pa.field("place", pa.int64()), pa.field("number", pa.int64()), pa.field("value", pa.large_list(self.kind))]
        told = [pa.field(_CONTEXT, pa.string())] if any(self.contexts) else []
        return pa.schema([*fields, *told], metadata={"name": self.name})

    def write(self, sink: Any) -> None:
        """Write them as one stream."""
        with pa.ipc.new_stream(sink, self._schema()) as writer:
            for batch in self.batches():
                writer.write_batch(batch)


def packed_messages(messages: Sequence[Numbered]) -> pa.Buffer:
    """Messages as bytes, by which they can be kept.

    >>> given = [(0, "a", pa.array([1, 2]), ""), (0, "b", pa.array(["x"]), ""), (1, "a", pa.array([3]), "of a trace")]
    >>> [(number, name, value.to_pylist(), context) for number, name, value, context in unpacked_messages(packed_messages(given))]
    [(0, 'a', [1, 2], ''), (0, 'b', ['x'], ''), (1, 'a', [3], 'of a trace')]
    """
    sink = pa.BufferOutputStream()
    for stream in _streams(messages):
        stream.write(sink)
    return sink.getvalue()


def unpacked_messages(data: Any) -> list[Numbered]:
    """The messages that were packed, in their order; their values are views of these bytes."""
    reader = pa.BufferReader(data)
    found: dict[int, Numbered] = {}
    while reader.tell() < reader.size():
        with pa.ipc.open_stream(reader) as stream:
            name = stream.schema.metadata[b"name"].decode()
            for batch in stream:
                values, ends = batch.column(2).values, batch.column(2).offsets.to_pylist()
                contexts = batch.column(3).to_pylist() if _CONTEXT in stream.schema.names else repeat("")
                rows = zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), ends, ends[1:], contexts, strict=False)
                for place, number, start, stop, context in rows:
                    found[place] = number, name, values.slice(start, stop - start), context
    return [found[place] for place in range(len(found))]


def write_file(messages: Sequence[Numbered]) -> int:
    """Write messages to a file of no name; its descriptor."""
    streams = _streams(messages)
    written = pa.MockOutputStream()
    for stream in streams:
        stream.write(written)
    size = max(1, written.size())
    descriptor = memory_file(size)
    try:
        memory = mmap(descriptor, size)
        sink = pa.FixedSizeBufferWriter(pa.py_buffer(memory))
        for stream in streams:
            stream.write(sink)
        sink.close()
    except BaseException:
        os.close(descriptor)
        raise
    del sink
    memory.close()
    return descriptor


def read_file(descriptor: int) -> list[Numbered]:
    """The messages in a file, which is closed."""
    try:
        size = os.fstat(descriptor).st_size
        return unpacked_messages(pa.py_buffer(mmap(descriptor, size, access=ACCESS_COPY))) if size > 1 else []
    finally:
        os.close(descriptor)


def memory_file(size: int) -> int:
    """A file of some bytes in memory, or among temporary files where there is none in memory; its descriptor."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("dagster_operators")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor


def _streams(messages: Sequence[Numbered]) -> list[_Stream]:
    found: list[_Stream] = []
    shared: dict[str, list[_Stream]] = {}  # without those that are alone: a search through one for each message is quadratic
    last: dict[str, _Stream] = {}
    for place, (number, name, value, context) in enumerate(messages):
        stream = last.get(name)
        if stream is None or not stream.takes(value.type):
            of_name = shared.setdefault(name, [])
            stream = next((one for one in of_name if one.takes(value.type)), None)
            if stream is None:
                stream = _Stream(name, value.type, alone=_has_dictionary(value.type))
                found.append(stream)
                if not stream.alone:
                    of_name.append(stream)
            if not stream.alone:
                last[name] = stream
        stream.places.append(place)
        stream.numbers.append(number)
        stream.values.append(value)
        stream.contexts.append(context)
    return found


def _has_dictionary(kind: pa.DataType) -> bool:
    """Whether values of a type have a dictionary of their own: joined they would get another one."""
    if pa.types.is_dictionary(kind):
        return True
    return any(_has_dictionary(kind.field(number).type) for number in range(kind.num_fields))
