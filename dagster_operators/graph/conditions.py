"""Whether a condition can hold for any row of a file, by what is known of the file's columns without reading it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dagster_operators.graph.expressions import parsed

if TYPE_CHECKING:
    from sqlglot.expressions import Expression

_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d{1,6})?)?")


@dataclass(frozen=True)
class Bounds:
    """What is known of a column's values in a file.

    Attributes:
        low: No value is less; None if that is not known. A whole number, a text, a date, or a moment with its time zone.
        high: No value is greater.
        nulls: How many rows have none; None if that is not known.
        rows: How many rows there are.
    """

    low: Any = None
    high: Any = None
    nulls: int | None = None
    rows: int | None = None

    @property
    def has_nulls(self) -> bool:
        """Whether there may be a row without a value."""
        return self.nulls != 0

    @property
    def has_values(self) -> bool:
        """Whether there may be a row with a value."""
        return self.nulls is None or self.rows is None or self.nulls < self.rows


Look: TypeAlias = Callable[[str], Bounds | None]
"""What is known of a column, whatever its name's case; None for nothing."""

_ANY: Final = Bounds()


def may_hold(condition: str, look: Look) -> bool:
    """Whether a condition may be true for a row; true wherever that is not clear.

    Args:
        condition: Spark SQL over one row.
        look: Tells what is known of a column.

    >>> known = {"v": Bounds(1, 5, nulls=0, rows=9)}
    >>> [may_hold(text, known.get) for text in ("v > 5", "v = 5 AND w", "v IN (0, 7)", "v IS NULL OR v < 2", "v % 2 > 5")]
    [False, True, False, True, True]
    """
    return "\\" in condition or _may(parsed(condition), look)


def tells_apart(condition: str) -> bool:
    """Whether there are bounds by which a condition cannot hold.

    >>> tells_apart("v > 5 AND w % 2 = 0"), tells_apart("v > 5 OR w % 2 = 0")
    (True, False)
    """
    return not may_hold(condition, lambda _: Bounds(nulls=1, rows=1)) or not may_hold(condition, lambda _: Bounds(nulls=0))


def _may(node: Expression, look: Look) -> bool:
    from sqlglot import exp

    match _unwrapped(node):
        case exp.And() as found:
            return _may(found.this, look) and _may(found.expression, look)
        case exp.Or() as found:
            return _may(found.this, look) or _may(found.expression, look)
        case exp.Not() as found:
            return _is_filled(_unwrapped(found.this), look)
        case found:
            return _may_one(found, look)


def _may_one(node: Expression, look: Look) -> bool:
    """The same for a condition that is not made of others."""
    from sqlglot import exp

    column = _column(node.this) if isinstance(node.this, exp.Expression) else None
    match node:
        case exp.Is() if column and isinstance(node.expression, exp.Null):
            return (look(column) or _ANY).has_nulls
        case exp.Between() if column and not node.args.get("symmetric"):
            low, high = _literal(node.args["low"]), _literal(node.args["high"])
            return _reaches(look(column), low, up=True) and _reaches(look(column), high, up=False)
        case exp.In() if column and node.expressions:
            return _is_among(look(column), [_literal(each) for each in node.expressions])
        case exp.EQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            return _compared(node, look)
    return True


def _is_filled(node: Expression, look: Look) -> bool:
    """Whether NOT of a condition may hold: only NOT of IS NULL is looked at."""
    from sqlglot import exp

    column = _column(node.this) if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null) else None
    return column is None or (look(column) or _ANY).has_values


def _compared(node: Expression, look: Look) -> bool:
    """Whether a comparison of a column with a literal may hold."""
    from sqlglot import exp

    left, right = _column(node.this), _column(node.expression)
    if (left is None) == (right is None):
        return True
    bounds = look(left or right or "")
    value = _literal(node.expression if left else node.this)
    if isinstance(node, exp.EQ):
        return _is_among(bounds, [value])
    upwards = isinstance(node, exp.GT | exp.GTE) == (left is not None)
    return _reaches(bounds, value, up=upwards, strictly=isinstance(node, exp.GT | exp.LT))


def _reaches(bounds: Bounds | None, value: Any, *, up: bool, strictly: bool = False) -> bool:
    """Whether there may be a value that is greater (or less) than another, or equal to it."""
    known = bounds or _ANY
    edge = known.high if up else known.low
    if not known.has_values:
        return value is None
    if value is None or edge is None or type(edge) is not type(value):
        return True
    return bool((edge > value if up else edge < value) or (not strictly and edge == value))


def _is_among(bounds: Bounds | None, values: Iterable[Any]) -> bool:
    """Whether there may be a value that is one of these."""
    wanted = list(values)
    if len({type(value) for value in wanted}) > 1:  # the engine makes them one type, and the column too
        return True
    return any(_reaches(bounds, value, up=True) and _reaches(bounds, value, up=False) for value in wanted)


def _column(node: Expression) -> str | None:
    from sqlglot import exp

    found = _unwrapped(node)
    return found.name if isinstance(found, exp.Column) and len(found.parts) == 1 else None


def _unwrapped(node: Expression) -> Expression:
    found: Any = node.unnest()
    inner: Expression = found
    return inner


def _literal(node: Expression) -> Any:
    """The value that is written, if it is a whole number, a text, a date or a moment; else None."""
    from sqlglot import exp

    match _unwrapped(node):
        case exp.Literal() as found:
            return found.name if found.is_string else _whole(found.name)
        case exp.Neg() as found if isinstance(found.this, exp.Literal) and not found.this.is_string:
            value = _whole(found.this.name)
            return None if value is None else -value
        case exp.Cast() as found if type(found) is exp.Cast and isinstance(found.this, exp.Literal) and found.this.is_string:
            text = found.this.name
            if found.is_type("date") and _DATE.fullmatch(text):
                return _valid(date.fromisoformat, text)
            if found.is_type("timestamp", "timestamptz", "timestampltz") and _MOMENT.fullmatch(text):
                return _valid(lambda text: datetime.fromisoformat(text).replace(tzinfo=UTC), text)
    return None


def _whole(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _valid(read: Callable[[str], Any], text: str) -> Any:
    try:
        return read(text)
    except ValueError:
        return None
