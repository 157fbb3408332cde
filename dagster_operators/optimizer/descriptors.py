"""The ways of running an operator: what each requires of its inputs, what it gives, and which candidate it makes.

A package from outside describes an operator of its own by a class like these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from typing_extensions import override

from dagster_operators.optimizer import strategies
from dagster_operators.optimizer.candidates import Candidate, Channel
from dagster_operators.optimizer.costs import NO_COSTS
from dagster_operators.optimizer.program import Node
from dagster_operators.optimizer.properties.distribution import ANYHOW, Distribution, Partitioning, RequiredDistribution
from dagster_operators.optimizer.properties.fields import FieldSet, in_order
from dagster_operators.optimizer.properties.local_order import NO_ORDER, UNORDERED, LocalOrder, RequiredOrder
from dagster_operators.optimizer.properties.ordering import Ordering
from dagster_operators.optimizer.strategies import DriverStrategy, Exchange, LocalStrategy, Ship


class UnaryDescriptor(ABC):
    """A way of running an operator with one input."""

    driver: DriverStrategy

    @property
    def distributions(self) -> Sequence[RequiredDistribution]:
        """The distributions of which its input must meet one; by default every row must be in one part."""
        return (ANYHOW,)

    @property
    def orders(self) -> Sequence[RequiredOrder]:
        """The orders of which its input must meet one; by default any will do."""
        return (NO_ORDER,)

    def candidate(self, node: Node, channel: Channel) -> Candidate:
        """The operator with an input that meets what is required; costs and properties are filled in by the caller.

        Args:
            node: The operator.
            channel: The way in.
        """
        return Candidate(node, self.driver, (reaching(node, channel),), node.parallelism)

    def distribution(self, given: Distribution) -> Distribution:
        """How the output lies over the parts, in the fields of the input; by default as the input."""
        return given

    def order(self, given: LocalOrder) -> LocalOrder:
        """How the output lies within each part, in the fields of the input; by default as the input."""
        return given


class BinaryDescriptor(ABC):
    """A way of running an operator with two inputs."""

    driver: DriverStrategy

    @property
    @abstractmethod
    def distributions(self) -> Sequence[tuple[RequiredDistribution, RequiredDistribution]]:
        """The pairs of distributions of which its inputs must meet one."""

    @property
    def orders(self) -> Sequence[tuple[RequiredOrder, RequiredOrder]]:
        """The pairs of orders of which its inputs must meet one; by default any will do."""
        return ((NO_ORDER, NO_ORDER),)

    def fits(
        self, required: tuple[RequiredDistribution, RequiredDistribution], first: Distribution, second: Distribution
    ) -> bool:
        """Whether two inputs that each meet a requirement fit together; by default they do."""
        del required, first, second
        return True

    def orders_fit(self, first: LocalOrder, second: LocalOrder) -> bool:
        """Whether the orders of two inputs that each meet a requirement fit together; by default they do."""
        del first, second
        return True

    def candidate(self, node: Node, first: Channel, second: Channel) -> Candidate:
        """The operator with inputs that meet what is required; costs and properties are filled in by the caller."""
        return Candidate(node, self.driver, (reaching(node, first), reaching(node, second)), node.parallelism)

    def distribution(self, first: Distribution, second: Distribution) -> Distribution:
        """How the output lies over the parts, of what is handed on of each input."""
        return Distribution.combined(first, second).grouped()

    def order(self, first: LocalOrder, second: LocalOrder) -> LocalOrder:
        """How the output lies within each part, of what is handed on of each input; by default nothing is known."""
        del first, second
        return UNORDERED


Descriptor: TypeAlias = UnaryDescriptor | BinaryDescriptor


def reaching(node: Node, channel: Channel) -> Channel:
    """A way into an operator: copies go to each of its parts."""
    copied = channel.ship is Ship.BROADCAST and channel.replication != node.parallelism
    return replace(channel, replication=node.parallelism) if copied else channel


@dataclass(frozen=True)
class RowWise(UnaryDescriptor):
    """An operator that looks at one row at a time, or hands rows on.

    Attributes:
        driver: How it does so.
        even_copies: Whether it may work on copies.
    """

    driver: DriverStrategy = strategies.MAP
    even_copies: bool = True

    @property
    @override
    def distributions(self) -> Sequence[RequiredDistribution]:
        return (RequiredDistribution(Partitioning.ANY_DISTRIBUTION),) if self.even_copies else (ANYHOW,)


@dataclass(frozen=True)
class Repartitioned(UnaryDescriptor):
    """An operator that asks for a distribution, and hands its rows on.

    Attributes:
        required: The distribution.
    """

    required: RequiredDistribution
    driver: DriverStrategy = strategies.NO_OP

    @property
    @override
    def distributions(self) -> Sequence[RequiredDistribution]:
        return (self.required,)


@dataclass(frozen=True)
class SortedParts(UnaryDescriptor):
    """An operator that asks for an order within each part, and hands its rows on.

    Attributes:
        ordering: The order.
    """

    ordering: Ordering
    driver: DriverStrategy = strategies.NO_OP

    @property
    @override
    def orders(self) -> Sequence[RequiredOrder]:
        return (RequiredOrder(self.ordering),)


@dataclass(frozen=True)
class _Grouping(UnaryDescriptor):
    """An operator on groups of rows with equal keys.

    Attributes:
        keys: The key.
        within: The order within each group.
        partitioner: The user's function that says in which part a group is.
    """

    keys: FieldSet
    within: Ordering | None = None
    partitioner: object | None = None

    @property
    @override
    def distributions(self) -> Sequence[RequiredDistribution]:
        kind = Partitioning.ON_KEY if self.partitioner is None else Partitioning.CUSTOM
        return (RequiredDistribution(kind, self.keys, partitioner=self.partitioner),)

    @property
    @override
    def orders(self) -> Sequence[RequiredOrder]:
        if self.within is None:
            return (RequiredOrder(grouped=self.keys),)
        return (RequiredOrder(Ordering.of(in_order(self.keys)).then(self.within)),)

    @override
    def distribution(self, given: Distribution) -> Distribution:
        return given.grouped()

    @override
    def order(self, given: LocalOrder) -> LocalOrder:
        return given.without_unique()


@dataclass(frozen=True)
class Reduced(_Grouping):
    """A reduce of groups, with a combiner in front of an exchange.

    Attributes:
        combiner: How rows are combined before they move; None for no combiner.
    """

    combiner: DriverStrategy | None = strategies.SORTED_PARTIAL_REDUCE
    driver: DriverStrategy = strategies.SORTED_REDUCE

    @override
    def candidate(self, node: Node, channel: Channel) -> Candidate:
        if self.combiner is None or not channel.ship.is_exchange or node.broadcasts:
            return super().candidate(node, channel)
        return super().candidate(node, combined(node, channel, self.combiner, LocalStrategy.SORT))


@dataclass(frozen=True)
class GroupReduced(_Grouping):
    """A function of whole groups.

    Attributes:
        combinable: Whether groups may be combined before they move.
    """

    combinable: bool = False
    driver: DriverStrategy = strategies.SORTED_GROUP_REDUCE

    @override
    def candidate(self, node: Node, channel: Channel) -> Candidate:
        if not self.combinable:
            return super().candidate(node, channel)
        if channel.ship.is_exchange:
            return super().candidate(
                node, combined(node, channel, strategies.SORTED_GROUP_COMBINE, LocalStrategy.COMBINING_SORT)
            )  # fmt: skip
        if channel.local is LocalStrategy.SORT:
            channel = replace(channel, local=LocalStrategy.COMBINING_SORT)
        return super().candidate(node, channel)


@dataclass(frozen=True)
class GroupCombined(UnaryDescriptor):
    """A function of as much of a group as is in one part at a time."""

    driver: DriverStrategy = strategies.SORTED_GROUP_COMBINE

    @override
    def distribution(self, given: Distribution) -> Distribution:
        return given.grouped()

    @override
    def order(self, given: LocalOrder) -> LocalOrder:
        return given.without_unique()


@dataclass(frozen=True)
class AllReduced(UnaryDescriptor):
    """A reduce of all rows, or a function of all of them, in one part.

    Attributes:
        driver: How it is done.
        combiner: How the rows of each part are combined before they move; None for no combiner.
        keeps: Whether the output's properties are the input's; a reduce gives one row.
    """

    driver: DriverStrategy = strategies.ALL_REDUCE
    combiner: DriverStrategy | None = strategies.ALL_REDUCE
    keeps: bool = False

    @override
    def candidate(self, node: Node, channel: Channel) -> Candidate:
        if self.combiner is None or not channel.ship.is_exchange:
            return super().candidate(node, channel)
        return super().candidate(node, combined(node, channel, self.combiner, channel.local))

    @override
    def distribution(self, given: Distribution) -> Distribution:
        return given.grouped() if self.keeps else Distribution()

    @override
    def order(self, given: LocalOrder) -> LocalOrder:
        return given.without_unique() if self.keeps else UNORDERED


def combined(node: Node, channel: Channel, driver: DriverStrategy, local: LocalStrategy) -> Channel:
    """A way into an operator whose rows are combined before they move, in the parts that they are in.

    Args:
        node: The operator.
        channel: The way without a combiner.
        driver: How rows are combined.
        local: What is done to those that arrive.
    """
    source = channel.source
    into_combiner = Channel(source, exchange=Exchange.PIPELINED)
    combiner = Candidate(
        node,
        driver,
        (into_combiner,),
        source.parallelism,
        distribution=into_combiner.distribution,
        order=into_combiner.order,
        choices=source.choices,
        title="Combine",
        own_estimate=node.inputs[0].source.estimate,
    )
    return replace(channel, source=combiner.with_own_costs(NO_COSTS), local=local)
