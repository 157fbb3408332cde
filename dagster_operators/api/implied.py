"""Conversions that nobody has to write: to the changes that an operator takes, and to those of a source of change events."""

from __future__ import annotations

from collections.abc import Sequence

from dagster_operators.connectors.connector import Connector
from dagster_operators.graph.changes import ChangeKind
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.operator import LogicalOperator
from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.scope import OUTSIDE
from dagster_operators.operators.relational.source import Source
from dagster_operators.operators.relational.to_changes import ToChanges


def with_changes(dataflow: Dataflow, operator: LogicalOperator, streams: Sequence[StreamRef]) -> list[StreamRef]:
    """The streams that an operator reads, updating ones as changes where it takes these; in loops they stay what they are.

    Such a conversion is an operator like others, ``<stream>_changes``, with state; several readers of a stream share it.

    Args:
        dataflow: The graph.
        operator: What will read them.
        streams: What it was given.
    """
    ports = operator.inputs([dataflow.type_of(stream) for stream in streams])
    return [
        _changes_of(dataflow, stream)
        if dataflow.type_of(stream).updating
        and ChangeKind.UPSERT not in port.accepts
        and ChangeKind.RETRACT in port.accepts
        and dataflow.nodes[stream.operator].scope == OUTSIDE
        else stream
        for port, stream in zip(ports, streams, strict=True)
    ]


def entrance(dataflow: Dataflow, name: str) -> StreamRef:
    """The stream of a name in a query, as ``Pipeline.source`` gives it: of change events or extracts, the changes.

    Args:
        dataflow: The graph.
        name: The name of one of its operators.

    >>> from dagster_operators import FileSource, Pipeline
    >>> pipeline = Pipeline("p", root="data")
    >>> events = FileSource("in", format="debezium-json", schema="id long, item string", key="id")
    >>> pipeline.source("orders", events).name, str(entrance(pipeline.dataflow, "orders"))
    ('orders_changes', 'orders_changes')
    """
    operator = dataflow.nodes[name].operator
    if isinstance(operator, Source) and isinstance(operator.connector, Connector) and operator.connector.row_keys is not None:
        behind = dataflow.nodes.get(changes_name(name))
        if behind is not None and isinstance(behind.operator, ToChanges) and behind.inputs == (StreamRef(name),):
            return StreamRef(behind.name)
    return StreamRef(name)


def changes_name(source: str) -> str:
    """The name of the operator that makes changes of a source's change events or extracts."""
    return f"{source}_changes"


def _changes_of(dataflow: Dataflow, stream: StreamRef) -> StreamRef:
    for node in dataflow:
        if node.inputs == (stream,) and node.operator == ToChanges(name=node.name):
            return StreamRef(node.name)
    name = dataflow.fresh_name(f"{dataflow.name_of(stream)}_changes")
    return StreamRef(dataflow.add(ToChanges(name=name), [stream]).name)
