"""Where the calculations stand in an expression: what is added, subtracted and multiplied, as places in its text.

What runs is the text that its author wrote, and a parser's tree does not say where in it its parts begin and end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from dagster_operators.graph.expressions import tokens_of

if TYPE_CHECKING:
    from sqlglot import Token

Place: TypeAlias = tuple[int, int]
"""The first character of a part of a text, and the one behind its last; or so its tokens."""

_ADDING: Final = frozenset({"PLUS", "DASH", "DPIPE"})
_MULTIPLYING: Final = frozenset({"STAR", "SLASH", "MOD", "DIV"})
_BEFORE_OPERAND: Final = _ADDING | _MULTIPLYING | {"TILDE", "INTERVAL", "DOT"}
"""After these, a sign is not between two operands."""

OPENING: Final = {"L_PAREN": "R_PAREN", "L_BRACKET": "R_BRACKET", "CASE": "END", "L_BRACE": "R_BRACE"}
BETWEEN: Final = frozenset({
    "COMMA", "ARROW", "EQ", "NEQ", "NULLSAFE_EQ", "LT", "GT", "LTE", "GTE", "AND", "OR", "XOR", "NOT", "LIKE", "ILIKE", "RLIKE",
    "IN", "IS", "BETWEEN", "WHEN", "THEN", "ELSE", "ALIAS", "FROM", "FOR", "USING", "ESCAPE", "WHERE", "DISTINCT", "ORDER_BY",
    "PARTITION_BY", "AMP", "PIPE", "CARET", "COLLATE", "ASC", "DESC", "FARROW", "DARROW", "ROWS", "RANGE",
})  # fmt: skip
"""What stands between expressions, or binds them less than ``+`` does."""


@dataclass(frozen=True)
class Operand:
    """What is added or multiplied.

    Attributes:
        place: Where it stands.
        factors: If it is a product and nothing else, its factors; else empty.
    """

    place: Place
    factors: tuple[Place, ...] = ()


@dataclass(frozen=True)
class Chain:
    """Operands with ``+`` and ``-`` between them, or a single product.

    Attributes:
        operands: From left to right.
        signs: What stands between them, by the names of tokens.
    """

    operands: tuple[Operand, ...]
    signs: tuple[str, ...]


def calculations_in(expression: str) -> Iterator[Chain]:
    """All chains of ``+`` and ``-``, and all products, each with those in its brackets as others of their own.

    >>> [[expression[slice(*one.place)] for one in chain.operands] for expression in ["a * -b - (c + 1) AS x"]
    ...  for chain in calculations_in(expression)]
    [['a * -b', '(c + 1)'], ['c', '1']]
    """
    tokens = tokens_of(expression)
    waiting: list[Place] = [(0, len(tokens))]
    while waiting:
        start, end = waiting.pop()
        for part in _parts(tokens, start, end):
            yield from _chains(tokens, part)
        waiting += brackets_in(tokens, start, end)


def kind_of(token: Token) -> str:
    """The name of a token's kind."""
    return str(token.token_type.name)


def closing_of(tokens: Sequence[Token], opening: int, end: int) -> int:
    """What closes the bracket that one opens, or the CASE; the last one if nothing does."""
    depth = 0
    for number in range(opening, end):
        kind = kind_of(tokens[number])
        depth += (kind in OPENING) - (kind in OPENING.values())
        if depth == 0:
            return number
    return end - 1


def brackets_in(tokens: Sequence[Token], start: int, end: int) -> Iterator[Place]:
    """What is within the brackets of some tokens, but not within others."""
    number = start
    while number < end:
        closing = closing_of(tokens, number, end) if kind_of(tokens[number]) in OPENING else number
        if closing > number:
            yield number + 1, closing
        number = closing + 1


def _parts(tokens: Sequence[Token], start: int, end: int) -> Iterator[list[Place]]:
    """The tokens outside of brackets, cut where expressions end; each a place of tokens, of which a bracket is one."""
    found: list[Place] = []
    number = start
    while number < end:
        kind = kind_of(tokens[number])
        closing = closing_of(tokens, number, end) if kind in OPENING else number
        if kind in BETWEEN:
            yield from filter(None, [found])
            found = []
        else:
            found.append((number, closing + 1))
        number = closing + 1
    yield from filter(None, [found])


def _chains(tokens: Sequence[Token], part: list[Place]) -> Iterator[Chain]:
    """The chain that a part is, if it is one, and the products in it that are divided further on."""
    terms, signs = _split(tokens, part, _ADDING)
    operands = []
    for term in terms:
        factors, between = _split(tokens, term, _MULTIPLYING)
        run = [place_of(tokens, factors[0])]
        for sign, factor in zip(between, factors[1:], strict=True):
            start, end = place_of(tokens, factor)
            if sign == "STAR":
                run.append((start, end))
                continue
            if len(run) > 1:
                yield Chain((Operand((run[0][0], run[-1][1]), tuple(run)),), ())
            run = [(run[0][0], end)]
        operands.append(Operand((run[0][0], run[-1][1]), tuple(run) if len(run) > 1 else ()))
    if len(operands) > 1 or operands[0].factors:
        yield Chain(tuple(operands), tuple(signs))


def _split(tokens: Sequence[Token], part: list[Place], signs: frozenset[str]) -> tuple[list[list[Place]], list[str]]:
    """What stands between signs, and the signs; one that nothing stands before belongs to what follows."""
    found: list[list[Place]] = [[]]
    between: list[str] = []
    for piece in part:
        kind = kind_of(tokens[piece[0]])
        if kind in signs and found[-1] and kind_of(tokens[found[-1][-1][0]]) not in _BEFORE_OPERAND:
            between.append(kind)
            found.append([])
        else:
            found[-1].append(piece)
    return found, between


def place_of(tokens: Sequence[Token], pieces: list[Place]) -> Place:
    """Where some pieces stand in the text."""
    return (tokens[pieces[0][0]].start, tokens[pieces[-1][1] - 1].end + 1) if pieces else (0, 0)
