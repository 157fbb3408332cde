"""Capabilities of which none is before another one: what an operator over partially ordered times keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Self

from dagster_operators.errors import CapabilityError
from dagster_operators.operators.frontier.capability import Capability, InputCapability
from dagster_operators.time.frontier import Frontier
from dagster_operators.time.timestamp import Time, less_equal


class CapabilitySet:
    """Capabilities for one output; those that another one makes superfluous are dropped.

    (timely dataflow's keeps them so only in ``insert``, and is left changed when a downgrade fails; this one always is what it
    says, and changes only if it can.)

    Args:
        capabilities: What is in it at first.

    >>> from dagster_operators.operators.frontier.capability import Outlet
    >>> outlet = Outlet()
    >>> kept = CapabilitySet([Capability(4, outlet)])
    >>> kept.downgrade([6, 8]), kept, outlet.held()
    (None, CapabilitySet([6]), Frontier([6]))
    """

    def __init__(self, capabilities: Iterable[Capability | InputCapability] = ()) -> None:
        self._elements: list[Capability] = []
        for capability in capabilities:
            self.insert(capability)

    @classmethod
    def from_elem(cls, capability: Capability | InputCapability) -> Self:
        """One with a copy of a single capability.

        >>> from dagster_operators.operators.frontier.capability import Outlet
        >>> CapabilitySet.from_elem(Capability(4, Outlet()))
        CapabilitySet([4])
        """
        return cls([capability])

    def insert(self, capability: Capability | InputCapability) -> bool:
        """Put a copy of a capability in, unless one is there that allows as much, and drop those that it makes superfluous.

        Returns:
            Whether it was put in.

        >>> from dagster_operators.operators.frontier.capability import Outlet
        >>> outlet = Outlet()
        >>> kept = CapabilitySet([Capability((3, 5), outlet), Capability((5, 4), outlet)])
        >>> kept.insert(Capability((4, 4), outlet)), kept.insert(Capability((4, 6), outlet)), kept
        (True, False, CapabilitySet([(3, 5), (4, 4)]))
        """
        own = capability.retain() if isinstance(capability, InputCapability) else capability.clone()
        if any(element.less_equal(own) for element in self._elements):
            return False
        self._elements = [element for element in self._elements if not own.less_equal(element)] + [own]
        return True

    def try_delayed(self, time: Time) -> Capability | None:
        """A capability for a time; None if none of the set allows it."""
        return next((found for element in self._elements if (found := element.try_delayed(time))), None)

    def delayed(self, time: Time) -> Capability:
        """A capability for a time.

        Raises:
            CapabilityError: None of the set allows it.
        """
        found = self.try_delayed(time)
        if found is None:
            raise self._too_early("delayed", time)
        return found

    def try_downgrade(self, frontier: Iterable[Time]) -> bool:
        """Make of the set capabilities for the least of these times; False, and no change, if it does not allow one of them.

        >>> from dagster_operators.operators.frontier.capability import Outlet
        >>> kept = CapabilitySet([Capability(4, Outlet())])
        >>> kept.try_downgrade([9, 1]), kept
        (False, CapabilitySet([4]))
        """
        found = [self.try_delayed(time) for time in Frontier(frontier)]
        if None in found:
            return False
        self._elements = [capability for capability in found if capability is not None]
        return True

    def downgrade(self, frontier: Iterable[Time]) -> None:
        """Make of the set capabilities for the least of these times; without any the set is empty.

        Raises:
            CapabilityError: The set does not allow one of them; nothing changes then.
        """
        times = list(frontier)
        if not self.try_downgrade(times):
            raise self._too_early("downgraded", next(time for time in times if not self._allows(time)))

    def clear(self) -> None:
        """Drop them all."""
        self._elements = []

    def first(self) -> Capability | None:
        """One of them, whichever comes first in their order; None if there is none.

        >>> from dagster_operators.operators.frontier.capability import Outlet
        >>> CapabilitySet([Capability(4, Outlet())]).first(), CapabilitySet().first()
        (Capability(4), None)
        """
        return min(self._elements, default=None)

    @property
    def frontier(self) -> Frontier:
        """Their times."""
        return Frontier(element.time for element in self._elements)

    def _allows(self, time: Time) -> bool:
        return any(less_equal(element.time, time) for element in self._elements)

    def _too_early(self, what: str, time: Time) -> CapabilityError:
        return CapabilityError(
            f"the capabilities for {list(self.frontier)} cannot be {what} to {time!r}, which is after none of them",
            remedy="keep a capability of an earlier time, or ask first: try_delayed, try_downgrade",
        )

    def __iter__(self) -> Iterator[Capability]:
        return iter(tuple(self._elements))

    def __len__(self) -> int:
        return len(self._elements)

    def __repr__(self) -> str:
        return f"CapabilitySet({sorted(element.time for element in self._elements)!r})"
