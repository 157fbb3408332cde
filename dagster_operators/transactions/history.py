"""The past epochs of a ledger, read once per process and then only what is new."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dagster_operators.errors import UnknownEpochError
from dagster_operators.transactions.carrying import carried
from dagster_operators.transactions.content_sums import accepted_in
from dagster_operators.transactions.records import Begin, Complete, Decision, Drop

if TYPE_CHECKING:
    from dagster_operators.graph.slice import JSON, SourceSlice
    from dagster_operators.transactions.ledger import DeltaLedger
    from dagster_operators.transactions.transition import Transition
    from dagster_operators.transactions.view import LedgerView


@dataclass(frozen=True)
class _Known:
    """What there is at the end of an epoch.

    Attributes:
        left: Tables and states that only epochs had which a rollback left; it emptied them.
        sources: By name, the first epoch that had the source and what it called it: a name may go from one to another.
    """

    left: frozenset[str] = frozenset()
    sources: Mapping[str, tuple[int, str]] = field(default_factory=dict)

    def after(self, begin: Begin, complete: Complete) -> _Known:
        """The same behind the next epoch."""
        sources = carried(self.sources, begin.plan.origins) if begin.plan.origins else self.sources
        sources = {**{name: (complete.epoch, name) for name in complete.sources}, **sources}
        used = begin.transition is None or begin.transition.kind in ("rebuild", "rename")
        return _Known(self.left - begin.plan.datasets.keys() if used else self.left, sources)

    def name_of(self, source: tuple[int, str] | None) -> str | None:
        """What a source is called then."""
        return next((name for name, first in self.sources.items() if first == source), None)


class History:
    """Completed epochs, and what each of them read.

    The begin records hold the exact content of every slice, so the first call reads the whole ledger.
    """

    def __init__(self, ledger: DeltaLedger) -> None:
        self._ledger = ledger
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Forget what was read: a repair made another ledger of it."""
        self._of = self._ledger.replacements
        self._seen = 0
        self._completed: list[Complete] = []
        self._slices: dict[str, list[tuple[int, SourceSlice]]] = {}
        self._stops: dict[int, frozenset[str]] = {}
        self._begun: dict[str, Begin] = {}
        self._drops: list[Drop] = []
        self._known: dict[int, _Known] = {0: _Known()}
        self._gone_back: dict[int, int] = {}

    def completed(self) -> list[Complete]:
        """All completed epochs, oldest first."""
        self._catch_up()
        return list(self._completed)

    def readable(self, epoch: int | None = None) -> Complete:
        """The completion of an epoch that can be read, by default of the last one, without what was dropped since then.

        Raises:
            UnknownEpochError: There is no such completed epoch.
        """
        found, view = self.at(epoch), self._ledger.view()
        if view.last_complete and found.epoch == view.last_complete.epoch:
            return _without(found, view.dropped)
        # A table of the same name that came later is another one, whose versions have the numbers of this one's.
        return _without(found, frozenset(name for drop in self._drops if drop.epoch >= found.epoch for name in drop.datasets))

    def at(self, epoch: int | None = None) -> Complete:
        """The completion of an epoch that can be read, by default of the last one; its versions are those that have its content.

        Raises:
            UnknownEpochError: There is no such completed epoch.
        """
        view = self._ledger.view()
        last = view.last_complete
        if last and epoch in {None, last.epoch}:
            return as_repaired(last, view)
        first = first_readable(view)
        found = next((complete for complete in self.completed() if complete.epoch == epoch and complete.epoch >= first), None)
        if found is None:
            known = f"epochs {first} to {last.epoch} can be read" if last else "none is complete yet"
            raise UnknownEpochError(
                f"{'there is nothing to read' if epoch is None else f'epoch {epoch} is not there'}; {known}",
                pipeline=view.name,
                remedy="read one of these" if last else "run an epoch first: pipeline.run_epoch()",
                first_epoch=first if last else None,
                last_epoch=last.epoch if last else None,
            )
        return found

    def rows_of(self, complete: Complete) -> int:
        """The epoch that made the rows that there are at the end of one: those that only join files leave them as they were."""
        if not complete.transition:
            return complete.epoch
        begins = (entry.record for entry in self._ledger.scan({Begin.kind}))
        joined = {
            one.begin_id for one in begins if isinstance(one, Begin) and one.transition and one.transition.kind == "compact"
        }
        before = (done for done in reversed(self.completed()) if done.epoch <= complete.epoch)
        return next((done.epoch for done in before if done.begin_id not in joined), complete.epoch)

    def slices(self, source: str) -> Iterator[tuple[int, SourceSlice]]:
        """The slices of a source in the completed epochs, in order: those that lead to where it went on last.

        What it read before it was put back to an earlier position is left out.
        """
        self._catch_up()
        return iter(tuple(self._slices.get(source, ())))

    def stops(self) -> Mapping[int, frozenset[str]]:
        """The epochs with which the pipeline was stopped, of those that lead to where it is, and the sources that ended then."""
        self._catch_up()
        return dict(self._stops)

    def given(self, participant: str, epoch: int) -> Any:
        """What an external participant was given to commit in an epoch that was decided; None for nothing."""
        last = self._ledger.view().last_decision
        found = last if last and last.epoch == epoch else None
        if found is None and (last is None or last.epoch > epoch):
            decisions = (entry.record for entry in self._ledger.scan({Decision.kind}))
            found = next((one for one in decisions if isinstance(one, Decision) and one.epoch == epoch), None)
        manifests = found.manifests if found else ()
        return next((manifest.commit_data[participant] for manifest in manifests if participant in manifest.commit_data), None)

    def mark(self) -> int:
        """The number of the record that completed the last epoch; 0 before the first."""
        entries = self._ledger.view().entries
        return max((entry.seq for entry in entries if isinstance(entry.record, Complete)), default=0)

    def slices_since(self, source: str, mark: int) -> Iterator[SourceSlice]:
        """The slices of a source in epochs completed behind a record; of no use where it was put elsewhere since."""
        entries = self._ledger.view().entries
        if not entries or entries[0].seq > mark + 1:
            entries = tuple(self._ledger.scan({Begin.kind, Complete.kind}, mark))
        begun: dict[str, Begin] = {}
        for record in (entry.record for entry in entries if entry.seq > mark):
            if isinstance(record, Begin):
                begun[record.begin_id] = record
            elif isinstance(record, Complete) and record.begin_id in begun:
                piece = begun[record.begin_id].slices.offsets.get(source)
                if piece is not None and piece.items is not None:
                    yield piece

    def leading_here(self) -> Iterator[Complete]:
        """The epochs of which the last one is made, it first: those that a rollback left are passed over."""
        self._catch_up()
        known = {complete.epoch: complete for complete in self._completed}
        at = max(known, default=0)
        while at in known:
            yield known[at]
            at = self._gone_back.get(at, at - 1)

    def last_computed(self) -> Complete | None:
        """Of the epochs that lead to the last one, the last that computed something: compacting or going back brings no row."""
        last = self._ledger.view().last_complete
        if last is None or not last.transition:
            return last
        return next((complete for complete in self.leading_here() if not complete.transition), last)

    def left_behind(self) -> frozenset[str]:
        """The tables and states that only epochs had which a rollback left: it emptied them, and who has them next is new."""
        self._catch_up()
        return self._at_last().left

    def name_in(self, epoch: int, source: str) -> str | None:
        """What an epoch called a source of the last one; None if it did not have it."""
        self._catch_up()
        return self._known[epoch].name_of(self._at_last().sources.get(source))

    def _at_last(self) -> _Known:
        return self._known[self._completed[-1].epoch if self._completed else 0]

    def _catch_up(self, until: int | None = None) -> None:
        """Read what is new, or only up to the end of an epoch."""
        view = self._ledger.view()
        if self._of != self._ledger.replacements:
            self._begin_anew()
        if view.entries and view.entries[0].seq <= self._seen + 1:
            entries = iter([entry for entry in view.entries if entry.seq > self._seen])
        else:
            entries = self._ledger.scan({Begin.kind, Complete.kind, Drop.kind}, self._seen)
        for entry in entries:
            self._seen = entry.seq
            if isinstance(entry.record, Begin):
                self._begun[entry.record.begin_id] = entry.record
            elif isinstance(entry.record, Drop):
                self._drops.append(entry.record)
            elif isinstance(entry.record, Complete):
                self._add(entry.record)
                if entry.record.epoch == until:
                    return
        self._seen = max(self._seen, view.entries[-1].seq)

    def _add(self, complete: Complete) -> None:
        before = self._at_last()
        self._completed.append(complete)
        begin = self._begun[complete.begin_id]
        self._begun.clear()  # of other begins of the same epoch nothing was committed
        self._known[complete.epoch] = before.after(begin, complete)
        if begin.transition is not None and begin.transition.epoch:
            self._go_back(complete, begin.transition)
            return
        if begin.plan.origins:
            self._slices = carried(self._slices, begin.plan.origins)
            self._stops = {
                epoch: frozenset(carried(dict.fromkeys(ended), begin.plan.origins)) for epoch, ended in self._stops.items()
            }
        if begin.slices.stops:
            self._stops[complete.epoch] = begin.slices.ended
        for source, part in begin.slices.offsets.items():
            led = self._slices.setdefault(source, [])
            _cut(led, part.start)
            led.append((complete.epoch, part))

    def _go_back(self, complete: Complete, to: Transition) -> None:
        """Have sources go on from what they had read by the end of an epoch, whatever they were called then."""
        past = History(self._ledger)
        past._catch_up(to.epoch)
        then = past._at_last()
        if to.back:
            sources = self._known[complete.epoch].sources
            names = {source: then.name_of(sources.get(source)) for source in to.back}
            self._slices |= {source: past._slices.get(name or "", []) for source, name in names.items()}
            return
        self._slices, self._gone_back[complete.epoch] = past._slices, to.epoch
        self._stops = past._stops
        left = then.left | (complete.versions.keys() - past._completed[-1].versions.keys())
        self._known[complete.epoch] = _Known(left, then.sources)


