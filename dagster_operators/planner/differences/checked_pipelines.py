"""Puts other expressions in a pipeline that runs on Sail: checked calculations, comparisons with decimals, rounding."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dagster_operators.errors import SchemaError, located
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.expressions import without_comments
from dagster_operators.graph.operator import LogicalOperator
from dagster_operators.graph.outputs import Table
from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.rewriting import Rewriting
from dagster_operators.graph.row_expressions import generator_of
from dagster_operators.operators.engine_kind import reads_like_spark
from dagster_operators.operators.one_nan import one_nan
from dagster_operators.operators.relational.projection import Select, WithColumns, named
from dagster_operators.planner.differences.asked import TypeOf
from dagster_operators.planner.differences.checked_numbers import ACCEPTED_AS, checked_numbers
from dagster_operators.planner.differences.compared_numbers import compared_numbers
from dagster_operators.planner.differences.read_rows import read_rows
from dagster_operators.planner.differences.refusing import accepted_differences, types_of
from dagster_operators.planner.differences.rounded_numbers import rounded_numbers, rounds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OF_TIMES = ("timestamp", "unix_", "cast")
"""Where numbers of seconds may be made of times, or times of them."""

_COMPARES = re.compile(r"(?i)[=<>]|\b(in|between|case|distinct|equal_null|isnan)\b")
"""What may be a comparison."""

_UNCHECKED = "calculations with whole numbers cannot be checked in the settings of this operator"
_UNCOMPARED = "comparisons of floating-point numbers with decimals cannot be made as Spark does in the settings of this operator"

_UNROUNDED = "floating-point numbers cannot be rounded as Spark does in the settings of this operator"

_BEHIND = re.compile(r"(?is)\s+(as\b.*|asc\b.*|desc\b.*|nulls\b.*|`?\w+`?|\(.*)?")
"""What a setting may have behind its expression: an alias, or an order."""


def with_checked_numbers(
    session: SparkSession, dataflow: Dataflow, schemas: Mapping[StreamRef, str], tables: Mapping[str, str]
) -> Dataflow:
    """The pipeline with calculations that fail where whole numbers do not fit; the very one that is given if none is changed.

    Args:
        session: The engine; nothing is changed for Spark, which checks by itself.
        dataflow: The pipeline.
        schemas: The schema of each stream.
        tables: The schema of each source and lookup table, by operator.

    Raises:
        SchemaError: An expression cannot be changed so; names it and its operator or table.
    """
    if reads_like_spark(session) or ACCEPTED_AS in accepted_differences(session):
        return dataflow
    return _with_changes(session, dataflow, schemas, tables, _Change(checked_numbers, _calculates, _UNCHECKED))


def with_compared_numbers(
    session: SparkSession, dataflow: Dataflow, schemas: Mapping[StreamRef, str], tables: Mapping[str, str]
) -> Dataflow:
    """The pipeline with floating-point numbers compared with decimals, and rounded, as Spark does; the very one if none are.

    Args:
        session: The engine; nothing is changed for Spark.
        dataflow: The pipeline.
        schemas: The schema of each stream.
        tables: The schema of each source and lookup table, by operator.

    Raises:
        SchemaError: An expression cannot be changed so; names it and its operator or table.
    """
    if reads_like_spark(session):
        return dataflow
    made = _with_changes(session, dataflow, schemas, tables, _Change(compared_numbers, _compares, _UNCOMPARED))
    made = _with_changes(session, made, schemas, tables, _Change(rounded_numbers, rounds, _UNROUNDED))
    return _with_changes(session, made, schemas, tables, _Change(_with_one_nan, _computes, _UNCOMPARED, (Select, WithColumns)))


@dataclass(frozen=True)
class _Change:
    """What becomes of expressions.

    Attributes:
        of: The expression that is handed to the engine for one.
        concerns: Whether there may be something to change in one, at a glance.
        impossible: What is said of an operator that has none of its expressions among its settings.
        only: The operators whose expressions these are, if not all.
    """

    of: Callable[[str, TypeOf], str]
    concerns: Callable[[str], bool]
    impossible: str
    only: tuple[type[LogicalOperator], ...] = ()


def _with_changes(
    session: SparkSession, dataflow: Dataflow, schemas: Mapping[StreamRef, str], tables: Mapping[str, str], change: _Change
) -> Dataflow:
    rewriting = Rewriting(dataflow)
    for node in dataflow:
        asked = not change.only or isinstance(node.operator, change.only)
        schema = read_rows(node, schemas, tables) if asked and any(map(change.concerns, node.operator.sql())) else None
        if schema is not None:
            with located(pipeline=dataflow.name, operator=node.name):
                operator = _changed(node.operator, change, types_of(session, schema))
            if operator is not node.operator:
                rewriting.put(operator, node.inputs)
    made = rewriting.result().plan
    if change.only:
        return made
    return _with_tables(made, {name: _checked(session, made, table, schemas, change) for name, table in made.tables.items()})


def _with_tables(dataflow: Dataflow, tables: Mapping[str, Table]) -> Dataflow:
    if all(table is dataflow.tables[name] for name, table in tables.items()):
        return dataflow
    made = copy.copy(dataflow)
    made.tables = dict(tables)
    return made


def _calculates(expression: str) -> bool:
    """Whether there may be a calculation in an expression, at a glance."""
    return any(sign in expression for sign in ("+", "-", "*", "::")) or any(word in expression.lower() for word in _OF_TIMES)


def _compares(expression: str) -> bool:
    """Whether there may be a comparison in an expression, at a glance."""
    return _COMPARES.search(expression) is not None


def _computes(expression: str) -> bool:
    """Whether an expression may make a number of its own, at a glance."""
    return expression.strip() != "*" and any(sign in expression for sign in "(+-*/%")


def _with_one_nan(expression: str, type_of: TypeOf) -> str:
    """The expression with its NaN, which it may have made by 0/0, as the one that all others are; a plain column stays."""
    if named(expression)[1] is not None or not _computes(expression) or generator_of(expression):
        return expression
    plain = without_comments(expression)
    return one_nan(plain, str(type_of(plain)))


def _checked(session: SparkSession, dataflow: Dataflow, table: Table, schemas: Mapping[StreamRef, str], change: _Change) -> Table:
    wanted = [name for name, check in table.checks.items() if change.concerns(check.expression)]
    if not wanted:
        return table
    with located(pipeline=dataflow.name, table=table.name):
        types = types_of(session, schemas[table.stream])
        changed = {
            name: replace(table.checks[name], expression=change.of(table.checks[name].expression, types)) for name in wanted
        }  # fmt: skip
    checks = {**table.checks, **changed}
    return table if checks == table.checks else replace(table, checks=checks)


def _changed(operator: LogicalOperator, change: _Change, type_of: TypeOf) -> LogicalOperator:
    """The operator with its expressions changed.

    Raises:
        SchemaError: The expressions are not among its settings as they are.
    """
    texts = {text: change.of(text, type_of) for text in dict.fromkeys(operator.sql())}
    wanted = {text: made for text, made in texts.items() if made != text}
    if not wanted:
        return operator
    given = {field.name: getattr(operator, field.name) for field in fields(operator) if field.init and field.name != "name"}
    for replaced in (_instead_of, _within):
        put = partial(replaced, texts=wanted)
        made = replace(operator, **{name: new for name, value in given.items() if (new := _put(value, put)) != value})
        if made.sql() == tuple(texts[text] for text in operator.sql()):
            return made
    raise SchemaError(change.impossible, expression=next(iter(wanted)), remedy="calculate in with_columns before it")


def _put(value: Any, replaced: Callable[[str], str], *, named: bool = False) -> Any:
    """A setting with other expressions in it; of a pair within a setting, the first is a name and stays."""
    if isinstance(value, str):
        return replaced(value)
    if isinstance(value, tuple | list):
        kept = value[:1] if named else value[:0]
        return type(value)([*kept, *(_put(one, replaced, named=True) for one in value[len(kept) :])])
    if isinstance(value, Mapping):
        return {name: _put(one, replaced) for name, one in value.items()}
    return value


def _instead_of(value: str, texts: Mapping[str, str]) -> str:
    """A setting that is an expression, and may have an alias or an order behind it."""
    return next((made + value.strip()[len(text) :] for text, made in texts.items() if _is_of(value.strip(), text)), value)


def _within(value: str, texts: Mapping[str, str]) -> str:
    """A setting in which expressions are what a function is given."""
    return next((value.replace(text, made) for text, made in texts.items() if value.count(text) == 1), value)


def _is_of(setting: str, text: str) -> bool:
    return setting.startswith(text) and (setting == text or _BEHIND.fullmatch(setting[len(text) :]) is not None)
