"""Enumerating candidates from the sources on, and keeping those that are cheapest for something."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product

from dagster_operators.errors import PipelineError
from dagster_operators.optimizer.candidates import Candidate, Channel, Dammed, channel_for
from dagster_operators.optimizer.costs import NO_COSTS, Costs
from dagster_operators.optimizer.descriptors import BinaryDescriptor, UnaryDescriptor, reaching
from dagster_operators.optimizer.enumeration.branches import Branches
from dagster_operators.optimizer.enumeration.interesting import Interests
from dagster_operators.optimizer.enumeration.pruning import most_of, pruned
from dagster_operators.optimizer.enumeration.rounds import bulk_candidates, delta_candidates
from dagster_operators.optimizer.enumeration.unions import united
from dagster_operators.optimizer.iterations import BulkIteration, DeltaIteration
from dagster_operators.optimizer.program import Edge, Joiner, Node, Placeholder, Sink, Source, Union, ordered  # fmt: skip
from dagster_operators.optimizer.properties.distribution import Distribution, RequiredDistribution
from dagster_operators.optimizer.properties.fields import in_order
from dagster_operators.optimizer.properties.local_order import LocalOrder, RequiredOrder
from dagster_operators.optimizer.strategies import NO_DRIVER, DriverStrategy, ExecutionMode, LocalStrategy, Ship


class Enumeration:
    """The candidates of a program.

    Args:
        branches: Where readers of one data set come together.
        interests: Which properties are worth to be kept.
        mode: How exchanges are carried out.
    """

    def __init__(self, branches: Branches, interests: Interests, mode: ExecutionMode) -> None:
        self.branches = branches
        self.interests = interests
        self.mode = mode
        self._candidates: dict[Node, list[Candidate]] = {}

    def of(self, ends: Sequence[Node]) -> list[Candidate]:
        """The candidates of the last of some ends, with all that is before them.

        Raises:
            PipelineError: No candidate of an operator meets all requirements.
        """
        for node in ordered(ends):
            if not node.is_dynamic and not (isinstance(node, Joiner) and not node.descriptors):
                self._candidates[node] = self.enumerated(node)
        return self._candidates[ends[-1]]

    def in_round(self, ends: Sequence[Node], starts: Iterable[Candidate]) -> list[list[Candidate]]:
        """The candidates of what leaves a round, for one way in which rows come in.

        Args:
            ends: What leaves the round.
            starts: Where rows come in.
        """
        self._candidates.update({start.node: [start] for start in starts})
        for node in ordered(ends, into_loops=False):
            if node.is_dynamic and not isinstance(node, Placeholder):
                self._candidates[node] = self.enumerated(node)
        return [self._candidates[end] for end in ends]

    def enumerated(self, node: Node) -> list[Candidate]:
        """The candidates of an operator, from those before it."""
        candidates: Iterable[Candidate]
        if isinstance(node, Source):
            candidates = [self._source(node)]
        elif isinstance(node, Sink):
            candidates = self._sink(node)
        elif isinstance(node, Union):
            candidates = united(node, self)
        elif isinstance(node, BulkIteration):
            candidates = bulk_candidates(node, self)
        elif isinstance(node, DeltaIteration):
            candidates = delta_candidates(node, self)
        else:
            candidates = self._unary(node) if len(node.inputs) == 1 else self._binary(node)
        every = list(candidates)
        if not every:
            raise PipelineError(
                "no way of running it meets all requirements", operator=node.name or node.kind,
                remedy="take back a hint, or a partitioning of the user's own, at this operator or in front of it",
            )  # fmt: skip
        most = most_of(self.branches.at_once.get(node, 1)) if node.is_branching else None
        return pruned(every, self.branches.open[node], self.interests.of_nodes[node], most)

    def before(self, edge: Edge) -> list[Candidate]:
        """The candidates of what an edge comes from."""
        return self._candidates[edge.source]

    def breaks(self, edge: Edge) -> bool:
        """Whether all rows must be there before the edge's reader begins."""
        return edge.source in self.branches.breaking

    def _source(self, node: Source) -> Candidate:
        size = node.estimate.size
        costs = Costs(0.0, float(size), heuristics=(0.0, 1e9, 0.0)) if node.is_files and size is not None else NO_COSTS
        candidate = Candidate(
            node, NO_DRIVER, (), node.parallelism, distribution=node.distribution.with_unique(node.unique),
            order=node.order.with_unique(node.unique), costs=costs, all_costs=costs,
        )  # fmt: skip
        return self.chosen(candidate)

    def _sink(self, node: Sink) -> Iterator[Candidate]:
        for channel in self.channels(node.inputs[0]):
            candidate = Candidate(
                node, NO_DRIVER, (channel,), node.parallelism, distribution=channel.distribution, order=channel.order
            )  # fmt: skip
            yield self.chosen(candidate.with_costs())

    def channels(self, edge: Edge) -> Iterator[Channel]:
        """The ways into an operator that somebody is interested in, each once."""
        for _, _, channel in self.channels_for(edge, each_once=True):
            yield channel

    def channels_for(
        self, edge: Edge, *, each_once: bool = False
    ) -> Iterator[tuple[RequiredDistribution, RequiredOrder, Channel]]:
        """The same, each with the interests that it is for."""
        changes = edge.source.parallelism != edge.target.parallelism
        interest, of_two = self.interests.of_edges[edge], len(edge.target.inputs) > 1
        for source in self.before(edge):
            seen: set[object] = set()
            for distribution in interest.distributions:
                channel = self.channel(edge, source, distribution, changes=changes)
                if channel is None:
                    continue
                ways = [(order, way) for order in interest.orders for way in _sorted_ways(channel, order, of_two=of_two)]
                for order, way in ways:
                    key = (way.ship, way.keys, way.ordering, way.boundaries, way.local, way.local_ordering, id(way.partitioner))
                    if not each_once or key not in seen:
                        seen.add(key)
                        yield distribution, order, reaching(edge.target, way)

    def channel(self, edge: Edge, source: Candidate, wanted: RequiredDistribution, *, changes: bool) -> Channel | None:
        """A way into an operator for one interest, or the one that the user asks for; None if there is none."""
        ship = edge.ship
        if source.distribution.is_replicated:
            if changes:
                return None
            ship = Ship.FORWARD
        if ship is None:
            return channel_for(wanted, source, self.mode, breaks=self.breaks(edge), changes=changes, temp=edge.temp)
        if ship is Ship.FORWARD and changes:
            raise PipelineError(
                "rows cannot stay where they are between operators of different parallelism", operator=edge.target.name,
                remedy="give both the same set_parallelism(...), or leave the hint out",
            )  # fmt: skip
        keys = None if wanted.fields is None else in_order(wanted.fields)
        exchange = self.mode.exchange(ship, breaks=self.breaks(edge))
        return Channel(source, ship, keys if ship is not Ship.FORWARD else None, exchange=exchange, temp=edge.temp)

    def _unary(self, node: Node) -> Iterator[Candidate]:
        for channel in self.channels(node.inputs[0]):
            for way in (one for one in node.descriptors if isinstance(one, UnaryDescriptor)):
                required = next((one for one in way.distributions if one.is_met_by(channel.distribution)), None)
                order = next((one for one in way.orders if one.is_met_by(channel.order)), None)
                if required is None or order is None:
                    continue
                into = replace(channel, required=required, required_order=order)
                distribution = way.distribution(into.distribution).forwarded(node.forwarding[0]).with_unique(node.unique)
                local_order = way.order(into.order).forwarded(node.forwarding_in_order[0]).with_unique(node.unique)
                for broadcasts in self._broadcasts(node, [channel.source]):
                    if broadcasts and self._flows(node, into.source):
                        into = replace(into, temp=into.temp.with_break())
                    yield self._filled(way.candidate(node, into), broadcasts, distribution, local_order)

    def _filled(
        self, made: Candidate, broadcasts: tuple[Channel, ...], distribution: Distribution, order: LocalOrder
    ) -> Candidate:  # fmt: skip
        made.broadcasts, made.distribution, made.order = broadcasts, distribution, order
        return self.chosen(made.with_costs())

    def _binary(self, node: Node) -> Iterator[Candidate]:
        ways = [(way, way.distributions, way.orders) for way in node.descriptors if isinstance(way, BinaryDescriptor)]
        firsts, seconds = (list(self.channels(edge)) for edge in node.inputs)
        into = _Into(node)
        for first in firsts:
            for second in seconds:
                if not self.branches.agree(node, first.source, second.source):
                    continue
                for way, distributions, orders in ways:
                    pair = into.met(way, distributions, orders, first, second)
                    if pair is not None:
                        yield from self._of_two(node, way, into, *pair)

    def _of_two(self, node: Node, way: BinaryDescriptor, into: _Into, first: Channel, second: Channel) -> Iterator[Candidate]:
        left, right = self.with_breaks(node, way.driver, first, second)
        lies, order = (into.handed_on(0, first), into.handed_on(1, second)), into.in_order
        distribution = way.distribution(*lies).with_unique(node.unique)
        local_order = way.order(order(0, first), order(1, second)).with_unique(node.unique)
        for broadcasts in self._broadcasts(node, [first.source, second.source]):
            yield self._filled(way.candidate(node, left, right), broadcasts, distribution, local_order)

    def _broadcasts(self, node: Node, sources: Sequence[Candidate]) -> Iterator[tuple[Channel, ...]]:
        """The combinations of candidates of broadcast data sets that agree with each other and with some inputs."""
        for combination in product(*(self._copies(node, name, edge) for name, edge in node.broadcasts.items())):
            copied = [channel.source for channel in combination]
            with_inputs = all(any(self.branches.agree(node, copy, source) for source in sources) for copy in copied)
            if with_inputs and all(self.branches.agree(node, *pair) for pair in combinations(copied, 2)):
                yield combination

    def _copies(self, node: Node, name: str, edge: Edge) -> list[Channel]:
        """The ways in which each part of an operator gets a broadcast data set."""
        exchange = self.mode.exchange(Ship.BROADCAST, breaks=self.breaks(edge))
        return [
            Channel(source, Ship.BROADCAST, exchange=exchange, replication=node.parallelism, name=name)
            for source in self.before(edge)
        ]

    def _flows(self, node: Node, source: Candidate) -> bool:
        """Whether an input in a round could wait for a broadcast data set that waits for it."""
        if not source.node.is_dynamic:
            return False
        choices = (source.choices.get(branching) for branching in self.branches.joined.get(node, ()))
        return any(choice is not None and source.dammed_from(choice) is Dammed.FLOWS for choice in choices)

    def with_breaks(self, node: Node, driver: DriverStrategy, first: Channel, second: Channel) -> tuple[Channel, Channel]:
        """Two inputs in a round, of which one is kept back where both could wait for each other."""
        joined = self.branches.joined.get(node, ())
        if not (first.is_dynamic and second.is_dynamic and joined):
            return first, second
        some, all_paths = [False, False], [True, True]
        for side, channel in enumerate((first, second)):
            if driver.dams_input(side) or channel.local.dams or channel.temp.breaks_pipeline:
                some[side] = True
                continue
            for branching in joined:
                taken = channel.source.choices.get(branching)
                if taken is None:
                    continue
                dammed = channel.source.dammed_from(taken) is Dammed.DAMMED
                some[side] |= dammed
                all_paths[side] &= dammed
        if all(all_paths) or not any(some):
            return first, second
        if some[0] and not all_paths[1]:
            second = replace(second, temp=second.temp.with_break())
        if some[1] and not all_paths[0]:
            first = replace(first, temp=first.temp.with_break())
        return first, second

    def chosen(self, candidate: Candidate, more: Iterable[Candidate] = ()) -> Candidate:
        """A candidate that knows which one was taken of each data set with several readers before it.

        Args:
            candidate: The candidate, complete but for that.
            more: Candidates within its rounds.
        """
        if not self.branches.open[candidate.node] and not candidate.node.is_branching:
            return candidate
        sources = [channel.source for channel in (*candidate.inputs, *candidate.broadcasts)]
        choices = self.branches.choices(candidate.node, (*sources, *more))
        if candidate.node.is_branching:
            choices[candidate.node] = candidate
        candidate.choices = choices
        return candidate


