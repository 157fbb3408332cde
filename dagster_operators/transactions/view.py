"""What the ledger says now, worked out from its last records by pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.plan import PlanRecord, Slices
from dagster_operators.transactions.records import (
    Begin,
    Clean,
    Complete,
    Decide,
    Decision,
    Drop,
    Entry,
    Generation,
    Prepared,
    Record,
    Repair,
)
from dagster_operators.transactions.stage_keys import StageKey, valid_pieces

R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class LedgerView:
    """The ledger as of one version.

    Attributes:
        version: What a compare-and-set must find unchanged.
        pipeline: The uuid of the pipeline.
        name: Its name.
        entries: The last records in order: at least everything of the last completed epoch and after.
    """

    version: int
    pipeline: str
    name: str
    entries: tuple[Entry, ...]

    def appended(self, version: int, *entries: Entry) -> LedgerView:
        """The view after these records, without what no longer matters."""
        return LedgerView(version, self.pipeline, self.name, still_needed((*self.entries, *entries)))

    @property
    def records(self) -> tuple[Record, ...]:
        """The last records in order."""
        return tuple(entry.record for entry in self.entries)

    @cached_property
    def generation(self) -> int:
        """The current generation; 0 before the first run."""
        return max((entry.record.generation for entry in self.entries), default=0)

    @cached_property
    def owner(self) -> Owner | None:
        """Who owns the current generation."""
        taken = self._last(Generation)
        if taken and taken.generation == self.generation:
            return taken.owner
        return self.last_complete.owner if self.last_complete else None

    @cached_property
    def owned_since(self) -> float:
        """When the current generation was taken, or first seen in these records."""
        return next((entry.at for entry in self.entries if entry.record.generation == self.generation), 0.0)

    @cached_property
    def last_complete(self) -> Complete | None:
        """The last completed epoch."""
        return self._last(Complete)

    @property
    def last_epoch(self) -> int:
        """The number of the last completed epoch; 0 before the first."""
        return self.last_complete.epoch if self.last_complete else 0

    @cached_property
    def open_begin(self) -> Begin | None:
        """The begin of the epoch that is not complete."""
        begin = self._last(Begin)
        return begin if begin and begin.epoch > self.last_epoch else None

    def begun(self, begin_id: str) -> Begin | None:
        """The begin of that id, if its epoch is open or was completed last."""
        begin = self._last(Begin)
        return begin if begin and begin.begin_id == begin_id else None

    @property
    def plan(self) -> PlanRecord | None:
        """The plan of the epoch begun last; None before the first."""
        begin = self._last(Begin)
        return begin.plan if begin else None

    @cached_property
    def last_plan(self) -> PlanRecord | None:
        """The plan of the last completed epoch; None before the first."""
        return self._last_begin.plan if self._last_begin else None

    @property
    def last_read(self) -> Slices | None:
        """What the last completed epoch read; None before the first."""
        return self._last_begin.slices if self._last_begin else None

    @property
    def emptied(self) -> tuple[str, ...]:
        """The operators of the last completed epoch that begin anew, since it was a reset that emptied all that they had."""
        begin = self._last_begin
        return begin.transition.emptied if begin and begin.transition else ()

    @property
    def taken(self) -> str:
        """The ledger of the rebuild whose files the last completed epoch took over; empty if it was none."""
        begin = self._last_begin
        return begin.transition.taken if begin and begin.transition else ""

    @cached_property
    def _last_begin(self) -> Begin | None:
        """The begin of the last completed epoch, as it was last."""
        last = self.last_complete
        begins = (one for one in reversed(self.records) if isinstance(one, Begin) and last and one.begin_id == last.begin_id)
        return next(begins, None)

    @cached_property
    def decision(self) -> Decision | None:
        """The decision of the open epoch, if it has been made."""
        decision = self._last(Decision)
        return decision if decision and decision.epoch > self.last_epoch else None

    @cached_property
    def last_decision(self) -> Decision | None:
        """The last decision, carried out or not."""
        return self._last(Decision)

    @cached_property
    def prepared(self) -> Mapping[str, Prepared]:
        """The valid prepared attempt of each stage of the open epoch, in a loop of each of its rounds, by the text of its key.

        It is the first that fits the plan and read valid attempts.
        """
        begin = self.open_begin
        if begin is None:
            return {}
        plan = begin.plan
        candidates: dict[str, list[Prepared]] = {}
        for record in self.records:
            if isinstance(record, Prepared) and record.begin_id == begin.begin_id:
                candidates.setdefault(record.stage, []).append(record)

        def choose(key: StageKey, wanted: tuple[str, ...], valid: Mapping[str, Prepared]) -> Prepared | None:
            fingerprint = plan.stage(key.stage).fingerprint
            fitting = (record for record in candidates.get(str(key), ()) if record.fingerprint == fingerprint)
            return next((record for record in fitting if _reads_valid(record, wanted, valid)), None)

        return valid_pieces(plan, choose)

    @cached_property
    def versions(self) -> Mapping[str, int]:
        """The version at which each dataset is expected, a decided epoch's own commits aside."""
        versions = dict(self.last_complete.versions) if self.last_complete else {}
        versions.update({repair.dataset: repair.version for repair in self.repairs()})
        return {dataset: version for dataset, version in versions.items() if dataset not in self.dropped}

    @cached_property
    def dropped(self) -> frozenset[str]:
        """The datasets that were dropped since the last completed epoch."""
        dropped: set[str] = set()
        for record in self._since_completed():
            if isinstance(record, Drop):
                dropped |= set(record.datasets)
            elif isinstance(record, Repair):
                dropped.discard(record.dataset)
        return frozenset(dropped)

    @cached_property
    def last_epochs(self) -> Mapping[str, int]:
        """The last epoch that committed to each dataset, a decided epoch's own commits aside."""
        epochs = dict(self.last_complete.last_epochs) if self.last_complete else {}
        epochs.update({repair.dataset: repair.applied_epoch for repair in self.repairs()})
        return {dataset: epoch for dataset, epoch in epochs.items() if dataset not in self.dropped}

    @property
    def fingerprints(self) -> Mapping[str, str]:
        """What must not change of the datasets: of those that go on as they were."""
        known = self.last_complete.fingerprints if self.last_complete else {}
        gone = self.dropped.union(*(record.emptied for record in self.decisions))
        return {name: text for name, text in known.items() if name not in gone}

    @cached_property
    def horizon(self) -> int:
        """The oldest epoch that can be read."""
        cleaned = (record.epoch for record in self.records if isinstance(record, Clean))
        return max(cleaned, default=self.last_complete.horizon if self.last_complete else 1)

    def repairs(self) -> Iterator[Repair]:
        """The repairs since the last completed epoch."""
        return (record for record in self._since_completed() if isinstance(record, Repair))

    @cached_property
    def decisions(self) -> tuple[Decide, ...]:
        """What was decided about changes of the pipeline and waits for the next epoch."""
        waited = self._last_begin.decided if self._last_begin else ()
        return (*waited, *(record for record in self._since_completed() if isinstance(record, Decide)))

    @property
    def decided(self) -> dict[tuple[str, str], str]:
        """What holds of these decisions: the last choice, by subject and question."""
        last = {(made.subject, made.question): made.choice for made in self.decisions}
        return {asked: choice for asked, choice in last.items() if choice != "withdraw"}

    @property
    def decided_since_begin(self) -> bool:
        """Whether something was decided since the open epoch began, so that it began without knowing it."""
        begun = max((entry.seq for entry in self.entries if isinstance(entry.record, Begin)), default=-1)
        return any(isinstance(entry.record, Decide) and entry.seq > begun for entry in self.entries)

    def _since_completed(self) -> Iterator[Record]:
        completed = max((entry.seq for entry in self.entries if isinstance(entry.record, Complete)), default=-1)
        return (entry.record for entry in self.entries if entry.seq > completed)

    def started_at(self, begin_id: str) -> float:
        """When the begin was recorded first."""
        return next(
            (entry.at for entry in self.entries if isinstance(entry.record, Begin) and entry.record.begin_id == begin_id), 0.0
        )

    def _last(self, kind: type[R]) -> R | None:
        return next((record for record in reversed(self.records) if isinstance(record, kind)), None)


def still_needed(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """The records of the last completed epoch and everything after it; all, as long as none is complete."""
    epochs = [entry.record.epoch for entry in entries if isinstance(entry.record, Complete)]
    if not epochs:
        return entries
    first = next(
        index
        for index, entry in enumerate(entries)
        if isinstance(entry.record, Begin | Complete) and entry.record.epoch == max(epochs)
    )
    return entries[first:]


def _reads_valid(record: Prepared, upstream: tuple[str, ...], valid: Mapping[str, Prepared]) -> bool:
    return set(record.reads) == set(upstream) and all(
        stage in valid and valid[stage].attempt == attempt for stage, attempt in record.reads.items()
    )
