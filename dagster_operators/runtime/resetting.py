"""Putting sources to other positions, with what becomes of the tables and the state that their rows went to."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar

from dagster_operators.connectors.connector import Connector
from dagster_operators.errors import LedgerError, PipelineError, UnknownEpochError, call_of
from dagster_operators.graph.reach import Reach
from dagster_operators.graph.slice import JSON
from dagster_operators.operators.relational.source import Source
from dagster_operators.runtime.changes_left_out import counted_by
from dagster_operators.runtime.identities import Ledgered
from dagster_operators.runtime.kept_plans import KeptPlans
from dagster_operators.time.watermark import to_micros
from dagster_operators.transactions.deciding import require_none_waiting
from dagster_operators.transactions.manifest import Change
from dagster_operators.transactions.plan import PlanRecord
from dagster_operators.transactions.records import Complete
from dagster_operators.transactions.transition import Transition, unfinished_in
from dagster_operators.transactions.transition_epoch import as_completed, exchanged

if TYPE_CHECKING:
    from dagster_operators.plans.logical_plan import LogicalPlan
    from dagster_operators.transactions.coordinator import Coordinator
    from dagster_operators.transactions.view import LedgerView

V = TypeVar("V")

Place: TypeAlias = int | str | datetime | Mapping[str, JSON] | None
"""Where a source is put: behind an epoch, behind the last one that was complete at a time, at a position; None: its beginning."""

Tables: TypeAlias = Literal["keep", "restart"]
"""What becomes of the tables and the state behind a source: they stay as they are, or begin from nothing."""

TABLES: Final[tuple[Tables, ...]] = ("keep", "restart")


class Resetting:
    """Puts sources of a pipeline elsewhere.

    Args:
        run: Has the pipeline.
    """

    def __init__(self, run: Coordinator) -> None:
        self._run = run
        self._view = run.settle()
        require_none_waiting(self._view)
        last, plan = self._view.last_complete, self._view.last_plan
        if last is None or plan is None:
            raise LedgerError("no epoch was completed yet", pipeline=run.pipeline, remedy="run one: it reads from the beginning")
        self._last, self._plan = last, as_completed(plan, last, self._view)

    def reset(self, sources: Sequence[str], to: Place, tables: Tables | None, *, keep_sinks: bool = False) -> Complete:
        """Have sources go on from somewhere else with the next epoch, in an epoch that does nothing else.

        Raises:
            PipelineError: There is no such source, or it is there already; it is not said, or not possible, what is to become
                of its tables.
            UnknownEpochError: No epoch was complete then.
        """
        known = [self._known(source) for source in sources]
        epoch = self._epoch(to)
        positions = {source: self._position(source, to, epoch) for source in known}
        if all(self._last.offsets.get(source) == position for source, position in positions.items()):
            raise PipelineError(
                "that is where it stands", pipeline=self._run.pipeline, source=sources[0], remedy="name another place"
            )
        offsets = {name: at for name, at in {**self._last.offsets, **positions}.items() if at is not None}
        finished = tuple(name for name in self._last.finished if name not in positions)
        to_now = Transition(
            "reset", f"{', '.join(sources)} to {_told(to)}", offsets, self._last.watermarks, finished, self._last.held,
            epoch.epoch if epoch else 0, tuple(sources) if epoch else (), unfinished=unfinished_in(self._last.metrics),
            times=self._last.times, emptied=self._view.emptied,
        )  # fmt: skip
        if tables is None:
            raise self._unsaid(sources, to, positions)
        if tables == "keep":
            return self._run.transit(self._plan, to_now, lambda _: ())
        behind = _Behind(self._run, self._view, self._last, sources, to)
        behind.check_begun([source for source, position in positions.items() if position is not None])
        behind.check(keep_sinks=keep_sinks)
        unfinished = behind.left(to_now.unfinished)
        timeless = replace(
            to_now, watermarks=behind.left(to_now.watermarks), held=behind.left(to_now.held), unfinished=unfinished,
            times={table: time for table, time in self._last.times.items() if table not in behind.tables},
            emptied=tuple(sorted({*self._view.emptied, *behind.operators})),
        )  # fmt: skip
        schemas = {name: schema for name, schema in self._plan.schemas.items() if name not in known}  # found anew
        return self._run.transit(replace(self._plan, schemas=schemas), timeless, lambda _: behind.changes(self._plan))

    def _known(self, source: str) -> str:
        if source not in self._last.sources:
            raise PipelineError(
                "the pipeline has no such source", pipeline=self._run.pipeline, source=source,
                remedy=f"name one of: {', '.join(sorted(self._last.sources))}",
            )  # fmt: skip
        return source

    def _epoch(self, to: Place) -> Complete | None:
        """The epoch behind which a source is put; None for its beginning, or for a position."""
        if to is None or isinstance(to, Mapping) or (isinstance(to, int) and to == 0):
            return None
        epoch = to if isinstance(to, int) else self._epoch_at(to)
        found = next((one for one in self._run.history() if one.epoch == epoch), None)
        if found is None:
            raise UnknownEpochError(
                f"there is no completed epoch {epoch}", pipeline=self._run.pipeline, epoch=epoch,
                remedy=f"name one from 1 to {self._last.epoch}; 0 is the source's beginning",
            )  # fmt: skip
        return found

    def _position(self, source: str, to: Place, epoch: Complete | None) -> JSON | None:
        if epoch is None:
            return self._checked(source, dict(to)) if isinstance(to, Mapping) else None
        former = self._run.past.name_in(epoch.epoch, source)
        if former is None:
            raise PipelineError(
                f"epoch {epoch.epoch} did not have that source", pipeline=self._run.pipeline, source=source,
                remedy="name a later epoch, or a position",
            )  # fmt: skip
        if epoch.sources.get(former) != self._last.sources[source]:
            raise PipelineError(
                f"in epoch {epoch.epoch} the source read something else, or from elsewhere: its position there means nothing now",
                pipeline=self._run.pipeline, source=source, epoch=epoch.epoch,
                remedy="name a later epoch, 0 for its beginning, or a position",
            )  # fmt: skip
        return epoch.offsets.get(former)

    def _checked(self, source: str, position: dict[str, JSON]) -> JSON:
        """A position that somebody wrote, if the source's kind is known here and takes it."""
        name = self._last.logical_plan
        plan = KeptPlans(self._run.root).find(name) if name else None
        node = plan.node(source) if plan else None
        connector = node.operator.connector if node is not None and isinstance(node.operator, Source) else None
        if isinstance(connector, Connector):
            try:
                connector.check_position(position)
            except PipelineError as error:
                raise error.at(pipeline=self._run.pipeline, source=source) from None
            return connector.written_position(position, self._last.offsets.get(source))
        return position

    def _epoch_at(self, moment: str | datetime) -> int:
        seconds = to_micros(moment_of(moment)) / 1e6
        if seconds > time.time():
            raise UnknownEpochError("the time is still to come", pipeline=self._run.pipeline, remedy="name one that has passed")
        found = [one.epoch for one in self._run.history() if one.committed_at <= seconds]
        if not found:
            raise UnknownEpochError(
                f"no epoch was complete at {moment}", pipeline=self._run.pipeline,
                remedy="name a later time, or 0 for the beginning",
            )  # fmt: skip
        return found[-1]

    def _unsaid(self, sources: Sequence[str], to: Place, positions: Mapping[str, JSON | None]) -> PipelineError:
        """Why it cannot be done without being told what is to become of the tables."""
        again = {name: self._read_since(name, at) for name, at in positions.items()}
        told = [
            f"{name} would read again what {count} epochs have read, and its rows would be twice in what they went to"
            if count
            else f"nobody knows which rows of {name} would be left out, or come again"
            for name, count in again.items()
        ]
        ways = [f"{_again(sources, to, tables='keep')} leaves the tables as they are"]
        if self._last.logical_plan and KeptPlans(self._run.root).find(self._last.logical_plan):
            emptied = _Behind(self._run, self._view, self._last, sources, to).emptied()
            restart = _again(sources, to, tables="restart")
            ways.insert(0, f"{restart} empties the tables and the state behind it ({emptied})")
        if isinstance(to, int) and 0 < to < self._last.epoch:
            ways.append(f"go back with all of the pipeline: {call_of('rollback', to)}")
        return PipelineError(
            "; ".join(told), pipeline=self._run.pipeline, source=sources[0], remedy=f"say what you want: {'; or '.join(ways)}"
        )

    def _read_since(self, source: str, position: JSON | None) -> int:
        """How many epochs have read a source since it was at a position; 0 if it was never there."""
        ends = [part.end for _, part in self._run.slices(source) if part.start != part.end]
        if position is None:
            return len(ends)
        return len(ends) - 1 - ends.index(position) if position in ends else 0


