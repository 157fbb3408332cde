"""The event loop of a dataflow in one subtask: which operator is told of what, and in which order.

Everything has a time, and time goes forward: before a message of a source is delivered, every tick that is due by then was. What
an event leads to is delivered before the next event comes, in the order in which it was sent. So the order is the same however
often an epoch is run. A loop for operators that take many events at once is in ``windowed_loop.py``.
"""

from __future__ import annotations

import heapq
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, Final, Protocol

import pyarrow as pa

from dagster_operators.errors import EndlessLoopError, OperatorFailedError, SendOutputError
from dagster_operators.operators.events.dora_module import DoraStatus
from dagster_operators.operators.events.framed_memory import FEWEST
from dagster_operators.operators.events.ignored import Ignored
from dagster_operators.operators.events.late_sends import OWN, WAIT, KeptSends
from dagster_operators.operators.events.loop_state import SOURCE, still_closed
from dagster_operators.operators.events.message import Message, input_event, other_event
from dagster_operators.operators.events.routes import AllLogs, log_readers, taken
from dagster_operators.operators.events.sending import as_array, as_metadata, own_copy
from dagster_operators.operators.events.wiring import EventInput, EventOperator
from dagster_operators.time.watermark import MIN_WATERMARK

_MOST_TICKS: Final = 1_000_000
_MOST_MESSAGES: Final = 1_000_000
_MOST_ROUNDS: Final = 10_000
_TICK: Final = 0
_MESSAGE: Final = 1
"""What is due first of what is due at the same time: ticks."""

_NO_VALUE: Final = pa.nulls(0)
_NOTHING_TAKEN: Final = nullcontext()


class Running(Protocol):
    """An operator that can be told of events."""

    def on_event(self, event: dict[str, Any], send: Callable[..., None]) -> DoraStatus:
        """Tell it of an event."""


Write = Callable[[str, Message], None]
"""Takes a message that was sent, with the address of its output."""


