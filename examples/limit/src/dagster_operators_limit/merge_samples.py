"""A rule of the planner: of two samples by the same columns, one behind the other, the smaller one is enough."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from typing_extensions import override

from dagster_operators.plugins import Catalog, Dataflow, Rewriting, Rewritten, Rule
from dagster_operators_limit.sample.logical import Sample


class MergeSamples(Rule):
    """Makes one of two samples by the same columns: the keys of the smaller share are among those of the larger one."""

    name: ClassVar[str] = "merge_samples"

    @override
    def apply(self, plan: Dataflow) -> Rewritten:
        rewriting = Rewriting(plan)
        for node in rewriting:
            before = rewriting.node(node.inputs[0].operator) if node.inputs else node
            one, other = before.operator, node.operator
            if isinstance(one, Sample) and isinstance(other, Sample) and self._fit(one, other) and rewriting.is_inner(one.name):
                merged = replace(other, percent=min(one.percent, other.percent), chain=one.chain)
                rewriting.put(merged, before.inputs)
                rewriting.remove(one.name)
                rewriting.did(f"{other.name} does what {one.name} did, too")
        return rewriting.result()

    def _fit(self, one: Sample, other: Sample) -> bool:
        return one.by == other.by and other.chain


def register(catalog: Catalog) -> None:
    """Tell the catalog: the entry point."""
    catalog.add_rule(MergeSamples)