@dataclass(frozen=True)
class _Behind:
    """All that rows of sources went to in the last epoch."""

    run: Coordinator
    view: LedgerView
    last: Complete
    sources: Sequence[str]
    to: Place

    @cached_property
    def plan(self) -> LogicalPlan:
        if not self.last.logical_plan:
            raise LedgerError(
                "no plan was kept of the last epoch, so that nobody knows what the source leads to", pipeline=self.run.pipeline,
                epoch=self.last.epoch, remedy="run an epoch first, whose operators are all registered with the catalog",
            )  # fmt: skip
        return KeptPlans(self.run.root).read(self.last.logical_plan)

    @cached_property
    def reach(self) -> Reach:
        fed = [pair for loop in self.plan.loops for pair in loop.feedback]
        return Reach.of(self.plan.nodes, fed)

    @cached_property
    def operators(self) -> frozenset[str]:
        return self.reach.behind([name for name in self.sources if name in self.reach.reads])

    @cached_property
    def tables(self) -> tuple[str, ...]:
        return tuple(table.name for table in self.plan.tables if table.stream.operator in self.operators)

    def check_begun(self, sources: Sequence[str]) -> None:
        """Refuse to have state begin in the midst of changes: it would take back rows that it never had."""
        for source in sources:
            if operator := counted_by(self.plan.nodes, self.reach, source):
                raise PipelineError(
                    f"changes behind that place take back rows that came before it, which {operator!r} counts",
                    pipeline=self.run.pipeline, source=source, operator=operator,
                    remedy=f'begin with all rows: pipeline.reset({source!r}, 0, tables="restart")',
                )  # fmt: skip

    def check(self, *, keep_sinks: bool) -> None:
        """Refuse it where rows of other sources would be lost with these, or rows outside cannot be taken back."""
        before = self.reach.before(self.operators)
        others = sorted(
            node.name for node in self.plan.nodes
            if isinstance(node.operator, Source) and node.name in before and node.name not in self.sources
        )  # fmt: skip
        if others:
            place = 0 if isinstance(self.to, Mapping) else self.to
            together = _again([*self.sources, *others], place, tables="restart", keep_sinks=keep_sinks or None)
            raise PipelineError(
                f"rows of {', '.join(others)} went to the same tables and state, and would be lost with them",
                pipeline=self.run.pipeline, source=self.sources[0],
                remedy=f"reset them together: {together}; or compute the tables anew instead: pipeline.rebuild()",
            )  # fmt: skip
        sinks = sorted(sink.name for sink in self.plan.sinks if sink.stream.operator in self.operators)
        if sinks and not keep_sinks:
            again = _again(self.sources, self.to, tables="restart", keep_sinks=True)
            raise PipelineError(
                f"{', '.join(sinks)} has taken rows, which cannot be taken back", pipeline=self.run.pipeline, sink=sinks[0],
                remedy=f"if it may keep them and get them again: {again}{self._of_changes()}",
            )  # fmt: skip

    def _of_changes(self) -> str:
        """What is told besides of sinks of changes: the state that would take back what they have is emptied."""
        from dagster_operators.plans.plan_streams import Streams
        from dagster_operators.plans.shape import PlanShape

        streams = Streams(PlanShape(self.plan))
        behind = [sink for sink in self.plan.sinks if sink.stream.operator in self.operators]
        if not (told := sorted(sink.name for sink in behind if streams.changes(sink.stream))):
            return ""
        return (
            f"; nothing is taken back of the changes that {', '.join(told)} has: to have them right, reset so, and before the "
            "next epoch put a sink of another name and place where it is in the program (its decision: keep)"
        )

    def emptied(self) -> str:
        """How many rows each table has that would be emptied."""
        files = {
            table: self.run.files(dataset, self.view.versions[dataset])
            for table in self.tables if (dataset := f"tables/{table}") in self.view.versions
        }  # fmt: skip
        return ", ".join(f"rows in {table}: {sum(file.rows for file in has)}" for table, has in files.items()) or "no table"

    def changes(self, plan: PlanRecord) -> Iterator[Change]:
        """The tables and states emptied."""
        ledgered = Ledgered(self.view, self.last, [node.name for node in self.plan.nodes])
        tables = [f"tables/{table}" for table in self.tables]
        states = [dataset for name in sorted(self.operators) for dataset in ledgered.datasets(name)]
        rejects = [f"tables/{source}_rejects" for source in self.sources]
        for dataset in dict.fromkeys([*tables, *states, *rejects]):
            if dataset in plan.datasets and dataset in self.view.versions:
                yield exchanged(dataset, self.run.files(dataset, self.view.versions[dataset]), ())

    def left(self, values: Mapping[str, V]) -> dict[str, V]:
        """What is known of the time of sources and operators, without those behind; parts of operators count as them."""
        parts = {part for part, whole in self.last.parts.items() if whole in self._identities}
        gone = self.operators | {name for name in self._physical if self.last.identities.get(name, name) in parts}
        return {name: value for name, value in values.items() if name.partition(".")[0] not in gone}

    @cached_property
    def _identities(self) -> frozenset[str]:
        return frozenset(self.last.identities.get(name, name) for name in self.operators)

    @cached_property
    def _physical(self) -> frozenset[str]:
        return frozenset(name.partition(".")[0] for name in (*self.last.watermarks, *self.last.held))


