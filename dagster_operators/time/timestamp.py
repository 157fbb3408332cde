"""Times and the partial order among them: whole numbers, tuples, :class:`Product`, and classes of one's own.

Plain values serve as times. Whole numbers (of 64 bits, among them event times in microseconds) are compared as usual, tuples
component by component. So of two tuples often neither is less than the other, as ``(1, 2)`` and ``(2, 1)``; Python's own ``<``
is lexicographic and serves only to sort. (The order and its use are timely dataflow's, ``timely/src/order.rs``; there tuples are
ordered lexicographically, and only ``Product`` component by component.)
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

from dagster_operators.errors import TimestampError


class Timestamp(Protocol):
    """A class of times. Besides what is here it needs ``==`` and a hash that agree with the order.

    >>> class Version(tuple):  # compared part by part: neither (1, 2) nor (2, 1) is before the other
    ...     def less_equal(self, other):
    ...         return all(mine <= theirs for mine, theirs in zip(self, other, strict=True))
    >>> from dagster_operators.time import Antichain
    >>> Antichain([Version((1, 2)), Version((2, 1)), Version((2, 2))]).elements
    ((1, 2), (2, 1))
    """

    def less_equal(self, other: Any, /) -> bool:
        """Whether this time is the other one or before it; false for times of which neither is before the other."""

    def __lt__(self, other: Any, /) -> bool:
        """A total order to sort by, which puts whatever is before another time ahead of it."""


EventTime: TypeAlias = int
"""Microseconds since 1970 in UTC, of 64 bits with a sign."""

Time: TypeAlias = int | tuple[Any, ...] | Timestamp
"""What serves as a time: a whole number, a tuple of times, or a :class:`Timestamp`."""


def less_equal(one: Any, other: Any) -> bool:
    """Whether a time is another one or before it.

    Raises:
        TimestampError: They are not times of one kind.

    >>> less_equal(3, 5), less_equal((1, 2), (1, 3)), less_equal((1, 2), (2, 1)), less_equal((2, 1), (1, 2))
    (True, True, False, False)
    """
    if type(one) is int and type(other) is int:
        return one <= other
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return all(map(less_equal, one, other))
    compare = getattr(one, "less_equal", None)
    if compare is None or type(one) is not type(other):
        raise TimestampError(
            f"{one!r} and {other!r} cannot be compared as times",
            remedy="use times of one kind: whole numbers (int(time) where numpy made it), tuples of one length, or Product",
        )
    return bool(compare(other))


def less_than(one: Any, other: Any) -> bool:
    """Whether a time is before another one.

    >>> less_than(3, 5), less_than(3, 3), less_than((1, 2), (1, 3)), less_than((1, 2), (2, 1))
    (True, False, True, False)
    """
    return one != other and less_equal(one, other)


def check_time(value: object) -> None:
    """Raise TimestampError unless the value is a time.

    >>> check_time((1, 2))
    >>> check_time(0.5)
    Traceback (most recent call last):
    dagster_operators.errors.TimestampError: 0.5 is no time. To do: use a whole number, a tuple of times, or Product
    """
    try:
        less_equal(value, value)
    except TimestampError:
        raise TimestampError(f"{value!r} is no time", remedy="use a whole number, a tuple of times, or Product") from None
