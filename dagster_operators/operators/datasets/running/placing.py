"""The part that a row goes to, by the way in which a plan moves it."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import total_ordering
from typing import Any, Final

from dagster_operators.errors import OperatorsError, PipelineError
from dagster_operators.operators.datasets.rows import Key, Row, in_order, key_of
from dagster_operators.operators.datasets.running.fragments import Outgoing
from dagster_operators.operators.datasets.running.part_numbers import part_of
from dagster_operators.optimizer.properties.ordering import Direction, Ordering
from dagster_operators.optimizer.strategies import Ship

SAMPLED: Final = 1000
"""So many keys of each range a task remembers at most, to find where ranges begin (Flink's number)."""


def placing(out: Outgoing, part: int) -> Callable[[Row], int]:
    """A function from a row to the part that it goes to.

    Args:
        out: How rows move.
        part: The part that they are in.
    """
    count = out.parts
    if out.ship is Ship.FORWARD or (out.ship is Ship.RANGE and out.bounds is None) or out.ship is Ship.BROADCAST:
        return lambda _: part
    if out.ship is Ship.RANGE and out.ordering is not None and out.bounds is not None:
        return _in_ranges(out.ordering, out.bounds)
    if out.keys is None:
        return _in_turns(part, count)
    key = _named(key_of(out.keys), out.reader)
    if out.ship is Ship.CUSTOM:
        return lambda row: asked(out.partitioner, key(row)[0], count, out.reader)
    return lambda row: part_of(key(row), count)


def _named(key: Callable[[Row], Key], operator: str) -> Callable[[Row], Key]:
    """A function that gives a row's key; its errors name the operator that wants the key, not the one that gives the row."""

    def named(row: Row) -> Key:
        try:
            return key(row)
        except OperatorsError as error:
            error.locate(operator=operator)
            raise

    return named


def _in_turns(part: int, count: int) -> Callable[[Row], int]:
    next_part = part

    def place(_: Row) -> int:
        nonlocal next_part
        next_part = (next_part + 1) % count
        return next_part

    return place


def asked(partitioner: Any, key: Any, count: int, operator: str) -> int:
    """The part that a partitioner of the user's gives.

    Args:
        partitioner: The user's function.
        key: The key of a row.
        count: The number of parts.
        operator: The operator, for errors.

    Raises:
        PipelineError: It gives no number of a part.

    >>> asked(lambda key, parts: key % parts, 5, 2, "partition")
    1
    """
    part = partitioner(key, count)
    if type(part) is not int or not 0 <= part < count:
        raise PipelineError(
            f"a partitioner answered {part!r} for the key {key!r}, where there are the parts 0 to {count - 1}",
            operator=operator, remedy="let it give the number of a part: key % parts",
        )  # fmt: skip
    return part


@total_ordering
class _Descending:
    """A value that comes before smaller ones."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and self.value == other.value

    def __lt__(self, other: _Descending) -> bool:
        return bool(other.value < self.value)

    __hash__ = None  # type: ignore[assignment]


def _compared(ordering: Ordering) -> Callable[[Key], tuple[Any, ...]]:
    down = [direction is Direction.DESCENDING for _, direction in ordering.parts]
    return lambda key: tuple(_Descending(value) if reverse else value for value, reverse in zip(key, down, strict=True))


def _in_ranges(ordering: Ordering, bounds: Sequence[Key]) -> Callable[[Row], int]:
    key, compared = key_of(ordering.fields), _compared(ordering)
    begins = list(map(compared, bounds))
    return lambda row: bisect_right(begins, compared(key(row)))


def range_bounds(ordering: Ordering, samples: Iterable[Key], count: int) -> tuple[Key, ...]:
    """The keys at which ranges begin, but for the first one, so that each range has about as many keys.

    Args:
        ordering: The order of the ranges.
        samples: Keys.
        count: The number of ranges.

    >>> from dagster_operators.optimizer.properties.ordering import Direction, Ordering
    >>> range_bounds(Ordering.of([0], Direction.ASCENDING), [(3,), (1,), (2,), (4,)], 2)
    ((3,),)
    """
    positions = Ordering(tuple((number, direction) for number, (_, direction) in enumerate(ordering.parts)))
    keys = list(dict.fromkeys(in_order(samples, positions)))
    return tuple(keys[len(keys) * number // count] for number in range(1, count)) if keys else ()


class KeySample:
    """Some of the keys of rows, each as likely as another.

    Args:
        ordering: The order whose fields are the key.
        most: The most keys that are kept.
        part: The part, so that each begins with other random numbers.
    """

    def __init__(self, ordering: Ordering, most: int, part: int) -> None:
        self._key = key_of(ordering.fields)
        self._most = most
        self._random = random.Random(part)  # noqa: S311 - a sample
        self._seen = 0
        self.keys: list[Key] = []

    def add(self, row: Row) -> None:
        """Look at a row."""
        self._seen += 1
        if len(self.keys) < self._most:
            self.keys.append(self._key(row))
            return
        place = self._random.randrange(self._seen)
        if place < self._most:
            self.keys[place] = self._key(row)
