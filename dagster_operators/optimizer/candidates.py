"""Candidates: operators with the ways their inputs come in, and all candidates before them, with what they give and cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

from dagster_operators.errors import PipelineError
from dagster_operators.optimizer.costs import NO_COSTS, Costs, of_channel, of_driver
from dagster_operators.optimizer.estimates import Estimate
from dagster_operators.optimizer.program import SOLUTION_SET, Node
from dagster_operators.optimizer.properties.distribution import Distribution, Partitioning, RequiredDistribution
from dagster_operators.optimizer.properties.fields import Fields, in_order
from dagster_operators.optimizer.properties.local_order import UNORDERED, LocalOrder, RequiredOrder
from dagster_operators.optimizer.properties.ordering import Ordering
from dagster_operators.optimizer.strategies import DriverStrategy, Exchange, ExecutionMode, LocalStrategy, Ship, Temp


@dataclass(frozen=True, eq=False)
class Channel:
    """A way into an operator, as one candidate has it.

    Attributes:
        source: The candidate that the rows come from.
        ship: How they move.
        keys: The fields by which they move.
        ordering: The order of the ranges by which they move.
        partitioner: The user's function by which they move.
        boundaries: The user's boundaries of ranges.
        exchange: Whether the reader begins while rows still come.
        local: What is done to the rows of each part.
        local_ordering: The order in which they are sorted.
        temp: Whether they are kept.
        replication: To how many parts each row goes.
        required: The requirement of the operator that this meets.
        required_order: The same of the order.
        name: What the user calls a broadcast data set.
    """

    source: Candidate
    ship: Ship = Ship.FORWARD
    keys: Fields | None = None
    ordering: Ordering | None = None
    partitioner: object | None = None
    boundaries: object | None = None
    exchange: Exchange = Exchange.PIPELINED
    local: LocalStrategy = LocalStrategy.NONE
    local_ordering: Ordering | None = None
    temp: Temp = Temp.NONE
    replication: int = 1
    required: RequiredDistribution | None = None
    required_order: RequiredOrder | None = None
    name: str = ""

    @cached_property
    def distribution(self) -> Distribution:
        """How the rows lie behind the exchange."""
        distribution = self.source.distribution
        if self.ship is Ship.FORWARD:
            return distribution
        if self.ship is Ship.BROADCAST:
            return Distribution(Partitioning.REPLICATED)
        if self.ship is Ship.HASH and self.keys is not None:
            return Distribution(Partitioning.HASH, self.keys, unique=distribution.unique)
        if self.ship is Ship.RANGE and self.ordering is not None:
            return Distribution.ranged(self.ordering, self.boundaries).with_unique(distribution.unique)
        if self.ship is Ship.CUSTOM:
            return Distribution(Partitioning.CUSTOM, self.keys, partitioner=self.partitioner, unique=distribution.unique)
        kind = Partitioning.REBALANCED if self.ship is Ship.REBALANCE else Partitioning.RANDOM
        return Distribution(kind, unique=distribution.unique)

    @cached_property
    def order(self) -> LocalOrder:
        """How the rows of a part lie when the operator reads them."""
        if self.local.dams and self.local_ordering is not None:
            return LocalOrder.by(self.local_ordering)
        return self.source.order if self.ship is Ship.FORWARD else UNORDERED

    @property
    def estimate(self) -> Estimate:
        """How much is read, copies included."""
        return self.source.estimate.times(self.replication)

    @property
    def is_dynamic(self) -> bool:
        """Whether the rows are others in each round of an iteration."""
        return self.source.node.is_dynamic

    @property
    def weight(self) -> int:
        """How many rounds are expected."""
        return self.source.node.weight

    @cached_property
    def costs(self) -> Costs:
        """What getting the rows in costs."""
        return of_channel(self)

    def sorted_for(self, required: RequiredOrder) -> Channel:
        """The same, whose rows are sorted unless they meet a requirement already."""
        ordering = required.sorted_by
        if ordering is None or required.is_met_by(self.order):
            return self
        return replace(self, local=LocalStrategy.SORT, local_ordering=ordering)


def channel_for(
    required: RequiredDistribution, source: Candidate, mode: ExecutionMode, *, breaks: bool, changes: bool, temp: Temp = Temp.NONE
) -> Channel:
    """The cheapest way to make rows meet a requirement: they stay where they are if they meet it.

    Args:
        required: The requirement.
        source: Where the rows come from.
        mode: How exchanges are carried out.
        breaks: Whether the source's readers come together again.
        changes: Whether the reader has another number of parts.
        temp: Whether rows are kept.

    Raises:
        PipelineError: Rows of which each part has all would have to be parted.
    """
    parted = required.partitioning not in (Partitioning.REPLICATED, Partitioning.ANY_DISTRIBUTION)
    if source.distribution.is_replicated and parted:
        raise PipelineError(
            "rows that each part has would have to be parted", operator=source.node.name,
            remedy="read the source anew instead of the copies",
        )  # fmt: skip
    ship, keys, ordering = Ship.FORWARD, None, None
    trivial = required.is_trivial or required.partitioning is Partitioning.ANY_DISTRIBUTION
    if trivial:
        ship = Ship.RANDOM if changes else Ship.FORWARD
    elif changes or not required.is_met_by(source.distribution):
        ship = _EXCHANGES[required.partitioning]
        keys = None if required.fields is None else in_order(required.fields)
        if required.partitioning is Partitioning.RANGE and required.ordering is not None:
            ordering = required.ordering.sorted_by
            keys = ordering.fields
    return Channel(
        source, ship, keys, ordering, required.partitioner if ship is Ship.CUSTOM else None,
        required.boundaries if ship is Ship.RANGE else None, mode.exchange(ship, breaks=breaks), temp=temp,
    )  # fmt: skip


_EXCHANGES = {
    Partitioning.REPLICATED: Ship.BROADCAST,
    Partitioning.ON_KEY: Ship.HASH,
    Partitioning.HASH: Ship.HASH,
    Partitioning.RANGE: Ship.RANGE,
    Partitioning.REBALANCED: Ship.REBALANCE,
    Partitioning.CUSTOM: Ship.CUSTOM,
}


class Dammed(Enum):
    """Whether a candidate is among those before another one, and whether all its rows are there before the first is used."""

    NOT_BEFORE = "not before"
    FLOWS = "flows"
    DAMMED = "dammed"


@dataclass(eq=False)
class Candidate:
    """An operator as a plan may have it; the enumeration fills in what it gives and costs, and changes nothing later.

    Attributes:
        node: The operator.
        title: What a plan shows it as, where that is not the operator's kind.
        driver: How its work is done.
        inputs: The ways in.
        broadcasts: The data sets that each part has, by name.
        distribution: How its rows lie over the parts.
        order: How they lie within each.
        parallelism: How many parts there are.
        costs: What it costs itself.
        all_costs: The same with all before it; a data set that is read several times counts for each reader with its share.
        choices: The candidate that is taken of each operator with several readers before it.
        estimate: How much it gives.
        loop: What is in it, of an iteration.
        initial: How the rows of the first round come in, of a placeholder.
        own_estimate: How much a combiner gives, whose operator gives something else.
    """

    node: Node
    driver: DriverStrategy
    inputs: tuple[Channel, ...]
    parallelism: int
    broadcasts: tuple[Channel, ...] = ()
    distribution: Distribution = field(default_factory=Distribution)
    order: LocalOrder = UNORDERED
    costs: Costs = NO_COSTS
    all_costs: Costs = NO_COSTS
    choices: Mapping[Node, Candidate] = field(default_factory=dict)
    title: str = ""
    loop: Loop | None = None
    initial: Channel | None = None
    own_estimate: Estimate | None = None

    @property
    def estimate(self) -> Estimate:
        """How much it gives: a combiner as much as comes in."""
        return self.node.estimate if self.own_estimate is None else self.own_estimate

    @cached_property
    def shared_costs(self) -> Costs:
        """The share of its costs that one of its readers bears."""
        readers = self.node.readers if self.own_estimate is None else 1
        return self.all_costs * (1 / readers) if readers > 1 else self.all_costs

    def with_costs(self, more: Costs = NO_COSTS) -> Candidate:
        """This candidate, once its costs are filled in, of which the inputs' must be known.

        Args:
            more: What else it costs, as the rounds of an iteration.
        """
        weight = self.node.weight if self.node.is_dynamic else 1
        costs = of_driver(self.driver, self.inputs, weight)
        for channel in self.inputs:
            costs += channel.costs
        return self.with_own_costs(costs if more is NO_COSTS else costs + more)

    def with_own_costs(self, own: Costs) -> Candidate:
        """This candidate, whose own costs are given."""
        self.costs = self.all_costs = own
        for channel in (*self.inputs, *self.broadcasts):
            self.all_costs += channel.source.shared_costs
        return self

    def dammed_from(self, source: Candidate) -> Dammed:
        """Whether a candidate's rows flow into this one, or are all there before the first is used."""
        states: dict[int, Dammed] = {}
        for candidate in self:
            states[id(candidate)] = candidate._dammed(source, states)  # noqa: SLF001 - its own
        return states[id(self)]

    def _dammed(self, source: Candidate, before: Mapping[int, Dammed]) -> Dammed:
        if self.initial is not None:
            return _dammed_by_rounds(self, self.initial, source)
        if source is self:
            return Dammed.FLOWS
        for number, channel in enumerate(self.inputs):
            state = before[id(channel.source)]
            if state is Dammed.DAMMED:
                return state
            if state is Dammed.FLOWS:
                dams = channel.local.dams or channel.temp.breaks_pipeline or self.driver.dams_input(number)
                return Dammed.DAMMED if dams or self.loop is not None else Dammed.FLOWS
        if any(before[id(channel.source)] is not Dammed.NOT_BEFORE for channel in self.broadcasts):
            return Dammed.DAMMED
        return Dammed.NOT_BEFORE if self.loop is None else self.loop.dammed_from(source)

    def __iter__(self) -> Iterator[Candidate]:
        """This and all before it, each once, those first that are read; what is in an iteration is left out."""
        seen: set[int] = set()
        waiting: list[tuple[Candidate, bool]] = [(self, False)]
        while waiting:
            candidate, ready = waiting.pop()
            if ready:
                yield candidate
            elif id(candidate) not in seen:
                seen.add(id(candidate))
                waiting.append((candidate, True))
                waiting.extend((channel.source, False) for channel in reversed((*candidate.inputs, *candidate.broadcasts)))


