"""Texts in conditions of aggregates that are compared with columns of other types, to which they surely cannot be cast.

An engine casts the text when it runs, so that the epoch would fail; the types are known when the pipeline is planned.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from dagster_operators.errors import SchemaError
from dagster_operators.graph.expressions import parsed
from dagster_operators.operators.engine_schema import schema_of
from dagster_operators.types.data_type import DataType, Plain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from sqlglot.expressions import Expression

_BOOLEANS: Final = frozenset({"t", "true", "y", "yes", "1", "f", "false", "n", "no", "0"})
_YEAR: Final = re.compile(r"\s*[+-]?\d{4}")


def check_texts(conditions: Iterable[str], rows: DataFrame) -> None:
    """See that texts can be values of the columns that conditions compare them with. Analyses, but runs nothing.

    Raises:
        SchemaError: One surely is none.
    """
    pairs = [(condition, *pair) for condition in conditions for pair in compared(condition)]
    types = {field.name.lower(): field.type for field in schema_of(rows)} if pairs else {}
    for condition, column, text in pairs:
        kind = types.get(column.lower())
        if kind is not None and not may_be(text, kind):
            raise SchemaError(
                f"the text {text!r} is compared with column {column!r}, of type {kind}, and is no {kind.kind}",
                column=column,
                expression=condition,
                remedy=f"compare with values of the column's type, or with CAST({column} AS string)",
            )


def compared(condition: str) -> Iterator[tuple[str, str]]:
    """Columns and the texts that they have to be equal to, wherever the condition holds.

    >>> list(compared("(v > 1 OR w = 'b') AND `n` = 'x'"))
    [('n', 'x')]
    """
    return _compared(parsed(condition))


def _compared(tree: Expression) -> Iterator[tuple[str, str]]:
    from sqlglot import exp

    if isinstance(tree, exp.Paren):
        yield from _compared(tree.this)
    elif isinstance(tree, exp.And):
        yield from _compared(tree.this)
        yield from _compared(tree.expression)
    elif isinstance(tree, exp.EQ):
        column, text = tree.this, tree.expression
        if isinstance(column, exp.Column) and len(column.parts) == 1 and isinstance(text, exp.Literal) and text.is_string:
            yield column.name, text.name


def may_be(text: str, kind: DataType) -> bool:
    """Whether an engine may be able to cast a text to a type; only what surely is none is none.

    >>> may_be("x", Plain("int")), may_be(" 1", Plain("int")), may_be("x", Plain("string")), may_be("soon", Plain("date"))
    (False, True, True, False)
    """
    if kind.is_number:
        try:
            float(text)
        except ValueError:
            return False
        return True
    if kind == Plain("boolean"):
        return text.strip().lower() in _BOOLEANS
    return _YEAR.match(text) is not None if kind == Plain("date") else True
