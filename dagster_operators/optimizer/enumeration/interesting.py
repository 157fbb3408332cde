"""What operators would like of the data sets before them: for each such property a candidate is kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dagster_operators.optimizer.descriptors import UnaryDescriptor
from dagster_operators.optimizer.iterations import BulkIteration, DeltaIteration
from dagster_operators.optimizer.program import Edge, Joiner, Node, Placeholder, Sink, Union, ordered  # fmt: skip
from dagster_operators.optimizer.properties.distribution import ANYHOW, Partitioning, RequiredDistribution
from dagster_operators.optimizer.properties.fields import Forwarding
from dagster_operators.optimizer.properties.local_order import NO_ORDER, RequiredOrder


@dataclass(frozen=True)
class Interest:
    """Properties that somebody is interested in; each is there once, in an order that is always the same.

    Attributes:
        distributions: Over the parts.
        orders: Within each part.
    """

    distributions: tuple[RequiredDistribution, ...] = ()
    orders: tuple[RequiredOrder, ...] = ()

    def __or__(self, other: Interest) -> Interest:
        return Interest(
            tuple(dict.fromkeys((*self.distributions, *other.distributions))), tuple(dict.fromkeys((*self.orders, *other.orders)))
        )

    @property
    def without_trivial(self) -> Interest:
        """Those that not every data set has."""
        distributions = tuple(one for one in self.distributions if not one.is_trivial)
        return Interest(distributions, tuple(one for one in self.orders if not one.is_trivial))

    def before(self, forwarding: Forwarding) -> Interest:
        """What an operator's input must be like for its output to be so."""
        distributions = (one.before(forwarding) for one in self.distributions)
        orders = (one.before(forwarding) for one in self.orders)
        return Interest(
            tuple(dict.fromkeys(one for one in distributions if one is not None)),
            tuple(dict.fromkeys(one for one in orders if one is not None)),
        ).without_trivial


_ANY = Interest((ANYHOW,), (NO_ORDER,))


@dataclass
class Interests:
    """What readers are interested in.

    Attributes:
        of_edges: At each edge.
        of_nodes: Of each operator's output: what all its readers are.
    """

    of_edges: dict[Edge, Interest] = field(default_factory=dict)
    of_nodes: dict[Node, Interest] = field(default_factory=dict)

    @classmethod
    def of(cls, ends: Sequence[Node]) -> Interests:
        """Those of a program, from its ends."""
        interests = cls()
        loops: dict[Node, BulkIteration | DeltaIteration] = {}
        nodes = ordered(ends)
        for node in nodes:
            if isinstance(node, BulkIteration | DeltaIteration):
                loops.update(dict.fromkeys((node.start, *([node.solution] if isinstance(node, DeltaIteration) else ())), node))
        for node in reversed(nodes):
            if isinstance(node, Joiner) and not node.descriptors:
                continue  # the interests in what leaves a round are the iteration's
            interests._of_node(node)
            if isinstance(node, BulkIteration | DeltaIteration):
                interests._begin_loop(node)
        return interests

    def _of_node(self, node: Node) -> None:
        read = Interest()
        for edge in node.outgoing:
            read |= self.of_edges.get(edge, Interest())
        read = read.without_trivial
        if isinstance(node, Union):
            read = Interest(read.distributions)
        self.of_nodes[node] = read
        if not isinstance(node, BulkIteration | DeltaIteration | Placeholder):
            self._of_inputs(node, read)

    def _of_inputs(self, node: Node, read: Interest) -> None:
        if isinstance(node, Union):
            interest = Interest(read.distributions or (ANYHOW,), (NO_ORDER,))
            self.of_edges.update(dict.fromkeys(node.inputs, interest))
        elif isinstance(node, Sink):
            self.of_edges[node.inputs[0]] = _ANY
        else:
            for number, edge in enumerate(node.inputs):
                handed_on = read.before(node.forwarding[number])
                self.of_edges[edge] = _with_own(node, number, handed_on)
        self.of_edges.update(dict.fromkeys(node.broadcasts.values(), Interest()))

    def _begin_loop(self, node: BulkIteration | DeltaIteration) -> None:
        """What readers within a round, and those of the next one, are interested in.

        What goes round should be as the first round's rows are wanted; so the round is looked at twice.
        """
        outside = self.of_nodes[node]
        root, first = node.root, outside if isinstance(node, BulkIteration) else Interest()
        if root is None:
            return
        if isinstance(node, DeltaIteration) and node.delta_root is not None:
            self.of_edges[node.delta_root] = self.of_edges[node.inputs[0]] = Interest(
                (RequiredDistribution(Partitioning.HASH, node.keys),), (NO_ORDER,)
            )
        self.of_edges[root] = first
        if isinstance(node, BulkIteration) and node.criterion_root is not None:
            self.of_edges[node.criterion_root] = Interest()
        for inner in reversed(ordered(node.ends_of_round, into_loops=False)):
            if inner.is_dynamic:
                self._of_node(inner)
        round_wants = self.of_nodes[node.start]
        self.of_edges[root] = first | round_wants if isinstance(node, BulkIteration) else round_wants
        for inner in reversed(ordered(node.ends_of_round, into_loops=False)):
            if inner.is_dynamic:
                self._of_node(inner)
        self.of_edges[node.inputs[-1]] = self.of_nodes[node.start] | _ANY


def _with_own(node: Node, number: int, handed_on: Interest) -> Interest:
    """What an operator is interested in at an input: for those behind it, and for itself."""
    distributions, orders = list(handed_on.distributions), list(handed_on.orders)
    for way in node.descriptors:
        if isinstance(way, UnaryDescriptor):
            for required in way.distributions:
                # One that moves by fewer fields meets the other as well.
                finer = next((one for one in distributions if _is_finer(one, required)), None)
                if finer is not None:
                    distributions.remove(finer)
                distributions.append(required)
            orders += way.orders
        else:
            distributions += [pair[number] for pair in way.distributions]
            orders += [pair[number] for pair in way.orders]
    return Interest(tuple(dict.fromkeys(distributions)), tuple(dict.fromkeys(orders)))


def _is_finer(one: RequiredDistribution, required: RequiredDistribution) -> bool:
    """Whether an interest is in a partitioning of the same kind on some of the required fields."""
    if one.partitioning is not required.partitioning or not one.partitioning.is_on_key:
        return False
    if one.fields is None or required.fields is None:
        return one.ordering is not None and required.ordering is not None and one.ordering.fields == required.ordering.fields
    if isinstance(required.fields, tuple):
        return isinstance(one.fields, tuple) and required.fields[: len(one.fields)] == one.fields
    return _superset(required.fields, one.fields)


def _superset(fields: Iterable[object], others: Iterable[object]) -> bool:
    return set(fields) >= set(others)
