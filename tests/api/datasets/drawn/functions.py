"""The functions of drawn programs: their results do not depend on the order of rows, nor on the number of parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from dagster_operators.operators.datasets.context import RichFunction, RuntimeContext
from tests.api.datasets.drawn.values import COLUMNS, Row, canonical, total

Rows = Iterable[Any]


def larger(first: Row, second: Row) -> Row:
    return tuple(max(pair, key=total) for pair in zip(first, second, strict=True))


def adds(first: Row, second: Row) -> Row:
    return first[0] + second[0], min(first[1], second[1]), *larger(first[2:], second[2:])


def folded(rows: Rows) -> list[Row]:
    result: Row | None = None
    for row in rows:
        result = tuple(row) if result is None else larger(result, row)
    return [] if result is None else [result]


MAPS: Final[Mapping[str, tuple[Callable[[Any], Row], str]]] = {
    "same": (tuple, "*"),
    "bump": (lambda row: (row[0] + 1, *row[1:]), "b;c;d"),
    "modulo": (lambda row: (row[0] % 3, *row[1:]), "b;c;d"),
    "tag": (lambda row: (row[0], row[1] + "x", *row[2:]), "a;c;d"),
    "halve": (lambda row: (*row[:2], row[2] / 2, row[3]), "a;b;d"),
    "no names": (list, "a;b;c;d"),
}
"""Functions of a row, each with the fields that it hands on."""

SEVERAL: Final[Mapping[str, Callable[[Any], Any]]] = {
    "twice": lambda row: [row, row],
    "odd": lambda row: [row] if row[0] % 2 else None,
    "count down": lambda row: ((number, *row[1:]) for number in range(row[0] % 3)),
}
KEEPS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "small": lambda row: bool(row[0] < 2),
    "texts": lambda row: bool(row[1]),
    "none": lambda _: False,
    "no nan": lambda row: bool(row[2] == row[2]),
}


def joined(first: Row | None, second: Row | None) -> Row:
    if first is None or second is None:
        present = first or second
        assert present is not None
        return (present[0], present[1] + ("-" if second is None else "+"), *present[2:])
    return first[0] + second[0], first[1] + second[1], second[2], first[3]


def joined_twice(first: Row | None, second: Row | None) -> list[Row]:
    return [joined(first, second)] * ((first or second or (0,))[0] % 3)


def numbered(rows: Rows) -> list[Row]:
    """Rows of a group with their places, without the column that they may not be sorted by."""
    return [(row[0], f"{row[1]}{place}", row[2], None) for place, row in enumerate(rows)]


def counted(rows: Rows) -> list[Row]:
    every = list(rows)
    return [(len(every), min(row[1] for row in every), 0.0, None)]


def co_grouped(firsts: Rows, seconds: Rows) -> list[Row]:
    left, right = list(firsts), list(seconds)
    begin = left[0][0] if left else -1  # the smallest, of a sorted group
    return [(len(left) - 100 * len(right), min(row[1] for row in [*left, *right]), float(begin), None)]


def improved(offer: Row, known: Row | None) -> list[Row]:
    if known is None:
        return [tuple(offer)]
    return [(offer[0], offer[1], *known[2:])] if offer[1] < known[1] else []


class Counting(RichFunction):
    """Adds how many rows a broadcast data set has."""

    def open(self, context: RuntimeContext) -> None:
        self.count = len(context.broadcast("others"))

    def __call__(self, row: Row) -> Row:
        return (row[0] + self.count, *row[1:])


class KeyFunction:
    """A key that is computed."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.places = [COLUMNS.index(column) for column in columns]

    def __call__(self, row: Row) -> Any:
        values = tuple(row[place] for place in self.places)
        return values[0] if len(values) == 1 else values


def last_part(key: Any, parts: int) -> int:
    """A partitioner with skew."""
    return parts - 1 if len(str(canonical(key))) % 3 else 0


def without_last(row: Row) -> Row:
    return (*row[:3], None)
