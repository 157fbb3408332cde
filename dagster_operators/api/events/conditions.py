"""What is no condition for rows, as far as that can be told without an engine."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import expressions as sql

from dagster_operators.errors import OperatorsError
from dagster_operators.graph.expressions import parsed


def no_condition(expression: str, schema: pa.Schema) -> str:
    """Why an expression is no condition: it is of another type; empty text if it is one, or only the engine knows.

    >>> rows = pa.schema([("value", pa.list_(pa.float64())), ("ok", pa.bool_())])
    >>> no_condition("value[0]", rows), no_condition("value[0] > 1", rows), no_condition("ok", rows)
    ("the condition 'value[0]' is no condition, but a double", '', '')
    """
    try:
        found = _kind(parsed(expression), schema)
    except OperatorsError:
        return ""
    return f"the condition {expression!r} is no condition, but {found}" if found else ""


def _kind(tree: sql.Expression, schema: pa.Schema) -> str:
    """What an expression is that is surely no truth value; empty text otherwise."""
    while isinstance(tree, sql.Paren):
        tree = tree.this
    if isinstance(tree, sql.Literal):
        return "a text" if tree.is_string else "a number"
    if isinstance(tree, sql.Add | sql.Sub | sql.Mul | sql.Div | sql.Mod | sql.Neg):
        return "the result of arithmetic"
    kind = _type(tree, schema)
    return "" if kind is None or pa.types.is_boolean(kind) or pa.types.is_null(kind) else f"a {kind}"


def _type(tree: sql.Expression, schema: pa.Schema) -> pa.DataType | None:
    """The type of a column, or of a part of one."""
    if isinstance(tree, sql.Column) and not tree.table and tree.name in schema.names:
        return schema.field(tree.name).type
    if isinstance(tree, sql.Bracket):
        kind = _type(tree.this, schema)
        return kind.value_type if kind is not None and pa.types.is_list(kind) else None
    return None
