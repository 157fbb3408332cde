"""Notifications: being told, in the order of time, that a time is complete.

(timely dataflow's, ``timely/src/dataflow/operators/generic/notificator.rs``. There a request for a time that is complete already
may wait for ever, because nothing wakes the operator; here it is delivered.)
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from dagster_operators.operators.frontier.capability import Capability, InputCapability
from dagster_operators.time.antichain import MinimalTimes

Frontiers: TypeAlias = "MinimalTimes | Sequence[MinimalTimes]"
"""The frontier of the only input, or those of several: a time is complete if none of them may still bring it."""


class FrontierNotificator:
    """Keeps capabilities until their times are complete.

    Args:
        requests: What is asked for at first.

    >>> from dagster_operators.operators.frontier.capability import Outlet
    >>> from dagster_operators.time import Frontier
    >>> outlet, told = Outlet(), []
    >>> notificator = FrontierNotificator(Capability(time, outlet) for time in (5, 3, 3, 9))
    >>> notificator.for_each(Frontier([7]), lambda capability, _: told.append(capability.time))
    >>> told, notificator.pending()
    ([3, 5], [(9, 1)])
    """

    def __init__(self, requests: Iterable[Capability] = ()) -> None:
        self._waiting: dict[tuple[Any, int], _Request] = {}
        self._unseen: list[tuple[Any, int]] = []
        """Those of the waiting that were not compared with the frontiers that were given last."""
        self._compared: tuple[MinimalTimes, ...] | None = None
        self._available: dict[tuple[Any, int], _Request] = {}
        self._order: list[_Request] = []
        for capability in requests:
            self.notify_at(capability)

    def notify_at(self, capability: Capability | InputCapability) -> None:
        """Ask to be told when the capability's time is complete; of equal requests one is kept, with their count."""
        own = capability.retain() if isinstance(capability, InputCapability) else capability.clone()
        key = (own.time, own.outlet.number)
        if key in self._waiting:
            self._waiting[key].count += 1
        else:
            self._waiting[key] = _Request(own, 1)
            self._unseen.append(key)

    def notify_at_frontiered(self, capability: Capability | InputCapability, frontiers: Frontiers) -> None:
        """The same, with the frontiers that there are: a time that is complete already is delivered with the others.

        >>> from dagster_operators.operators.frontier.capability import Outlet
        >>> from dagster_operators.time import Frontier
        >>> notificator = FrontierNotificator()
        >>> notificator.notify_at_frontiered(Capability(3, Outlet()), Frontier([7]))
        >>> notificator.next(Frontier([7]))
        Capability(3)
        """
        self.notify_at(capability)
        self.make_available(frontiers)

    def monotonic(self, frontiers: Frontiers, info: Any = None) -> Notificator:
        """This one with the frontiers that there are, as ``unary_notify`` has it.

        >>> from dagster_operators.operators.frontier.capability import Outlet
        >>> from dagster_operators.time import Frontier
        >>> [time for time in FrontierNotificator([Capability(3, Outlet())]).monotonic(Frontier([7]))]
        [(Capability(3), 1)]
        """
        return Notificator(self, _several(frontiers), info)

    def make_available(self, frontiers: Frontiers) -> None:
        """See which of the times are complete."""
        found = tuple(_several(frontiers))
        unseen = self._unseen if found == self._compared else list(self._waiting)
        self._compared, self._unseen = found, []
        for key in unseen:
            if not any(frontier.less_equal(key[0]) for frontier in found):
                self._add(key, self._waiting.pop(key))

    def next_count(self, frontiers: Frontiers) -> tuple[Capability, int] | None:
        """The capability for the first of the complete times, and how often it was asked for; None if there is none.

        >>> from dagster_operators.operators.frontier.capability import Outlet
        >>> from dagster_operators.time import FINISHED
        >>> outlet = Outlet()
        >>> FrontierNotificator([Capability(3, outlet), Capability(3, outlet)]).next_count(FINISHED)
        (Capability(3), 2)
        """
        self.make_available(frontiers)
        if not self._order:
            return None
        first = heapq.heappop(self._order)
        del self._available[first.key]
        return first.capability, first.count

    def next(self, frontiers: Frontiers) -> Capability | None:
        """The capability for the first of the complete times."""
        found = self.next_count(frontiers)
        return None if found is None else found[0]

    def ready(self, frontiers: Frontiers) -> Iterator[tuple[Capability, int]]:
        """The capabilities for all complete times in order, with counts; those that are asked for meanwhile included.

        >>> from dagster_operators.operators.frontier.capability import Outlet
        >>> from dagster_operators.time import Frontier
        >>> notificator, told = FrontierNotificator([Capability(3, Outlet())]), []
        >>> for capability, count in notificator.ready(Frontier([7])):
        ...     told.append(capability.time)
        ...     notificator.notify_at(capability.delayed(capability.time + 2))
        >>> told, notificator.pending()
        ([3, 5], [(7, 1)])
        """
        while (found := self.next_count(frontiers)) is not None:
            yield found

    def for_each(self, frontiers: Frontiers, logic: Callable[[Capability, FrontierNotificator], object]) -> None:
        """Call the logic with the capability for each complete time, in order, and this notificator."""
        for capability, _ in self.ready(frontiers):
            logic(capability, self)

    def pending(self) -> list[tuple[Any, int]]:
        """The times that are asked for and not delivered yet, in order, with how often."""
        return [(request.capability.time, request.count) for request in sorted(self.requests())]

    def requests(self) -> list[_Request]:
        """What is asked for and not delivered yet."""
        return [*self._order, *self._waiting.values()]

    def _add(self, key: tuple[Any, int], request: _Request) -> None:
        if key in self._available:
            self._available[key].count += request.count
        else:
            self._available[key] = request
            heapq.heappush(self._order, request)


