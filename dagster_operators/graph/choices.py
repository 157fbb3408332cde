"""The choices of a pipeline among ways of doing its operators' work: made once, recorded with the plan, and kept for state.

An epoch is ended by the plan that it was begun with, whatever is estimated meanwhile. In the next epoch an operator whose state
depends on the choice goes on as recorded; others move to another way if that costs less now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from dagster_operators.graph.alternatives import PREFERRED, Alternative, Choice, CostModel, Place, Preferred, choose
from dagster_operators.graph.operator import LogicalOperator
from dagster_operators.graph.sizes import BySize


@dataclass(frozen=True)
class Recorded:
    """The choices of the epoch that is open, else of the last one, by the names that operators have now.

    Attributes:
        taken: The name of the way that was taken, for each operator with a recorded choice.
        operators: The operators that the epoch had. Those without a recorded choice went the preferred way.
        begun: Whether the epoch is open, so that all choices stay.
    """

    taken: Mapping[str, str] = field(default_factory=dict)
    operators: frozenset[str] = frozenset()
    begun: bool = False

    def way(self, operator: str, possible: Sequence[Alternative]) -> Alternative | None:
        """The way that the epoch took for an operator; None if it is not known, or not possible now.

        >>> ways = [Alternative("first", 1), Alternative("second", 2)]
        >>> recorded = Recorded({"join": "second"}, frozenset({"join", "top"}))
        >>> recorded.way("join", ways).name, recorded.way("top", ways).name, recorded.way("new", ways)
        ('second', 'first', None)
        """
        if operator in self.taken:
            return next((way for way in possible if way.name == self.taken[operator]), None)
        return possible[0] if operator in self.operators else None


NOTHING_RECORDED: Final = Recorded()


class Choices:
    """The choices of one dataflow, which all that rules make of it share.

    Args:
        costs: The cost model.
        recorded: The choices of earlier epochs.
    """

    def __init__(self, costs: CostModel = PREFERRED, recorded: Recorded = NOTHING_RECORDED) -> None:
        self._costs = costs
        self._recorded = recorded
        self._made: dict[tuple[str, str], tuple[str, str]] = {}

    @property
    def costs(self) -> CostModel:
        """The cost model; another one is asked anew."""
        return self._costs

    @costs.setter
    def costs(self, costs: CostModel) -> None:
        self._costs = costs
        self._made.clear()

    @property
    def recorded(self) -> Recorded:
        """The choices of earlier epochs; where they are others than those made here, the cost model is asked anew."""
        return self._recorded

    @recorded.setter
    def recorded(self, recorded: Recorded) -> None:
        self._recorded = recorded
        for (kind, operator), (name, _) in list(self._made.items()):
            if operator in recorded.operators and recorded.taken.get(operator) != name:
                del self._made[kind, operator]

    def copy(self) -> Choices:
        """The same for a part of the dataflow, which comes to have records of its own."""
        return Choices(self._costs, self._recorded)

    def choose(
        self,
        operator: LogicalOperator,
        place: Place,
        alternatives: Sequence[Alternative],
        has_state: Callable[[Alternative], bool],
    ) -> tuple[Alternative, Choice | None]:
        """The way that is taken of doing an operator's work, and the choice if there was one.

        Args:
            operator: The operator.
            place: What is known of where it is.
            alternatives: Its ways, the preferred one first.
            has_state: Whether something in storage depends on a way.

        Raises:
            PipelineError: The needs of no way hold, two have one name, or the cost model chose something else.
        """
        asked = _Asked(self._costs, self._recorded, has_state, self._made)
        taken, choice = choose(operator, place, alternatives, asked)
        if choice is None or not asked.was_asked:
            return taken, choice
        by_size = any(way.beside for way in alternatives)
        by_author = isinstance(self._costs, Preferred) and choice.preferred
        recorded = not by_author or (any(way.exchanges for way in alternatives) and not by_size)
        return taken, replace(choice, recorded=recorded, is_open=recorded or by_size)


@dataclass
class _Asked:
    """A cost model that is asked once about each operator, and of which recorded choices know better."""

    costs: CostModel
    recorded: Recorded
    has_state: Callable[[Alternative], bool]
    made: dict[tuple[str, str], tuple[str, str]]
    was_asked: bool = False

    def choose(self, operator: LogicalOperator, alternatives: Sequence[Alternative]) -> tuple[Alternative, str]:
        self.was_asked = True
        key = (operator.kind, operator.name)
        name, why = self.made.get(key, ("", ""))
        again = next((way for way in alternatives if way.name == name), None)
        if again is not None:
            return again, why
        taken, why = self.costs.choose(operator, alternatives)
        if taken in alternatives:
            taken, why = self._kept(operator, alternatives, taken, why)
            self.made[key] = (taken.name, why)
        return taken, why

    def _kept(
        self, operator: LogicalOperator, alternatives: Sequence[Alternative], taken: Alternative, why: str
    ) -> tuple[Alternative, str]:
        before = self.recorded.way(operator.name, alternatives)
        if before is None or before.name == taken.name:
            return taken, why
        if self.recorded.begun:
            return before, f"as the epoch began; else it would be {taken.name}: {why}"
        if self.has_state(before) or self.has_state(taken):
            return before, f"as recorded, since state depends on it; else it would be {taken.name}: {why}"
        if self._is_no_better(operator.name, before, taken):
            return before, f"as recorded; {taken.name} is not clearly better: {why}"
        return taken, why

    def _is_no_better(self, operator: str, before: Alternative, taken: Alternative) -> bool:
        """Whether nothing speaks for another way than the one that is recorded."""
        if isinstance(self.costs, BySize):
            return self.costs.stays(operator, before, taken)
        return isinstance(self.costs, Preferred) and operator in self.recorded.taken
