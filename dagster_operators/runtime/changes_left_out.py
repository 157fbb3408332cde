"""Changes that a rebuild leaves out by ``since=``: those behind them take back rows that never came."""

from __future__ import annotations

from collections.abc import Iterator

from dagster_operators.graph.dataflow import Dataflow, Node
from dagster_operators.graph.restricted import reach_of
from dagster_operators.operators.relational.changelog import AsChanges, Latest
from dagster_operators.operators.relational.union import Union


def counted_by(dataflow: Dataflow, source: str) -> str | None:
    """The name of an operator that counts what a source says of rows, each added or taken back; None if there is none.

    A table of changes has each as it is, and ``latest`` the rows that they leave. ``to_changes`` keeps rows itself, and what it
    puts out begins with it.

    Args:
        dataflow: What is computed anew.
        source: A source of it.
    """
    behind = reach_of(dataflow).behind([source])
    waiting = [name for name in behind if isinstance(dataflow.nodes[name].operator, AsChanges)]
    while waiting:
        for node in _readers(dataflow, waiting.pop()):
            if node.operator.row_wise or isinstance(node.operator, Union):
                waiting.append(node.name)
            elif not isinstance(node.operator, Latest):
                return node.name
    return None


def _readers(dataflow: Dataflow, name: str) -> Iterator[Node]:
    return (node for node in dataflow if any(stream.operator == name for stream in node.inputs))
