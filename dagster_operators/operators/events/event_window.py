"""Events that are delivered operator by operator, so that one with a process of its own is told of many at once.

Each operator is told of the same events in the same order as if one event after another had been delivered with all that comes
of it: by the events from outside, then by the steps from there, then by the way. Operators must not read each other in a circle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from typing import Final, TypeAlias

from dagster_operators.operators.events.message import Message, size_of
from dagster_operators.operators.events.routes import ALL, is_of_logs
from dagster_operators.operators.events.wiring import EventInput, EventOperator

Key: TypeAlias = tuple[int, int, tuple[int, ...]]
"""An event's place among all: the event from outside that it comes of, the steps from there, and which one it was at each."""

Waiting: TypeAlias = tuple[Key, EventInput, Message | None]
"""An event that waits, with the input that it comes to; None says that nothing more will come."""

_FEWEST: Final = 64
_MOST: Final = 4_096
"""How many events from outside a window has: it grows as long as what comes of them is small."""

_BYTES: Final = 32 * 2**20


class EventWindow:
    """The events that wait for each operator.

    Args:
        order: The operators' paths, each behind those that it reads.

    Attributes:
        order: As given.
        at: The event that is being delivered.
        time: The time at which it came from outside.
    """

    def __init__(self, order: Sequence[str]) -> None:
        self.order = order
        self.at: Key = (0, 0, ())
        self.time = 0
        self._inboxes: dict[str, list[Waiting]] = defaultdict(list)
        self._times: list[int] = []
        self._children = 0
        self._bytes = 0
        self._most = _FEWEST

    def begin(self, time: int) -> None:
        """An event comes from outside, at a time: what is put from now on is that."""
        self._come_of((len(self._times), 0, ()))
        self._times.append(time)
        self.time = time

    def is_full(self) -> bool:
        """Whether the window is large enough to be delivered."""
        return len(self._times) >= self._most or self._bytes >= _BYTES

    def put(self, path: str, one: EventInput, message: Message | None) -> None:
        """Let an event wait for an operator; it comes of the one that is being delivered."""
        root, steps, way = self.at
        self._inboxes[path].append(((root, steps + 1, (*way, self._children)), one, message))
        self._children += 1
        if message is not None:
            self._bytes += size_of(message.value)

    def take(self, path: str, limit: Key | None) -> list[Waiting]:
        """The events that wait for an operator in their order, up to a limit."""
        waiting = self._inboxes.pop(path, [])
        waiting.sort(key=lambda one: one[0])
        return waiting if limit is None else [one for one in waiting if one[0] < limit]

    def deliver(self, key: Key) -> None:
        """An event is being delivered: what is put from now on comes of it."""
        self._come_of(key)
        self.time = self._times[key[0]]

    def end(self) -> None:
        """All was delivered."""
        small = self._bytes * 2 <= _BYTES
        self._most = min(_MOST, 2 * self._most) if small else max(1, self._most * _BYTES // (4 * self._bytes))
        self._inboxes.clear()
        self._times.clear()
        self._bytes = 0

    def _come_of(self, key: Key) -> None:
        self.at, self._children = key, 0


def reading_order(operators: Sequence[EventOperator]) -> list[str]:
    """The operators' paths, each behind those that it reads, without what arrives with a delay.

    Raises:
        CycleError: They read each other in a circle.

    >>> a = EventOperator("a", "op", True, "a.py", (EventInput("m", "b/n"),), ("n",))
    >>> reading_order([a, EventOperator("b", "op", True, "b.py", (EventInput("n", "a/n", delay=1),), ("n",))])
    ['b', 'a']
    """
    return [*TopologicalSorter(_reads(operators)).static_order()]


def stopping_order(operators: Sequence[EventOperator]) -> list[str]:
    """The operators' paths, each behind those that it reads; a circle begins with its first operator's inputs.

    >>> a = EventOperator("a", "op", True, "a.py", (EventInput("m", "b/n"),), ("n",))
    >>> b = EventOperator("b", "op", True, "b.py", (EventInput("n", "a/n"),), ("n",))
    >>> stopping_order([a, b]), stopping_order([b, a])
    (['b', 'a'], ['a', 'b'])
    """
    with suppress(CycleError):
        return reading_order(operators)
    reads, order, seen = _reads(operators), list[str](), set[str]()

    def visit(path: str) -> None:
        if path not in seen:
            seen.add(path)
            for before in reads[path]:
                visit(before)
            order.append(path)

    for operator in operators:
        visit(operator.path)
    return order


def _reads(operators: Sequence[EventOperator]) -> dict[str, dict[str, None]]:
    """The operators that each one reads without a delay, by paths."""
    made = {operator.address(output): [operator.path] for operator in operators for output in operator.outputs}
    of_logs = [operator.path for operator in operators if any(kind == ALL for kind, _ in operator.routes)]
    made |= {one.source: of_logs for operator in operators for one in operator.inputs if is_of_logs(one.source)}
    return {
        operator.path: {path: None for one in operator.inputs if not one.delay for path in made.get(one.source, ())}
        for operator in operators
    }


def delivery_order(operators: Sequence[EventOperator]) -> list[str] | None:
    """The operators' paths, each behind those that it reads; None if messages may be dropped or delayed, or go in a circle.

    >>> twice = EventOperator("twice", "op", True, "twice.py", (EventInput("n", "once/n"),), ("n",))
    >>> once = EventOperator("once", "op", True, "once.py", (EventInput("n", "numbers/n"),), ("n",))
    >>> delivery_order([twice, once]), delivery_order([EventOperator("a", "op", True, "a.py", (EventInput("n", "a/n"),), ("n",))])
    (['once', 'twice'], None)
    """
    if any(
        one.queue_size is not None or one.delay or is_of_logs(one.source) for operator in operators for one in operator.inputs
    ):
        return None
    try:
        return reading_order(operators)
    except CycleError:
        return None
