"""The event loop where operators are told of many events at once: by windows, operator by operator."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from typing_extensions import override

from dagster_operators.errors import located
from dagster_operators.operators.events.dora_module import DoraStatus
from dagster_operators.operators.events.event_loop import EventLoop, Running, Write
from dagster_operators.operators.events.event_window import EventWindow, Key, Waiting, delivery_order
from dagster_operators.operators.events.message import Message, with_context
from dagster_operators.operators.events.wiring import EventInput, EventOperator

if TYPE_CHECKING:
    import pyarrow as pa


@runtime_checkable
class TakesMany(Protocol):
    """An operator that can be told of many messages at once."""

    def on_messages(
        self, messages: Sequence[tuple[str, Message]]
    ) -> Iterator[tuple[DoraStatus, list[tuple[str, pa.Array, str]]]]:
        """Tell it of messages in their order until it stops; for each what it returned and what it sent."""


def loop_of(
    operators: Sequence[EventOperator],
    running: Mapping[str, Running],
    write: Write,
    state: Mapping[str, Any],
    later: Sequence[Sequence[Any]] = (),
) -> EventLoop:
    """The event loop that is right for some operators; all that is given is as ``EventLoop`` takes it.

    Messages may be on their way though no input has a delay any more: until they have arrived it is one event at a time.
    """
    if not later and any(isinstance(one, TakesMany) for one in running.values()):
        order = delivery_order(operators)
        if order is not None:
            return WindowedLoop(order, operators, running, write, state)
    return EventLoop(operators, running, write, state, later)


class WindowedLoop(EventLoop):
    """Delivers events by windows.

    An operator that returns ``STOP_ALL`` stops those that it reads, and those beside it, at the end of the window.

    Args:
        order: The operators' paths, each behind those that it reads.
        given: As ``EventLoop`` takes it.
    """

    def __init__(self, order: Sequence[str], *given: Any) -> None:
        self._window = EventWindow(order)
        self._outcome: tuple[Key, Exception | None] | None = None
        super().__init__(*given)

    @override
    def settle(self) -> None:
        """Deliver all that waits; what fails first in the order of events is raised, unless a STOP_ALL comes before it."""
        window, self._outcome = self._window, None
        for path in window.order:
            waiting = window.take(path, self._outcome[0] if self._outcome else None)
            try:
                self._deliver_all(self._operators[path], waiting)
            except Exception as error:  # noqa: BLE001 - it is raised once it is clear that it is the first one
                self._outcome = window.at, error
        if self._outcome is not None and self._outcome[1] is not None:
            raise self._outcome[1]
        if self._outcome is not None:
            self.stop("MANUAL")
        window.end()

    @override
    def _settle(self) -> None:
        if self._window.is_full():
            self.settle()

    @override
    def _enqueue(self, operator: EventOperator, one: EventInput, message: Message | None) -> None:
        self._window.put(operator.path, one, message)

    @override
    def _begin(self, time: int | None = None) -> None:
        self._window.begin(time if time is not None else self._now or 0)

    @override
    def _moment(self) -> int:
        return self._window.time

    @override
    def _do(self, operator: EventOperator, status: DoraStatus) -> None:
        if status is DoraStatus.STOP_ALL:
            self.stopped.setdefault(operator.path, "STOP_ALL")
            self._outcome = self._window.at, None
        else:
            super()._do(operator, status)

    def _deliver_all(self, operator: EventOperator, waiting: Sequence[Waiting]) -> None:
        """Tell an operator of what waits for it, until it stops."""
        for is_message, some in groupby(waiting, key=lambda one: one[2] is not None):
            running = self._running[operator.path]
            if is_message and isinstance(running, TakesMany):
                self._tell_many(operator, running, [*some])
                continue
            for key, one, message in some:
                if operator.path in self.stopped:
                    return
                self._window.deliver(key)
                self._deliver(operator, one, message)

    def _tell_many(self, operator: EventOperator, running: TakesMany, waiting: Sequence[Waiting]) -> None:
        """Tell an operator of messages, and do what it returns."""
        if operator.path in self.stopped:
            return
        answers = running.on_messages([(one.id, message) for _, one, message in waiting if message is not None])
        with located(node=operator.node, event_operator=operator.id):
            for key, _, message in waiting:
                self._window.deliver(key)
                found = next(answers, None)
                if found is None or message is None:
                    return
                self.events[operator.path] += 1
                status, sent = found
                for output, value, context in sent:
                    self._send(operator, output, Message(message.time, value, with_context(context)))
                if status is not DoraStatus.CONTINUE:
                    deque(answers, maxlen=0)
                    self._do(operator, status)
