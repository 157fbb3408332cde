"""What a rebuild reads: what the epochs of a pipeline have read, many of them at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Final

from dagster_operators.connectors.connector import Connector
from dagster_operators.errors import BadInputError, PipelineError, SourceError, call_of
from dagster_operators.graph.restricted import reach_of
from dagster_operators.graph.slice import JSON, SourceSlice
from dagster_operators.operators.events.stopped import EVENT_OPERATORS
from dagster_operators.operators.relational.source import Source
from dagster_operators.runtime.changes_left_out import counted_by
from dagster_operators.runtime.choosing import unfinished
from dagster_operators.runtime.event_time import LAST
from dagster_operators.runtime.history_time import marks_by_epoch
from dagster_operators.runtime.lost_history import joined_all, read_anew, tell_epoch
from dagster_operators.runtime.pinning import pinned
from dagster_operators.runtime.planning import Planning
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK
from dagster_operators.transactions.carrying import carried
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.history import History as Past
from dagster_operators.transactions.plan import Slices
from dagster_operators.transactions.view import LedgerView

_LAST: Final = f".{LAST}"


@dataclass(frozen=True)
class History:
    """What the epochs of a pipeline have read, by the names that its sources have now.

    Attributes:
        epoch: The last of these epochs.
        pieces: Per source, with the epoch: those that lead to where it stands.
        watermarks: Of the sources at the end of the last epoch, with the last event times of those that had ended.
        earlier: The same at the end of each epoch, of the sources that have the same event time now.
        standing: Where each source stood then.
        newest: Per source the last epoch that read something of it, whether it is among the pieces or not.
        left_out: Per source the last epoch that read something of it and is left out.
        stops: The epochs with which the pipeline was stopped behind the first of the pieces, and the sources that ended.
    """

    epoch: int
    pieces: Mapping[str, Sequence[tuple[int, SourceSlice]]] = field(default_factory=dict)
    watermarks: Mapping[str, int] = field(default_factory=dict)
    earlier: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    standing: Mapping[int, Mapping[str, JSON]] = field(default_factory=dict)
    newest: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    stops: Sequence[tuple[int, frozenset[str]]] = ()

    @classmethod
    def of(
        cls, run: Coordinator, sources: Sequence[str], origins: Mapping[str, str], since: int, timed: Collection[str]
    ) -> History:
        """The history of a pipeline up to now.

        Args:
            run: The pipeline's ledger.
            sources: Their names now.
            origins: What the last epoch called sources that have another name now; empty for those it did not have.
            since: The first epoch of which something is read.
            timed: The sources that have the same event time now.
        """
        last = run.last_complete()
        if last is None:
            return cls(0)
        offsets, watermarks = carried(last.offsets, origins), carried(last.watermarks, origins)
        read = {
            name: _leading_to(offsets.get(name), run.slices(origin), run.pipeline, name)
            for name in sources
            if (origin := origins.get(name, name))
        }
        pieces = {name: [(epoch, part) for epoch, part in found if epoch >= since] for name, found in read.items()}
        told = {name: [epoch for epoch, part in found if part.items is not None] for name, found in read.items()}
        newest = {name: max(epochs) for name, epochs in told.items() if epochs}
        left = {name: max(before) for name, epochs in told.items() if (before := [epoch for epoch in epochs if epoch < since])}
        first = min((epoch for found in pieces.values() for epoch, part in found if part.items is not None), default=inf)
        ended = ((epoch, carried(dict.fromkeys(of), origins)) for epoch, of in run.past.stops().items() if epoch > first)
        stops = [(epoch, frozenset(of)) for epoch, of in ended]
        completed = run.history()
        known = marks_by_epoch(completed, {name: origins.get(name, name) for name in timed})
        standing = {one.epoch: carried(one.offsets, origins) for one in completed}
        return cls(last.epoch, pieces, _of_sources(watermarks, sources), known, standing, newest, left, stops)

    def after(self, source: str, position: JSON | None) -> list[tuple[int, SourceSlice]] | None:
        """What is left to be read of a source behind a position; None if the source was never there."""
        pieces = list(self.pieces.get(source, ()))
        if position is None:
            return pieces
        ends = [part.end for _, part in pieces]
        return pieces[ends.index(position) + 1 :] if position in ends else None


def _of_sources(watermarks: Mapping[str, int], sources: Sequence[str]) -> dict[str, int]:
    return {name: mark for name, mark in watermarks.items() if name.removesuffix(_LAST) in sources}


def _leading_to(
    position: JSON | None, slices: Iterable[tuple[int, SourceSlice]], pipeline: str, source: str
) -> list[tuple[int, SourceSlice]]:
    """The slices with rows that a source has read on the way to a position."""
    found = [(epoch, part) for epoch, part in slices if part.items is not None or part.start != part.end]
    read = found[-1][0] if found else 0
    while found and found[-1][1].end != position:
        found.pop()
    if position is not None and not found:
        raise PipelineError(
            "no epoch has read up to where the source stands, so that nobody knows which rows come before",
            pipeline=pipeline, source=source,
            remedy=f"put it behind the epoch that read it last: {call_of('reset', source, read, tables='keep')}; "
            "then compute the tables anew: pipeline.rebuild()",
        )  # fmt: skip
    return found


class HistoryChoosing:
    """Chooses the slices of a rebuild's epochs.

    Args:
        planning: The rebuild's.
        made: What its own epochs were until now.
        at_once: Of how many epochs one of its epochs reads at most.
        empty: Whether all that was read may be left out, so that nothing is in the tables.
    """

    def __init__(self, planning: Planning, made: Past, at_once: int, *, empty: bool = False) -> None:
        self._planning = planning
        self._made = made
        self._at_once = at_once
        self._empty = empty
        self.history = History(0)

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources that are read."""
        return self._planning.plan().sources

    @cached_property
    def lookups(self) -> Mapping[str, SourceSlice]:
        """The lookup tables as all epochs of the rebuild read them: as they were when it began."""
        return pinned(self._planning)

    def is_outdated(self) -> bool:
        """Whether a lookup table is not there any more as it was when the rebuild began."""
        schemas = self._planning.input_schemas()
        for name, piece in self.lookups.items():
            connector = self._planning.connector(name)
            try:
                if connector is not None:
                    connector.verify(piece.items, schemas[name])
            except SourceError:
                return True
        return False

    def check(self) -> None:
        """Refuse what cannot be read again.

        Raises:
            PipelineError: A source does not keep what it gave; or nothing of what all of them gave is left to be read.
            SourceError: Something of it is gone, or was changed.
        """
        schemas = self._planning.input_schemas()
        self._check_not_empty()
        for name in self.sources:
            connector = self._planning.connector(name)
            pieces = [(epoch, part) for epoch, part in self.history.pieces.get(name, ()) if part.items is not None]
            if connector is None:
                continue
            if not pieces:
                self._check_left(connector, name)
                continue
            self._check_changes_left_out(name)
            if connector.forgets:
                raise PipelineError(
                    f"what it gave cannot be read again: {connector.forgets}", source=name, epoch=pieces[0][0],
                    remedy=(
                        "leave its tables as they are, a new one with the rows from here on: without backfill=True, and with "
                        'the answer "keep" where pipeline.changes() asks; or read a source that keeps its rows'
                    ),
                )  # fmt: skip
            try:
                for _, part in pieces:
                    connector.verify_position(part.end)
                for items in joined_all(connector, [part.items for _, part in pieces]):
                    connector.verify_again(items, schemas[name])
            except SourceError:
                without = None if self._counted_by(name) else self._without
                tell_epoch(connector, name, pieces, schemas[name], since=without, tables=self._tables)

    def _check_not_empty(self) -> None:
        """Nothing but empty tables comes of no rows: that has to be said."""
        newest = self._newest
        left = any(part.items is not None for name in self.sources for _, part in self.history.pieces.get(name, ()))
        whole = any(one.most_deleted is not None for name in self.sources if (one := self._planning.connector(name)))
        if newest and not left and not whole and not self._empty:
            raise PipelineError(
                "since= leaves out all that was read, so that nothing would be in the tables", epoch=newest,
                remedy=f"name an epoch up to {newest}, the last one that read something; or, if they are to be empty: "
                f"{self._without(newest + 1)}",
            )  # fmt: skip

    @property
    def _newest(self) -> int:
        """The last epoch that read something; 0 if none did."""
        return max((self.history.newest.get(name, 0) for name in self.sources), default=0)

    @property
    def _tables(self) -> list[str]:
        return sorted(self._planning.dataflow.tables)

    def _without(self, epoch: int) -> str:
        """The call that leaves out all that came before an epoch, and what that takes out of the tables."""
        tables, empty = self._tables, epoch > self._newest
        lost = "all rows that there are" if empty else f"the rows up to epoch {epoch - 1}"
        since = f"since={epoch}{', empty=True' if empty else ''}"
        return f"pipeline.rebuild({tables!r}, {since}), which takes {lost} out of {', '.join(tables)}"

    def _check_left(self, connector: Connector, name: str) -> None:
        """An extract is a whole table: without any, a rebuild would empty the tables."""
        newest = self.history.newest.get(name)
        if newest is not None and connector.most_deleted is not None:
            raise PipelineError(
                "since= leaves no extract of the source to rebuild from", source=name,
                remedy=f"leave it the newest one, which epoch {newest} read: {call_of('rebuild', self._tables, since=newest)}",
            )  # fmt: skip

    def _check_changes_left_out(self, name: str) -> None:
        """Of changes all count: later ones take back rows of those that are left out."""
        before = self.history.left_out.get(name)
        if before is not None and (operator := self._counted_by(name)):
            raise PipelineError(
                f"since= leaves out changes that were read up to epoch {before}, and later ones take back rows of theirs, which "
                f"{operator!r} counts", source=name, operator=operator,
                remedy=f"rebuild over all of them, without since=; or {read_anew(name)}",
            )  # fmt: skip

    def _counted_by(self, source: str) -> str | None:
        dataflow = self._planning.dataflow
        return counted_by(dataflow, reach_of(dataflow), source)

    def tell(self, error: BadInputError) -> None:
        """Say what to leave out if what an epoch read does not have the columns of now; what was read is not to be changed.

        Raises:
            BadInputError: The one given, with another remedy.
        """
        name = str(error.where.get("source", ""))
        connector, schema = self._planning.connector(name), self._planning.input_schemas().get(name)
        if connector is None or schema is None:
            return
        for epoch, part in reversed(self.history.pieces.get(name, ())):
            try:
                if part.items is not None:
                    connector.verify(part.items, schema)
            except BadInputError as found:
                if "column" not in found.where:
                    return
                error.where = {**found.where, "source": name, "epoch": epoch}
                error.remedy = (
                    f"give the source the columns that it had then; or leave out what was read up to epoch {epoch}: "
                    f"{self._without(epoch + 1)}"
                )
                raise error from None

    def is_caught_up(self, view: LedgerView) -> bool:
        """Whether all of the history is in the rebuild's last epoch, and no operator has work left."""
        last = view.last_complete
        if last is None or unfinished(self._planning.dataflow, last.metrics):
            return False
        if self._stops_left():
            return False
        behind = any(last.watermarks.get(name, MIN_WATERMARK) < mark for name, mark in self._marks().items())
        return not behind and not any(self.history.after(name, last.offsets.get(name)) for name in self.sources)

    def is_stale(self, view: LedgerView) -> bool:
        """Whether the rebuild has read what the pipeline has not: it was put back since."""
        last = view.last_complete
        return last is not None and any(self.history.after(name, last.offsets.get(name)) is None for name in self.sources)

    def choose(self, view: LedgerView) -> Slices | None:
        """The slices of the open epoch; else the next ones, None when all is read."""
        if view.open_begin is not None:
            return view.open_begin.slices
        if self.is_caught_up(view):
            return None
        last = view.last_complete
        positions = last.offsets if last else {}
        left = {name: self.history.after(name, positions.get(name)) or [] for name in self.sources}
        stops = self._stops_left()
        before = [epoch for pieces in left.values() for epoch, _ in pieces if not stops or epoch < stops[0][0]]
        epochs = sorted(set(before))[: self._at_once]
        if stops and not epochs:
            standing = {name: SourceSlice(positions.get(name), positions.get(name), None) for name in self.sources}
            then = self.history.earlier.get(stops[0][0], {})  # further than the rows where set_watermark came before it
            reached = {name: mark for name, mark in then.items() if name in standing and mark < MAX_WATERMARK}
            return Slices({**standing, **self.lookups}, watermarks=reached, stops=True, ended=stops[0][1])
        if last is None and (reached := self._before(epochs, left)):
            standing = {name: SourceSlice(None, None, None) for name in self.sources}
            return Slices({**standing, **self.lookups}, watermarks=reached)
        offsets = self._together(positions, left, epochs)
        taken = {name: _taken(pieces, offsets[name]) for name, pieces in left.items()}
        done = not stops and all(len(taken[name]) == len(pieces) for name, pieces in left.items())
        marks, timed = self._marks() if done else {}, set[str]()
        for name, epochs_of in taken.items():
            known = [self.history.earlier.get(epoch, {}).get(name) for epoch in epochs_of]
            if known and None not in known:
                timed.add(name)
                marks = {name: known[-1] or MIN_WATERMARK, **marks}
        marks |= {name: mark for name, mark in self._moved_on(left, taken).items() if mark > marks.get(name, MIN_WATERMARK)}
        marks |= {
            key: mark
            for key, mark in self.history.watermarks.items()
            if key.endswith(_LAST) and marks.get(key.removesuffix(_LAST)) == MAX_WATERMARK
        }
        return Slices({**offsets, **self.lookups}, watermarks=marks, timed=frozenset(timed))

    def _moved_on(
        self, left: Mapping[str, Sequence[tuple[int, SourceSlice]]], taken: Mapping[str, Sequence[int]]
    ) -> Mapping[str, int]:
        """The watermarks with which the pipeline began the next epoch with rows: some epochs move time without any."""
        following = {name: [piece for piece in pieces if piece[0] not in taken[name]] for name, pieces in left.items()}
        return self._before({epoch for pieces in following.values() for epoch, _ in pieces}, following)

    def _before(self, epochs: Collection[int], left: Mapping[str, Sequence[tuple[int, SourceSlice]]]) -> dict[str, int]:
        """The watermarks with which the pipeline began the first of some epochs, of sources that go on from where they stood."""
        before = [epoch for epoch in self.history.earlier if epochs and epoch < min(epochs)]
        if not before:
            return {}
        stood = self.history.standing[max(before)]
        marks = self.history.earlier[max(before)].items()
        return {name: mark for name, mark in marks if not left.get(name) or left[name][0][1].start == stood.get(name)}

    def _stops_left(self) -> Sequence[tuple[int, frozenset[str]]]:
        """The epochs in which event operators are still to be told that the pipeline is stopped, as they were."""
        nodes = self._planning.dataflow.nodes.values()
        told = [node.name for node in nodes if node.operator.kind == EVENT_OPERATORS]
        return self.history.stops[len(self._made.stops()) :] if told else ()

    def _marks(self) -> dict[str, int]:
        """How far the sources that have an event time are in the pipeline."""
        timed = {name for name in self.sources if _has_time(self._planning, name)}
        return {name: mark for name, mark in self.history.watermarks.items() if name in timed and mark > MIN_WATERMARK}

    def _together(
        self, positions: Mapping[str, JSON], left: Mapping[str, Sequence[tuple[int, SourceSlice]]], epochs: Sequence[int]
    ) -> dict[str, SourceSlice]:
        """What as many of these epochs as possible have read, as one slice of each source."""
        made = {name: SourceSlice(positions.get(name), positions.get(name), None) for name in left}
        for epoch in epochs:
            further = dict(made)
            for name, pieces in left.items():
                part = next((part for number, part in pieces if number == epoch), None)
                joined = made[name] if part is None else self._joined(name, made[name], part)
                if joined is None:
                    return made
                further[name] = joined
            made = further
        return made

    def _joined(self, name: str, before: SourceSlice, part: SourceSlice) -> SourceSlice | None:
        connector = self._planning.connector(name)
        if before.items is None or part.items is None or connector is None:
            return SourceSlice(before.start, part.end, part.items if before.items is None else before.items)
        items = connector.together(before.items, part.items)
        return None if items is None else SourceSlice(before.start, part.end, items)


def _taken(pieces: Sequence[tuple[int, SourceSlice]], into: SourceSlice) -> list[int]:
    """The epochs whose pieces are in a slice."""
    ends = [part.end for _, part in pieces]
    return [epoch for epoch, _ in pieces[: ends.index(into.end) + 1]] if into.end in ends else []


def _has_time(planning: Planning, name: str) -> bool:
    operator = planning.dataflow.nodes[name].operator
    return isinstance(operator, Source) and operator.event_time is not None
