"""A total order of rows: by what the user says, then by event time, then by all columns, so that ties are never left to chance.

Rows that are equal in all of this are the same row, and it does not matter which is which. So "the first n rows of each group" is
a mergeable partial result: the first n of the first n of any pieces are the first n of all. The same holds where rows that are
equal in what the user says share their place, and all that share one of the first n places are wanted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dagster_operators.errors import SchemaError
from dagster_operators.graph.expressions import parse_alias, tokens_of
from dagster_operators.operators.aggregates.partial_results import one_zero_one_nan
from dagster_operators.operators.engine_kind import reads_like_spark
from dagster_operators.operators.engine_schema import schema_of
from dagster_operators.types.data_type import DataType
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NUMBER = "__number"
"""The column with a row's place in its group, from 1."""

_ORDER = "__do_order_"

_ROWS = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
"""The frame that numbers of rows have anyway. Sail, where it is not said, fails over structs and bytes to order by."""

_DIRECTION = re.compile(r"(?is)^(?P<what>.*?)(?:\s+(?P<way>ASC|DESC))?(?:\s+NULLS\s+(?P<nulls>FIRST|LAST))?\s*$")


@dataclass(frozen=True)
class OrderItem:
    """One expression to order by.

    Attributes:
        expression: Spark SQL.
        descending: Largest first.
        nulls_first: Where nulls go; as in Spark they are the smallest values unless the user says otherwise.
    """

    expression: str
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        way, nulls = "DESC" if self.descending else "ASC", "FIRST" if self.nulls_first else "LAST"
        return f"{self.expression} {way} NULLS {nulls}"


def order_texts(given: object) -> tuple[str, ...]:
    """What comes behind ORDER BY, as one text or several.

    Raises:
        SchemaError: It is something else.
    """
    listed = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, list | tuple) else (given,)
    if not all(isinstance(one, str) for one in listed):
        raise SchemaError(f"{given!r} is no order", remedy="write it as behind ORDER BY: by='price DESC, name'")
    return tuple(map(str, listed))


def parse_order(text: str | Sequence[str]) -> tuple[OrderItem, ...]:
    """What comes behind ORDER BY, taken apart.

    Raises:
        SchemaError: A part is no expression, or empty.

    >>> [str(item) for item in parse_order("price DESC, coalesce(a, b) NULLS LAST")]
    ['price DESC NULLS LAST', 'coalesce(a, b) ASC NULLS LAST']
    """
    parts = [part for one in order_texts(text) for part in _split(one)]
    return tuple(map(_item, parts))


def _split(text: str) -> list[str]:
    """The parts between the commas that are in no brackets."""
    parts, depth, start = [], 0, 0
    for token in tokens_of(text):
        mark = text[token.start : token.end + 1]
        depth += (mark in {"(", "["}) - (mark in {")", "]"})
        if mark == "," and depth == 0:
            parts.append(text[start : token.start])
            start = token.end + 1
    return [*parts, text[start:]]


def _item(text: str) -> OrderItem:
    match = _DIRECTION.match(text.strip())
    what = match["what"].strip() if match else text.strip()
    if not what:
        raise SchemaError("a part of the order is empty", expression=text, remedy="write 'price DESC, name'")
    if parse_alias(what)[1] is not None:  # refuses what is no expression, too
        raise SchemaError("an order has no alias", expression=text, remedy="write 'price DESC, name'")
    descending = bool(match and (match["way"] or "").upper() == "DESC")
    nulls = (match["nulls"] or "").upper() if match else ""
    return OrderItem(what, descending, nulls == "FIRST" if nulls else not descending)


