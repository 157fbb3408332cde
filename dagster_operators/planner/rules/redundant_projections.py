"""Projections that hand every column on as it is."""

from __future__ import annotations

from typing import ClassVar

from typing_extensions import override

from dagster_operators.graph.dataflow import Dataflow, Node
from dagster_operators.graph.operator import StreamType
from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.rewriting import Rewriting
from dagster_operators.graph.rule import Rewritten, Rule
from dagster_operators.operators.relational.columns import projected
from dagster_operators.operators.relational.projection import Select
from dagster_operators.planner.rules.mark_places import seen_places


class RedundantProjections(Rule):
    """Leaves out selections and renamings that change no column, its name or its place."""

    name: ClassVar[str] = "redundant_projections"

    @override
    def apply(self, plan: Dataflow) -> Rewritten:
        rewriting, seen = Rewriting(plan), seen_places(plan)
        for node in rewriting:
            if isinstance(node.operator, Select) and node.name in seen:
                continue
            if self._changes_nothing(node, rewriting) and node.operator.chain and not rewriting.ends_at(StreamRef(node.name)):
                rewriting.bypass(node.name)
                rewriting.did(f"{node.name} changes no column, and is left out")
        return rewriting.result()

    def _changes_nothing(self, node: Node, rewriting: Rewriting) -> bool:
        if len(node.inputs) != 1:
            return False
        before: StreamType = rewriting.type_of(node.inputs[0])
        columns = projected(node.operator, before)
        return columns is not None and before == node.type and all(column.source == column.name for column in columns)
