"""The candidates of unions: both inputs are made alike where a reader is interested in how rows lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Final

from dagster_operators.optimizer.binary_descriptors import United
from dagster_operators.optimizer.candidates import Candidate, Channel, channel_for
from dagster_operators.optimizer.program import Edge, Union
from dagster_operators.optimizer.properties.distribution import Distribution, Partitioning, RequiredDistribution

if TYPE_CHECKING:
    from dagster_operators.optimizer.enumeration.enumeration import Enumeration

_WAY: Final = United()


def united(node: Union, enumeration: Enumeration) -> Iterator[Candidate]:
    """The candidates of a union.

    Args:
        node: The union.
        enumeration: The candidates before it.
    """
    first_edge, second_edge = node.inputs
    interests = enumeration.interests.of_edges[first_edge].distributions
    for first, second in product(enumeration.before(first_edge), enumeration.before(second_edge)):
        if not enumeration.branches.agree(node, first, second):
            continue
        for required in interests:
            left = enumeration.channel(first_edge, first, required, changes=_changes(first_edge))
            right = enumeration.channel(second_edge, second, required, changes=_changes(second_edge))
            if left is None or right is None or left.distribution.is_replicated is not right.distribution.is_replicated:
                continue  # copies in each part beside rows that are there once: neither can be made like the other
            if not required.is_trivial:
                left, right = _alike(enumeration, (first_edge, second_edge), left, right)
            left, right = enumeration.with_breaks(node, _WAY.driver, left, right)
            candidate = Candidate(node, _WAY.driver, (left, right), node.parallelism)
            candidate.distribution = _WAY.distribution(left.distribution, right.distribution)
            yield enumeration.chosen(candidate.with_costs())


def _changes(edge: Edge) -> bool:
    return edge.source.parallelism != edge.target.parallelism


def _alike(
    enumeration: Enumeration, edges: tuple[Edge, Edge], first: Channel, second: Channel
) -> tuple[Channel, Channel]:  # fmt: skip
    """Two ways into a union that meet the same interest, of which one is changed if their rows lie in different ways."""
    first_lies, second_lies = (replace(channel.distribution, unique=()) for channel in (first, second))
    if first_lies == second_lies:
        return first, second
    both_stay = not first.ship.is_exchange and not second.ship.is_exchange
    sizes = [channel.estimate.size or 0 for channel in (first, second)]
    moves_second = not first.ship.is_exchange and (not both_stay or not all(sizes) or sizes[0] <= sizes[1])
    if moves_second:
        return first, _as(enumeration, edges[1], second, first_lies)
    return _as(enumeration, edges[0], first, second_lies), second


def _as(enumeration: Enumeration, edge: Edge, channel: Channel, distribution: Distribution) -> Channel:
    kind = Partitioning.HASH if distribution.partitioning is Partitioning.ON_KEY else distribution.partitioning
    lies = distribution
    required = RequiredDistribution(kind, lies.fields, lies.ordering, lies.partitioner, lies.boundaries)
    return channel_for(
        required, channel.source, enumeration.mode, breaks=enumeration.breaks(edge), changes=_changes(edge), temp=edge.temp
    )
