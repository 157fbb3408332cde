"""Where comparisons stand in an expression: what is compared with what, as places in its text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dagster_operators.graph.expressions import tokens_of
from dagster_operators.planner.differences.calculations import BETWEEN, OPENING, Place, brackets_in, closing_of, kind_of, place_of

if TYPE_CHECKING:
    from sqlglot import Token

_COMPARING: Final = frozenset({"EQ", "NEQ", "NULLSAFE_EQ", "LT", "GT", "LTE", "GTE"})
_BOUNDS: Final = BETWEEN - {"AMP", "PIPE", "CARET", "COLLATE", "ESCAPE"}
"""What an operand of a comparison ends at: operators of bits bind more than a comparison does."""


@dataclass(frozen=True)
class Comparison:
    """A value and what it is compared with.

    Attributes:
        value: Where the value stands.
        others: Where that stands with which it is compared.
        together: Whether all of them become one type, as ``IN`` does; else the value becomes one type with each of the others.
    """

    value: Place
    others: tuple[Place, ...]
    together: bool = False


def comparisons_in(expression: str) -> Iterator[Comparison]:
    """All comparisons, those in brackets of others, too.

    >>> text = "CASE x WHEN 1 THEN a + 1 > b END OR NOT c NOT BETWEEN -1 AND (d IN (2, e))"
    >>> sorted([text[slice(*place)] for place in (one.value, *one.others)] for one in comparisons_in(text))
    [['a + 1', 'b'], ['c', '-1', '(d IN (2, e))'], ['d', '2', 'e'], ['x', '1']]
    """
    tokens = tokens_of(expression)
    waiting: list[Place] = [(0, len(tokens))]
    while waiting:
        start, end = waiting.pop()
        runs, bounds = _runs(tokens, start, end)
        yield from _compared(tokens, runs, bounds)
        if start and kind_of(tokens[start - 1]) == "CASE" and runs[0]:
            results = [run for run, bound in zip(runs[1:], bounds, strict=True) if bound == "WHEN"]
            yield Comparison(place_of(tokens, runs[0]), tuple(place_of(tokens, run) for run in results if run))
        if start > 1 and tokens[start - 2].text.lower() == "equal_null":
            value, *others = (place_of(tokens, run) for run in _listed(tokens, start, end))
            yield Comparison(value, tuple(others))
        waiting += brackets_in(tokens, start, end)


def _runs(tokens: Sequence[Token], start: int, end: int) -> tuple[list[list[Place]], list[str]]:
    """The tokens outside of brackets, cut where operands end, of which some are empty; and what stands between them."""
    runs: list[list[Place]] = [[]]
    bounds: list[str] = []
    number = start
    while number < end:
        kind = kind_of(tokens[number])
        closing = closing_of(tokens, number, end) if kind in OPENING else number
        if kind in _BOUNDS:
            bounds.append(kind)
            runs.append([])
        else:
            runs[-1].append((number, closing + 1))
        number = closing + 1
    return runs, bounds


def _compared(tokens: Sequence[Token], runs: list[list[Place]], bounds: list[str]) -> Iterator[Comparison]:
    for number, bound in enumerate(bounds):
        before = _before(runs, bounds, number)
        others = [runs[number + 1]]
        if bound == "IN" and others[0] and kind_of(tokens[others[0][0][0]]) == "L_PAREN":
            opening, behind = others[0][0]
            others = _listed(tokens, opening + 1, behind - 1)
        elif bound == "BETWEEN" and bounds[number + 1 : number + 2] == ["AND"]:
            others.append(runs[number + 2])
        elif bound not in _COMPARING and not (bound == "FROM" and _is_distinct(bounds, number)):
            continue
        if before and all(others) and others:
            yield Comparison(place_of(tokens, before), tuple(place_of(tokens, run) for run in others), together=bound == "IN")


def _before(runs: list[list[Place]], bounds: list[str], number: int) -> list[Place]:
    """What stands before an operator, and before the words that it begins with."""
    while not runs[number] and number and bounds[number - 1] in ("NOT", "IS", "DISTINCT"):
        number -= 1
    return runs[number]


def _is_distinct(bounds: list[str], number: int) -> bool:
    """Whether a FROM is that of ``IS [NOT] DISTINCT FROM``."""
    return bounds[max(number - 2, 0) : number] in (["IS", "DISTINCT"], ["NOT", "DISTINCT"])


def _listed(tokens: Sequence[Token], start: int, end: int) -> list[list[Place]]:
    """What stands between the commas of a list."""
    found: list[list[Place]] = [[]]
    number = start
    while number < end:
        closing = closing_of(tokens, number, end) if kind_of(tokens[number]) in OPENING else number
        if kind_of(tokens[number]) == "COMMA":
            found.append([])
        else:
            found[-1].append((number, closing + 1))
        number = closing + 1
    return found
