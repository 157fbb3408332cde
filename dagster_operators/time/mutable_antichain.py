"""Counted times, and the frontier of those that are there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, Self

from dagster_operators.time.change_batch import ChangeBatch
from dagster_operators.time.frontier import Frontier
from dagster_operators.time.timestamp import Time, check_time, less_equal, less_than

_SLACK: Final = 32
"""So many times that are no longer there may be remembered before the others are placed anew."""


class MutableAntichain:
    """Times with counts. The least of those with a positive count are the frontier, which may move either way.

    A count may be negative for a while, when a time is taken away before it is known to be there; it is not in the frontier then.

    (It is timely dataflow's, ``timely/src/progress/frontier.rs``, which finds the frontier anew from all times whenever one of
    its elements goes. Here each other time is remembered under one that is before it, as in a pairing heap: only those directly
    under an element that goes are compared. Where all times can be compared, as event times can, that takes time logarithmic in
    their number, averaged over many changes.)

    Args:
        times: Each is counted once.

    >>> times = MutableAntichain([1])
    >>> times.update([(1, -1), (2, 7)]), times.frontier(), times.count_for(2)
    ([(1, -1), (2, 1)], Frontier([2]), 7)
    >>> times.update([(0, 1)]), times.frontier()
    ([(0, 1), (2, -1)], Frontier([0]))
    """

    def __init__(self, times: Iterable[Time] = ()) -> None:
        self._counts: dict[Any, int] = {}
        self._least: dict[Any, None] = {}
        self._under: dict[Any, list[Any]] = {}
        """For each time of the frontier, and each remembered under another one, those remembered directly under it."""
        self._changes: ChangeBatch[Any] = ChangeBatch()
        self.update((time, 1) for time in times)

    def update(self, changes: Iterable[tuple[Time, int]]) -> list[tuple[Time, int]]:
        """Change the counts of times; gives the times that left the frontier, as -1, and those that entered it, as +1.

        Raises:
            TimestampError: A time is none, or of another kind than the others. Nothing is changed then.

        >>> MutableAntichain().update([(3, 1), (4, 1)])
        [(3, 1)]
        """
        came, went = self._count(self._checked(changes))
        for time in came:
            if time not in self._under:
                self._place(time)
        for time in went:
            if time in self._least:
                self._take_out(time)
        if len(self._under) > 2 * len(self._counts) + _SLACK:
            self._build_anew()
        return self._changes.drain()

    update_iter = update

    @classmethod
    def from_elem(cls, time: Time) -> Self:
        """One in which a single time is counted once.

        >>> MutableAntichain.from_elem(1).update_iter([(1, -1), (2, 7)])
        [(1, -1), (2, 1)]
        """
        return cls([time])

    def clear(self) -> None:
        """Forget all times.

        >>> times = MutableAntichain([1])
        >>> times.clear(), times.is_empty(), times.update([(5, 1)])
        (None, True, [(5, 1)])
        """
        self._counts, self._least, self._under = {}, {}, {}
        self._changes.clear()

    def frontier(self) -> Frontier:
        """The least of the times with a positive count.

        >>> MutableAntichain([(1, 2), (2, 1), (2, 2)]).frontier()
        Frontier([(1, 2), (2, 1)])
        """
        return Frontier(self._least)

    def count_for(self, time: Time) -> int:
        """How often a time is there; negative if it was taken away more often than it came.

        >>> MutableAntichain([5, 5]).count_for(5), MutableAntichain().count_for(5)
        (2, 0)
        """
        return self._counts.get(time, 0)

    def updates(self) -> Iterator[tuple[Time, int]]:
        """All times with their counts, in order; negative ones, too.

        >>> list(MutableAntichain([5, 3, 5]).updates())
        [(3, 1), (5, 2)]
        """
        return iter(sorted(self._counts.items()))

    def is_empty(self) -> bool:
        """Whether no time has a positive count.

        >>> MutableAntichain().is_empty(), MutableAntichain([5]).is_empty()
        (True, False)
        """
        return not self._least

    def less_equal(self, time: Time) -> bool:
        """Whether a time of the frontier is this one or before it.

        >>> MutableAntichain([5]).less_equal(5), MutableAntichain([5]).less_equal(4)
        (True, False)
        """
        return any(less_equal(least, time) for least in self._least)

    def less_than(self, time: Time) -> bool:
        """Whether a time of the frontier is before this one.

        >>> MutableAntichain([5]).less_than(5), MutableAntichain([5]).less_than(6)
        (False, True)
        """
        return any(less_than(least, time) for least in self._least)

    def __repr__(self) -> str:
        return f"MutableAntichain({dict(sorted(self._counts.items()))!r})"

    def _checked(self, changes: Iterable[tuple[Time, int]]) -> ChangeBatch[Any]:
        """The changes added up, once it is known that all their times can be compared."""
        found = list(changes)
        known = next(iter(self._counts), found[0][0] if found else ())
        check_time(known)
        for time, _ in found:
            less_equal(known, time)
        return ChangeBatch(found)

    def _count(self, changes: ChangeBatch[Any]) -> tuple[list[Any], list[Any]]:
        """Change the counts; gives the times whose count became positive, and those whose count is no longer so."""
        came, went = [], []
        for time, difference in changes:
            before = self._counts.pop(time, 0)
            after = before + difference
            if after:
                self._counts[time] = after
            if before <= 0 < after:
                came.append(time)
            elif after <= 0 < before:
                went.append(time)
        return came, went

    def _place(self, time: Any) -> None:
        """Put a time, with those under it, under one of the frontier that is before it, or into the frontier."""
        under = self._under.setdefault(time, [])
        for least in self._least:
            if less_equal(least, time):
                self._under[least].append(time)
                return
        for least in [least for least in self._least if less_equal(time, least)]:
            del self._least[least]
            self._changes.update(least, -1)
            under.append(least)
        self._least[time] = None
        self._changes.update(time, 1)

    def _take_out(self, time: Any) -> None:
        """Take a time out of the frontier and place those that were directly under it, first comparing them in pairs."""
        del self._least[time]
        self._changes.update(time, -1)
        left = self._present(self._under.pop(time))
        paired = left[len(left) & ~1 :]
        for one, other in zip(left[::2], left[1::2], strict=False):
            if less_equal(one, other):
                self._under[one].append(other)
                paired.append(one)
            elif less_equal(other, one):
                self._under[other].append(one)
                paired.append(other)
            else:
                paired += [one, other]
        for other in reversed(paired):
            self._place(other)

    def _present(self, times: list[Any]) -> list[Any]:
        """The times that have a positive count; of the others, which are forgotten, those that were under them."""
        present, waiting = [], list(reversed(times))
        while waiting:
            time = waiting.pop()
            if self._counts.get(time, 0) > 0:
                present.append(time)
            else:
                waiting += self._under.pop(time)
        return present

    def _build_anew(self) -> None:
        """Forget the times that have no positive count any more."""
        self._under = {least: [] for least in self._least}
        for time, count in self._counts.items():
            if count > 0 and time not in self._least:
                self._place(time)
