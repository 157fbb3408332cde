"""Conversions that nobody has to write: from the current rows of a stream to the changes that an operator takes."""

from __future__ import annotations

from collections.abc import Sequence

from dagster_operators.graph.changes import ChangeKind
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.operator import LogicalOperator
from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.scope import OUTSIDE
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


def _changes_of(dataflow: Dataflow, stream: StreamRef) -> StreamRef:
    for node in dataflow:
        if node.inputs == (stream,) and node.operator == ToChanges(name=node.name):
            return StreamRef(node.name)
    name = dataflow.fresh_name(f"{dataflow.name_of(stream)}_changes")
    return StreamRef(dataflow.add(ToChanges(name=name), [stream]).name)