def written_place(text: str) -> Place:
    """A place as it is written on the command line, or in a configuration.

    >>> written_place("41"), written_place("2026-01-31 12:00"), written_place('{"batches": 1}')
    (41, '2026-01-31 12:00', {'batches': 1})
    """
    if text.isdigit():
        return int(text)
    if not text.startswith("{"):
        return text
    try:
        found: dict[str, JSON] = json.loads(text)
    except ValueError as error:
        raise PipelineError(f"{text} is no position: {error}", remedy="write it as a JSON object") from None
    return found


def moment_of(moment: str | datetime) -> datetime:
    """A time, also one that is written."""
    if isinstance(moment, datetime):
        return moment
    try:
        return datetime.fromisoformat(moment)
    except (ValueError, TypeError):
        raise PipelineError(f"{moment!r} is no time", remedy="write it as 2026-01-31 or 2026-01-31 12:00:00") from None


def _again(sources: Sequence[str], to: Place, **options: object) -> str:
    """The call that puts sources to a place, with all that it needs."""
    place = str(to) if isinstance(to, datetime) else dict(to) if isinstance(to, Mapping) else to or 0
    return call_of("reset", sources[0] if len(sources) == 1 else list(sources), place, **options)


def _told(to: Place) -> str:
    if to is None or (isinstance(to, int) and to == 0):
        return "its beginning"
    return f"epoch {to}" if isinstance(to, int) else str(to)
