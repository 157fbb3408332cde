"""The candidates of iterations: a round is enumerated anew for each way in which its rows may come in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dagster_operators.errors import PipelineError
from dagster_operators.optimizer.candidates import Candidate, Channel, Loop, channel_for
from dagster_operators.optimizer.enumeration.later_rounds import Lying, goes_on
from dagster_operators.optimizer.iterations import BulkIteration, DeltaIteration
from dagster_operators.optimizer.program import Edge, Node, Placeholder
from dagster_operators.optimizer.properties.distribution import ANYHOW, Distribution, RequiredDistribution
from dagster_operators.optimizer.properties.local_order import UNORDERED, RequiredOrder
from dagster_operators.optimizer.strategies import BINARY_NO_OP, NO_DRIVER, NO_OP, Temp

if TYPE_CHECKING:
    from dagster_operators.optimizer.enumeration.enumeration import Enumeration


def bulk_candidates(node: BulkIteration, enumeration: Enumeration) -> Iterator[Candidate]:
    """The candidates of a bulk iteration."""
    (root,) = node.ends_of_round
    ends = [root] if node.criterion_root is None else [edge.source for edge in root.inputs]
    for wanted, channel, begin in _beginnings(enumeration, node.inputs[0]):
        start = _begun(enumeration, node.start, channel, begin)
        lasts, *criteria = enumeration.in_round(ends, [start])
        for last in _going_round(enumeration, lasts, start, wanted, once=node.rounds == 1):
            for criterion in criteria[0] if criteria else [None]:
                if criterion is not None and not (
                    enumeration.branches.agree(root, last, criterion) and (node.rounds == 1 or goes_on(start, [last, criterion]))
                ):
                    continue
                within = last.all_costs if criterion is None else last.all_costs + criterion.all_costs
                candidate = Candidate(
                    node, NO_DRIVER, (channel,), node.parallelism, distribution=last.distribution, order=last.order,
                    loop=Loop(start, last, criterion=criterion),
                )  # fmt: skip
                yield enumeration.chosen(candidate.with_costs(within), [last, *([criterion] if criterion else [])])


def _beginnings(
    enumeration: Enumeration, edge: Edge
) -> Iterator[tuple[tuple[RequiredDistribution, RequiredOrder], Channel, Lying]]:
    """The ways in which the rows of the first round come in, with what is known of them: all, and once nothing."""
    nothing = False
    for required, order, channel in enumeration.channels_for(edge):
        if not ANYHOW.is_met_by(channel.distribution):  # of copies each part would give all rows of the next round
            continue
        known = Lying(channel.distribution, channel.order)
        yield (required, order), channel, known
        if known != Lying() and not nothing and not channel.ship.is_exchange and not channel.local.dams:
            nothing = True
            yield (required, order), channel, Lying()


def delta_candidates(node: DeltaIteration, enumeration: Enumeration) -> Iterator[Candidate]:
    """The candidates of a delta iteration."""
    (joiner,) = node.ends_of_round
    delta_node, workset_node = (edge.source for edge in joiner.inputs)
    hashed = Distribution.hashed(node.keys)
    unique = (frozenset(node.keys),)
    for channel in enumeration.channels(node.inputs[0]):
        if (channel.distribution.partitioning, channel.distribution.fields) != (hashed.partitioning, hashed.fields):
            continue
        for wanted, workset, begin in _beginnings(enumeration, node.inputs[1]):
            if not enumeration.branches.agree(node, channel.source, workset.source):
                continue
            start = _begun(enumeration, node.start, workset, begin)
            solution = _begun(enumeration, node.solution, channel, Lying(hashed))
            deltas, worksets = enumeration.in_round([delta_node, workset_node], [start, solution])
            for last in _going_round(enumeration, worksets, start, wanted, once=node.rounds == 1):
                for delta in deltas:
                    if not (
                        enumeration.branches.agree(joiner, delta, last) and (node.rounds == 1 or goes_on(start, [last, delta]))
                    ):
                        continue
                    changes, at_once = _taken_in(node, delta)
                    loop = Loop(start, last, solution, changes, at_once)
                    candidate = Candidate(
                        node, BINARY_NO_OP, (channel, workset), node.parallelism, distribution=hashed.with_unique(unique),
                        order=UNORDERED.with_unique(unique), loop=loop,
                    )  # fmt: skip
                    within = changes.shared_costs + last.shared_costs
                    yield enumeration.chosen(candidate.with_costs(within), [changes, last])


def _taken_in(node: DeltaIteration, delta: Candidate) -> tuple[Candidate, bool]:
    """The changes of a solution set, and whether they are taken in as they are made; else all readers are done before."""
    (channel,) = delta.inputs
    if node.updates_at_once and not channel.ship.is_exchange:
        return channel.source, True
    return replace(delta, inputs=(replace(channel, temp=Temp.PIPELINE_BREAKER),)), False


def _begun(enumeration: Enumeration, node: Placeholder, channel: Channel, begin: Lying) -> Candidate:
    """Where rows come into a round."""
    candidate = Candidate(
        node, NO_DRIVER, (), node.parallelism, distribution=begin.distribution, order=begin.order, initial=channel
    )
    candidate.choices = enumeration.branches.choices(node, [channel.source])
    if node.is_branching:
        candidate.choices = {**candidate.choices, node: candidate}
    return candidate


def _going_round(
    enumeration: Enumeration,
    ends: Sequence[Candidate],
    start: Candidate,
    wanted: tuple[RequiredDistribution, RequiredOrder],
    *,
    once: bool,
) -> list[Candidate]:
    """The candidates of rows that go round with which later rounds can begin.

    Behind one whose rows are not as the first round's were, an operator is put that makes them so.
    """
    fitting: list[Candidate] = []
    rebuilt: list[Candidate] = []
    for end in ends:
        if once or goes_on(start, [end]):
            fitting.append(end)
            continue
        name = f"Rebuild {start.node.kind.removeprefix('Bulk ')} Properties"
        node = Node(name, "", parallelism=end.parallelism)
        node.is_dynamic = True
        try:
            channel = channel_for(wanted[0], end, enumeration.mode, breaks=False, changes=False)
        except PipelineError:  # copies cannot be parted
            continue
        into = channel.sorted_for(wanted[1])
        candidate = Candidate(
            node, NO_OP, (into,), end.parallelism, distribution=into.distribution, order=into.order, choices=dict(end.choices)
        ).with_costs()
        if goes_on(start, [candidate]):
            rebuilt.append(candidate)
    return [*fitting, *rebuilt]
