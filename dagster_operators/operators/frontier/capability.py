"""Capabilities: the right to put rows out at a time, and at any later one, which holds the output's frontier back.

A capability is held for as long as somebody refers to it, or until :meth:`Capability.drop`. (They are timely dataflow's,
``timely/src/dataflow/operators/capability.rs``; there what a release build does not check, is checked here always.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dagster_operators.errors import CapabilityError
from dagster_operators.time.frontier import Frontier
from dagster_operators.time.summary import IDENTITY, results_in
from dagster_operators.time.timestamp import Time, less_equal


class Outlet:
    """What is held at one output: the times, and how many capabilities for each there are.

    Attributes:
        name: The output's name.
        number: Its place among the outputs.
        counts: How many capabilities there are for each time.

    >>> outlet = Outlet()
    >>> early, late = Capability(3, outlet), Capability(5, outlet)
    >>> outlet.held(), early.drop(), outlet.held()
    (Frontier([3]), None, Frontier([5]))
    """

    def __init__(self, name: str = "main", number: int = 0) -> None:
        self.name = name
        self.number = number
        self.counts: dict[Any, int] = {}  # a Counter would be slower to delete from

    def update(self, time: Time, change: int) -> None:
        """Change the count of a time."""
        count = self.counts.get(time, 0) + change
        if count:
            self.counts[time] = count
        else:
            del self.counts[time]

    def held(self) -> Frontier:
        """The least of the times."""
        return Frontier(self.counts)


class Capability:
    """The right to put rows out at a time and at later ones.

    Args:
        time: The time.
        outlet: The output that it is for.

    >>> capability = Capability(3, Outlet())
    >>> later = capability.delayed(5)
    >>> capability.time, later.time, later == Capability(5, Outlet())
    (3, 5, False)
    """

    __slots__ = ("__weakref__", "_outlet", "_time")

    def __init__(self, time: Time, outlet: Outlet) -> None:
        self._time: Any = time
        self._outlet: Outlet | None = outlet
        outlet.update(time, 1)

    @property
    def time(self) -> Any:
        """The time.

        >>> Capability((1, 2), Outlet()).time
        (1, 2)
        """
        return self._time

    @property
    def outlet(self) -> Outlet:
        """The output that it is for.

        Raises:
            CapabilityError: It was dropped.
        """
        if self._outlet is None:
            raise CapabilityError(
                f"the capability for {self._time!r} was dropped", remedy="drop it later, or keep one of its copies: clone()"
            )
        return self._outlet

    @property
    def dropped(self) -> bool:
        """Whether it was dropped.

        >>> capability = Capability(3, Outlet())
        >>> capability.drop(), capability.dropped
        (None, True)
        """
        return self._outlet is None

    def clone(self) -> Capability:
        """Another one for the same time.

        >>> outlet = Outlet()
        >>> one = Capability(3, outlet)
        >>> other = one.clone()
        >>> one.drop(), outlet.held()
        (None, Frontier([3]))
        """
        return Capability(self._time, self.outlet)

    def try_delayed(self, time: Time) -> Capability | None:
        """One for this time or a later one; None if the time given is no such time.

        >>> Capability(3, Outlet()).try_delayed(2) is None
        True
        """
        return Capability(time, self.outlet) if less_equal(self._time, time) else None

    def delayed(self, time: Time) -> Capability:
        """One for this time or a later one; this one stays.

        Raises:
            CapabilityError: The time is neither this one nor after it.

        >>> Capability(3, Outlet()).delayed(2)
        Traceback (most recent call last):
        dagster_operators.errors.CapabilityError: a capability for 3 cannot be delayed to 2, which is not after it ...
        """
        found = self.try_delayed(time)
        if found is None:
            raise self._backwards("delayed", time)
        return found

    def try_downgrade(self, time: Time) -> bool:
        """Make it one for a later time; whether the time is later, or the same. Otherwise nothing changes.

        >>> capability = Capability(3, Outlet())
        >>> capability.try_downgrade(2), capability.try_downgrade(4), capability.time
        (False, True, 4)
        """
        outlet = self.outlet
        if not less_equal(self._time, time):
            return False
        outlet.update(time, 1)
        outlet.update(self._time, -1)
        self._time = time
        return True

    def downgrade(self, time: Time) -> None:
        """Make it one for a later time, so that the output's frontier can move on.

        Raises:
            CapabilityError: The time is neither this one nor after it.

        >>> outlet = Outlet()
        >>> capability = Capability(3, outlet)
        >>> capability.downgrade(7), outlet.held()
        (None, Frontier([7]))
        """
        if not self.try_downgrade(time):
            raise self._backwards("downgraded", time)

    def drop(self) -> None:
        """Give it up; doing so twice changes nothing."""
        outlet, self._outlet = self._outlet, None
        if outlet is not None:
            outlet.update(self._time, -1)

    def less_equal(self, other: Capability) -> bool:
        """Whether it allows all that another one does: it is for the same output, and its time is not after the other's.

        >>> outlet = Outlet()
        >>> Capability(3, outlet).less_equal(Capability(4, outlet)), Capability(3, outlet).less_equal(Capability(4, Outlet()))
        (True, False)
        """
        return self._outlet is other._outlet and less_equal(self._time, other._time)

    def _backwards(self, what: str, time: Time) -> CapabilityError:
        return CapabilityError(
            f"a capability for {self._time!r} cannot be {what} to {time!r}, which is not after it",
            output=self.outlet.name,
            remedy="choose a time that is its own or after it, keep a capability of an earlier time, or ask first: "
            "try_delayed, try_downgrade",
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Capability):
            return NotImplemented
        return self._outlet is other._outlet and bool(self._time == other._time)

    def __hash__(self) -> int:
        return hash(self._time)

    def __lt__(self, other: Capability) -> bool:
        """An order to sort by, which puts whatever is before another time ahead of it."""
        return bool(self._time < other._time)

    def __repr__(self) -> str:
        return f"Capability({self._time!r}{', dropped' if self.dropped else ''})"

    def __copy__(self) -> Capability:
        return self.clone()

    def __deepcopy__(self, _: object) -> Capability:
        return self.clone()

    def __reduce__(self) -> Any:
        raise CapabilityError(
            "a capability cannot be sent elsewhere", remedy="keep it in a state that is declared: CapabilityState, StashState"
        )

    def __del__(self) -> None:
        self.drop()


class InputCapability:
    """The right that rows of an input bring along while they are worked on; to keep it, :meth:`retain` it.

    Args:
        time: The time of the rows.
        outlets: The operator's outputs.
        summaries: For each output what the way from the input to there does to times: none if no way leads there.
    """

    __slots__ = ("_outlets", "_summaries", "_time", "used_up")

    def __init__(self, time: Time, outlets: Sequence[Outlet], summaries: Sequence[Sequence[Any]] | None = None) -> None:
        self._time = time
        self._outlets = outlets
        self._summaries = summaries or [(IDENTITY,)] * len(outlets)
        self.used_up = False

    @property
    def time(self) -> Any:
        """The time of the rows."""
        return self._time

    def retain(self, output: int = 0) -> Capability:
        """A capability for the rows' own time, to be kept.

        Args:
            output: Which output it is for, by its number.

        Raises:
            CapabilityError: No way leads from the input to that output, every way moves times on, or the rows are gone.

        >>> InputCapability(3, [Outlet()], [(2,)]).retain()
        Traceback (most recent call last):
        dagster_operators.errors.CapabilityError: rows of 3 allow nothing at 3 at the output 'main' ...
        """
        return self.delayed(self._time, output)

    def delayed(self, time: Time, output: int = 0) -> Capability:
        """A capability for the time with which the rows may come out, or a later one.

        Args:
            time: The time.
            output: Which output it is for, by its number.

        Raises:
            CapabilityError: No way leads from the input to that output, the time is too early, or the rows are gone.

        >>> InputCapability(3, [Outlet()], [(2,)]).delayed(5).time
        5
        """
        outlet = self._checked(output)
        for summary in self._summaries[output]:
            first = results_in(summary, self._time)
            if first is not None and less_equal(first, time):
                return Capability(time, outlet)
        least = [results_in(summary, self._time) for summary in self._summaries[output]]
        raise CapabilityError(
            f"rows of {self._time!r} allow nothing at {time!r} at the output {outlet.name!r}",
            output=outlet.name,
            remedy=f"delay to {min(map(repr, least), default='a time')} or later, which is when they may come out there",
        )

    def check(self, outlet: Outlet) -> None:
        """Raise CapabilityError unless rows of its time may come out of an output."""
        self._checked(outlet.number)
        if not any(results_in(summary, self._time) == self._time for summary in self._summaries[outlet.number]):
            raise CapabilityError(
                f"rows of {self._time!r} allow nothing at that time at the output {outlet.name!r}", output=outlet.name,
                remedy="open the session with delayed(time, output) to a time that its summary leads to",
            )  # fmt: skip

    def _checked(self, output: int) -> Outlet:
        if self.used_up:
            raise CapabilityError(
                f"the rows of {self._time!r} are gone, and what they allowed with them",
                remedy="call retain() or delayed(time) while the operator is working on them, and keep what it gives",
            )
        if not 0 <= output < len(self._outlets):
            raise CapabilityError(f"there is no output {output}", remedy=f"the outputs are 0 to {len(self._outlets) - 1}")
        if not self._summaries[output]:
            raise CapabilityError(
                f"no row of this input leads to the output {self._outlets[output].name!r}: they are not connected",
                output=self._outlets[output].name, remedy="connect them where the operator is built, or use another output",
            )  # fmt: skip
        return self._outlets[output]

    def __repr__(self) -> str:
        return f"InputCapability({self._time!r})"