def first_rows(
    frame: DataFrame,
    groups: Sequence[str],
    order: Sequence[OrderItem],
    event_time: str | None,
    n: int,
    *,
    ties: bool = False,
    last: bool = False,
) -> DataFrame:
    """The first rows of each group in the order that the user wants and, beyond it, in one that leaves nothing open.

    Args:
        frame: The rows.
        groups: SQL expressions that say which rows belong together; none for all.
        order: What the user wants.
        event_time: The column that decides between rows that are equal in this; earlier rows come first.
        n: How many rows of each group are wanted.
        ties: Rows that are equal in what the user wants share their place (SQL's RANK), so that there may be more than ``n``.
        last: The rows that are equal in what the user wants come from the end of the order that leaves nothing open.

    Returns:
        These rows with the column :data:`NUMBER`.
    """
    kinds = schema_of(frame).types
    like_spark = reads_like_spark(frame.sparkSession)
    if not like_spark:
        order = _as_spark_orders(frame, kinds, order)
    # Sail's planner fails over comparisons in the order of a window: what is calculated is a column before.
    columns = {*kinds, *map(quoted, kinds)}
    names = [one.expression if one.expression in columns else f"{_ORDER}{number}" for number, one in enumerate(order)]
    calculated = {name: one.expression for name, one in zip(names, order, strict=True) if name != one.expression}
    wanted = (str(replace(one, expression=name)) for name, one in zip(names, order, strict=True))
    items = [*wanted, *(() if ties else total_order(kinds, event_time, last=last, like_spark=like_spark))]
    types = {quoted(name): str(kind) for name, kind in kinds.items()}
    same = [one_zero_one_nan(group, types.get(group)) for group in groups]
    partition = f"PARTITION BY {', '.join(same)} " if groups else ""
    place = "rank" if ties else "row_number"
    if calculated:
        frame = frame.selectExpr("*", *(f"{expression} AS {name}" for name, expression in calculated.items()))
    ranked = frame.selectExpr("*", f"{place}() OVER ({partition}ORDER BY {', '.join(items)} {_ROWS}) AS {NUMBER}")
    return ranked.filter(f"{NUMBER} <= {n}").drop(*calculated)


def _as_spark_orders(frame: DataFrame, kinds: Mapping[str, DataType], order: Sequence[OrderItem]) -> list[OrderItem]:
    """An order for Sail that is Spark's: Sail tells -0.0 from 0.0, and moves nulls within arrays and structs, too."""
    columns = {written.lower(): kind for name, kind in kinds.items() for written in (name, quoted(name))}
    others = [item.expression for item in order if item.expression.lower() not in columns]
    if others:
        asked = schema_of(frame.selectExpr(*(f"({text}) AS {_ORDER}{number}" for number, text in enumerate(others))))
        columns |= {text.lower(): field.type for text, field in zip(others, asked.fields, strict=True)}
    made: list[OrderItem] = []
    for item in order:
        kind = columns[item.expression.lower()]
        if kind.is_nested and item.nulls_first == item.descending:
            made.append(OrderItem(f"({item.expression}) IS NULL", descending=item.nulls_first, nulls_first=True))
            item = replace(item, nulls_first=not item.descending)  # noqa: PLW2901 - the rest of the item
        made.append(replace(item, expression=one_zero_one_nan(item.expression, str(kind))))
    return made


def total_order(
    kinds: Mapping[str, DataType], event_time: str | None, *, last: bool = False, like_spark: bool = True
) -> list[str]:
    """What comes behind ORDER BY so that only equal rows are equal in it: the event time, then all columns as they are.

    Args:
        kinds: The columns with their types.
        event_time: The column that comes first, if there is one.
        last: From the end of that order.
        like_spark: Whether the engine takes -0.0 for 0.0 by itself.
    """
    way = " DESC NULLS LAST" if last else ""
    names = sorted(kinds, key=lambda name: name != event_time)
    return [f"{_comparable(name, kinds[name], like_spark=like_spark)}{way}" for name in names]


def _comparable(column: str, kind: DataType, *, like_spark: bool) -> str:
    """A column as something that has an order; maps have none but as text."""
    if not like_spark and not kind.is_nested:
        return one_zero_one_nan(quoted(column), str(kind))
    return quoted(column) if kind.has_order else f"to_json(named_struct('value', {quoted(column)}))"
