"""What the next epoch reads: every source is asked for its next slice, every lookup table for its version."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import replace
from math import inf
from typing import Any

from dagster_operators.connectors.connector import Connector, SliceChoice
from dagster_operators.connectors.consumed import Consumed
from dagster_operators.connectors.operator_source import OperatorSource
from dagster_operators.errors import EndedInputError, OperatorsError, PipelineError, SourceError, located
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.ports import MAIN, StreamRef
from dagster_operators.graph.slice import JSON, SourceSlice
from dagster_operators.operators.frontier.frontier_operator import INCOMPLETE, FrontierOperator
from dagster_operators.operators.frontier.operator_info import is_due
from dagster_operators.operators.relational.source import Source
from dagster_operators.operators.worker_program import DUE
from dagster_operators.planner.stages import cut_stages
from dagster_operators.runtime.commands import source_named
from dagster_operators.runtime.cuts import one_cut
from dagster_operators.runtime.event_time import Frontiers, at_beginning, held_in, time_of_parts
from dagster_operators.runtime.pinning import pinned
from dagster_operators.runtime.planning import Planning
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK, behind
from dagster_operators.transactions.carrying import carried
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.plan import Slices
from dagster_operators.transactions.records import Complete
from dagster_operators.transactions.view import LedgerView


class Choosing:
    """Chooses the slices of epochs.

    Args:
        planning: Which sources the pipeline reads, with their schemas.
        coordinator: Knows what earlier epochs have read.
    """

    def __init__(self, planning: Planning, coordinator: Coordinator) -> None:
        self._planning = planning
        self._dataflow = planning.dataflow
        self._coordinator = coordinator

    def choose(self, view: LedgerView) -> Slices | None:
        """The slices of the open epoch, as long as they can be read; else the next ones, None when there is nothing new."""
        begin, schemas = view.open_begin, self._planning.input_schemas()
        plan, last = self._planning.record(), view.last_complete
        same = begin is not None and (begin.plan.sources, begin.plan.origins) == (plan.sources, plan.origins)
        if begin is not None and begin.transition is None and same and self._readable(begin.slices, schemas):
            return begin.slices
        positions = carried(last.offsets, plan.origins) if last else {}
        formerly = self._planning.comparing.formerly(view)
        watermarks = carried(last.watermarks, plan.origins) if last else {}
        offsets: dict[str, SourceSlice] = {}
        finished: set[str] = set()
        idle: set[str] = set()
        reached: dict[str, int] = {}
        news = bool(last and unfinished(self._dataflow, carried(last.metrics, plan.origins)))
        sources, lookups = self._planning.plan().sources, self._planning.plan().lookups
        cuts = one_cut(self._planning, (*sources, *lookups), positions)
        times = dict(self._times(cuts))
        for name in sources:
            source, start = self._dataflow.nodes[name].operator, positions.get(name)
            if not isinstance(source, Source):
                continue
            ahead = self._is_ahead(name, last)
            connector = cuts.get(name) or self._planning.connector(name)
            connector = connector.continuing(formerly[name]) if connector and name in formerly else connector
            choice = None if ahead else self._offer(source, plan.origins.get(name, name), start, schemas, connector)
            offsets[name] = choice.slice if choice else SourceSlice(start, start, None)
            news = (
                news
                or (choice is not None and choice.news)
                or times.get(name, MIN_WATERMARK) > watermarks.get(name, MIN_WATERMARK)
                or _time_without_rows(source, connector, offsets[name], watermarks) is not None
            )
            if choice is not None and choice.idle:
                idle.add(name)
            if choice is not None and choice.reached is not None and source.event_time:
                reached[name] = choice.reached
            is_over = choice.final if choice is not None else connector is not None and connector.is_over(start)
            if is_over or (source.finished and not (choice and choice.more)):
                finished.add(name)
                news = news or _is_to_be_closed(source, watermarks)
        if not (news or self._planning.comparing.waiting(view)):
            return None
        read = {**offsets, **pinned(self._planning, cuts)}
        return Slices(read, frozenset(finished), frozenset(idle), watermarks={**times, **reached}, timed=frozenset(times))

    def _times(self, cuts: Mapping[str, Connector]) -> Iterator[tuple[str, int]]:
        """The watermarks that sources have from whoever made their rows, of those whose event time is theirs."""
        for name, connector in cuts.items():
            source, time = self._dataflow.nodes[name].operator, connector.time()
            if isinstance(source, Source) and time and (source.event_time or "").lower() == time[0].lower():
                yield name, behind(time[1], source.lateness)

    def stopping(self, view: LedgerView, ended: Collection[str] = ()) -> Slices:
        """The slices of the open epoch; else those of one with which the pipeline is stopped, and which reads nothing.

        Args:
            view: The ledger.
            ended: The sources of which nothing more comes until it is run again.
        """
        found = self.choose(view) if view.open_begin is not None else None
        return found or replace(self.only_time(view, {}), stops=True, ended=frozenset(ended))

    def only_time(self, view: LedgerView, watermarks: Mapping[str, int]) -> Slices:
        """Slices without rows, after which the watermarks of sources are that far."""
        plan, last = self._planning.record(), view.last_complete
        positions = carried(last.offsets, plan.origins) if last else {}
        formerly = self._planning.comparing.formerly(view)
        standing: dict[str, SourceSlice] = {}
        for name in self._planning.plan().sources:
            at, connector = positions.get(name), self._planning.connector(name)
            moved = connector.continuing(formerly[name]) if connector and name in formerly else None
            end = moved.kept_position(at) if moved else at
            standing[name] = SourceSlice(at, end, None)
        return Slices({**standing, **pinned(self._planning)}, watermarks=watermarks)

    def _is_ahead(self, name: str, last: Complete | None) -> bool:
        """Whether a source has gone further than the stream that it waits for."""
        connector = self._planning.connector(name)
        if not isinstance(connector, OperatorSource) or connector.operator.waits_for is None:
            return False
        waits_for = connector.operator.waits_for
        operator, _, port = waits_for.partition(".")
        if operator not in self._dataflow.nodes:
            raise PipelineError(
                f"the source waits for {waits_for or 'a probe of no stream'!r}, and there is no such operator", source=name,
                remedy="name the operator that it is to wait for, or probe a stream: probe_with(stream, handle)",
            )  # fmt: skip
        if last is None or name not in last.watermarks:
            return False
        frontiers = Frontiers(self._dataflow, at_beginning(last.watermarks), held_in(last.held))
        left: Any = last.offsets.get(name)
        least = connector.operator.waits_until(deepcopy(left["position"])) if isinstance(left, dict) else None
        return frontiers.of(StreamRef(operator, port or MAIN)).less_than(last.watermarks[name] if least is None else least)

    def _offer(
        self, source: Source, origin: str, start: Any, schemas: Mapping[str, str], connector: Connector | None
    ) -> SliceChoice | None:
        """What a source offers after a position, looked over; the ledger has its earlier slices under its origin."""
        if connector is None:
            return None
        with source_named(self._coordinator.root.uri), located(source=source.name), _may_end(source):
            choice = connector.choose(start, self._consumed(origin))
            if choice is not None and choice.slice.items is not None:
                connector.verify(choice.slice.items, schemas[source.name])
                return replace(choice, slice=replace(choice.slice, items=connector.with_content(choice.slice.items)))
            return choice
        return None

    def _consumed(self, origin: str) -> Consumed:
        """What a source has given in all epochs, by its name in the last one."""
        run = self._coordinator
        return Consumed(
            lambda: (piece.items for _, piece in run.slices(origin) if piece.items is not None),
            lambda mark: (piece.items for piece in run.past.slices_since(origin, mark)),
            run.past.mark, run.root, origin,
        )  # fmt: skip

    def _readable(self, slices: Slices, schemas: Mapping[str, str]) -> bool:
        """Whether all that an epoch was to read is still there as it was: a file may have been corrected or a lookup replaced."""
        for name in (*self._planning.plan().sources, *self._planning.plan().lookups):
            connector, piece = self._planning.connector(name), slices.offsets.get(name)
            if connector is None or piece is None or piece.items is None:
                continue
            try:
                connector.verify(piece.items, schemas[name])
                if connector.outdated(piece):
                    return False
            except SourceError:
                return False
        return True

    def has_news(self) -> dict[str, Any]:
        """Whether a source offers rows, without an engine: for sensors. Maps sources with news to what they offer."""
        view, root = self._coordinator.view(), self._coordinator.root.uri
        origins, formerly = self._planning.comparing.origins(view), self._planning.comparing.formerly(view)
        positions = carried(view.last_complete.offsets, origins) if view.last_complete else {}
        found: dict[str, Any] = {}
        used = [name for stage in cut_stages(self._dataflow) for name in stage.operators if name in self._dataflow.nodes]
        reached = carried(view.last_complete.watermarks, origins) if view.last_complete else {}
        for name, time in self._times(one_cut(self._planning, used, positions)):
            if time > reached.get(name, MIN_WATERMARK):
                found[name] = {"time": time}
        for name in used:
            source, start = self._dataflow.nodes[name].operator, positions.get(name)
            if not isinstance(source, Source):
                continue
            connector = self._planning.connector(name)
            connector = connector.continuing(formerly[name]) if connector and name in formerly else connector
            told = None
            if connector and not self._is_ahead(name, view.last_complete):
                with source_named(root), located(pipeline=self._dataflow.name, source=name), _may_end(source):
                    told = connector.news(start, self._consumed(origins.get(name, name)))
                    if told is None:
                        quiet = SourceSlice(start, connector.by_clock(start), None)
                        moved = _time_without_rows(source, connector, quiet, reached)
                        told = None if moved is None else {"time": moved}
            is_over = source.finished or (connector is not None and connector.is_over(start))
            if told is None and is_over and _is_to_be_closed(source, reached):
                told = {"finished": True}
            if told is not None:
                found[name] = told
        if view.last_complete:
            figures = carried(view.last_complete.metrics, origins)
            found |= unfinished(self._dataflow, figures)
        return found

    def backlog(self, name: str) -> Mapping[str, int]:
        """How much of a source is unread, by unit, as far as that is told without an engine; none if it cannot be told."""
        found = self._standing(name)
        with suppress(OperatorsError):  # it is told beside what there is to do, which is found without it
            return found[0].backlog(*found[1:]) if found else {}
        return {}

    def restore_times(self, name: str) -> list[str]:
        """Give files that a source has read, and that have another time of change now, that time again; their paths."""
        found = self._standing(name)
        if found is None:
            sources = [one for one, node in self._dataflow.nodes.items() if isinstance(node.operator, Source)]
            raise PipelineError("there is no such source", source=name, remedy=f"name one of: {', '.join(sources)}")
        with located(source=name):
            return found[0].restore_times(*found[1:])

    def _standing(self, name: str) -> tuple[Connector, JSON | None, Consumed] | None:
        """A source's connector, where it stands, and what it has given; None if there is no such source."""
        view = self._coordinator.view()
        origins, formerly = self._planning.comparing.origins(view), self._planning.comparing.formerly(view)
        positions = carried(view.last_complete.offsets, origins) if view.last_complete else {}
        connector, node = self._planning.connector(name), self._dataflow.nodes.get(name)
        if connector is None or node is None or not isinstance(node.operator, Source):
            return None
        connector = connector.continuing(formerly[name]) if name in formerly else connector
        return connector, positions.get(name), self._consumed(origins.get(name, name))


