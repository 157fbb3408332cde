"""Expressions over one row: what every operator takes that computes a row's columns, or decides about a row.

An aggregate or a window function in such a place would run all the same, over the rows that an epoch happens to have.
"""

from __future__ import annotations

from dagster_operators.errors import SchemaError
from dagster_operators.graph.expressions import Called, calls_of, columns_of, has_window
from dagster_operators.graph.spark_functions import AGGREGATES, GENERATORS, NUMBERINGS, RANKINGS
from dagster_operators.graph.user_functions import find

_OTHER_ROWS = "looks at other rows, and would see those of one epoch, not of the stream"
_WINDOW_REMEDY = (
    "use key_by(...).over('at', n='row_number()') for window functions over the rows of a key, key_by(...).top(n, by=...) for "
    "first rows and their places, or key_by(...).aggregate(...) for figures of a key"
)
_NUMBER_REMEDY = "make it of the row's own columns, such as sha2(concat_ws('|', a, b), 256), or count in apply(...) with state"


def columns_of_row(expression: str) -> frozenset[str]:
    """The input columns of an expression that makes one value of one row; as :func:`columns_of`, but stricter.

    Raises:
        SchemaError: It is no expression, or it looks at other rows than its own: an aggregate, a window function, or a number
            that begins again in each run.

    >>> sorted(columns_of_row("aggregate(xs, 0, (total, x) -> total + x) + greatest(a, b)"))
    ['a', 'b', 'xs']
    >>> columns_of_row("v / sum(v)")
    Traceback (most recent call last):
        ...
    dagster_operators.errors.SchemaError: the aggregate sum() looks at other rows, and would see those of one epoch, ...
    """
    columns = columns_of(expression)
    if has_window(expression):
        raise SchemaError(f"OVER {_OTHER_ROWS}", expression=expression, remedy=_WINDOW_REMEDY)
    for call in calls_of(expression):
        _check(expression, call)
    return columns


def _check(expression: str, call: Called) -> None:
    if call.name in RANKINGS:
        problem, remedy = f"{call.name}() {_OTHER_ROWS}", _WINDOW_REMEDY
    elif _is_aggregate(call.name):
        problem = f"the aggregate {call.name}() {_OTHER_ROWS}"
        remedy = f"aggregate before: key_by(...).aggregate(value={call.name + call.arguments!r}), within window(...) or without"
    elif call.name in NUMBERINGS:
        problem, remedy = f"{call.name}() begins again in every run, so rows of several epochs have the same", _NUMBER_REMEDY
    else:
        return
    raise SchemaError(problem, expression=expression, position=call.position, remedy=remedy)


def _is_aggregate(name: str) -> bool:
    function = find(name)
    return name in AGGREGATES or (function is not None and function.is_aggregate)


def aggregate_of(expression: str) -> str | None:
    """The aggregate that an expression calls over all rows of a table, if there is one; one with OVER keeps the rows.

    >>> aggregate_of("1 + max(v)"), aggregate_of("max(v) OVER (PARTITION BY k)")
    ('max', None)
    """
    if has_window(expression):
        return None
    return next((call.name for call in calls_of(expression) if _is_aggregate(call.name)), None)


def generator_of(expression: str) -> str | None:
    """The function in an expression that makes several rows of one, if there is one.

    >>> generator_of("explode(xs)"), generator_of("size(xs)")
    ('explode', None)
    """
    return next((call.name for call in calls_of(expression) if call.name in GENERATORS), None)
