"""Between which values whole numbers are, and the results of calculations with them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from dagster_operators.planner.differences.asked import TypeOf

_BYTES: Final = {"tinyint": 1, "smallint": 2, "int": 4, "bigint": 8}
_LITERAL: Final = re.compile(r"\s*(\d+)([LSYlsy]?)\s*")
_SUFFIXES: Final = {"l": "bigint", "s": "smallint", "y": "tinyint"}


@dataclass(frozen=True)
class WholeNumber:
    """A whole number: its type, and between which values it is.

    >>> twice = WholeNumber("int", 0, 2**31 - 1) * WholeNumber("int", 2, 2)
    >>> twice, twice.fits, twice.fits_in("bigint")
    (WholeNumber(type='int', low=0, high=4294967294), False, True)
    """

    type: str
    low: int
    high: int

    @property
    def fits(self) -> bool:
        """Whether every value is one of its type."""
        return self.fits_in(self.type)

    def fits_in(self, kind: str) -> bool:
        """Whether every value is one of a type."""
        low, high = _range(kind)
        return low <= self.low and self.high <= high

    def __add__(self, other: WholeNumber) -> WholeNumber:
        return WholeNumber(self._wider(other), self.low + other.low, self.high + other.high)

    def __sub__(self, other: WholeNumber) -> WholeNumber:
        return WholeNumber(self._wider(other), self.low - other.high, self.high - other.low)

    def __mul__(self, other: WholeNumber) -> WholeNumber:
        ends = [first * second for first in (self.low, self.high) for second in (other.low, other.high)]
        return WholeNumber(self._wider(other), min(ends), max(ends))

    def _wider(self, other: WholeNumber) -> str:
        """The type of a result: the wider one of both."""
        return max(self.type, other.type, key=lambda kind: _BYTES[kind])


def whole_number(text: str, type_of: TypeOf) -> WholeNumber | None:
    """The whole number that an expression is, as far as its type tells; None if it is none.

    >>> whole_number("3S", lambda text: None), whole_number("a", lambda text: None)
    (WholeNumber(type='smallint', low=3, high=3), None)
    """
    literal = _LITERAL.fullmatch(text)
    if literal:
        value = int(literal[1])
        kind = _SUFFIXES.get(literal[2].lower()) or ("int" if value <= _range("int")[1] else "bigint")
        found = WholeNumber(kind, value, value)
        return found if found.fits else None
    kind = str(type_of(text))
    return WholeNumber(kind, *_range(kind)) if kind in _BYTES else None


def sums(numbers: Sequence[Sequence[WholeNumber]], signs: Sequence[str]) -> list[WholeNumber]:
    """All numbers on the way from the first operand to the sum of all, each operand with those on the way to it.

    Args:
        numbers: The operands.
        signs: What stands between them, by the names of tokens.
    """
    steps = [step for steps in numbers for step in steps]
    total = numbers[0][-1]
    for found, sign in zip(numbers[1:], signs, strict=False):
        total = total + found[-1] if sign == "PLUS" else total - found[-1]
        steps.append(total)
    return steps


@lru_cache
def _range(kind: str) -> tuple[int, int]:
    half = 1 << (8 * _BYTES[kind] - 1)
    return -half, half - 1
