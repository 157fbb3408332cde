"""Several ways of doing a logical operator's work, and the choice among them.

An operator names its ways in order of preference, each with what it needs. The planner leaves out those whose needs do not hold
where the operator is, and lets a cost model choose among the rest; until there is one that knows better, the first is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from dagster_operators.errors import PipelineError
from dagster_operators.graph.exchange import Exchange
from dagster_operators.graph.operator import LogicalOperator


@dataclass(frozen=True)
class Place:
    """What is known of where an operator is in its pipeline.

    Attributes:
        table: The table that its rows go to as they are, if any.
        raw_changes: Whether its rows are changes as a user's log has them, which may take back what is not there.
    """

    table: str | None = None
    raw_changes: bool = False


class Need(Protocol):
    """A property that must hold where an operator is."""

    def unmet(self, place: Place) -> str | None:
        """Why it does not hold there, as in "needs ..."; None if it does."""


@dataclass(frozen=True)
class RowsGoToTable:
    """The operator's rows go to a table as they are, so that the table's rows are exactly its own.

    >>> RowsGoToTable().unmet(Place(table="newest"))
    >>> RowsGoToTable().unmet(Place())
    'needs that its rows go straight to a table'
    """

    def unmet(self, place: Place) -> str | None:
        """Whether there is such a table."""
        return None if place.table is not None else "needs that its rows go straight to a table"


@dataclass(frozen=True)
class ChangesAreRaw:
    """The operator reads changes as a user's log has them: no operator has seen that they take back what is there.

    >>> ChangesAreRaw().unmet(Place(raw_changes=True))
    >>> ChangesAreRaw().unmet(Place())
    'is for changes that as_changes() reads'
    """

    def unmet(self, place: Place) -> str | None:
        """Whether they are such."""
        return None if place.raw_changes else "is for changes that as_changes() reads"


@dataclass(frozen=True)
class Cost:
    """What an epoch is estimated to cost.

    Attributes:
        rows: Rows read and written.
        bytes: Bytes of them.
        seconds: Time on one core.
    """

    rows: float | None = None
    bytes: float | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Alternative:
    """One way of doing an operator's work.

    Attributes:
        name: Unique among the operator's ways; explain shows it.
        lowered: What it lowers to: a physical operator, several parts, or ``()`` to hand the only input on.
        needs: What must hold for it.
        cost: What it is estimated to cost, where that is known.
        exchanges: Of each input, which rows must meet. Without any, the operator's ports say so.
        beside: How the rows of a table of the operator's own get to those of its inputs; None for as the engine likes.

    >>> from dagster_operators.graph.exchange import Broadcast, Forward
    >>> str(Alternative("broadcast the second", "join", exchanges=(Forward(), Broadcast())).exchanges[1])
    'broadcast'
    """

    name: str
    lowered: object
    needs: tuple[Need, ...] = ()
    cost: Cost | None = None
    exchanges: tuple[Exchange, ...] = ()
    beside: Exchange | None = None

    def exchanges_at(self, operator: LogicalOperator, ports: Sequence[Exchange]) -> tuple[Exchange, ...]:
        """Its exchange for each input of an operator.

        Args:
            operator: The operator.
            ports: The exchanges of its ports.

        Raises:
            PipelineError: It names more exchanges than there are inputs, or fewer.
        """
        if self.exchanges and len(self.exchanges) != len(ports):
            raise PipelineError(
                f"the alternative {self.name!r} of {operator.label} has {len(self.exchanges)} exchanges for {len(ports)} inputs",
                operator=operator.name, remedy="name one exchange for each input, or none to take those of the ports",
            )  # fmt: skip
        return self.exchanges or tuple(ports)


class CostModel(Protocol):
    """Chooses among ways of doing an operator's work."""

    def choose(self, operator: LogicalOperator, alternatives: Sequence[Alternative]) -> tuple[Alternative, str]:
        """One of these, and why, in a few words for explain; there are at least two, in order of preference."""


class Preferred:
    """The cost model as long as there is no other: takes the way that the operator's author prefers."""

    def choose(self, operator: LogicalOperator, alternatives: Sequence[Alternative]) -> tuple[Alternative, str]:  # noqa: ARG002
        """The first."""
        return alternatives[0], "preferred"


PREFERRED: Final = Preferred()


@dataclass(frozen=True)
class Choice:
    """Which of several ways was taken.

    Attributes:
        taken: Its name.
        why: The reason.
        others: Why not each of the others, by name.
        preferred: Whether it is the first of those that fit.
        recorded: Whether it is recorded with the plan, since another one may be taken another time.
        is_open: Whether another one may be taken another time, once there is more to choose by.

    >>> str(Choice("in table", "preferred", {"in state": "not chosen"}))
    'in table (preferred; in state: not chosen)'
    """

    taken: str
    why: str
    others: Mapping[str, str] = field(default_factory=dict)
    preferred: bool = True
    recorded: bool = False
    is_open: bool = False

    def __str__(self) -> str:
        return f"{self.taken} ({'; '.join([self.why, *(f'{name}: {why}' for name, why in self.others.items())])})"


def choose(
    operator: LogicalOperator, place: Place, alternatives: Sequence[Alternative], costs: CostModel = PREFERRED
) -> tuple[Alternative, Choice | None]:
    """The way that is taken of doing an operator's work, and the choice if there was one.

    Raises:
        PipelineError: The needs of no way hold, two have one name, or the cost model chose something else.
    """
    names = [alternative.name for alternative in alternatives]
    if len(set(names)) < len(names):
        raise PipelineError(
            f"{operator.label} lowers to two alternatives of one name: {', '.join(names)}", operator=operator.name,
            remedy="give each a name of its own",
        )  # fmt: skip
    unmet = {one.name: [why for need in one.needs if (why := need.unmet(place))] for one in alternatives}
    possible = [alternative for alternative in alternatives if not unmet[alternative.name]]
    refused = {name: ", ".join(reasons) for name, reasons in unmet.items() if reasons}
    if not possible:
        told = "; ".join(f"{name} {reason}" for name, reason in refused.items())
        raise PipelineError(
            f"there is no way to run {operator.label} here: {told}", operator=operator.name, remedy="change what comes behind it"
        )
    if len(alternatives) == 1:
        return possible[0], None
    taken, why = costs.choose(operator, possible) if len(possible) > 1 else (possible[0], "the only one that fits")
    if taken not in possible:
        raise PipelineError(
            f"the cost model chose {taken!r}", operator=operator.name,
            remedy=f"return one of those that it is given: {', '.join(one.name for one in possible)}",
        )  # fmt: skip
    others = {name: refused.get(name, "not chosen") for name in names if name != taken.name}
    return taken, Choice(taken.name, why, others, preferred=taken is possible[0])
