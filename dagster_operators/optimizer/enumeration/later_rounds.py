"""Whether an iteration's plan, which is chosen for its first round, is right for the later ones, too.

A later round begins with what the round before gave. A step that swaps two fields gives rows that lie by the other field in
every second round. Flink asks what the operators of a step require of the rows that come in, but not what becomes of these rows
between: its plans give wrong rows there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dagster_operators.optimizer.candidates import Candidate
from dagster_operators.optimizer.properties.distribution import ANYHOW, Distribution
from dagster_operators.optimizer.properties.fields import Forwarding
from dagster_operators.optimizer.properties.local_order import NO_ORDER, UNORDERED, LocalOrder


@dataclass(frozen=True)
class Lying:
    """How rows lie.

    Attributes:
        distribution: Over the parts.
        order: Within each part.
    """

    distribution: Distribution = field(default_factory=Distribution)
    order: LocalOrder = UNORDERED


def goes_on(start: Candidate, ends: Sequence[Candidate]) -> bool:
    """Whether later rounds can run as the first one does, and give rows that lie as they do behind the first.

    Args:
        start: Where the rows of a round come in, as those of the first round lie.
        ends: What goes round, and what else leaves the round.
    """
    begin = Lying(ends[0].distribution, ends[0].order)
    found = [_behind_round(start, end, begin) for end in ends]
    again = found[0]
    if again is None or None in found:
        return False
    return _lie_so(again.distribution, begin.distribution) and _are_ordered_so(again.order, begin.order)


def _lie_so(now: Distribution, known: Distribution) -> bool:
    """Whether all that is known of rows is so of rows that lie in another way, too."""
    if not set(known.unique) <= set(now.unique):
        return False
    if known.without_unique() == Distribution():
        return ANYHOW.is_met_by(now)  # which copies do not
    return now.without_unique() == known.without_unique()


def _are_ordered_so(now: LocalOrder, known: LocalOrder) -> bool:
    return set(known.unique) <= set(now.unique) and known.without_unique() in (UNORDERED, now.without_unique())


def _behind_round(start: Candidate, end: Candidate, begin: Lying) -> Lying | None:
    """How the rows of an end lie in a round that begins with rows which lie in some way; None where it cannot be run."""
    lying: dict[int, Lying] = {}
    for candidate in end:
        found = begin if candidate is start else _behind(candidate, lying)
        if found is None:
            return None
        lying[id(candidate)] = found
    return lying[id(end)]


def _behind(candidate: Candidate, before: Mapping[int, Lying]) -> Lying | None:
    distribution: Distribution | None = candidate.distribution
    order: LocalOrder | None = candidate.order
    alone = len(candidate.inputs) == 1 and not candidate.title
    for channel in candidate.inputs:
        now = before[id(channel.source)]
        if channel.ship.is_exchange:
            if not set(channel.source.distribution.unique) <= set(now.distribution.unique):
                distribution, order = distribution and distribution.without_unique(), order and order.without_unique()
            continue
        if not _lie_so(now.distribution, channel.source.distribution):
            required = channel.required
            if required is not None and not (required.is_trivial or (alone and required.is_met_by(now.distribution))):
                return None
            distribution = now.distribution.forwarded(_of_first(candidate.node.forwarding)) if alone else None
        if not _are_ordered_so(now.order, channel.source.order) and not channel.local.dams:
            if not (channel.required_order or NO_ORDER).is_met_by(now.order):
                return None
            order = now.order.forwarded(_of_first(candidate.node.forwarding_in_order)) if alone else None
    return Lying(distribution or Distribution(), order or UNORDERED)


def _of_first(forwarding: Sequence[Forwarding]) -> Forwarding:
    """The fields of the only input that are handed on: all, of an operator that the optimizer puts in."""
    return forwarding[0] if forwarding else Forwarding.everything()
