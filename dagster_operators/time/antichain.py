"""Sets of times of which none is before another: the least of a set of times, all that need be known to ask what may still come.

(They are timely dataflow's, ``timely/src/progress/frontier.rs``.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Self

from dagster_operators.errors import TimestampError
from dagster_operators.time.codec import decode_time, encode_time
from dagster_operators.time.timestamp import Time, check_time, less_equal, less_than


class MinimalTimes:
    """What an :class:`Antichain` and its frozen form, a :class:`Frontier`, have in common.

    Two are equal if they have the same times, in whatever order and of either class.

    Args:
        times: Those that another one is before are left out.
    """

    __slots__ = ("_times",)

    def __init__(self, times: Iterable[Time] = ()) -> None:
        self._times: list[Any] = []
        for time in times:
            insert_into(self._times, time)

    @property
    def elements(self) -> tuple[Time, ...]:
        """The times, in the order in which they came.

        >>> Antichain([5, 3]).elements
        (3,)
        """
        return tuple(self._times)

    def __iter__(self) -> Iterator[Time]:
        return iter(self.elements)

    def __len__(self) -> int:
        return len(self._times)

    def __contains__(self, time: object) -> bool:
        return time in self._times

    def less_equal(self, time: Time) -> bool:
        """Whether one of the times is this one or before it.

        >>> Antichain([(1, 5), (2, 3)]).less_equal((2, 4)), Antichain([(1, 5), (2, 3)]).less_equal((1, 4))
        (True, False)
        """
        for element in self._times:  # noqa: SIM110 - asked for every time of every operator: a generator costs as much again
            if less_equal(element, time):
                return True
        return False

    def less_than(self, time: Time) -> bool:
        """Whether one of the times is before this one.

        >>> Antichain([3]).less_than(3), Antichain([3]).less_than(4), Antichain().less_than(4)
        (False, True, False)
        """
        return any(less_than(element, time) for element in self._times)

    def dominates(self, other: MinimalTimes) -> bool:
        """Whether each of the other's times is one of these or after one: all that may come there may come here.

        The empty one is dominated by all others.

        >>> Antichain([3]).dominates(Antichain([5])), Antichain([3]).dominates(Antichain()), Antichain().dominates(Antichain([3]))
        (True, True, False)
        """
        return all(map(self.less_equal, other))

    def as_option(self) -> Any:
        """The only time, or None without any: what there is of times that all can be compared, as event times.

        Raises:
            TimestampError: There are several.

        >>> Antichain([5, 3]).as_option(), Antichain().as_option()
        (3, None)
        >>> Antichain([(1, 5), (2, 3)]).as_option()
        Traceback (most recent call last):
        dagster_operators.errors.TimestampError: Antichain([(1, 5), (2, 3)]) is no single time. To do: ask for its elements
        """
        if len(self._times) > 1:
            raise TimestampError(f"{self!r} is no single time", remedy="ask for its elements")
        return next(iter(self._times), None)

    def to_json(self) -> list[Any]:
        """The times in order, as plain JSON values.

        >>> Antichain([(2, 1), (1, 2)]).to_json()
        [[1, 2], [2, 1]]
        """
        return [encode_time(time) for time in sorted(self._times)]

    @classmethod
    def from_json(cls, data: Iterable[Any]) -> Self:
        """What ``to_json`` gave.

        Raises:
            TimestampError: One of the values is no time.

        >>> Antichain.from_json([[1, 2], [2, 1]])
        Antichain([(1, 2), (2, 1)])
        """
        return cls(map(decode_time, data))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MinimalTimes):
            return NotImplemented
        return len(self) == len(other) and all(time in other for time in self._times)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({sorted(self._times)!r})"


class Antichain(MinimalTimes):
    """A set of times that keeps the least ones.

    >>> from dagster_operators.time import Product
    >>> antichain = Antichain([Product(3, 5), Product(1, 9)])
    >>> antichain.insert(Product(4, 9)), antichain
    (False, Antichain([Product(1, 9), Product(3, 5)]))
    """

    __slots__ = ()

    @classmethod
    def from_elem(cls, element: Time) -> Self:
        """One with a single time.

        >>> Antichain.from_elem(3)
        Antichain([3])
        """
        return cls([element])

    def insert(self, element: Time) -> bool:
        """Add a time unless one of the others is it or before it, and drop those that it is before; whether it was added.

        Raises:
            TimestampError: It is no time, or of another kind than the others.

        >>> antichain = Antichain([(3, 5), (5, 4)])
        >>> antichain.insert((4, 4)), antichain.insert((4, 4)), antichain
        (True, False, Antichain([(3, 5), (4, 4)]))
        """
        return insert_into(self._times, element)

    def extend(self, elements: Iterable[Time]) -> bool:
        """Insert several times; whether one of them was added.

        >>> antichain = Antichain([3])
        >>> antichain.extend([4, 5]), antichain.extend([4, 2]), antichain
        (False, True, Antichain([2]))
        """
        added = [self.insert(element) for element in elements]
        return any(added)

    def sort(self) -> None:
        """Put the times themselves in order; otherwise they stay as they came in.

        >>> antichain = Antichain([(2, 3), (1, 5)])
        >>> antichain.sort()
        >>> antichain.elements
        ((1, 5), (2, 3))
        """
        self._times.sort()

    def clear(self) -> None:
        """Drop all times.

        >>> antichain = Antichain([3])
        >>> antichain.clear()
        >>> len(antichain)
        0
        """
        self._times.clear()


def insert_into(times: list[Any], new: Any) -> bool:
    """Add a time to a list of which none is before another, as :meth:`Antichain.insert` does.

    >>> insert_into([], 3)
    True
    """
    if not times:
        check_time(new)
    elif any(less_equal(time, new) for time in times):
        return False
    else:
        times[:] = [time for time in times if not less_equal(new, time)]
    times.append(new)
    return True
