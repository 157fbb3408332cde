"""New operators that keep state, behind sources that have given rows: they would begin in the middle of what is there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import cached_property

from dagster_operators.errors import OperatorsError
from dagster_operators.graph.operator import StreamType
from dagster_operators.operators.relational.source import Source
from dagster_operators.plans.compared import ComparedPlans
from dagster_operators.plans.verdict import Stored


class Beginning:
    """The operators of a plan that begin without the rows that came before them.

    Args:
        compared: The plan, and that of the last epoch.
        stored: What else the ledger knows.
        anew: The operators and sources that begin from nothing, as was decided.
    """

    def __init__(self, compared: ComparedPlans, stored: Stored, anew: Collection[str]) -> None:
        self._compared, self._stored = compared, stored
        self._anew = {*anew, *stored.elsewhere}

    @cached_property
    def without_past(self) -> Mapping[str, list[str]]:
        """By each new operator with state the sources whose earlier rows it lacks; behind another such operator none is named.

        The first of them decides: what it lacks, those behind it lack too.
        """
        shape, added = self._compared.new, {*self._compared.added} & self._compared.new.running
        past, lacking, found = {*self._sources}, set[str](), list[str]()
        for name, node in shape.nodes.items():
            before = {one.operator for one in node.inputs}
            if not past.isdisjoint(before):
                past.add(name)
            if not lacking.isdisjoint(before):
                lacking.add(name)
            elif name in past and name in added and self._keeps_state(name):
                lacking.add(name)
                found.append(name)
        return {name: sorted(self._sources & shape.upstream([name])) for name in found}

    @cached_property
    def _sources(self) -> frozenset[str]:
        """The sources that have given rows, and go on."""
        former = self._compared.former
        named = [node.name for node in self._compared.new.plan.nodes if isinstance(node.operator, Source)]
        return frozenset(one for one in named if one not in self._anew and former.get(one) in self._stored.positions)

    def _keeps_state(self, name: str) -> bool:
        node = self._compared.new.nodes[name]
        types = [self._types.get(one.operator) if one.is_main else None for one in node.inputs]
        return node.operator.keeps_state([one or StreamType(None) for one in types])

    @cached_property
    def _types(self) -> Mapping[str, StreamType]:
        """The types of main streams, where they follow from a plan without code of the user's."""
        found: dict[str, StreamType] = {}
        for name, node in self._compared.new.nodes.items():
            known = [found.get(one.operator) if one.is_main else None for one in node.inputs]
            inputs = [one for one in known if one is not None]
            if len(inputs) == len(known) and not node.operator.declares_state:
                with suppress(OperatorsError):
                    found[name] = node.operator.output(inputs)
        return found
