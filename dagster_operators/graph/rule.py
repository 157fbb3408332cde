"""Rules: from a plan to a better one that gives the same rows.

A rule sees the dataflow as its author wrote it, or as the rules before it left it, and never the engine. What users and stored
data know must stay: the streams that go to tables, sinks or round in a loop, and the names of operators that keep state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from dagster_operators.graph.dataflow import Dataflow


@dataclass(frozen=True)
class Rewritten:
    """What a rule made of a plan.

    Attributes:
        plan: The plan; the very one that the rule was given where there was nothing to do.
        did: What it did, a few words for each thing, for explain.
    """

    plan: Dataflow
    did: tuple[str, ...] = ()


class Rule(ABC):
    """A way to make a plan better, without a change of any row.

    Example:
        >>> class Nothing(Rule):
        ...     name = "nothing"
        ...     needs = ("merge_filters",)
        ...     def apply(self, plan):
        ...         return Rewritten(plan)
        >>> Nothing().name
        'nothing'
    """

    name: ClassVar[str]
    """What explain calls it, and what it is switched off by."""
    needs: ClassVar[tuple[str, ...]] = ()
    """The rules that come before it."""
    needed_by: ClassVar[tuple[str, ...]] = ()
    """The rules that come after it."""

    @abstractmethod
    def apply(self, plan: Dataflow) -> Rewritten:
        """The plan with what the rule is for; :class:`~dagster_operators.graph.rewriting.Rewriting` helps to make it.

        Args:
            plan: What is to be computed; not to be changed itself.
        """
