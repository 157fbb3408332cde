"""Putting expressions in place of the columns that another expression reads, as text: nothing else of it is written anew.

Only comments are left out: one up to the end of the line would swallow what comes behind it in the expression that is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import accumulate
from typing import Final

from dagster_operators.graph.expressions import calls_of, columns_of, located_columns, without_comments
from dagster_operators.types.names import quoted

_NAMING: Final = frozenset({"struct", "arrays_zip"})
"""Functions whose result has fields named like the columns that they are given."""

LONGEST: Final = 1000
"""Characters of an expression: what is longer is not made by putting expressions into each other."""

_DEEPEST: Final = 20
"""How far brackets may be within each other in an expression that is made; parsers go down as far."""


def substituted(expression: str, columns: Mapping[str, str]) -> str | None:
    """An expression with others in place of columns; None where that would not mean the same, or get too long.

    Args:
        expression: The expression.
        columns: By the column's name in small letters what takes its place; a column that is not there stays.

    >>> substituted("A + `b c`.d", {"a": "v + 1", "b c": "`s`"}), substituted("struct(a)", {"a": "`v`"})
    ('(v + 1) + `s`.d', None)
    >>> substituted("transform(xs, x -> x + a)", {"a": "x"}), substituted("transform(xs, x -> x + a)", {"b": "c"})
    (None, 'transform(xs, x -> x + a)')
    """
    return _substituted(expression, tuple(sorted(columns.items())))


@lru_cache(maxsize=16_384)
def _substituted(expression: str, given: tuple[tuple[str, str], ...]) -> str | None:
    columns = {name: without_comments(text) for name, text in given if text != quoted(name)}
    read = {name.lower() for name in columns_of(expression)}
    replaced = {name: text for name, text in columns.items() if name in read}
    if not replaced:
        return expression
    expression = without_comments(expression)
    found = located_columns(expression)
    if found is None or any(call.name in _NAMING for call in calls_of(expression)):
        return None
    text = expression
    for start, end, name in sorted(found, reverse=True):
        if name.lower() in replaced:
            text = text[:start] + _operand(replaced[name.lower()]) + text[end:]
    if len(text) > LONGEST or _depth(text) > _DEEPEST:
        return None
    expected = (read - replaced.keys()).union(*({name.lower() for name in columns_of(made)} for made in replaced.values()))
    return text if {name.lower() for name in columns_of(text)} == expected else None


def _depth(expression: str) -> int:
    """How far round brackets are within each other."""
    return max(accumulate({"(": 1, ")": -1}.get(character, 0) for character in expression), default=0)


def _operand(expression: str) -> str:
    """An expression as part of another one."""
    plain = expression.startswith("`") and expression.endswith("`") and "`" not in expression[1:-1]
    return expression if plain else f"({expression})"