class Notificator:
    """A :class:`FrontierNotificator` together with the frontiers of the operator's inputs, as ``unary_notify`` gets it.

    Attributes:
        requests: The notificator.
        frontiers: The frontiers of the inputs.
        info: What the operator knows of itself, its state included.

    >>> from dagster_operators.operators.frontier.capability import Outlet
    >>> from dagster_operators.time import Frontier
    >>> notificator = Notificator(FrontierNotificator(), [Frontier([7])])
    >>> notificator.notify_at(Capability(3, Outlet()))
    >>> notificator.next(), notificator.next()
    ((Capability(3), 1), None)
    """

    def __init__(self, requests: FrontierNotificator, frontiers: Sequence[MinimalTimes], info: Any = None) -> None:
        self.requests = requests
        self.frontiers = frontiers
        self.info = info

    def frontier(self, number: int = 0) -> MinimalTimes:
        """The frontier of an input, by its number."""
        return self.frontiers[number]

    def notify_at(self, capability: Capability | InputCapability) -> None:
        """Ask to be told when the capability's time is complete."""
        self.requests.notify_at(capability)

    def next(self) -> tuple[Capability, int] | None:
        """The capability for the first of the complete times, and how often it was asked for; None if there is none."""
        return self.requests.next_count(self.frontiers)

    def __iter__(self) -> Iterator[tuple[Capability, int]]:
        return self.requests.ready(self.frontiers)

    def for_each(self, logic: Callable[[Capability, int, Notificator], object]) -> None:
        """Call the logic with the capability for each complete time, in order, its count, and this notificator."""
        for capability, count in self:
            logic(capability, count, self)


class _Request:
    """A capability, and how often its time was asked for."""

    __slots__ = ("capability", "count")

    def __init__(self, capability: Capability, count: int) -> None:
        self.capability = capability
        self.count = count

    @property
    def key(self) -> tuple[Any, int]:
        return self.capability.time, self.capability.outlet.number

    def __lt__(self, other: _Request) -> bool:
        return self.capability < other.capability


def _several(frontiers: Frontiers) -> Sequence[MinimalTimes]:
    return (frontiers,) if isinstance(frontiers, MinimalTimes) else frontiers
