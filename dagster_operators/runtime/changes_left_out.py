"""Changes that are left out where a rebuild or a reset begins in their midst: those behind take back rows that never came."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.reach import Reach
from dagster_operators.operators.relational.changelog import AsChanges, Latest
from dagster_operators.operators.relational.union import Union


class _Node(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def inputs(self) -> tuple[StreamRef, ...]: ...

    @property
    def operator(self) -> Any: ...


def counted_by(nodes: Iterable[_Node], reach: Reach, source: str) -> str | None:
    """The name of an operator that counts what a source says of rows, each added or taken back; None if there is none.

    A table of changes has each as it is, and a ``latest`` without state the rows that they leave.
    ``to_changes`` keeps rows itself, and what it puts out begins with it.

    Args:
        nodes: The operators of a graph.
        reach: Which of them read which.
        source: One of them.
    """
    known = list(nodes)
    behind = reach.behind([source])
    waiting = [node.name for node in known if node.name in behind and isinstance(node.operator, AsChanges)]
    while waiting:
        read = waiting.pop()
        for node in known:
            if all(stream.operator != read for stream in node.inputs):
                continue
            if node.operator.row_wise or isinstance(node.operator, Union):
                waiting.append(node.name)
            elif not isinstance(node.operator, Latest) or node.operator.remembers:
                return node.name
    return None
