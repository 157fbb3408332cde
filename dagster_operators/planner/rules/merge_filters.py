"""Filters behind one another become one."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from typing_extensions import override

from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.expressions import without_comments
from dagster_operators.graph.rewriting import Rewriting
from dagster_operators.graph.rule import Rewritten, Rule
from dagster_operators.graph.substitution import LONGEST
from dagster_operators.graph.traits import Trait
from dagster_operators.operators.relational.filter import Filter


class MergeFilters(Rule):
    """Makes one filter of two, unless a condition gives something else each time or calls the user's functions."""

    name: ClassVar[str] = "merge_filters"
    needs: ClassVar[tuple[str, ...]] = ("push_filters",)

    @override
    def apply(self, plan: Dataflow) -> Rewritten:
        rewriting = Rewriting(plan)
        merged: dict[str, str] = {}
        for node in rewriting:
            if not isinstance(node.operator, Filter):
                continue
            before = rewriting.node(node.inputs[0].operator)
            inner = node.operator.chain and rewriting.is_inner(before.name) and not node.type.marks
            if not (inner and isinstance(before.operator, Filter)):
                continue
            if all(Trait.REPEATABLE in operator.traits for operator in (before.operator, node.operator)):
                first = merged.get(before.name, f"({without_comments(before.operator.condition)})")
                condition = f"{first} AND ({without_comments(node.operator.condition)})"
                if len(condition) <= LONGEST:
                    merged[node.name] = condition
                    rewriting.put(replace(node.operator, condition=condition, chain=before.operator.chain), before.inputs)
                    rewriting.remove(before.name)
                    rewriting.did(f"{before.name} and {node.name} are one filter")
        return rewriting.result()