def _dammed_by_rounds(start: Candidate, initial: Channel, source: Candidate) -> Dammed:
    """The same of a placeholder, into which rows come from outside: a solution set is whole before a round begins."""
    state = Dammed.FLOWS if source is start else initial.source.dammed_from(source)
    if state is not Dammed.FLOWS:
        return state
    whole = start.node.kind == SOLUTION_SET
    sorts = source is not start and (initial.local.dams or initial.temp.breaks_pipeline)
    return Dammed.DAMMED if whole or sorts else state


@dataclass(frozen=True, eq=False)
class Loop:
    """What is in an iteration.

    Attributes:
        start: Where the rows of a round come in: the partial solution, or the workset.
        end: What goes round: the next partial solution, or the next workset.
        solution: Where the solution set comes in, of a delta iteration.
        delta: What is taken into the solution set.
        updates_at_once: Whether changes of the solution set are taken in as they are made.
        criterion: The data set that ends a bulk iteration when it has no rows.
    """

    start: Candidate
    end: Candidate
    solution: Candidate | None = None
    delta: Candidate | None = None
    updates_at_once: bool = False
    criterion: Candidate | None = None

    @property
    def ends(self) -> tuple[Candidate, ...]:
        """All that leaves a round."""
        return (self.end, *(end for end in (self.delta, self.criterion) if end is not None))

    def dammed_from(self, source: Candidate) -> Dammed:
        """The same as of a candidate, of all that leaves a round."""
        states = [end.dammed_from(source) for end in self.ends]
        if len(states) > 1 and any(state is not Dammed.NOT_BEFORE for state in states):
            return Dammed.DAMMED
        return states[0]
