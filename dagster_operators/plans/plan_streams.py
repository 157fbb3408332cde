"""What a plan tells of its streams: which are changes, and what columns they have."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import Final

from dagster_operators.errors import OperatorsError
from dagster_operators.graph.operator import LogicalOperator, StreamType
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.joins.as_of_join import AsOfJoin
from dagster_operators.operators.joins.join import ONLY_PAIRS, Join
from dagster_operators.operators.loops.edges import LoopVariable
from dagster_operators.operators.relational.over import Over
from dagster_operators.operators.relational.source import Source
from dagster_operators.operators.relational.to_changes import ToChanges
from dagster_operators.operators.relational.within_last import WithinLast
from dagster_operators.plans.row_forms import EDGES
from dagster_operators.plans.shape import PlanShape

_TELLING: Final = frozenset(
    {"filter", "select", "with_columns", "rename", "drop", "union", "to_changes", "as_changes", "enter", "leave", "loop_variable"}
)
"""Kinds of operators whose columns are known without code of the user's."""

_BEGINNING: Final = frozenset({"to_changes", "as_changes", "over", "within_last"})
"""Kinds of operators that give changes of rows that stay."""


def hands_on(shape: PlanShape, name: str) -> bool:
    """Whether an operator takes rows back by giving again what it made of them."""
    operator = shape.nodes[name].operator
    return operator.linear or operator.kind in EDGES or isinstance(operator, Source | LoopVariable)


def _begins(operator: LogicalOperator) -> bool:
    """Whether an operator gives changes whatever it reads; an outer join takes back what came for want of a partner."""
    if isinstance(operator, LoopVariable):
        return operator.retracting
    if isinstance(operator, AsOfJoin):
        return operator.corrections
    return operator.kind in _BEGINNING or (isinstance(operator, Join) and operator.how not in ONLY_PAIRS)


class Streams:
    """What a plan tells of its streams. Each operator is looked at once, after those before it.

    Args:
        shape: The plan.
    """

    def __init__(self, shape: PlanShape) -> None:
        self._shape = shape

    def changes(self, stream: StreamRef) -> bool:
        """Whether the rows of a stream are changes, each an addition or a removal."""
        return stream.is_main and stream.operator in self._changing

    @cached_property
    def _changing(self) -> frozenset[str]:
        found = set[str]()
        for name, node in self._shape.nodes.items():
            passes = node.operator.kind == Join.kind or hands_on(self._shape, name)
            if _begins(node.operator) or (passes and any(one.is_main and one.operator in found for one in node.inputs)):
                found.add(name)
        return frozenset(found)

    def columns(self, stream: StreamRef) -> frozenset[str] | None:
        """All columns of a stream, in small letters; None where a plan does not tell."""
        kind = self._types.get(stream.operator) if stream.is_main else None
        return None if kind is None or kind.columns is None else frozenset(column.lower() for column in kind.columns)

    @cached_property
    def _types(self) -> Mapping[str, StreamType]:
        found: dict[str, StreamType] = {}
        for name, node in self._shape.nodes.items():
            told = isinstance(node.operator, Source) and node.operator.connector.kind != "operator"
            known = [found[one.operator] for one in node.inputs if one.is_main and one.operator in found]
            if (told or node.operator.kind in _TELLING) and len(known) == len(node.inputs):
                with suppress(OperatorsError):
                    found[name] = node.operator.output(known)
        return found


def takes_back(name: str, shape: PlanShape, streams: Streams) -> bool:
    """Whether an operator takes rows back that it put out, by what its state has of them."""
    kind = shape.nodes[name].operator.kind
    return kind in (ToChanges.kind, Over.kind, WithinLast.kind) or (
        kind in (Join.kind, AsOfJoin.kind) and streams.changes(StreamRef(name))
    )