class EventLoop:
    """Delivers events to operators.

    Args:
        operators: What the operators are.
        running: The operators themselves, by path.
        write: Takes every message that is sent.
        state: What ``state`` gave at the end of the epoch before; empty at first.
        later: What ``later`` gave then.

    Attributes:
        events: How many events each operator was told of.
        sent: How many messages it sent.
        dropped: How many messages were dropped at its inputs.
        ignored: How many messages were sent to each output that is not declared, by its address; loops may share it.
        kept: Each function to send that somebody has when its event is over.
        stopped: The operators that have stopped, and why.
        copy: Copies an array that is sent, to an output with this address; None if that is not declared.
    """

    def __init__(
        self,
        operators: Sequence[EventOperator],
        running: Mapping[str, Running],
        write: Write,
        state: Mapping[str, Any],
        later: Sequence[Sequence[Any]] = (),
    ) -> None:
        self._operators = {operator.path: operator for operator in operators}
        self._addresses = {one.path: {output: one.address(output) for output in one.outputs} for one in operators}
        self._running = running
        self._write = write
        self._now: int | None = state.get("now")
        self._at = self._now or 0
        known = self._operators.keys()
        closed = state.get("closed", {})
        self._closed = {operator.path: still_closed(operator, closed.get(operator.path, ())) for operator in operators}
        self.stopped: dict[str, str] = {path: why for path, why in state.get("stopped", {}).items() if path in known}
        self._readers: dict[str, list[tuple[EventOperator, EventInput]]] = defaultdict(list)
        for operator in operators:
            for one in operator.inputs:
                self._readers[one.source].append((operator, one))
        self._ticks: dict[str, int] = {timer: due for timer, due in state.get("ticks", {}).items() if timer in self._readers}
        self._waiting: deque[tuple[EventOperator, EventInput, Message | None]] = deque()
        self._full: Counter[tuple[str, str]] = Counter()
        self._due: list[tuple[int, int, Any, Any]] = []
        self._event: dict[str, Any] | None = None
        self._refused: OperatorFailedError | None = None
        self._numbers = count()
        self.events: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.ignored = Ignored()
        self.kept = KeptSends()
        self.on_late: Callable[[EventOperator, str], None] = lambda *_: None  # what is sent when the epoch is over
        self.copy: Callable[[str | None, pa.Array], pa.Array] = lambda _, value: own_copy(value)
        if self._now is not None:
            self._start_timers(self._now)
        for path, name, time, value, metadata in later:
            message = None if value is None else Message(time, value, metadata)
            for one in self._operators[path].inputs if path in known else ():
                if one.id == name and (message or metadata == {SOURCE: one.source}):
                    self._put_later(self._operators[path], one, time, message)

    @property
    def now(self) -> int | None:
        """The time; None as long as timers do not tick, since it has come to no moment."""
        return self._now

    def state(self) -> dict[str, Any]:
        """What the loop has to know in the next epoch, as JSON values."""
        closed = {path: inputs for path, inputs in self._closed.items() if inputs}
        return {"now": self._now, "ticks": self._ticks, "closed": closed, "stopped": self.stopped}

    def later(self) -> list[list[Any]]:
        """The messages whose delay is not over, in their order: operator, input, time, value and metadata of each.

        Where an input is closed behind them there is no value, and what it read.
        """
        found = sorted((item for item in self._due if item[1] == _MESSAGE), key=lambda item: item[:3])
        told = [
            (message.value, dict(message.metadata)) if message else (None, {SOURCE: one.source})
            for *_, (_, one, message) in found
        ]
        return [
            [operator.path, one.id, nanos // 1000, value, metadata]
            for (nanos, _, _, (operator, one, _)), (value, metadata) in zip(found, told, strict=True)
        ]

    def deliver(self, address: str, message: Message) -> None:
        """A message of a source, and all that comes of it: at once, or with what else is in its window."""
        self._begin()
        self._put(address, message)
        self._settle()

    def settle(self) -> None:
        """Deliver all that waits."""
        self._settle()

    def refuse_all(self) -> None:
        """Refuse what the operator sends from now on that is at an event."""
        self._event = None

    def check(self) -> None:
        """See that nothing was sent outside of events.

        Raises:
            OperatorFailedError: Something was.
        """
        if self._refused is not None:
            raise self._refused

    def advance(self, time: int) -> None:
        """Let time go on to a moment: all ticks up to it, and all messages whose delay is over."""
        if self._now is None:
            self._start_timers(time)
        self._now = time if self._now is None else max(self._now, time)
        done = 0
        while self._due and self._due[0][0] <= time * 1000:
            nanos, kind, key, item = heapq.heappop(self._due)
            done += 1
            if done > _MOST_TICKS:
                raise OperatorFailedError(
                    f"more than {_MOST_TICKS} ticks and messages with a delay are due at once, the last for {key}",
                    remedy="choose longer intervals",
                )
            if kind == _TICK:
                self._ticks[key] = nanos + item
                heapq.heappush(self._due, (nanos + item, _TICK, key, item))
                self._begin(nanos // 1000)
                self._put(key, Message(nanos // 1000, _NO_VALUE))
            else:
                self._begin(nanos // 1000)
                self._arrive(*item)
            self._settle()

    def drain(self) -> None:
        """Let time go on until no message waits for its delay to be over.

        Raises:
            EndlessLoopError: There are always more.
        """
        done = 0
        for number in range(_MOST_ROUNDS):
            times = sorted({nanos for nanos, kind, _, _ in self._due if kind == _MESSAGE})
            if not times:
                return
            done += len(times) if number else 0  # what waits from the beginning comes to an end, however much it is
            if done > _MOST_MESSAGES:
                break
            for nanos in times:
                self.advance(nanos // 1000)
        operator, one, _ = next(item for _, kind, _, item in self._due if kind == _MESSAGE)
        raise EndlessLoopError(
            f"at the end of the data messages still go round after {number + 1} rounds", node=operator.node,
            event_operator=operator.id, input=one.id, remedy="see that operators that read each other stop sending",
        )  # fmt: skip

    def close(self, addresses: Iterable[str], time: int = MIN_WATERMARK) -> None:
        """Nothing will ever come from these outputs, from a time on or from now: their readers are told, behind ticks of then."""
        if self._now is not None:
            self.advance(time)
        self._begin(time if self._now is None and time > MIN_WATERMARK else None)
        for address in addresses:
            self._close(address)
        self.settle()

    def stop(self, reason: str, paths: Iterable[str] | None = None) -> None:
        """Tell operators that it is over, in their order."""
        for path in list(self._operators) if paths is None else paths:
            if path not in self.stopped:
                self.stopped[path] = reason
                self._tell(self._operators[path], other_event("STOP", reason), self._moment())

    def end(self, path: str) -> None:
        """Tell an operator that it is over until the pipeline is run again, and others what it sends then."""
        if path not in self.stopped:
            self._begin()
            self.stop("MANUAL", [path])
            self.settle()

    def _start_timers(self, now: int) -> None:
        intervals = {one.source: one.interval for operator in self._operators.values() for one in operator.inputs}
        for address, interval in sorted(intervals.items()):
            if interval is not None:
                due = self._ticks.setdefault(address, now * 1000 + interval)
                heapq.heappush(self._due, (due, _TICK, address, interval))

    def _put(self, address: str, message: Message) -> None:
        """Let a message wait at all inputs that read an output."""
        for operator, one in self._readers.get(address, ()):
            if one.delay:
                time = message.time + one.delay
                self._put_later(operator, one, time, replace(message, time=time))
            else:
                self._wait(operator, one, message)

    def _put_later(self, operator: EventOperator, one: EventInput, time: int, message: Message | None) -> None:
        """Keep a message, or that nothing more will come, until its time."""
        heapq.heappush(self._due, (time * 1000, _MESSAGE, next(self._numbers), (operator, one, message)))

    def _arrive(self, operator: EventOperator, one: EventInput, message: Message | None) -> None:
        """Let what was kept wait at its input."""
        if message is None:
            self._enqueue(operator, one, None)
        else:
            self._wait(operator, one, message)

    def _wait(self, operator: EventOperator, one: EventInput, message: Message) -> None:
        """Let a message wait at an input."""
        if operator.path not in self.stopped:
            self._make_room(operator, one)
            self._enqueue(operator, one, message)

    def _enqueue(self, operator: EventOperator, one: EventInput, message: Message | None) -> None:
        """Let an event come behind all that wait."""
        self._waiting.append((operator, one, message))

    def _make_room(self, operator: EventOperator, one: EventInput) -> None:
        """Drop the oldest message that waits at an input, if it is full."""
        if one.queue_size is None:
            return
        if self._full[operator.path, one.id] < max(1, one.queue_size):
            self._full[operator.path, one.id] += 1
            return
        found = (
            place for place, (who, which, message) in enumerate(self._waiting) if message and (who, which) == (operator, one)
        )
        del self._waiting[next(found)]
        self.dropped[operator.path] += 1

    def _settle(self) -> None:
        """Deliver until nothing waits."""
        delivered = 0
        while self._waiting:
            operator, one, message = self._waiting.popleft()
            delivered += 1
            if delivered > _MOST_MESSAGES:
                raise EndlessLoopError(
                    f"an event led to more than {_MOST_MESSAGES} messages", node=operator.node, event_operator=operator.id,
                    remedy="see that operators that read each other stop sending",
                )  # fmt: skip
            if message is not None and one.queue_size is not None:
                self._full[operator.path, one.id] -= 1
            self._deliver(operator, one, message)

    def _deliver(self, operator: EventOperator, one: EventInput, message: Message | None) -> None:
        """Tell an operator of a message, or that nothing more will come."""
        if operator.path in self.stopped:
            return
        if message is None:
            self._input_closed(operator, one)
        else:
            self._tell(operator, input_event(one.id, message), message.time)

    def _begin(self, time: int | None = None) -> None:
        """An event comes from outside, at a time or now; what is put next is that."""
        self._at = self._now or 0 if time is None else time

    def _moment(self) -> int:
        """The time at which the event came from outside that what is delivered comes of."""
        return self._at

    def _tell(self, operator: EventOperator, event: dict[str, Any], time: int) -> None:
        """Tell an operator of an event, and do what it returns."""
        path = operator.path

        def send_output(output_id: str, data: Any, metadata: Mapping[str, Any] | None = None) -> None:
            if self._event is not event:
                self._refuse(operator, output_id)
            is_small = isinstance(data, pa.Array) and len(data) < FEWEST
            copy = own_copy if is_small else partial(self.copy, addresses.get(output_id))
            value = data if data is told else as_array(data, copy)
            if isinstance(output_id, AllLogs):
                for source in log_readers(self._readers, operator.node, metadata):
                    self._put(source, Message(time, value))
                return
            self._send(operator, output_id, Message(time, value, as_metadata(metadata)))

        told, addresses = event.get("value", self), self._addresses[path]  # what it was told nobody writes to
        self.events[path] += 1
        self._event = event
        try:
            with taken(operator, send_output, time) if operator.routes else _NOTHING_TAKEN:
                status = self._running[path].on_event(event, send_output)
        finally:
            self._event = None
        if operator.language == "python" and sys.getrefcount(send_output) > OWN:  # a script has the last one until the next
            self.kept.add(send_output, operator)
        self.check()
        self._do(operator, status)

    def _do(self, operator: EventOperator, status: DoraStatus) -> None:
        """Do what an operator returned."""
        path = operator.path
        if status is DoraStatus.STOP and path not in self.stopped:
            self.stopped[path] = "STOP"
            self._close_outputs(operator)
        elif status is DoraStatus.STOP_ALL:
            self.stopped.setdefault(path, "STOP_ALL")
            self._waiting.clear()
            self._full.clear()
            self.stop("MANUAL")

    def _refuse(self, operator: EventOperator, output: str) -> None:
        """Raise that something is sent when the event is over; in the epoch, too, where a thread of the operator's did."""
        self._refused = SendOutputError(
            f"a message to {output!r} was sent when the event of its send_output was over: it has no place in the order",
            node=operator.node, event_operator=operator.id, remedy=WAIT,
        )  # fmt: skip
        self.on_late(operator, output)
        raise self._refused

    def _send(self, operator: EventOperator, output: str, message: Message) -> None:
        address = self._addresses[operator.path].get(output)
        if address is None:
            self.ignored.leave_out(operator, output)
            return
        self.sent[operator.path] += 1
        self._write(address, message)
        self._put(address, message)

    def _close_outputs(self, operator: EventOperator) -> None:
        for output in operator.outputs:
            self._close(operator.address(output))

    def _close(self, address: str) -> None:
        """Let all readers of an output be told that it is closed, behind what waits at their inputs or is on its way to them."""
        for operator, one in self._readers.get(address, ()):
            coming = [item for item in self._due if item[1] == _MESSAGE and item[3][0] is operator and item[3][1] is one]
            if not coming:
                self._enqueue(operator, one, None)
            elif all(message is not None for *_, (_, _, message) in coming):
                self._put_later(operator, one, max(coming)[0] // 1000, None)

    def _input_closed(self, operator: EventOperator, one: EventInput) -> None:
        closed = self._closed[operator.path]
        if operator.path in self.stopped:
            return
        if one.id not in closed:
            closed[one.id] = one.source
            self._tell(operator, other_event("INPUT_CLOSED", one.id), self._moment())
        if len(closed) == len(operator.inputs) and operator.path not in self.stopped:
            self.stop("ALL_INPUTS_CLOSED", [operator.path])
            self._close_outputs(operator)
