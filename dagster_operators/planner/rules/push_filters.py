"""Filters go before projections and unions, towards the sources: what is left out early is not computed, moved or even read."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from typing_extensions import override

from dagster_operators.graph.dataflow import Dataflow, Node
from dagster_operators.graph.expressions import columns_of
from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.rewriting import Rewriting
from dagster_operators.graph.rule import Rewritten, Rule
from dagster_operators.graph.substitution import substituted
from dagster_operators.graph.traits import Trait
from dagster_operators.operators.relational.columns import projected
from dagster_operators.operators.relational.filter import Filter
from dagster_operators.operators.relational.union import Union
from dagster_operators.types.names import quoted


class PushFilters(Rule):
    """Puts a filter before what it reads, if that is a projection that hands on the filter's columns, or a union."""

    name: ClassVar[str] = "push_filters"
    needs: ClassVar[tuple[str, ...]] = ("redundant_projections", "redundant_unions")

    @override
    def apply(self, plan: Dataflow) -> Rewritten:
        rewriting = Rewriting(plan)
        for node in rewriting:
            waiting = [node.name] if isinstance(node.operator, Filter) else []
            while waiting:
                waiting += self._push(rewriting, rewriting.node(waiting.pop()))
        return rewriting.result()

    def _push(self, rewriting: Rewriting, node: Node) -> list[str]:
        """Put one filter before what it reads, if that can be; returns the names of the filters that this makes."""
        before = rewriting.node(node.inputs[0].operator)
        linked = isinstance(node.operator, Filter) and node.operator.chain and not node.type.marks
        if not linked or not rewriting.is_inner(before.name) or Trait.REPEATABLE not in node.operator.traits:
            return []
        if isinstance(before.operator, Union):
            return self._before_union(rewriting, before, node)
        return self._before_projection(rewriting, before, node)

    def _before_projection(self, rewriting: Rewriting, before: Node, node: Node) -> list[str]:
        assert isinstance(node.operator, Filter)  # noqa: S101 - for the type checker
        columns = projected(before.operator, rewriting.type_of(before.inputs[0])) if len(before.inputs) == 1 else None
        if columns is None or Trait.REPEATABLE not in before.operator.traits:
            return []
        sources = {column.name.lower(): quoted(column.source) for column in columns if column.source is not None}
        if not {name.lower() for name in columns_of(node.operator.condition)} <= sources.keys():
            return []
        condition = substituted(node.operator.condition, sources)
        if condition is None:
            return []
        name = rewriting.free_name(f"{node.name}_first")
        rewriting.put(Filter(name=name, condition=condition, chain=before.operator.chain), before.inputs)
        rewriting.put(replace(before.operator, name=node.name, chain=True), [StreamRef(name)])
        rewriting.remove(before.name)
        rewriting.did(f"{node.name} goes before {before.name}")
        return [name]

    def _before_union(self, rewriting: Rewriting, before: Node, node: Node) -> list[str]:
        assert isinstance(node.operator, Filter)  # noqa: S101 - for the type checker
        made = []
        for number, stream in enumerate(before.inputs, 1):
            name = rewriting.free_name(f"{node.name}_of_{number}")
            rewriting.put(replace(node.operator, name=name, chain=before.operator.chain), [stream])
            made.append(name)
        rewriting.put(replace(before.operator, name=node.name, chain=True), [StreamRef(name) for name in made])
        rewriting.remove(before.name)
        rewriting.did(f"{node.name} goes before {before.name}, to each of its streams")
        return made
