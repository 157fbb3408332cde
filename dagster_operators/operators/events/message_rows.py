"""Messages as rows: those that a source's rows are, and those of an output in its table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from dagster_operators.errors import OperatorFailedError, SchemaError
from dagster_operators.operators.batch_operator import NUMBERS
from dagster_operators.operators.events.framed_memory import FramedMemory, Placed, column_of
from dagster_operators.operators.events.message import Message, size_of
from dagster_operators.operators.events.message_bytes import from_ipc, ipc_column
from dagster_operators.operators.events.sender_node import written_metadata
from dagster_operators.operators.events.sending import own_copy
from dagster_operators.operators.events.wiring import ROW, SENT, TIME, EventSource
from dagster_operators.types.exact_cast import exact_cast
from dagster_operators.types.schema import Schema

_ROWS: Final = 10_000
_BYTES: Final = 32 * 2**20
_BYTE: Final = pa.uint8()


def output_schema(declared: str | None) -> pa.Schema:
    """The rows of an output's table.

    Args:
        declared: The Spark type of the values in a message; None if none was declared: then ``value`` has the message in
            Arrow's IPC format.

    >>> output_schema("bigint").field("value").type, output_schema(None).field("value").type
    (ListType(list<element: int64>), DataType(binary))
    """
    value = "binary" if declared is None else f"array<{declared}>"
    return Schema.of(f"{TIME} timestamp, seq bigint, value {value}, metadata string").to_arrow()


class SourceMessages:
    """The messages that the rows of a source are.

    Args:
        source: The source.
        time: What the column of the time is called in the rows that come.
    """

    def __init__(self, source: EventSource, time: str) -> None:
        self._source = source
        self._time = time

    def of(self, rows: pa.RecordBatch) -> Iterator[tuple[int, list[tuple[str, Message]]]]:
        """For each row its time, and its messages with the addresses of their outputs."""
        times = rows.column(self._time).cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
        if self._source.time == SENT:
            yield from self._sent(rows, times)
            return
        outputs = [(address, _value_of(self._values(rows, column))) for address, column in self._source.addresses()]
        for number, time in enumerate(times):
            yield time or 0, [(address, Message(time or 0, value(number))) for address, value in outputs]

    def _sent(self, rows: pa.RecordBatch, times: Sequence[int]) -> Iterator[tuple[int, list[tuple[str, Message]]]]:
        """The messages of a node without inputs, each a row."""
        known = dict(self._source.outputs)
        columns = [rows.column(name).to_pylist() for name in ("output", "value", "metadata")]
        for time, output, value, metadata in zip(times, *columns, strict=True):
            message = Message(time, from_ipc(value), written_metadata(json.loads(metadata)))
            yield time, [(f"{self._source.node}/{output}", message)] if output in known else []

    def _values(self, rows: pa.RecordBatch, column: str) -> pa.Array:
        if column != ROW:
            return rows.column(self._time if column == self._source.time else column)
        names = [name for name in rows.schema.names if name not in NUMBERS]
        own = [self._source.time if name == self._time else name for name in names]
        return pa.StructArray.from_arrays([rows.column(name) for name in names], names=own)


def _value_of(values: pa.Array) -> Callable[[int], pa.Array]:
    """The value of the message that a row is: of a column of lists the list, of binary data the bytes, else an array of one."""
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        return lambda number: values[number].values if values[number].is_valid else values.values.slice(0, 0)
    if pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        return lambda number: _of_bytes(values[number].as_buffer() or pa.py_buffer(b""))
    return lambda number: values.slice(number, 1)


def _of_bytes(data: pa.Buffer) -> pa.Array:
    return pa.Array.from_buffers(_BYTE, data.size, [None, data])


class OutputRows:
    """Collects the messages of an output as rows.

    Args:
        address: The output's address, for errors.
        schema: The rows.
        first: The number of its first message.
        pinned: The type that its messages have; None if it is not known yet.

    Attributes:
        next: The number of its next message.
        pinned: The type of its messages, as Arrow's IPC format has it.
    """

    def __init__(self, address: str, schema: pa.Schema, first: int, pinned: pa.DataType | None) -> None:
        self.address = address
        self.schema = schema
        self.next = first
        self.pinned = pinned
        self._messages: list[Message] = []
        self._bytes = 0
        self._memory = None if pa.types.is_list(schema.field("value").type) else FramedMemory()
        self._copied: Placed | None = None
        self._placed: list[Placed] = []

    def copy(self, value: pa.Array) -> pa.Array:
        """A copy of what is sent next: if it is large, in the memory that the rows will be."""
        self._copied = None if self._memory is None else self._memory.place(value)
        return own_copy(value) if self._copied is None else self._copied.value

    def add(self, message: Message) -> bool:
        """Take a message; whether enough of them are there to be put out.

        Raises:
            SchemaError: It is of another type than the output's messages.
        """
        kind = message.value.type
        if self.pinned is None and not pa.types.is_null(kind):
            self.pinned = kind
        elif kind != self.pinned and not pa.types.is_null(kind):
            raise SchemaError(
                f"a message of the output {self.address!r} is of the type {kind}, and its first was of {self.pinned}",
                remedy="let all messages of an output have one type: pa.array(values, type)",
            )
        self._messages.append(message)
        self._bytes += size_of(message.value)
        placed, self._copied = self._copied, None
        if placed is not None and placed.value is message.value:
            self._placed.append(placed)
            if placed.is_last:
                return True
        return len(self._messages) >= _ROWS or self._bytes >= _BYTES

    def take(self) -> pa.RecordBatch | None:
        """The rows of all messages that were taken since the last time."""
        messages, self._messages, self._bytes = self._messages, [], 0
        placed, self._placed, self._copied = self._placed, [], None
        if not messages:
            return None
        numbers = pa.array(range(self.next, self.next + len(messages)), pa.int64())
        self.next += len(messages)
        times = pa.array([message.time for message in messages], pa.int64()).cast(self.schema.field(TIME).type)
        metadata = pa.array([_json(message.metadata) if message.metadata else None for message in messages], pa.string())
        return pa.RecordBatch.from_arrays([times, numbers, self._value_column(messages, placed), metadata], schema=self.schema)

    def _value_column(self, messages: list[Message], placed: list[Placed]) -> pa.Array:
        kind = self.schema.field("value").type
        if not pa.types.is_list(kind):
            there = column_of(placed) if len(placed) == len(messages) else None
            return ipc_column([message.value for message in messages]) if there is None else there
        offsets = [0]
        for message in messages:
            offsets.append(offsets[-1] + len(message.value))
        try:
            values = _joined([message.value for message in messages], kind.value_type)
        except (pa.ArrowException, ValueError) as error:
            raise SchemaError(
                f"a message of the output {self.address!r} does not fit its type {kind.value_type}",
                reason=str(error),
                remedy="correct what is sent, or the type under output_types:",
            ) from None
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=kind)


def _joined(values: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    """Values one behind the other, as a type; they are of one type already, but for those without values."""
    own = next((value.type for value in values if not pa.types.is_null(value.type)), pa.null())
    given = pa.concat_arrays([value if value.type == own else value.cast(own) for value in values])
    return exact_cast(given, kind)


def _json(metadata: Any) -> str:
    return json.dumps(metadata, default=_text, sort_keys=True, allow_nan=False)


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise OperatorFailedError(
        f"the metadata of a message hold {value!r}", remedy="let the metadata hold plain JSON values and times"
    )
