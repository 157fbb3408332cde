"""The aggregate calls within an expression such as ``round(avg(x), 2) + count(*) FILTER (WHERE y)``, found in its text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dagster_operators.errors import SchemaError
from dagster_operators.graph.expressions import tokens_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlglot import Token

_OPENING, _CLOSING = frozenset("(["), frozenset(")]")
_NOT_CALLED_AFTER = frozenset({"like", "ilike", "."})
"""After these, ``any (...)`` and the like are no calls: ``x LIKE ANY ('a%', 'b%')``."""

_WITHIN_GROUP = frozenset({"listagg", "mode", "percentile_cont", "percentile_disc", "string_agg"})
"""The functions that take WITHIN GROUP."""


@dataclass(frozen=True)
class Call:
    """One call of an aggregate function.

    Attributes:
        function: Its name in lower case.
        arguments: The texts of its arguments, as written.
        distinct: Whether it has DISTINCT.
        condition: The text of the condition in its FILTER clause.
        ignore_nulls: Whether it has IGNORE NULLS.
        within: The text of what its WITHIN GROUP orders by.
        descending: Whether that is from the largest value on.
    """

    function: str
    arguments: tuple[str, ...]
    distinct: bool = False
    condition: str | None = None
    ignore_nulls: bool = False
    within: str | None = None
    descending: bool = False

    def kept(self, value: str, *conditions: str) -> str:
        """The value for the rows that the call's filter and further conditions keep, else null.

        Aggregates skip nulls, so this says the same as FILTER, which not every engine heeds in every function.

        >>> Call("sum", ("x",), condition="y > 1").kept("x")
        'CASE WHEN (y > 1) THEN x END'
        """
        every = [*([self.condition] if self.condition else []), *conditions]
        return f"CASE WHEN {' AND '.join(f'({condition})' for condition in every)} THEN {value} END" if every else value


@dataclass(frozen=True)
class Template:
    """An expression with its aggregate calls taken out: ``pieces[0] calls[0] pieces[1] calls[1] ... pieces[-1]``."""

    pieces: tuple[str, ...]
    calls: tuple[Call, ...]

    def filled(self, values: Collection[str]) -> str:
        """The expression with these values, one for each call, in place of the calls."""
        return "".join(piece + value for piece, value in zip(self.pieces, [*values, ""], strict=True))


def find_calls(expression: str, functions: Collection[str]) -> Template:
    """Splits an expression at its calls of the given functions.

    Raises:
        SchemaError: A call lies within another one, or has a clause that it cannot have (OVER; WITHIN GROUP, but for a few).

    >>> find_calls("sum(a) / count(*)", {"sum", "count"}).filled(["x", "y"])
    'x / y'
    """
    return _Finder(expression, functions).split()


class _Finder:
    def __init__(self, expression: str, functions: Collection[str]) -> None:
        self.expression = expression
        self.functions = functions
        self.tokens = tokens_of(expression)

    def split(self) -> Template:
        pieces, calls, cut, at = [], [], 0, 0
        while at < len(self.tokens):
            if not self.called(at):
                at += 1
                continue
            pieces.append(self.expression[cut : self.tokens[at].start])
            call, at = self.call(at)
            calls.append(call)
            cut = self.tokens[at - 1].end + 1
        end = self.tokens[-1].end + 1 if self.tokens else 0
        return Template((*pieces, self.expression[cut:end]), tuple(calls))

    def called(self, at: int) -> bool:
        """Whether a call of one of the functions starts at this token."""
        before = self.text(at - 1) if at else ""
        return self.text(at) in self.functions and self.text(at + 1) == "(" and before not in _NOT_CALLED_AFTER

    def text(self, at: int) -> str:
        """The token as written, in lower case; so a string or a quoted name has its quotes and equals no keyword."""
        if at >= len(self.tokens):
            return ""
        token = self.tokens[at]
        return self.expression[token.start : token.end + 1].lower()

    def words(self, at: int, *texts: str) -> bool:
        return all(self.text(at + offset) == text for offset, text in enumerate(texts))

    def call(self, at: int) -> tuple[Call, int]:
        """The call that starts at a token, and the token after it."""
        function, close = self.text(at), self.closing(at + 1)
        for inner in range(at + 2, close):
            if self.called(inner):
                raise self.error(f"{self.text(inner)}() lies within {function}()", self.tokens[inner], "aggregate in two steps")
        first, last = at + 2, close
        distinct = self.words(first, "distinct")
        first += distinct or self.words(first, "all")
        ignore_nulls = self.words(last - 2, "ignore", "nulls")
        last -= 2 * (ignore_nulls or self.words(last - 2, "respect", "nulls"))
        arguments = self.arguments(first, last)
        condition, at = None, close + 1
        within, descending, at = self.within_group(at) if function in _WITHIN_GROUP else (None, False, at)
        while True:
            if self.words(at, "filter", "(", "where"):
                close = self.closing(at + 1)
                condition, at = self.slice(at + 3, close), close + 1
            elif self.words(at, "ignore", "nulls") or self.words(at, "respect", "nulls"):
                ignore_nulls, at = self.words(at, "ignore"), at + 2
            else:
                break
        for clause in (("over",), ("within", "group")):
            if self.words(at, *clause):
                problem = f"{function}() with {' '.join(clause).upper()} cannot be kept up to date from partial results"
                raise self.error(problem, self.tokens[at], "leave the clause out; or write an aggregate of your own with udaf")
        return Call(function, arguments, distinct, condition, ignore_nulls, within, descending), at

    def within_group(self, at: int) -> tuple[str | None, bool, int]:
        """What WITHIN GROUP orders by, whether from the largest on, and the token after it."""
        if not self.words(at, "within", "group", "("):
            return None, False, at
        close = self.closing(at + 2)
        first = at + 4  # behind ORDER BY, which is one token
        last = close - (self.text(close - 1) in ("asc", "desc"))
        if self.text(at + 3).split() != ["order", "by"] or last <= first or len(self.arguments(first, close)) != 1:
            raise self.error("WITHIN GROUP orders by one expression", self.tokens[at], "write WITHIN GROUP (ORDER BY x)")
        return self.slice(first, last), self.text(close - 1) == "desc", close + 1

    def closing(self, at: int) -> int:
        """The bracket that closes the one at this token."""
        depth = 0
        for position in range(at, len(self.tokens)):
            depth += (self.text(position) in _OPENING) - (self.text(position) in _CLOSING)
            if depth == 0:
                return position
        raise self.error("a bracket is not closed", self.tokens[at], "close it")

    def arguments(self, first: int, last: int) -> tuple[str, ...]:
        """The texts between the commas of a call."""
        found, depth, start = [], 0, first
        for position in range(first, last):
            depth += (self.text(position) in _OPENING) - (self.text(position) in _CLOSING)
            if depth == 0 and self.text(position) == ",":
                found.append(self.slice(start, position))
                start = position + 1
        return (*found, self.slice(start, last)) if first < last else ()

    def slice(self, first: int, last: int) -> str:
        return self.expression[self.tokens[first].start : self.tokens[last - 1].end + 1] if first < last else ""

    def error(self, problem: str, token: Token, remedy: str) -> SchemaError:
        return SchemaError(problem, expression=self.expression, position=token.start + 1, remedy=remedy)
