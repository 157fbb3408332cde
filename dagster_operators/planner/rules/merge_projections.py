"""Projections behind one another become one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from typing_extensions import override

from dagster_operators.graph.dataflow import Dataflow, Node
from dagster_operators.graph.expressions import columns_of
from dagster_operators.graph.rewriting import Rewriting
from dagster_operators.graph.rule import Rewritten, Rule
from dagster_operators.graph.substitution import substituted
from dagster_operators.graph.traits import Trait
from dagster_operators.operators.relational.columns import OutputColumn, as_select, projected
from dagster_operators.operators.relational.projection import Select
from dagster_operators.planner.rules.mark_places import seen_places
from dagster_operators.types.names import quoted


class MergeProjections(Rule):
    """Makes one selection of two projections, unless the first one's work would be done twice or cannot be repeated."""

    name: ClassVar[str] = "merge_projections"
    needs: ClassVar[tuple[str, ...]] = ("push_filters", "redundant_projections")

    @override
    def apply(self, plan: Dataflow) -> Rewritten:
        rewriting, seen = Rewriting(plan), seen_places(plan)
        for node in rewriting:
            is_same = isinstance(node.operator, Select) or node.name not in seen
            if is_same and len(node.inputs) == 1 and node.inputs[0].is_main and node.operator.chain:
                before = rewriting.node(node.inputs[0].operator)
                if rewriting.is_inner(before.name) and Trait.REPEATABLE in before.operator.traits:
                    self._merge(rewriting, before, node)
        return rewriting.result()

    def _merge(self, rewriting: Rewriting, before: Node, node: Node) -> None:
        second = projected(node.operator, before.type)
        first = projected(before.operator, rewriting.type_of(before.inputs[0])) if second and len(before.inputs) == 1 else None
        columns = _merged(first, second) if first and second else None
        if columns is None:
            return
        made = as_select(node.name, columns, chain=before.operator.chain)
        if made.outputs([rewriting.type_of(before.inputs[0])]) == node.outputs:
            rewriting.put(made, before.inputs)
            rewriting.remove(before.name)
            rewriting.did(f"{before.name} and {node.name} are one projection")


def _merged(first: Sequence[OutputColumn], second: Sequence[OutputColumn]) -> list[OutputColumn] | None:
    """The columns of the second projection over the input of the first; None if something would be computed twice."""
    known = {column.name.lower(): column for column in first}
    uses = Counter(name.lower() for column in second for name in columns_of(column.expression))
    if any(column.source is None and uses[name] > 1 for name, column in known.items()):
        return None
    texts = {name: column.expression if column.source is None else quoted(column.source) for name, column in known.items()}
    made = []
    for column in second:
        if column.source is not None:
            of = known[column.source.lower()]
            made.append(OutputColumn(column.name, of.expression, of.source))
            continue
        expression = substituted(column.expression, texts)
        if expression is None or _reads_twice(column.expression, known):
            return None
        made.append(OutputColumn(column.name, expression, None))
    return made


def _reads_twice(expression: str, known: dict[str, OutputColumn]) -> bool:
    """Whether an expression has a computed column in several places."""
    from dagster_operators.graph.expressions import located_columns

    places = Counter(name.lower() for _, _, name in located_columns(expression) or ())
    return any(count > 1 and name in known and known[name].source is None for name, count in places.items())
