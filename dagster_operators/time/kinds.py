"""Kinds of times: what the times of a stream are made of, and the columns in which its rows have them.

A kind is ``datetime`` for event times, ``int`` for whole numbers, a :class:`Product` or a tuple of kinds, or a frozen dataclass
of one's own whose fields are of such kinds. All are, in the end, some whole numbers of 64 bits in a row: the parts of the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from typing import Any, Final, get_type_hints

from dagster_operators.errors import TimestampError
from dagster_operators.time.frontier import Frontier
from dagster_operators.time.product import Product
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK

_REMEDY: Final = (
    "say what the times are: times=datetime for moments, times=int for whole numbers, times=Product(datetime, int) or (int, int) "
    "for several together, or a frozen dataclass with less_equal and fields of these"
)


@dataclass(frozen=True)
class Times:
    """The times of a stream that are no event times, and where its rows have them.

    Attributes:
        kind: Their kind.
        columns: A column for each of their parts.

    >>> Times(Product(datetime, int), ("t", "t_1")).least
    Product(-9223372036854775808, -9223372036854775808)
    """

    kind: Any
    columns: tuple[str, ...]

    @property
    def least(self) -> Any:
        """A time before all others."""
        return _least(self.kind)

    def normal(self, frontier: Frontier) -> Frontier:
        """A frontier in these times, where nothing may be known yet: that is told by the least event time.

        >>> Times((int, int), ("t", "t_1")).normal(Frontier([MIN_WATERMARK])) == Frontier([(MIN_WATERMARK, MIN_WATERMARK)])
        True
        """
        return Frontier(self.least if is_least(time) else time for time in frontier)

    def watermark(self, frontier: Frontier) -> int:
        """The watermark in event time: what the first part says, if that is one; else it tells nothing but the end.

        >>> pair = Times(Product(datetime, int), ("t", "t_1"))
        >>> pair.watermark(Frontier([Product(5, 7), Product(6, 1)])), Times(int, ("t",)).watermark(Frontier([5])) < 0
        (5, True)
        """
        if frontier.finished:
            return MAX_WATERMARK
        if parts_of(self.kind)[0] is not datetime:
            return MIN_WATERMARK
        return min(taken_apart(time)[0] for time in frontier)

    def __str__(self) -> str:
        return kind_text(self.kind)


def names_of(kind: Any, first: str) -> tuple[str, ...]:
    """The columns of times of a kind, by the name of the first.

    >>> names_of(Product(datetime, (int, int)), "t")
    ('t', 't_1', 't_2')
    """
    return tuple(f"{first}_{number}" if number else first for number in range(len(parts_of(kind))))


def parts_of(kind: Any) -> tuple[type, ...]:
    """The parts that times of a kind have in the end, each ``datetime`` or ``int``.

    Raises:
        TimestampError: It is no kind of times.

    >>> parts_of(Product(datetime, (int, int)))
    (<class 'datetime.datetime'>, <class 'int'>, <class 'int'>)
    >>> parts_of(float)
    Traceback (most recent call last):
    dagster_operators.errors.TimestampError: <class 'float'> is no kind of times. To do: say what the times are: ...
    """
    if kind is int or kind is datetime:
        return (kind,)
    return tuple(part for inner in _inner(kind) for part in parts_of(inner))


def assembled(kind: Any, parts: Sequence[int]) -> Any:
    """The time of a kind with these parts.

    >>> assembled(Product(datetime, (int, int)), [5, 1, 2])
    Product(5, (1, 2))
    """
    return _assembled(kind, iter(parts))


def taken_apart(time: Any) -> tuple[int, ...]:
    """The parts of a time.

    Raises:
        TimestampError: It is of no kind.

    >>> taken_apart(Product(5, (1, 2)))
    (5, 1, 2)
    """
    if type(time) is int:
        return (time,)
    if isinstance(time, tuple):
        return tuple(part for inner in time for part in taken_apart(inner))
    if is_dataclass(time):
        return tuple(part for field in fields(time) for part in taken_apart(getattr(time, field.name)))
    raise TimestampError(f"{time!r} is no time", remedy=f"{_REMEDY}; whole numbers are Python's own: int(time)")


def is_least(time: Any) -> bool:
    """Whether a time is before all others: nothing is known yet.

    >>> is_least(MIN_WATERMARK), is_least((MIN_WATERMARK, 0))
    (True, False)
    """
    if type(time) is int:
        return time == MIN_WATERMARK
    if isinstance(time, tuple):
        return all(map(is_least, time))
    minimum = getattr(type(time), "minimum", None)
    return all(is_least(getattr(time, field.name)) for field in fields(time)) if minimum is None else bool(time == minimum())


def kind_text(kind: Any) -> str:
    """A kind for people, and for what is compared between epochs.

    >>> kind_text(Product(datetime, (int, int)))
    'Product(datetime, (int, int))'
    """
    if isinstance(kind, Product):
        return f"Product({kind_text(kind.outer)}, {kind_text(kind.inner)})"
    if isinstance(kind, tuple):
        return f"({', '.join(map(kind_text, kind))}{',' * (len(kind) == 1)})"
    return str(getattr(kind, "__name__", repr(kind)))


def fits(kind: Any, time: Any) -> bool:
    """Whether a time is of a kind.

    >>> fits((int, int), (1, 2)), fits((int, int), 1), fits(int, 2**63)
    (True, False, False)
    """
    if kind is int or kind is datetime:
        return type(time) is int and MIN_WATERMARK <= time <= MAX_WATERMARK
    if isinstance(kind, tuple):
        return isinstance(time, tuple) and len(time) == len(kind) and all(map(fits, kind, time))
    if isinstance(kind, Product):
        return isinstance(time, Product) and fits(kind.outer, time.outer) and fits(kind.inner, time.inner)
    return type(time) is kind and all(fits(inner, getattr(time, name)) for name, inner in _fields(kind))


def _assembled(kind: Any, parts: Iterator[int]) -> Any:
    if kind is int or kind is datetime:
        return next(parts)
    if isinstance(kind, tuple):
        return tuple(_assembled(inner, parts) for inner in kind)
    if isinstance(kind, Product):
        return Product(_assembled(kind.outer, parts), _assembled(kind.inner, parts))
    return kind(*[_assembled(inner, parts) for _, inner in _fields(kind)])


def _least(kind: Any) -> Any:
    """The least time: of a class of one's own what its ``minimum`` gives, else that of the least parts."""
    minimum = getattr(kind, "minimum", None)
    if minimum is not None:
        return minimum()
    if isinstance(kind, Product):
        return Product(_least(kind.outer), _least(kind.inner))
    if isinstance(kind, tuple):
        return tuple(map(_least, kind))
    return MIN_WATERMARK if kind is int or kind is datetime else kind(*[_least(inner) for _, inner in _fields(kind)])


def _inner(kind: Any) -> Sequence[Any]:
    if isinstance(kind, Product):
        return kind.outer, kind.inner
    if isinstance(kind, tuple) and kind:
        return kind
    if isinstance(kind, type) and is_dataclass(kind) and hasattr(kind, "less_equal") and fields(kind):
        return [inner for _, inner in _fields(kind)]
    raise TimestampError(f"{kind!r} is no kind of times", remedy=_REMEDY)


def _fields(kind: Any) -> list[tuple[str, Any]]:
    hints = get_type_hints(kind)
    return [(field.name, hints[field.name]) for field in fields(kind)]
