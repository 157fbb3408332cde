"""Putting something around parts of an expression's text, where these are what the parser takes for one thing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from dagster_operators.errors import SchemaError
from dagster_operators.graph.expressions import parsed
from dagster_operators.planner.differences.calculations import Place

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

_MARK: Final = "__do_checked"


@dataclass(frozen=True)
class Wrap:
    """What is put around a part of a text.

    Attributes:
        place: The part.
        after: What comes behind it.
        root: Whether it is a whole calculation, which may be all of what is added up in another one.
        before: What comes before it.
    """

    place: Place
    after: str
    root: bool = False
    before: str = "CAST("


def wrapped(expression: str, wraps: Sequence[Wrap], unclear: str, remedy: str) -> str:
    """The expression with something before and after each of some parts.

    Args:
        expression: Spark SQL.
        wraps: Parts of it, and the texts around each.
        unclear: The parts in words, for the error.
        remedy: How to write them so that it is clear where they begin and end.

    Raises:
        SchemaError: One of the parts is not what the parser takes for one thing.

    >>> wrapped("a + b", [Wrap((0, 1), " AS INT)")], "the sums stand", "write brackets around each")
    'CAST(a AS INT) + b'
    """
    made = put_around(expression, wraps) if wraps else expression
    if made is None:
        raise unclear_error(expression, unclear, remedy)
    return made


def unclear_error(expression: str, unclear: str, remedy: str) -> SchemaError:
    """The error of an expression whose parts cannot be told apart.

    >>> print(unclear_error("a + b", "the sums stand", "write brackets around each"))
    it is not clear where in the expression the sums stand [expression 'a + b']. To do: write brackets around each
    """
    return SchemaError(f"it is not clear where in the expression {unclear}", expression=expression, remedy=remedy)


def put_around(expression: str, wraps: Sequence[Wrap]) -> str | None:
    """The expression with something before and after each of some parts, those within others being within them.

    Returns:
        Nothing if one of the parts is not what the parser takes for one thing: the whole would mean something else.

    >>> put_around("a + b * c", [Wrap((4, 9), " AS INT)")]), put_around("a + b * c", [Wrap((0, 5), " AS INT)")])
    ('a + CAST(b * c AS INT)', None)
    """
    marked = _text(expression, [replace(wrap, before=f"{_MARK}(", after=")") for wrap in wraps])
    return _text(expression, wraps) if _means_the_same(expression, marked) else None


def _text(expression: str, wraps: Sequence[Wrap]) -> str:
    outer_first = sorted(wraps, key=lambda wrap: (wrap.place[0] - wrap.place[1], wrap.root))
    opened, closed = dict[int, str](), dict[int, str]()
    for wrap in outer_first:
        start, end = wrap.place
        opened[start] = opened.get(start, "") + wrap.before
        closed[end] = wrap.after + closed.get(end, "")
    places = range(len(expression) + 1)
    return "".join(closed.get(place, "") + opened.get(place, "") + expression[place : place + 1] for place in places)


def _means_the_same(expression: str, marked: str) -> bool:
    """Whether a text means the same without the marks in it."""
    from sqlglot import exp

    def unmarked(node: Expr) -> Expr:
        return node.expressions[0] if isinstance(node, exp.Anonymous) and node.name == _MARK else node

    try:
        tree: Expr = parsed(marked).copy()
    except SchemaError:
        return False
    before = None
    while before != tree:
        before, tree = tree, tree.copy().transform(unmarked)
    return bool(tree == parsed(expression))
