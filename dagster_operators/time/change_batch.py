"""Counts by time that change by differences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")
"""What is counted: times, or pairs of a place and a time."""


class ChangeBatch(Generic[T]):
    """Differences by time. Those of one time add up at once, and a sum of zero is forgotten.

    (It is timely dataflow's ``ChangeBatch``, which adds up now and then and at times keeps a zero.)

    Args:
        changes: Pairs of a time and a difference.

    >>> batch = ChangeBatch([(5, 1), (3, 2), (5, -1)])
    >>> list(batch)
    [(3, 2)]
    """

    def __init__(self, changes: Iterable[tuple[T, int]] = ()) -> None:
        self._sums: dict[Any, int] = {}
        self.extend(changes)

    def __iter__(self) -> Iterator[tuple[T, int]]:
        return iter(sorted(self._sums.items()))

    def __len__(self) -> int:
        return len(self._sums)

    def update(self, time: T, difference: int) -> None:
        """Add a difference to a time's sum.

        >>> batch = ChangeBatch()
        >>> batch.update(7, 2)
        >>> batch.update(7, -3)
        >>> list(batch)
        [(7, -1)]
        """
        total = self._sums.pop(time, 0) + difference
        if total:
            self._sums[time] = total

    def extend(self, changes: Iterable[tuple[T, int]]) -> None:
        """Add several differences.

        >>> batch = ChangeBatch()
        >>> batch.extend([(1, 1), (2, 1)])
        >>> len(batch)
        2
        """
        for time, difference in changes:
            self.update(time, difference)

    def is_empty(self) -> bool:
        """Whether every sum is zero.

        >>> ChangeBatch([(17, 1), (17, -1)]).is_empty()
        True
        """
        return not self._sums

    def drain(self) -> list[tuple[T, int]]:
        """All sums, in the order of their times; none is left.

        >>> batch = ChangeBatch([(5, 1), (3, 2)])
        >>> batch.drain(), batch.is_empty()
        ([(3, 2), (5, 1)], True)
        """
        drained, self._sums = sorted(self._sums.items()), {}
        return drained

    def clear(self) -> None:
        """Forget everything.

        >>> batch = ChangeBatch([(5, 1)])
        >>> batch.clear()
        >>> len(batch)
        0
        """
        self._sums = {}
