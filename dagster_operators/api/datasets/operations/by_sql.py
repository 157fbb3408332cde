"""Operations by Spark SQL expressions over the rows' columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from typing_extensions import override

from dagster_operators.api.datasets.arrow_calls import arrow_call, columns_of
from dagster_operators.api.datasets.base import Bag, Translation
from dagster_operators.api.datasets.operations.row_wise import OneInput
from dagster_operators.api.datasets.row_types import RowType, Types
from dagster_operators.errors import SchemaError
from dagster_operators.graph.expressions import columns_of as names_within
from dagster_operators.graph.expressions import parse_alias, parsed, require_texts
from dagster_operators.operators.datasets.arrow_call import CallShape
from dagster_operators.operators.datasets.drivers.driver import Work
from dagster_operators.operators.datasets.expressions.batch_functions import SqlColumns, SqlCondition
from dagster_operators.operators.datasets.expressions.expression_reader import BOOLEAN, ExpressionReader
from dagster_operators.operators.datasets.expressions.terms import ColumnTerm, Term
from dagster_operators.optimizer import estimates, strategies
from dagster_operators.optimizer.estimates import Estimate
from dagster_operators.optimizer.properties.fields import Forwarding
from dagster_operators.optimizer.strategies import DriverStrategy
from dagster_operators.types.data_type import DataType
from dagster_operators.types.schema import Schema

SQL: Final = "SQL"


@dataclass(frozen=True)
class SelectedBySql(OneInput):
    """A row for each row, of expressions.

    Attributes:
        expressions: The expressions, by the names of the columns.
    """

    expressions: tuple[tuple[str, str], ...]
    adds_up: ClassVar[bool] = True
    kind: ClassVar[str] = "Map"
    reads_columns: ClassVar[bool] = True
    strategy: ClassVar[DriverStrategy] = strategies.MAP
    guess: ClassVar[Callable[[Estimate], Estimate]] = estimates.same_rows

    @override
    def types(self, operator: str, rows: Sequence[RowType]) -> Types:
        _require_columns(rows[0], [text for _, text in self.expressions], operator)
        if rows[0].types is None or None in rows[0].types:
            return tuple(None for _ in self.expressions)
        columns = columns_of(rows[0], operator)
        return tuple(_type_of(term, columns) for _, term in self._terms(columns, operator))

    @override
    def forwarding(self, data_set: Bag) -> Forwarding:
        names = list(data_set.inputs[0].fields or ())
        plain = ((number, _plain_name(text)) for number, (_, text) in enumerate(self.expressions))
        return Forwarding(tuple((names.index(name), number) for number, name in plain if name in names))

    @override
    def arrow_work(self, data_set: Bag, translation: Translation) -> Work:
        call = arrow_call(data_set, SqlColumns(()), CallShape.ROW_FOR_ROW, translation)
        if not call.columns.fields:
            return Work(call)
        terms = self._terms(call.columns, data_set.shown)
        fields = [replace(call.columns.fields[0], name=name, type=_type_of(term, call.columns)) for name, term in terms]
        results = call.results if data_set.declared is not None else Schema(tuple(fields))
        return Work(replace(call, function=SqlColumns(terms), results=results, kind=SQL))

    def _terms(self, columns: Schema, operator: str) -> tuple[tuple[str, Term], ...]:
        reader = ExpressionReader(columns, operator)
        return tuple((name, reader.term(text)) for name, text in self.expressions)


@dataclass(frozen=True)
class FilteredBySql(OneInput):
    """The rows for which an expression is true.

    Attributes:
        condition: The expression.
    """

    condition: str
    adds_up: ClassVar[bool] = True
    kind: ClassVar[str] = "Filter"
    reads_columns: ClassVar[bool] = True
    strategy: ClassVar[DriverStrategy] = strategies.FLAT_MAP
    guess: ClassVar[Callable[[Estimate], Estimate]] = estimates.half

    @override
    def types(self, operator: str, rows: Sequence[RowType]) -> Types:
        _require_columns(rows[0], [self.condition], operator)
        if rows[0].types is not None and None not in rows[0].types:
            self._term(columns_of(rows[0], operator), operator)
        return rows[0].types

    @override
    def forwarding(self, data_set: Bag) -> Forwarding:
        return Forwarding.everything()

    @override
    def arrow_work(self, data_set: Bag, translation: Translation) -> Work:
        call = arrow_call(data_set, SqlColumns(()), CallShape.CONDITION, translation)
        if not call.columns.fields:
            return Work(call)
        return Work(replace(call, function=SqlCondition(self._term(call.columns, data_set.shown)), kind=SQL))

    def _term(self, columns: Schema, operator: str) -> Term:
        term = ExpressionReader(columns, operator).term(self.condition)
        if term.type != BOOLEAN:
            raise SchemaError(
                f"a condition is of the type {term.type}", operator=operator, expression=self.condition,
                remedy="compare it with something: v > 0",
            )  # fmt: skip
        return term


def named(expressions: Sequence[str], operator: str) -> tuple[tuple[str, str], ...]:
    """Expressions by the names of their columns.

    Raises:
        SchemaError: One is no text, or has no name; or two have the same one.

    >>> named(["k", "v * 2 AS w"], "select")
    (('k', 'k'), ('w', 'v * 2'))
    """
    require_texts("expression", expressions, operator=operator)
    if not expressions:
        raise SchemaError("no columns are selected", operator=operator, remedy="write at least one: select('k')")
    results: dict[str, str] = {}
    for given in expressions:
        text, alias = parse_alias(given)
        name = alias or _plain_name(text)
        if name is None:
            raise SchemaError(
                "a column has no name", operator=operator, expression=given, remedy=f"give it one: select('{given} AS name')"
            )
        if name in results:
            raise SchemaError(
                f"two columns are called {name!r}", operator=operator, column=name,
                remedy=f"give one of them another name: select('{text} AS other')",
            )  # fmt: skip
        results[name] = text
    return tuple(results.items())


def _plain_name(text: str) -> str | None:
    """The name of the column that an expression is; None where it is more."""
    node: Any = parsed(text)
    return str(node.name) if type(node).__name__ == "Column" and len(node.parts) == 1 else None


def _type_of(term: Term, columns: Schema) -> DataType:
    return columns.fields[term.number].type if isinstance(term, ColumnTerm) else term.type


def _require_columns(row: RowType, texts: Sequence[str], operator: str) -> None:
    """Refuse expressions over rows whose fields have no names, and names that they do not have."""
    require_texts("expression", texts, operator=operator)
    if row.names is None:
        raise SchemaError(
            "an expression is over columns, and the fields of the rows have no names", operator=operator,
            remedy="name them where the rows are made: map(function, schema='k string, v long')",
        )  # fmt: skip
    known = {name.lower() for name in row.names}
    for text in texts:
        for name in sorted(names_within(text)):
            if name.lower() not in known:
                raise SchemaError(
                    f"there is no column {name!r}", operator=operator, column=name, expression=text,
                    remedy=f"use one of: {', '.join(row.names)}",
                )  # fmt: skip