def _cut(slices: list[tuple[int, SourceSlice]], start: JSON | None) -> None:
    """Leave the slices out that a source had read before it was put back to ``start``."""
    if not slices or slices[-1][1].end == start:
        return
    ends = [part.end for _, part in slices]
    if start is None or start in ends:
        del slices[len(ends) - ends[::-1].index(start) if start in ends else 0 :]


def first_readable(view: LedgerView) -> int:
    """The first epoch whose files nobody has cleaned away."""
    return min(view.horizon, view.last_complete.epoch if view.last_complete else 1)


def _without(complete: Complete, dropped: frozenset[str]) -> Complete:
    """An epoch without the datasets whose files were deleted since: nobody is to look for them."""
    if not dropped & complete.versions.keys():
        return complete
    return replace(
        complete, versions={dataset: version for dataset, version in complete.versions.items() if dataset not in dropped}
    )


def as_repaired(last: Complete, view: LedgerView) -> Complete:
    """The last epoch with the versions that have its content since a table was put back, or what was accepted in its place."""
    forgotten = view.horizon > last.epoch  # what stood at the epoch's own version of a table is no longer there
    moved = [  # what is accepted behind the epoch's content waits for the next one
        repair
        for repair in view.repairs()
        if repair.keep == "ours" or forgotten or repair.version <= last.versions.get(repair.dataset, 0)
    ]
    versions = {repair.dataset: repair.version for repair in moved}
    epochs = {repair.dataset: repair.applied_epoch for repair in moved}
    # Our content that was put back has in it what was accepted before, which the epoch's sum does not.
    theirs = versions.keys() & accepted_in(view)
    contents = {dataset: text for dataset, text in last.contents.items() if dataset not in theirs}
    return (
        replace(last, versions={**last.versions, **versions}, last_epochs={**last.last_epochs, **epochs}, contents=contents)
        if moved
        else last
    )
