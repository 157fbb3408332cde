"""Stages of a plan beside those that somebody counts on who planned without knowing which ways operators go.

Dagster's ops are of the stages that a deployment was loaded with, and loading reads no storage. Where the ledger has other ways
recorded, which cut other stages, each of these is the work of the op that has its last operator.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol


class Cut(Protocol):
    """A stage, as far as it matters here."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def operators(self) -> tuple[str, ...]:
        """The logical operators that it does the work of."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Its physical operators, in topological order."""

    @property
    def upstream(self) -> tuple[str, ...]:
        """The stages that it reads."""


def work_of(defined: Sequence[Cut], planned: Sequence[Cut]) -> Mapping[str, tuple[str, ...]]:
    """The stages of a plan that each of others does the work of: all of the plan, each once, in its order.

    Args:
        defined: The stages that the work is divided among, in topological order.
        planned: The stages of the plan, in topological order, of the same pipeline.
    """
    by_node = {node: stage.name for stage in defined for node in stage.nodes}
    by_operator = {operator: stage.name for stage in defined for operator in stage.operators}
    work: dict[str, tuple[str, ...]] = {stage.name: () for stage in defined}
    for stage in planned:
        home = next((found for node in reversed(stage.nodes) if (found := by_node.get(node))), None)
        home = home or next((by_operator[name] for name in reversed(stage.operators) if name in by_operator), defined[-1].name)
        work[home] = (*work[home], stage.name)
    return work


def with_all_before(names: Collection[str], planned: Sequence[Cut]) -> Iterator[str]:
    """Stages of a plan with all that come before them, in the plan's order.

    Args:
        names: The names of the stages.
        planned: The stages of the plan, in topological order.
    """
    needed = set(names)
    for stage in reversed(planned):
        if stage.name in needed:
            needed.update(stage.upstream)
    return (stage.name for stage in planned if stage.name in needed)
