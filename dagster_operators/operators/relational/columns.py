"""What select, with_columns, rename and drop have in common: each makes a list of columns of those of its input."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dagster_operators.graph.expressions import without_comments
from dagster_operators.graph.operator import LogicalOperator, StreamType
from dagster_operators.operators.relational.projection import Drop, Rename, Select, WithColumns, bare_column, named
from dagster_operators.types.names import quoted


@dataclass(frozen=True)
class OutputColumn:
    """A column that a projection makes.

    Attributes:
        name: What it is called.
        expression: Spark SQL over the input's columns, without comments.
        source: The input's column that it is, if it is handed on as it is.

    >>> str(OutputColumn("n", "v + 1", None)), str(OutputColumn("v", "v", "v")), str(OutputColumn("w", "V", "v"))
    ('v + 1 AS `n`', '`v`', '`v` AS `w`')
    """

    name: str
    expression: str
    source: str | None

    def __str__(self) -> str:
        if self.source is None:
            return f"{self.expression} AS {quoted(self.name)}"
        return quoted(self.source) if self.source == self.name else f"{quoted(self.source)} AS {quoted(self.name)}"


def projected(operator: LogicalOperator, stream: StreamType) -> tuple[OutputColumn, ...] | None:
    """The columns that a projection makes of a stream; None if it is no projection, or the stream's columns are not known yet.

    >>> from dagster_operators.operators.relational.projection import Rename
    >>> [str(column) for column in projected(Rename(name="r", names=(("v", "w"),)), StreamType(("k", "v")))]
    ['`k`', '`v` AS `w`']
    """
    if stream.columns is None:
        return None
    if isinstance(operator, Select):
        return tuple(_column(stream, name or "", expression) for expression, name in map(named, operator.expressions))
    if isinstance(operator, WithColumns):
        new = {name.lower(): (name, expression) for name, expression in operator.expressions}
        kept = [_column(stream, column, new.pop(column.lower(), ("", quoted(column)))[1]) for column in stream.columns]
        return (*kept, *(_column(stream, name, expression) for name, expression in new.values()))
    if isinstance(operator, Rename):
        names = {old.lower(): name for old, name in operator.names}
        return tuple(OutputColumn(names.get(column.lower(), column), quoted(column), column) for column in stream.columns)
    if isinstance(operator, Drop):
        gone = {column.lower() for column in operator.columns}
        return tuple(OutputColumn(column, quoted(column), column) for column in stream.columns if column.lower() not in gone)
    return None


def as_select(name: str, columns: Iterable[OutputColumn], *, chain: bool) -> Select:
    """A selection of these columns."""
    return Select(name=name, chain=chain, expressions=tuple(map(str, columns)))


def _column(stream: StreamType, name: str, expression: str) -> OutputColumn:
    text = without_comments(expression)
    return OutputColumn(name, text, bare_column(stream, text))