def _sorted_ways(channel: Channel, required: RequiredOrder, *, of_two: bool) -> Iterator[Channel]:
    """A channel whose rows meet an order; one of two inputs is also sorted anew, as the other may be in another direction."""
    way = channel.sorted_for(required)
    yield way
    ordering = required.sorted_by
    if of_two and way is channel and ordering is not None and not ordering.is_met_by(channel.order.ordering):
        yield replace(channel, local=LocalStrategy.SORT, local_ordering=ordering)


class _Into:
    """The ways into an operator with two inputs, with what does not depend on the other input: that is looked up once for each.

    Args:
        node: The operator.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._known: dict[tuple[int, RequiredDistribution, RequiredOrder], Channel] = {}
        self._distributions: dict[tuple[int, int], Distribution] = {}
        self._orders: dict[tuple[int, int], LocalOrder] = {}
        self._met: dict[tuple[int, object], bool] = {}

    def met(
        self,
        way: BinaryDescriptor,
        distributions: Sequence[tuple[RequiredDistribution, RequiredDistribution]],
        orders: Sequence[tuple[RequiredOrder, RequiredOrder]],
        first: Channel,
        second: Channel,
    ) -> tuple[Channel, Channel] | None:
        """Both inputs with the requirements of a way that they meet; None if they do not."""
        order = next((pair for pair in orders if self._meets(first, pair[0]) and self._meets(second, pair[1])), None)
        if order is None or not way.orders_fit(first.order, second.order):
            return None
        for pair in distributions:
            met = self._meets(first, pair[0]) and self._meets(second, pair[1])
            if met and way.fits(pair, first.distribution, second.distribution):
                return self._required(first, pair[0], order[0]), self._required(second, pair[1], order[1])
        return None

    def _meets(self, channel: Channel, required: RequiredDistribution | RequiredOrder) -> bool:
        key = (id(channel), required)
        met = self._met.get(key)
        if met is None:
            here = isinstance(required, RequiredDistribution)
            met = required.is_met_by(channel.distribution) if here else required.is_met_by(channel.order)  # type: ignore[arg-type]
            self._met[key] = met
        return met

    def _required(self, channel: Channel, required: RequiredDistribution, order: RequiredOrder) -> Channel:
        key = (id(channel), required, order)
        if key not in self._known:
            self._known[key] = replace(channel, required=required, required_order=order)
        return self._known[key]

    def handed_on(self, side: int, channel: Channel) -> Distribution:
        """How what the operator hands on of an input lies over the parts."""
        key = (side, id(channel))
        if key not in self._distributions:
            self._distributions[key] = channel.distribution.forwarded(self._node.forwarding[side])
        return self._distributions[key]

    def in_order(self, side: int, channel: Channel) -> LocalOrder:
        """How it lies within each part."""
        key = (side, id(channel))
        if key not in self._orders:
            self._orders[key] = channel.order.forwarded(self._node.forwarding_in_order[side])
        return self._orders[key]
