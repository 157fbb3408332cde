"""A message between event operators, and an event as an operator is told it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

CONTEXT: Final = "open_telemetry_context"
"""The parameter of a message's metadata with its open telemetry context, the one that crosses dora's C interface."""

LONGEST_LOG: Final = 256 * 2**20
"""How many bytes of events are kept of an operator, to tell it again."""

_START: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Message:
    """A message; nobody changes one, but to freeze it takes longer than all else that is done to make it.

    Attributes:
        time: Its time, in microseconds since 1970.
        value: What it holds.
        metadata: What its sender says of it.
    """

    time: int
    value: pa.Array
    metadata: Mapping[str, Any] = field(default_factory=dict)


def context_of(metadata: Mapping[str, Any]) -> str:
    """The open telemetry context of a message; empty if it has none.

    >>> context_of({"open_telemetry_context": "traceparent:00-1-2-01;"}), context_of({})
    ('traceparent:00-1-2-01;', '')
    """
    found = metadata.get(CONTEXT)
    return found if isinstance(found, str) else ""


def with_context(context: str) -> dict[str, Any]:
    """The metadata of a message that has an open telemetry context and nothing else.

    >>> with_context("a"), with_context("")
    ({'open_telemetry_context': 'a'}, {})
    """
    return {CONTEXT: context} if context else {}


def moment_of(time: int) -> datetime:
    """A message's time as a moment.

    >>> str(moment_of(1_000_000))
    '1970-01-01 00:00:01+00:00'
    """
    return _START + timedelta(microseconds=time)


def input_event(name: str, message: Message) -> dict[str, Any]:
    """The event that an operator gets for a message at one of its inputs.

    >>> import pyarrow as pa
    >>> event = input_event("n", Message(0, pa.array([1]), {"by": "me"}))
    >>> event["type"], event["id"], event["value"].to_pylist(), event["metadata"]["by"], str(event["metadata"]["timestamp"])
    ('INPUT', 'n', [1], 'me', '1970-01-01 00:00:00+00:00')
    """
    return {
        "kind": "dora",
        "type": "INPUT",
        "id": name,
        "value": message.value,
        "metadata": {"timestamp": moment_of(message.time), **own_metadata(message.metadata)},
    }


def own_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata for one receiver: what it does to them, or to a list in them, nobody else is to see."""
    return {name: [*value] if type(value) is list else value for name, value in metadata.items()} if metadata else {}


def other_event(kind: str, name: str) -> dict[str, Any]:
    """An event without a value: ``INPUT_CLOSED`` with the input's id, or ``STOP`` with the reason.

    >>> other_event("STOP", "ALL_INPUTS_CLOSED")
    {'kind': 'dora', 'type': 'STOP', 'id': 'ALL_INPUTS_CLOSED'}
    """
    return {"kind": "dora", "type": kind, "id": name}


def size_of(value: pa.Array) -> int:
    """About how many bytes a value has; ``nbytes`` takes longer than all else that is done with a small message.

    >>> import pyarrow as pa
    >>> size_of(pa.array([1, 2])), size_of(pa.array(["abc"])), size_of(pa.nulls(3))
    (16, 7, 0)
    """
    try:
        return int(len(value) * value.type.bit_width // 8)
    except ValueError:
        return int(value.nbytes)
