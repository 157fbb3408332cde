"""Window functions over the rows of a key, and how each is written with OVER so that it never depends on chance.

What says which place a row has among equals is computed over the order that the user gives; all else over a total order, so that
a key's rows give the same result whenever they are computed: what was put out can be taken back by computing it again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final

from dagster_operators.errors import SchemaError
from dagster_operators.graph.expressions import columns_of, parse_alias
from dagster_operators.graph.row_expressions import columns_of_row
from dagster_operators.operators.aggregates.aggregate_calls import Call, find_calls
from dagster_operators.operators.aggregates.partial_results import one_zero_one_nan
from dagster_operators.operators.engine_schema import schema_of
from dagster_operators.operators.relational.range_frame import RangeFrame
from dagster_operators.operators.relational.ranking import OrderItem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OF_ROW: Final = "__of_row"
"""Stands for the value of a row up to it."""
_PLACES: Final[Mapping[str, str]] = {"rank": "INT", "dense_rank": "INT", "percent_rank": "DOUBLE", "cume_dist": "DOUBLE"}
"""Functions that give equal rows the same."""
_ARGUMENTS: Final[Mapping[str, tuple[int, int]]] = {
    **dict.fromkeys(("row_number", *_PLACES), (0, 0)),
    "ntile": (1, 1), "lag": (1, 3), "lead": (1, 3), "first_value": (1, 1), "last_value": (1, 1),
    **dict.fromkeys(("count", "sum", "avg", "min", "max"), (1, 1)),
}  # fmt: skip
"""The functions, with how many arguments they take at least and at most."""
_RUNNING: Final = frozenset({"count", "sum", "avg", "min", "max"})
_WHOLE: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_FLOATING: Final = frozenset({"float", "double"})
_MOST_SUMMED: Final = 28
"""Digits of a decimal whose sum fits into 38."""
_FROM_FIRST: Final = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
_TO_ROW: Final = re.compile(r"rows ([0-9]{1,9} preceding|unbounded preceding|current row)", re.IGNORECASE)
_BOUND: Final = r"[0-9]{1,9} preceding|[0-9]{1,9} following|current row|unbounded preceding|unbounded following"
_BETWEEN: Final = re.compile(rf"rows between ({_BOUND}) and ({_BOUND})", re.IGNORECASE)
_RANGE_AT_LENGTH: Final = re.compile(r"range (unbounded preceding|between unbounded preceding and current row)", re.IGNORECASE)
_ENDS: Final = re.compile(r"(rows|range) between (.+) and (.+)", re.IGNORECASE)


@dataclass(frozen=True)
class RowFrame:
    """Rows from one to another, counted from the row on; those before it are negative.

    Attributes:
        first: The first one; infinite for the first of the key.
        last: The last one; infinite for the last of the key.
    """

    first: float
    last: float

    @classmethod
    def of(cls, text: str) -> RowFrame | None:
        """A frame as it is written; None if it is none of rows from one to another.

        >>> RowFrame.of("rows 10 preceding"), RowFrame.of("rows between 1 following and unbounded following")
        (RowFrame(first=-10, last=0), RowFrame(first=1, last=inf))
        >>> RowFrame.of("rows unbounded preceding")
        RowFrame(first=-inf, last=0)
        >>> RowFrame.of("rows between 1 following and 2 preceding"), RowFrame.of("range")
        (None, None)
        """
        if to_row := _TO_ROW.fullmatch(text):
            return cls(_offset(to_row[1]), 0)
        between = _BETWEEN.fullmatch(text)
        frame = cls(_offset(between[1]), _offset(between[2])) if between else None
        return frame if frame and frame.first <= frame.last and frame.first != inf and frame.last != -inf else None

    @property
    def leaves_rows(self) -> bool:
        """Whether rows leave it, from one row to the next."""
        return self.first != -inf

    def __str__(self) -> str:
        return f"ROWS BETWEEN {_bound(self.first)} AND {_bound(self.last)}"


def _offset(bound: str) -> float:
    number, way = bound.lower().split()
    if number == "current":
        return 0
    return (-1 if way == "preceding" else 1) * (inf if number == "unbounded" else int(number))


def _bound(offset: float) -> str:
    if offset == 0:
        return "CURRENT ROW"
    return f"{'UNBOUNDED' if abs(offset) == inf else int(abs(offset))} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"


def plain_frame(frame: str) -> str:
    """A frame with single blanks, and ``range`` and ``rows`` in lower case; else as it is written, as it is stored so.

    >>> plain_frame("Rows"), plain_frame(" ROWS  1 PRECEDING")
    ('rows', 'ROWS 1 PRECEDING')
    """
    plain = " ".join(frame.split())
    return plain.lower() if plain.lower() in {"range", "rows"} else plain


def is_range_at_length(frame: str) -> bool:
    """Whether a frame is ``range``, written at length; it is stored as it is written, as roots have it so.

    >>> [is_range_at_length(frame) for frame in ("range UNBOUNDED preceding", "range current row", "range")]
    [True, False, False]
    """
    return _RANGE_AT_LENGTH.fullmatch(frame) is not None


def turned(frame: str) -> str | None:
    """The frame that has the ends of this one the other way round, where this one ends before it begins.

    >>> turned("rows between 1 following and 1 preceding")
    'rows between 1 preceding and 1 following'
    >>> turned("range between current row and 2 hours preceding")
    'range between 2 hours preceding and current row'
    """
    ends = _ENDS.fullmatch(frame)
    other = f"{ends[1].lower()} between {ends[3]} and {ends[2]}" if ends else ""
    return other if is_frame(other) and not is_frame(frame) else None


def is_frame(frame: str) -> bool:
    """Whether a frame is one there is.

    >>> [frame for frame in ("range", "rows", "range 1 day preceding", "rows -1 preceding") if is_frame(frame)]
    ['range', 'rows', 'range 1 day preceding']
    """
    return frame in {"range", "rows"} or RowFrame.of(frame) is not None or RangeFrame.of(frame) is not None


@dataclass(frozen=True)
class Order:
    """How the rows of a key are ordered.

    Attributes:
        key: SQL for what rows have in common that belong together.
        items: What comes behind ORDER BY, as the user wants it.
        kinds: The type of each of these.
        beyond: What decides between rows that are equal in it.
    """

    key: tuple[str, ...]
    items: tuple[OrderItem, ...]
    kinds: tuple[str, ...]
    beyond: tuple[str, ...]

    @property
    def user(self) -> tuple[str, ...]:
        """What comes behind ORDER BY, as SQL."""
        return tuple(map(str, self.items))

    @property
    def total(self) -> tuple[str, ...]:
        """The same, and what decides between rows that are equal in it."""
        return (*self.user, *self.beyond)

    def over(self, order: Sequence[str], frame: str = "", *, peers: bool = False) -> str:
        """An OVER clause."""
        together = (*self.key, *(item.expression for item in self.items if peers))
        parts = [f"PARTITION BY {', '.join(together)}" if together else "", f"ORDER BY {', '.join(order)}", frame]
        return f"OVER ({' '.join(part for part in parts if part)})"


@dataclass(frozen=True)
class WindowFunction:
    """One call of a window function.

    Attributes:
        text: As written.
        call: The call.
    """

    text: str
    call: Call

    @property
    def columns(self) -> frozenset[str]:
        """The input columns that it reads."""
        return frozenset(column for text in self.expressions for column in columns_of_row(text))

    @property
    def expressions(self) -> tuple[str, ...]:
        """The expressions over one row that it is called with."""
        values = (text for text in self.call.arguments[:1] if text != "*" and self.call.function != "ntile")
        return tuple(text for text in (*values, *self.call.arguments[2:], self.call.condition) if text is not None)

    def sql(self, order: Order, frame: str, rows: DataFrame) -> tuple[str, str | None]:
        """The value over rows that are there.

        Args:
            order: Their order.
            frame: Whether running values of equal rows are those of all of them (``range``), go on row by row (``rows``), or are
                of the rows from one to another (see :class:`RowFrame` and :class:`RangeFrame`).
            rows: Rows with these columns; only analysed.

        Returns:
            SQL for the value; and, where rows that are equal in the user's order have to take the value of the last of them, what
            takes it, with :data:`OF_ROW` for the value.

        Raises:
            SchemaError: It has no such value for the types of the columns.
        """
        name, arguments = self.call.function, self.call.arguments
        total = order.over(order.total)
        if is_range_at_length(frame) and name not in ("sum", "avg"):  # whose values in roots are added up from the least one on
            frame = "range"
        if name in _PLACES:
            return f"CAST({name}() {order.over(order.user)} AS {_PLACES[name]})", None
        if name in ("row_number", "ntile"):
            return f"CAST({name}({', '.join(arguments)}) {total} AS INT)", None
        moving = RowFrame.of(frame)
        in_rows = order.over(order.total, str(moving) if moving else _FROM_FIRST)
        if name in ("first_value", "last_value"):  # the last up to a row is its own, but of those that are equal to it the last
            of_peers = self._of_last_peer(order) if (name, frame) == ("last_value", "range") else None
            return f"{name}({arguments[0]}) {in_rows}", of_peers
        kind = "bigint" if arguments[0] == "*" else _type_of(arguments[0], rows)
        if name in ("lag", "lead"):
            default = [self._default(arguments[2], kind, rows)] if len(arguments) > 2 else []  # noqa: PLR2004 - value, offset, default
            return f"{name}({', '.join([*arguments[:2], *default])}) {total}", None
        if moving:
            return self._running(kind, in_rows, moving=moving.leaves_rows), None
        return self._up_to(kind, order, in_rows, frame)

    def _default(self, default: str, kind: str, rows: DataFrame) -> str:
        """What stands for a row that is not there."""
        if (given := _type_of(default, rows)) != "void" and not _may_be(given, kind):
            raise SchemaError(
                f"the default of {self.call.function}() is a literal of the type of its value, {kind}, and {default} is {given}",
                expression=self.text, remedy=f"write CAST(... AS {kind}) of a literal that fits",
            )  # fmt: skip
        return f"CAST({default} AS {kind})"

    def _up_to(self, kind: str, order: Order, in_rows: str, frame: str) -> tuple[str, str | None]:
        if frame == "rows":
            return self._running(kind, in_rows), None
        if ranged := RangeFrame.of(frame):
            return self._running(kind, order.over(*ranged.over(order.items, order.kinds)), moving=True, in_order=False), None
        if kind in _FLOATING and self.call.function in ("sum", "avg"):  # which depend on the order of what they add up
            return self._running(kind, in_rows), self._of_last_peer(order)
        return self._running(kind, order.over(order.user, "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW")), None

    @staticmethod
    def _of_last_peer(order: Order) -> str:
        last = order.over(order.total, "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING", peers=True)
        return f"last_value({OF_ROW}) {last}"

    def _running(self, kind: str, over: str, *, moving: bool = False, in_order: bool = True) -> str:
        name = self.call.function
        value = self.call.kept("1" if self.call.arguments[0] == "*" else f"({self.call.arguments[0]})")
        if name == "count":
            return f"count({value}) {over}"
        if name in ("min", "max"):
            return self._extreme(value, kind, over)
        if name == "avg":
            if kind not in _FLOATING | _WHOLE:
                raise self._refused(kind, f"avg(CAST({self.call.arguments[0]} AS DOUBLE))")
            return f"{self._floating_sum(value, over, moving=moving, in_order=in_order)} / nullif(count({value}) {over}, 0L)"
        if kind in _WHOLE:  # in a type in which no engine goes round
            return f"CAST(sum(CAST({value} AS DECIMAL(20,0))) {over} AS BIGINT)"
        if kind in _FLOATING:
            return self._floating_sum(value, over, moving=moving, in_order=in_order)
        digits = int(kind.removeprefix("decimal(").split(",")[0]) if kind.startswith("decimal(") else None
        if digits is None or digits > _MOST_SUMMED:
            raise self._refused(kind, f"sum(CAST({self.call.arguments[0]} AS DECIMAL({_MOST_SUMMED},4)))")
        return f"sum({value}) {over}"

    def _floating_sum(self, value: str, over: str, *, moving: bool, in_order: bool) -> str:
        """The sum as a double.

        Of rows that leave the frame Sail takes away what it added: that rounds, NaN would stay, and lists would lose their nulls.
        Rows that nothing puts in order are added up from the least value on: a sum depends on the order, in its last digits.
        """
        if not moving:
            return f"sum(CAST({value} AS DOUBLE)) {over}"
        zero = "CAST(0 AS DOUBLE)"
        values = f"collect_list(coalesce(CAST({value} AS DOUBLE), {zero})) {over}"
        added = f"aggregate({values if in_order else f'sort_array({values})'}, {zero}, (so_far, one) -> so_far + one)"
        return f"CASE WHEN count({value}) {over} > 0 THEN {added} END"

    def _extreme(self, value: str, kind: str, over: str) -> str:
        """The least or greatest value; NaN is greater than all others, on every engine."""
        name = self.call.function
        if kind not in _FLOATING:
            return f"{name}({value}) {over}"
        nan, number = f"CAST('NaN' AS {kind})", f"CASE WHEN NOT isnan({value}) THEN {one_zero_one_nan(value, kind)} END"
        if name == "min":
            return f"coalesce(min({number}) {over}, CASE WHEN count({value}) {over} > 0 THEN {nan} END)"
        nans = f"count(CASE WHEN isnan({value}) THEN 1 END) {over}"
        return f"CASE WHEN {nans} > 0 THEN {nan} ELSE max({number}) {over} END"

    def _refused(self, kind: str, instead: str) -> SchemaError:
        return SchemaError(
            f"a running {self.call.function} is of numbers that surely fit, and this is one of {kind}", expression=self.text,
            remedy=f"say which numbers they are: {instead}",
        )  # fmt: skip


def _type_of(expression: str, rows: DataFrame) -> str:
    return str(schema_of(rows.selectExpr(f"{expression} AS value")).fields[0].type)


def _may_be(given: str, kind: str) -> bool:
    """Whether a literal of a type is one of another: a number of a number, but none with a point or a larger type of a whole one.

    >>> _may_be("int", "double"), _may_be("decimal(2,1)", "int"), _may_be("string", "int"), _may_be("date", "timestamp")
    (True, False, False, True)
    """
    if given == kind or (given == "int" and kind in _WHOLE):
        return True
    if kind in _WHOLE:
        return given in _WHOLE and kind == "bigint"
    if kind in _FLOATING or kind.startswith("decimal("):
        return given in _WHOLE | _FLOATING or given.startswith("decimal(")
    return not {given, kind} & {*_WHOLE, *_FLOATING, "string"} and not given.startswith("decimal(")


def window_function(text: str) -> WindowFunction:
    """One call of a window function, read.

    Raises:
        SchemaError: It is something else.

    >>> window_function("lag(price, 1)").call.function, sorted(window_function("sum(v) FILTER (WHERE w > 1)").columns)
    ('lag', ['v', 'w'])
    >>> window_function("v - lag(v)")
    Traceback (most recent call last):
    dagster_operators.errors.SchemaError: this is not one call of a window function ... with_columns(...) behind it
    """
    columns_of(text)  # refuses what is no expression
    body, alias = parse_alias(text)
    try:
        template = find_calls(body, frozenset(_ARGUMENTS))
    except SchemaError as error:
        raise SchemaError(
            "a window function stands alone in over(): without OVER or another such clause, and without one within it",
            expression=text,
            remedy="leave the clause out: key_by(...) and the order say it; compute with columns in with_columns(...)",
        ) from error
    if alias is not None or len(template.calls) != 1 or any(piece.strip() for piece in template.pieces):
        raise SchemaError(
            "this is not one call of a window function", expression=text,
            remedy=f"call one of {', '.join(_ARGUMENTS)}, and compute with its column in with_columns(...) behind it",
        )  # fmt: skip
    call = template.calls[0]
    _check(text, call)
    return WindowFunction(text, call)


def _check(text: str, call: Call) -> None:
    least, most = _ARGUMENTS[call.function]
    given = len(call.arguments)
    if not least <= given <= most or ("*" in call.arguments and call.function != "count"):
        wanted = str(least) if least == most else f"{least} to {most}"
        raise SchemaError(f"{call.function}() takes {wanted} arguments", expression=text, remedy="give it that many")
    if call.distinct or call.ignore_nulls or (call.condition is not None and call.function not in _RUNNING):
        clause = "DISTINCT" if call.distinct else "IGNORE NULLS" if call.ignore_nulls else "FILTER"
        raise SchemaError(f"{call.function}() takes no {clause} over the rows of a key", expression=text, remedy="leave it out")
    if given > 2 and columns_of_row(call.arguments[2]):  # noqa: PLR2004 - value, offset, default
        raise SchemaError(
            f"the default of {call.function}() is one literal, not {call.arguments[2]!r}", expression=text,
            remedy="leave it out, and write coalesce(...) of both columns in with_columns(...) behind it",
        )  # fmt: skip
    number = call.arguments[0] if call.function == "ntile" else call.arguments[1] if given > 1 else "1"
    if not number.isdecimal() or (call.function == "ntile" and int(number) == 0):
        raise SchemaError(f"{call.function}() counts by a whole number, not {number!r}", expression=text, remedy="write 1, say")
