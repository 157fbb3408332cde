"""Values as columns, as SQL's PIVOT: an aggregate for each value, over the rows that have it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TypeAlias

from dagster_operators.connectors.sql_text import literal
from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.graph.expressions import require_mapping, require_texts
from dagster_operators.graph.row_expressions import columns_of_row
from dagster_operators.operators.aggregates.aggregate_calls import Call, find_calls
from dagster_operators.operators.aggregates.aggregate_functions import CALLABLE
from dagster_operators.operators.aggregates.user_aggregates import user_aggregates

Value: TypeAlias = str | bool | int | Decimal | date | datetime | None
"""What a column may be pivoted by; None is for rows that have no value."""

Values: TypeAlias = Sequence[Value] | Mapping[str, Value]
"""The values, or by what their columns are called."""


def pivoted(on: str, values: Values, aggregates: Mapping[str, str]) -> dict[str, str]:
    """The aggregates of a pivot: each of them for each value, called by the value, and by its own name if there are several.

    Args:
        on: A column, or an expression over one row.
        values: The values that become columns.
        aggregates: Name -> Spark SQL aggregate.

    Raises:
        PipelineError: There is no value or no aggregate, or a value is of no kind that a column can be compared with.
        SchemaError: Two columns would have one name; or ``on`` is no expression.

    >>> pivoted("size", ["S", None], {"sold": "sum(n)"})
    {'S': "sum(n) FILTER (WHERE size = 'S')", 'null': 'sum(n) FILTER (WHERE size IS NULL)'}
    >>> list(pivoted("size", {"small": "S", "large": "L"}, {"sold": "sum(n)", "orders": "count(*)"}))
    ['small_sold', 'small_orders', 'large_sold', 'large_orders']
    """
    require_texts("pivot", [on])
    require_mapping(aggregates, operator="pivot")
    require_texts("pivot", aggregates.values())
    columns_of_row(on)
    named = list(_named(values))
    if not named or not aggregates:
        what = "values to make columns of" if not named else "aggregates to put into them"
        raise PipelineError(f"a pivot needs {what}", remedy="write pivot('size', ['S', 'M'], sold='sum(n)'), say")
    found: dict[str, str] = {}
    known: set[str] = set()
    for value_name, value in named:
        for name, expression in aggregates.items():
            column = value_name if len(aggregates) == 1 else f"{value_name}_{name}"
            if column.lower() in known:
                raise SchemaError(
                    f"two columns of the pivot would be called {column!r}", column=column,
                    remedy="name the values: pivot(..., values={'small': 'S', 'large': 'L'})",
                )  # fmt: skip
            known.add(column.lower())
            found[column] = _only(expression, _condition(on, value))
    return found


def _named(values: Values) -> Iterator[tuple[str, Value]]:
    if isinstance(values, Mapping):
        yield from values.items()
    elif isinstance(values, str) or not isinstance(values, Sequence):
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


def _only(expression: str, condition: str) -> str:
    """An aggregate over the rows of a condition alone."""
    template = find_calls(expression, CALLABLE | user_aggregates().keys())
    return template.filled([_call(call, condition) for call in template.calls])


def _call(call: Call, condition: str) -> str:
    given = ", ".join(call.arguments)
    condition = condition if call.condition is None else f"({call.condition}) AND {condition}"
    nulls = " IGNORE NULLS" if call.ignore_nulls else ""
    return f"{call.function}({'DISTINCT ' if call.distinct else ''}{given}){nulls} FILTER (WHERE {condition})"
