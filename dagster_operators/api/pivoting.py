"""Values as columns, as SQL's PIVOT: an aggregate for each value, over the rows that have it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TypeAlias

from dagster_operators.connectors.sql_text import literal
from dagster_operators.errors import PipelineError, SchemaError, located
from dagster_operators.graph.expressions import require_mapping, require_texts
from dagster_operators.graph.row_expressions import columns_of_row
from dagster_operators.operators.aggregates.aggregate_calls import Call
from dagster_operators.operators.aggregates.aggregates import Aggregate, parse_aggregate
from dagster_operators.types.names import listed

Value: TypeAlias = str | bool | int | Decimal | date | datetime | None
"""What a column may be pivoted by; None is for rows that have no value."""

Values: TypeAlias = Sequence[Value] | Mapping[str, Value]
"""The values, or by what their columns are called."""


def pivoted(
    on: str,
    values: Values,
    aggregates: Mapping[str, str],
    *,
    taken: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    event_time: str | None = None,
) -> dict[str, str]:
    """The aggregates of a pivot: each of them for each value, called by the value, and by its own name if there are several.

    Args:
        on: A column, or an expression over one row.
        values: The values that become columns.
        aggregates: Name -> Spark SQL aggregate, one call each: what is computed with it would be for values without rows, too.
        taken: What other columns of the result are called.
        columns: The columns that there are; None if they are not known yet.
        event_time: The column that orders the rows.

    Raises:
        PipelineError: There is no value or no aggregate, or a value is of no kind that a column can be compared with.
        SchemaError: A column is missing, or two would have one name; ``on`` is no expression; or an aggregate is not one call.

    >>> pivoted("size", ["S", None], {"sold": "sum(n)"})
    {'S': "sum(n) FILTER (WHERE size = 'S')", 'null': 'sum(n) FILTER (WHERE size IS NULL)'}
    >>> list(pivoted("size", {"small": "S", "large": "L"}, {"sold": "sum(n)", "orders": "count(*)"}))
    ['small_sold', 'small_orders', 'large_sold', 'large_orders']
    """
    require_texts("pivot", [on])
    require_mapping(aggregates, operator="pivot")
    require_texts("pivot", aggregates.values())
    _check_columns(on, columns_of_row(on), columns)
    named = list(_named(values))
    if not named or not aggregates:
        what = "values to make columns of" if not named else "aggregates to put into them"
        raise PipelineError(f"a pivot needs {what}", remedy="write pivot('size', ['S', 'M'], sold='sum(n)'), say")
    calls = {name: _call_of(parse_aggregate(name, text, event_time), columns) for name, text in aggregates.items()}
    found: dict[str, str] = {}
    known = {column.lower() for column in taken}
    for value_name, value in named:
        for name, call in calls.items():
            column = value_name if len(aggregates) == 1 else f"{value_name}_{name}"
            if not column.strip():
                raise SchemaError("a column of the pivot has no name", remedy="name the values: values={'empty': ''}, say")
            if column.lower() in known:
                raise SchemaError(
                    f"two columns of the pivot would be called {column!r}", column=column,
                    remedy="name the values: pivot with values={'small': 'S', 'large': 'L'}",
                )  # fmt: skip
            known.add(column.lower())
            found[column] = _only(call, _condition(on, value))
    return found


def _named(values: Values) -> Iterator[tuple[str, Value]]:
    if isinstance(values, Mapping):
        yield from values.items()
    elif isinstance(values, (str, bytes, bytearray, memoryview)) or not isinstance(values, Sequence):
        raise PipelineError(
            f"the values of a pivot are a list, or a mapping from names, not {values!r}", remedy="write ['S', 'M'], say"
        )
    else:
        for value in values:
            yield ("null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)), value


def _condition(on: str, value: Value) -> str:
    plain = on if on.isidentifier() else f"({on})"
    return f"{plain} IS NULL" if value is None else f"{plain} = {_literal(value)}"


def _literal(value: Value) -> str:
    if isinstance(value, str):
        return literal(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return f"TIMESTAMP'{value.isoformat(sep=' ')}'"
    if isinstance(value, date):
        return f"DATE'{value.isoformat()}'"
    if isinstance(value, int) or (isinstance(value, Decimal) and value.is_finite()):
        return f"{value:f}" if isinstance(value, Decimal) else str(value)
    raise PipelineError(
        f"{value!r} is no value to pivot by", remedy="give texts, whole numbers, decimals, booleans, dates, times or None"
    )


def _check_columns(what: str, used: frozenset[str], columns: Sequence[str] | None) -> None:
    if columns is None:
        return
    known = {column.lower() for column in columns}
    for column in sorted(used):
        if column.lower() not in known:
            raise SchemaError(
                f"{what!r} uses column {column!r}, which the input of the pivot does not have", column=column,
                remedy=f"use one of: {listed(columns)}",
            )  # fmt: skip


def _call_of(aggregate: Aggregate, columns: Sequence[str] | None) -> Call:
    """The one call that an aggregate is.

    Where a value has no rows, what is computed with calls would be computed with their counts of 0.
    """
    with located(aggregate=aggregate.name, expression=aggregate.expression):
        _check_columns(aggregate.expression, aggregate.columns, columns)
        template = aggregate.template
        if len(template.calls) > 1 or any(piece.strip() for piece in template.pieces):
            parts = " and ".join(dict.fromkeys(repr(_text(call)) for call in template.calls))
            raise SchemaError(
                "an aggregate of a pivot is one call, as what is computed with it would be for values without rows, too",
                remedy=f"pivot {parts}, each with a name, and compute with their columns in with_columns(...) behind it",
            )
        return template.calls[0]


def _only(call: Call, condition: str) -> str:
    """A call over the rows of a condition alone."""
    return _text(call, condition if call.condition is None else f"({call.condition}) AND {condition}")


def _text(call: Call, condition: str | None = None) -> str:
    condition = condition or call.condition
    nulls = " IGNORE NULLS" if call.ignore_nulls else ""
    kept = f" FILTER (WHERE {condition})" if condition else ""
    return f"{call.function}({'DISTINCT ' if call.distinct else ''}{', '.join(call.arguments)}){nulls}{kept}"
