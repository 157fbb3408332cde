"""An event operator in a shared library: it runs in a process of its own, so that a crash of it is an error and no more."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dagster_operators.errors import OperatorFailedError, located
from dagster_operators.operators.events.dora_module import DoraStatus
from dagster_operators.operators.events.message import LONGEST_LOG, Message, context_of, size_of, with_context
from dagster_operators.operators.events.message_bytes import from_ipc
from dagster_operators.operators.events.message_file import Numbered, packed_messages, unpacked_messages
from dagster_operators.operators.events.native_process import NativeProcess
from dagster_operators.operators.events.saved_attributes import load, save
from dagster_operators.operators.events.sent_messages import SentMessages
from dagster_operators.operators.events.wiring import EventOperator
from dagster_operators.time.watermark import to_micros

if TYPE_CHECKING:
    import pyarrow as pa

_EVENTS: Final = 500
_BYTES: Final = 8 * 2**20
"""How many events the process is told of at once, and how many bytes."""

_MESSAGES: Final = "INPUTS"
"""Stands in the log for many messages, which earlier versions kept one by one."""

Outputs: TypeAlias = "list[tuple[str, pa.Array, str]]"
"""What an operator sent at an event: ids of outputs, values, and open telemetry contexts."""


class NativeOperator:
    """An operator at work in an epoch.

    What it keeps in memory cannot be read, so with the state ``replay`` all its events are kept, and told again to a new one as
    each epoch begins, without sending anything; with ``none`` each epoch begins with a new one.

    Args:
        own: What it is.
        library: The library, compressed, as text.
        where: The place, for errors.

    Attributes:
        keeps_events: Whether what it is told is to be told again.
    """

    def __init__(self, own: EventOperator, library: str, where: Mapping[str, Any]) -> None:
        self._own = own
        self._library = library
        self._where = {**where, "node": own.node, "event_operator": own.id}
        self._log: list[tuple[str, str, bytes | None]] = []
        self._bytes = 0
        self._sent = SentMessages()
        self.keeps_events = own.state == "replay"
        self._process = NativeProcess(own.time_limit / 1e6, self._where, own.env)

    def open(self, saved: bytes | None) -> None:
        """Start the process, load the library, and tell it again what it was told.

        Raises:
            OperatorFailedError: The library cannot be used.
        """
        self._process.start(self._library)
        kept = load(saved) if saved is not None else {"events": ()}
        events = kept["events"]
        for are_messages, some in groupby(events, key=lambda event: event[0] in ("INPUT", _MESSAGES)):
            if are_messages:
                deque(self.on_messages([message for event in some for message in _logged(*event)]), maxlen=0)
            else:
                for kind, name, _ in some:
                    self.on_event({"type": kind, "id": name}, lambda *_: None)
        if "sent" in kept:
            self._sent.check(kept["sent"], self._where)

    def on_event(self, event: Mapping[str, Any], send: Callable[..., None]) -> DoraStatus:
        """Tell the operator of an event; what it returned.

        Raises:
            OperatorFailedError: It failed, died, or did not return in time.
        """
        if event["type"] == "INPUT":
            ((status, sent),) = self.on_messages([(event["id"], Message(_time(event), event["value"], event["metadata"]))])
        else:
            self._keep(event["type"], event["id"], None)
            self._process.tell(event["type"], event["id"])
            ((status, sent),) = self._answers()
        with located(**self._where):
            for output, value, context in sent:
                send(output, value, with_context(context))
        return status

    def on_messages(self, messages: Sequence[tuple[str, Message]]) -> Iterator[tuple[DoraStatus, Outputs]]:
        """Tell the operator of messages in their order, until it stops; for each what it returned and what it sent.

        The process is told of the next ones while it is at work, so that neither waits for the other.

        Args:
            messages: The messages, with the inputs that they come to.

        Raises:
            OperatorFailedError: It failed, died, or did not return in time; what it did before was given.
        """
        ahead, stopped = 0, False
        for part in _parts(messages):
            self._tell(part)
            ahead += 1
            if ahead > 1:
                stopped = yield from self._answers()
                ahead -= 1
            if stopped:
                break
        while ahead:
            stopped = (yield from self._answers()) or stopped
            ahead -= 1

    def save(self) -> bytes:
        """The events that it is to be told again."""
        if self._own.state != "replay":
            return save({"events": []})
        if self._bytes > LONGEST_LOG:
            raise OperatorFailedError(
                "the events that it is to be told again have more than 256 MiB", **self._where,
                remedy="write state: none in its YAML, if it keeps nothing from epoch to epoch; or write it in Python",
            )  # fmt: skip
        return save({"events": self._log, "sent": self._sent.told()})

    def close(self) -> None:
        """End the process."""
        self._process.close()

    def _tell(self, part: Sequence[tuple[str, Message]]) -> None:
        told = enumerate(part)
        numbered = [(number, name, message.value, context_of(message.metadata)) for number, (name, message) in told]
        if self.keeps_events:
            self._keep(_MESSAGES, "", bytes(packed_messages(numbered)))
        self._process.tell_messages(numbered, [message.time for _, message in part])

    def _keep(self, kind: str, name: str, value: bytes | None) -> None:
        """Keep an event, to tell it again."""
        if self.keeps_events:
            self._log.append((kind, name, value))
            self._bytes += len(value or b"")

    def _answers(self) -> Generator[tuple[DoraStatus, Outputs], None, bool]:
        """For each event of a part what it led to; whether the operator has stopped."""
        waiting: deque[Numbered] = deque()
        first = 0
        while True:
            done, status, sent = self._process.answer()
            waiting.extend(sent)
            for number in range(first, first + done):
                outputs = []
                while waiting and waiting[0][0] == number:
                    outputs.append(waiting.popleft()[1:])
                    if self.keeps_events:
                        self._sent.add(*outputs[-1][:2])
                is_last = number == first + done - 1
                yield self._status(status) if status and is_last else DoraStatus.CONTINUE, outputs
            first += done
            if status is not None:
                if status:
                    self._process.forget()
                return status != 0

    def _status(self, status: int) -> DoraStatus:
        if status not in (1, 2):
            raise OperatorFailedError(f"dora_on_event returned the status {status}", **self._where, remedy="return 0, 1 or 2")
        return DoraStatus(status)


def _parts(messages: Sequence[tuple[str, Message]]) -> Iterator[Sequence[tuple[str, Message]]]:
    """The messages that the process is told of at once."""
    start, size = 0, 0
    for place, (_, message) in enumerate(messages):
        size += size_of(message.value)
        if size > _BYTES or place - start == _EVENTS:
            yield messages[start : place + 1]
            start, size = place + 1, 0
    if start < len(messages):
        yield messages[start:]


def _time(event: Mapping[str, Any]) -> int:
    told = event["metadata"]["timestamp"]
    return to_micros(told) if isinstance(told, datetime) else 0


def _logged(kind: str, name: str, value: bytes | None) -> Iterator[tuple[str, Message]]:
    """The messages of an entry of the log."""
    if kind == _MESSAGES:
        for _, one, found, context in unpacked_messages(value):
            yield one, Message(0, found, with_context(context))
    elif value is not None:
        yield name, Message(0, from_ipc(value))
