"""Keeping few candidates: the cheapest, and the cheapest of each kind that a reader is interested in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cmp_to_key
from typing import Final

from dagster_operators.optimizer.candidates import Candidate
from dagster_operators.optimizer.enumeration.interesting import Interest
from dagster_operators.optimizer.program import Node

MOST_COMBINATIONS: Final = 216
"""Of so many combinations of candidates of data sets with several readers the optimizer tries no more at a time."""


def pruned(
    candidates: Sequence[Candidate], open_branches: Iterable[Node], interest: Interest, most: int | None = None
) -> list[Candidate]:
    """The candidates that are kept.

    Candidates are compared only where they take the same of each data set whose readers have not come together yet: in front of
    the operator where they do, each of the others must be there for one that agrees with it.

    Args:
        candidates: All candidates of an operator.
        open_branches: The data sets whose readers have not come together.
        interest: What its readers are interested in.
        most: How many there may be of an operator with several readers, each of which must take the same; None for any number.
    """
    groups: dict[tuple[int, ...], list[Candidate]] = {}
    branching = list(open_branches)
    for candidate in candidates:
        groups.setdefault(tuple(id(candidate.choices.get(one)) for one in branching), []).append(candidate)
    cheapest = [_cheapest(group, interest) for group in groups.values()]
    if most is None or sum(map(len, cheapest)) <= most:
        return [candidate for group in cheapest for candidate in group]
    share = max(1, most // len(cheapest))
    return [candidate for group in cheapest for candidate in _widest_first(group, interest)[:share]]


def most_of(open_at_once: int) -> int:
    """How many candidates may be kept of a data set with several readers.

    Args:
        open_at_once: How many such data sets are there at most whose readers have not come together, where its own have not.

    >>> [most_of(count) for count in (1, 2, 3, 6, 7)]
    [216, 14, 6, 2, 2]
    """
    return max(1, int(MOST_COMBINATIONS ** (1 / max(open_at_once, 1)) + 1e-9))


def _widest_first(candidates: Sequence[Candidate], interest: Interest) -> list[Candidate]:
    """The cheapest candidate, and then those whose rows lie as most readers would like: these save the most exchanges."""
    first, *others = candidates  # the cheapest is the first

    def compare(one: Candidate, other: Candidate) -> int:
        return int(other.all_costs.is_less(one.all_costs)) - int(one.all_costs.is_less(other.all_costs))

    def wishes(candidate: Candidate) -> int:
        return sum(distribution.is_met_by(candidate.distribution) for distribution in interest.distributions)

    return [first, *sorted(sorted(others, key=cmp_to_key(compare)), key=wishes, reverse=True)]


def _cheapest(candidates: Sequence[Candidate], interest: Interest) -> list[Candidate]:
    best: dict[object, Candidate] = {}

    def offer(key: object, candidate: Candidate) -> None:
        rival = best.get(key)
        if rival is None or candidate.all_costs.is_less(rival.all_costs):
            best[key] = candidate

    for candidate in candidates:
        offer(None, candidate)
        orders = [order for order in interest.orders if order.is_met_by(candidate.order)]
        for order in orders:
            offer(order, candidate)
        for distribution in interest.distributions:
            if distribution.is_met_by(candidate.distribution):
                offer(distribution, candidate)
                for order in orders:
                    offer((distribution, order), candidate)
    return list({id(candidate): candidate for candidate in best.values()}.values())