def _is_to_be_closed(source: Source, watermarks: Mapping[str, int]) -> bool:
    """Whether a source of which nothing comes any more has windows left open: no epoch has told them so."""
    return source.event_time is not None and watermarks.get(source.name) != MAX_WATERMARK


def _time_without_rows(
    source: Source, connector: Connector | None, piece: SourceSlice, watermarks: Mapping[str, int]
) -> int | None:
    """How far a slice without rows moves a source's watermark, as parts that held it back are idle; None if it does not.

    Once an epoch has moved it there, the same slice moves it no further: idle parts make one epoch, not one after the other.
    """
    parts = connector.parts(piece) if connector is not None and source.event_time and piece.items is None else None
    if parts is None:
        return None
    begin = at_beginning(watermarks)(source.name)
    marks = {part: watermarks[key] for part in (*parts.holding, *parts.idle) if (key := f"{source.name}.{part}") in watermarks}
    time = time_of_parts(parts, marks, begin)
    return time if time > begin else None


@contextmanager
def _may_end(source: Source) -> Iterator[None]:
    """That nothing comes any more is no error of a source that is said to be finished."""
    try:
        yield
    except EndedInputError:
        if not source.finished:
            raise


def unfinished(dataflow: Dataflow, metrics: Mapping[str, float]) -> dict[str, Any]:
    """The operators that have work by now, and what kind: it was left when an epoch ended, or its moment has come."""
    found: dict[str, Any] = {}
    for name in (name for name, node in dataflow.nodes.items() if isinstance(node.operator, FrontierOperator)):
        if metrics.get(f"{name}.{INCOMPLETE}"):
            found[name] = {"incomplete": True}
        elif is_due(metrics.get(f"{name}.{DUE}", inf)):
            found[name] = {DUE: int(metrics[f"{name}.{DUE}"])}
    return found
