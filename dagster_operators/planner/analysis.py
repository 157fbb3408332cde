"""Asking an engine about one operator: what it puts out for given inputs, and everything that is wrong with it, named."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dagster_operators.errors import OperatorsError, SchemaError, located
from dagster_operators.graph.changes import CHANGE, DELETED
from dagster_operators.graph.dataflow import Dataflow, Node
from dagster_operators.graph.expressions import without_comments
from dagster_operators.graph.outputs import Table
from dagster_operators.graph.ports import MAIN
from dagster_operators.operators.engine_schema import schema_of
from dagster_operators.operators.physical import Analysis
from dagster_operators.planner.physical_plan import PhysicalNode
from dagster_operators.types.data_type import Plain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SHOWN = 500

_CONDITION = re.compile(r"non-boolean predicate .* returning (\w+)")


def analyse(dataflow: Dataflow, node: PhysicalNode, inputs: Sequence[DataFrame]) -> Analysis[Any]:
    """The output and state of an operator for empty inputs.

    Raises:
        SchemaError: The operator does not fit its inputs; lists the columns there are.
    """
    try:
        analysis = node.operator.analyse(inputs)
        for frame in (analysis.output, *analysis.states.values()):
            frame.schema  # noqa: B018  - asking for the schema is what makes a lazy engine analyse
    except OperatorsError as error:
        raise error.at(pipeline=dataflow.name, operator=node.logical) from error
    except Exception as error:
        if not _is_about_the_query(error):
            raise
        with located(pipeline=dataflow.name, operator=node.logical):
            _check_input(dataflow, node, inputs)
        logical = dataflow.nodes[node.logical].operator
        raise SchemaError(
            f"{logical.label} {json.dumps(logical.config(), default=str)} does not fit its input: {_reason(error)}",
            pipeline=dataflow.name,
            operator=node.logical,
            remedy=f"the columns are: {'; '.join(map(_columns, inputs))}",
        ) from error
    _check_names(dataflow, node.logical, analysis.output)
    if node.name == node.logical:
        _check_declared(dataflow, dataflow.nodes[node.logical], {MAIN: analysis.output, **analysis.sides})
        _check_time(dataflow, dataflow.nodes[node.logical], analysis.output)
    return analysis


def _check_input(dataflow: Dataflow, node: PhysicalNode, inputs: Sequence[DataFrame]) -> None:
    """See that an operator uses columns that there are, now that they are known; while it was built they may not have been."""
    logical = dataflow.nodes[node.logical]
    types = dataflow.input_types(logical)
    if len(types) != len(inputs) or [edge.stream for edge in node.inputs] != list(logical.inputs):
        return
    known = []
    for kind, frame in zip(types, inputs, strict=True):
        names = tuple(name for name in frame.columns if name not in (*kind.marks, DELETED))
        known.append(replace(kind, columns=names))
    logical.operator.output(known)


def check_feedback(dataflow: Dataflow, variable: str, declared: DataFrame, rows: DataFrame) -> None:
    """See that what goes round in a loop has the types that its variable declares.

    Raises:
        SchemaError: It has others.
    """
    wanted, found = _columns(declared.drop(CHANGE)), _columns(rows.drop(CHANGE))
    if wanted != found:
        raise SchemaError(
            f"what goes round is {found}, and the loop variable was declared as {wanted}",
            pipeline=dataflow.name,
            operator=variable,
            loop=dataflow.nodes[variable].scope,
            remedy="cast the columns before they are fed, or declare the variable so",
        )


def analyse_checks(dataflow: Dataflow, table: Table, output: DataFrame) -> None:
    """See that every check of a table is a condition over its columns.

    Raises:
        SchemaError: One is not.
    """
    rows = output.drop(DELETED)
    for name, check in table.checks.items():
        try:
            kind = schema_of(rows.selectExpr(f"{without_comments(check.expression)} AS passed")).fields[0].type
            reason = None if kind == Plain("boolean") else f"it is a {kind}, not true or false"
        except Exception as error:
            if not _is_about_the_query(error):
                raise
            reason = _reason(error)
        if reason is not None:
            raise SchemaError(
                f"the check {name!r} ({check.expression}) does not fit its table: {reason}",
                pipeline=dataflow.name,
                operator=dataflow.name_of(table.stream),
                table=table.name,
                remedy=f"write a condition; the columns are: {_columns(rows)}",
            )


def _is_about_the_query(error: Exception) -> bool:
    """Whether an engine refused a query, and not, say, the connection to it."""
    from pyspark.errors import PySparkException

    return isinstance(error, PySparkException) and not type(error).__name__.startswith("SparkConnect")


def _reason(error: Exception) -> str:
    """What an engine says, in one line; Sail names columns by numbers of its own in what it says of a condition."""
    told = str(error).split("\n", 1)[0].strip().rstrip(".;")[:_SHOWN]
    found = _CONDITION.search(told)
    return f"the condition is a number or the like ({found[1]}), not true or false" if found else told


def _columns(frame: DataFrame) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema_of(frame))


def _check_names(dataflow: Dataflow, operator: str, output: DataFrame) -> None:
    counts = Counter(column.lower() for column in output.columns)
    for column in output.columns:
        if counts[column.lower()] > 1:
            raise SchemaError(
                f"the output has column {column!r} more than once",
                pipeline=dataflow.name,
                operator=operator,
                column=column,
                remedy="rename one of them; case does not matter",
            )


def _check_declared(dataflow: Dataflow, node: Node, outputs: Mapping[str, DataFrame]) -> None:
    """See that what does the work puts out the columns that the logical operator says."""
    for port, frame in outputs.items():
        kind = node.outputs.get(port)
        if kind is None or kind.columns is None:
            continue
        found = [column for column in frame.columns if column not in kind.marks and column != DELETED]
        if [column.lower() for column in found] != [column.lower() for column in kind.columns]:
            where = "" if port == MAIN else f" at {port!r}"
            raise SchemaError(
                f"{node.operator.label} says that it puts out the columns {', '.join(kind.columns)}{where}, "
                f"and what does its work puts out {', '.join(found) or 'none'}",
                pipeline=dataflow.name,
                operator=node.name,
                remedy="correct output() of the logical operator, or what it lowers to",
            )


def _check_time(dataflow: Dataflow, node: Node, output: DataFrame) -> None:
    time = node.type.event_time
    if time is None:
        return
    kinds = schema_of(output).types
    is_source = not node.inputs
    if time not in kinds:
        raise SchemaError(
            f"the event time {time!r} is not among the output's columns",
            pipeline=dataflow.name,
            operator=node.name,
            column=time,
            remedy=f"{'use one of' if is_source else 'keep it; the columns are'}: {', '.join(kinds)}",
        )
    if not kinds[time].is_timestamp:
        raise SchemaError(
            f"the event time {time!r} is a {kinds[time]}, not a timestamp",
            pipeline=dataflow.name,
            operator=node.name,
            column=time,
            remedy="give the source a schema that reads it as timestamp" if is_source else "hand it on unchanged",
        )
