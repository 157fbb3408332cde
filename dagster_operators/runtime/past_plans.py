"""What earlier epochs of a pipeline ran, as far as their plans are there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dagster_operators.runtime.identities import Ledgered
from dagster_operators.runtime.kept_plans import KeptPlans
from dagster_operators.runtime.left_out import left_out
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.records import Complete

if TYPE_CHECKING:
    from dagster_operators.plans.logical_plan import LogicalPlan
    from dagster_operators.plans.pauses import PastEpoch, Pauses


class PastPlans:
    """The epochs of which a pipeline is made.

    Args:
        coordinator: Knows the ledger.
        kept: The plans.
    """

    def __init__(self, coordinator: Coordinator, kept: KeptPlans) -> None:
        self._coordinator = coordinator
        self._kept = kept

    def epochs(self) -> Iterator[PastEpoch]:
        """Of each plan that was run the last epoch that ran it, the last one first; not what a rollback left."""
        from dagster_operators.plans.pauses import PastEpoch

        seen = set[str]()
        for complete in self._coordinator.past.leading_here():
            digest = complete.logical_plan
            if digest in seen:
                continue
            seen.add(digest)
            plan = self._kept.find(digest) if digest else None  # of old epochs it may be gone
            if plan:
                yield PastEpoch(complete.epoch, plan, _positions(complete), complete.identities)

    def names(self) -> set[str]:
        """The operators and sources of all of them."""
        return {node.name for past in self.epochs() for node in past.plan.nodes}

    def pauses(
        self, before: LogicalPlan, after: LogicalPlan, was: Mapping[str, str], ledgered: Ledgered, last: Complete
    ) -> Pauses:
        """What the next epoch is to run, the last one did not, and one before did.

        Args:
            before: What the last epoch ran.
            after: What the next one is to run.
            was: What its operators were called in the last one.
            ledgered: What the ledger says of the last one's.
            last: The last one.
        """
        from dagster_operators.plans.pauses import Pauses, find_pauses
        from dagster_operators.plans.shape import PlanShape

        old, new = PlanShape(before), PlanShape(after)
        resumed = {
            one: _always for one, was_it in was.items() if was_it in ledgered.stateful - old.running and one in new.running
        }
        added = {name: ledgered.is_left for name in new.nodes if name not in was and ledgered.left}
        ends = [end for end in new.streams_of_ends if end not in old.streams_of_ends and ledgered.is_filled(end)]
        if not (resumed or added or ends):
            return Pauses()
        now = _known_as(after, was)
        positions = _positions(last)
        standing = {name: positions[known_as] for name, known_as in now.items() if known_as in positions}
        return find_pauses(after, self.epochs(), standing, {**resumed, **added}, ends)

    def time_columns(
        self, before: LogicalPlan, after: LogicalPlan, was: Mapping[str, str], timed: Mapping[str, str]
    ) -> dict[str, str]:
        """Of which columns the watermarks are of sources whose event time the last epoch did not read, or read otherwise.

        Args:
            before: What the last epoch ran.
            after: What the next one is to run.
            was: What its operators were called in the last one.
            timed: The sources that have a watermark.
        """
        known_as, found = _known_as(after, was), {**timed}
        wanted = {known_as[name] for name in _event_times(after)} & timed.keys() - _event_times(before).keys()
        for past in self.epochs() if wanted else ():
            told = {name: column for name, column in _event_times(past.plan).items() if name in wanted}
            found |= told
            wanted -= told.keys()
            if not wanted:
                break
        return found

    def left_out(
        self, before: LogicalPlan, after: LogicalPlan, was: Mapping[str, str], last: Complete
    ) -> dict[str, tuple[str, ...]]:
        """The tables by the source whose earlier rows a rebuild left out of them, of sources that lead to them again."""
        known_as = {name: former for name, former in _known_as(after, was).items() if former in _positions(last)}
        return left_out(self._coordinator, self._kept, before, after, known_as)


def _event_times(plan: LogicalPlan) -> dict[str, str]:
    """The sources that have an event time, with its column."""
    from dagster_operators.operators.relational.source import Source

    operators = (node.operator for node in plan.nodes)
    return {one.name: one.event_time for one in operators if isinstance(one, Source) and one.event_time}


def _known_as(after: LogicalPlan, was: Mapping[str, str]) -> dict[str, str]:
    """What each operator was called when it was there last; empty if the name is another's."""
    return {node.name: was.get(node.name, "" if node.name in was.values() else node.name) for node in after.nodes}


def _always(_identity: str) -> bool:
    """State of an operator that the last epoch had, and did not run, is its own."""
    return True


def _positions(complete: Complete) -> dict[str, tuple[Any, str]]:
    """Where sources stood at the end of an epoch, with what gives the positions their meaning."""
    read = {name: position for name, position in complete.offsets.items() if position is not None}
    return {name: (position, complete.sources.get(name, "")) for name, position in read.items()}
