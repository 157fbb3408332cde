"""A task: the steps of a fragment at work on one part, which reads rows that were written down, and writes others down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, Final, Protocol

from dagster_operators.errors import OperatorsError, located
from dagster_operators.operators.datasets.columns.column_rows import ColumnRows
from dagster_operators.operators.datasets.columns.exact_batches import has_exact_batches
from dagster_operators.operators.datasets.context import (
    Accumulator,
    Aggregator,
    IterationContext,
    RuntimeContext,
    add_up,
)
from dagster_operators.operators.datasets.drivers import grouping, joining, reducing, row_wise
from dagster_operators.operators.datasets.drivers.driver import ChainedDriver, Driver, Work, drivers_as_sent, drivers_of
from dagster_operators.operators.datasets.key_kinds import KeyKinds
from dagster_operators.operators.datasets.prepared import MEMORY, Origin, SameRows, rows_at_hand
from dagster_operators.operators.datasets.rows import Row, in_order, key_of, snapshot
from dagster_operators.operators.datasets.running.back_to_columns import RETURN, Gathering
from dagster_operators.operators.datasets.running.by_columns import (
    COLUMNS,
    ROWS,
    ahead_of_columns,
    is_nothing,
    takes_columns,
    worked,
    write_columns,
)
from dagster_operators.operators.datasets.running.exchange_files import Chunk, ChunkWriter, ExchangeFolder, Stored
from dagster_operators.operators.datasets.running.fragments import (
    JOINED,
    READ,
    UPDATE,
    WRITE,
    Fragment,
    FragmentStep,
    Incoming,
    Outgoing,
)
from dagster_operators.operators.datasets.running.packed_rows import remember_records
from dagster_operators.operators.datasets.running.placing import SAMPLED, KeySample, placing
from dagster_operators.operators.datasets.task import Step, is_over_arrow, run_arrow, run_task
from dagster_operators.optimizer.strategies import Ship

_OWN: Final = (READ, JOINED, WRITE, UPDATE)
_REGISTERED: Final = (grouping, joining, reducing, row_wise)


class Source(Protocol):
    """Rows of a source, which are no rows of an exchange."""

    def rows(self, folder: ExchangeFolder, part: int, parts: int) -> Iterable[Row]:
        """The rows of a part.

        Args:
            folder: The folder of the exchanges.
            part: The part.
            parts: The number of parts.
        """


class SinkWriter(Protocol):
    """Takes the rows of a sink's part."""

    def open(self, folder: ExchangeFolder, part: int) -> Callable[[Iterable[Row]], list[Chunk]]:
        """A function that writes rows into files of the folder, and gives the chunks."""


@dataclass(frozen=True)
class Round:
    """The round of an iteration that a task is in.

    Attributes:
        superstep: The number of the round, from 1.
        previous: The value of each aggregator in the round before, by name.
        aggregators: The aggregators, by name.
    """

    superstep: int
    previous: Mapping[str, Any]
    aggregators: Mapping[str, Aggregator]


@dataclass(frozen=True)
class Job:
    """Fragments of one level, for the tasks of an engine.

    Attributes:
        folder: The folder of the exchanges.
        fragments: The fragments.
        stored: The data sets that were written down and are read, by number.
        sources: The sources that are read, by the number that their rows have.
        sinks: The writers of sinks, by the sink's name.
        round: The round that the fragments are in.
        records: The types of the user's own records.
        drivers: The drivers of strategies of packages from outside, by the strategy's name.
        same: The numbers of the data sets that are the same in all rounds of the iteration.
    """

    folder: ExchangeFolder
    fragments: tuple[Fragment, ...]
    stored: Mapping[int, Stored]
    sources: Mapping[int, Source] = field(default_factory=dict)
    sinks: Mapping[str, SinkWriter] = field(default_factory=dict)
    round: Round | None = None
    records: tuple[type, ...] = ()
    drivers: Mapping[str, tuple[type[Driver], type[ChainedDriver] | None]] = field(default_factory=dict)
    same: frozenset[int] = frozenset()

    def with_drivers(self) -> Job:
        """The job with the drivers that packages from outside registered here."""
        strategies = {step.strategy.name: step.strategy for fragment in self.fragments for step in fragment.steps}
        drivers = {name: drivers_of(strategy) for name, strategy in strategies.items() if strategy not in _OWN}
        outside = {name: pair for name, pair in drivers.items() if not pair[0].__module__.startswith("dagster_operators.")}
        return replace(self, drivers=outside)

    @property
    def tasks(self) -> list[tuple[int, int]]:
        """The number of each fragment with each of its parts."""
        return [(number, part) for number, fragment in enumerate(self.fragments) for part in range(fragment.parallelism)]


@dataclass
class Report:
    """A task's results.

    Attributes:
        stored: The chunks that were written, by data set and part.
        sinks: The chunks that were written for sinks, by name.
        samples: Keys of rows that move by ranges which are not known yet, by data set.
        accumulators: The values of the functions' accumulators.
        aggregators: Those of the iteration's aggregators.
        rows: The number of rows that came out of each operator, by its name.
        ways: In how many parts each operator worked by columns, and by rows, by its name and the word.
        prepared: How often something was made of rows that are the same in all rounds, and how often it was used again.
        key_kinds: The kinds of the keys that came to the operators with two inputs, by fragment and step.
        error: The failure, if there was one.
    """

    stored: dict[int, dict[int, list[Chunk]]] = field(default_factory=dict)
    sinks: dict[str, list[Chunk]] = field(default_factory=dict)
    samples: dict[int, list[Any]] = field(default_factory=dict)
    accumulators: dict[str, Accumulator] = field(default_factory=dict)
    aggregators: dict[str, Accumulator] = field(default_factory=dict)
    rows: Counter[str] = field(default_factory=Counter)
    ways: Counter[tuple[str, str]] = field(default_factory=Counter)
    prepared: Counter[str] = field(default_factory=Counter)
    key_kinds: dict[tuple[int, int], KeyKinds] = field(default_factory=dict)
    error: OperatorsError | None = None


def run_part(job: Job, number: int, part: int) -> Report:
    """Run a fragment on one of its parts.

    Args:
        job: The fragments.
        number: The fragment's number.
        part: The part.
    """
    report = Report()
    remember_records(job.records)
    drivers_as_sent(job.drivers)
    MEMORY.forget_idle()
    try:
        _Part(job, number, part, report).run()
    except OperatorsError as error:
        report = Report(error=error)
    return report


class _Part:
    def __init__(self, job: Job, number: int, part: int, report: Report) -> None:
        self._job = job
        self._number = number
        self._fragment = fragment = job.fragments[number]
        self._part = part
        self._report = report
        self._results: dict[int, Iterable[Row]] = {}
        self._readers: Counter[int] = Counter(
            incoming.step for step in fragment.steps for incoming in step.inputs if incoming.step is not None
        )
        self._lists: dict[int, list[Row]] = {}
        self._broadcasts: dict[int, list[Row]] = {}
        self._chained: dict[int, FragmentStep] = {}

    def run(self) -> None:
        """Run the steps, each with those that are chained behind it."""
        for step in self._fragment.steps:
            follower = self._follower(step)
            if follower is not None:
                self._chained[step.number] = follower
        behind = {step.number for step in self._chained.values()}
        for step in self._fragment.steps:
            if step.number not in behind:
                self._run(step)

    def _follower(self, step: FragmentStep) -> FragmentStep | None:
        """The step that can work row by row behind another one: its only reader, as Flink chains operators."""
        if self._readers[step.number] != 1 or self._leaving(step) or step.strategy in _OWN or step.claims is not None:
            return None
        (reader,) = (other for other in self._fragment.steps for incoming in other.inputs if incoming.step == step.number)
        (*others, incoming) = reader.inputs
        fits = not others and incoming.order is None and not reader.broadcasts and reader.strategy not in _OWN
        fits = fits and not is_over_arrow(reader.strategy, reader.work)  # it takes columns, and no row by itself
        return reader if fits and reader.strategy.chained else None

    def _leaving(self, step: FragmentStep) -> list[Outgoing]:
        return [out for out in self._fragment.outgoing if out.step == step.number]

    def _run(self, head: FragmentStep) -> None:
        steps = [head]
        while steps[-1].number in self._chained:
            steps.append(self._chained[steps[-1].number])
        with located(operator=head.name):  # a key that rows are sorted by may be null
            inputs = [self._rows(incoming, head) for incoming in head.inputs]
        if head.strategy == WRITE:
            writer = self._job.sinks[head.name].open(self._job.folder, self._part)
            self._report.sinks[head.name] = writer(inputs[0])
            return
        with located(operator=head.name):
            rows, left = self._worked(steps, inputs)
            if not left:
                self._report.ways.update((step.name, COLUMNS) for step in steps)
                with located(operator=steps[-1].name):
                    self._hand_on(steps[-1], rows[0])
                return
        self._report.ways.update((step.name, COLUMNS) for step in steps[: len(steps) - len(left)])
        if head.strategy not in _OWN or left[0] is not head:
            self._run_by_rows(left, rows)
            return
        self._report.ways[head.name, ROWS] += 1
        collect, finish = self._collector(head)
        for row in self._own(head, rows):
            collect(row)
        finish()

    def _run_by_rows(self, left: Sequence[FragmentStep], rows: Sequence[Iterable[Row]]) -> None:
        """Run steps of which the first one works by rows, and the last ones by columns, if the rows before allow it."""
        collect, finish = self._collector(left[-1])
        contexts = [self._context(step) for step in left]
        tasks = [Step(step.strategy, step.work, context) for step, context in zip(left, contexts, strict=True)]
        ahead = ahead_of_columns(left)
        gathering = self._gathering(left, ahead)
        if gathering is not None:
            tasks.insert(ahead, Step(RETURN, Work(gathering), RuntimeContext(left[-1].name)))
        try:
            run_task(tasks[0], rows, tasks[1:], collect=collect)
        except OperatorsError:
            if gathering is not None:  # an earlier row may fail behind: that failure comes first
                gathering.go_on_by_rows()
            raise
        for step, context in zip(left, contexts, strict=True):
            if any(context.key_kinds.sides):
                self._report.key_kinds[self._number, step.number] = context.key_kinds
        self._add_up(contexts)
        if gathering is None or not gathering.is_taken:
            ahead = len(left)
            finish()
        self._report.ways.update((step.name, ROWS) for step in left[:ahead])
        self._report.ways.update((step.name, COLUMNS) for step in left[ahead:])

    def _gathering(self, left: Sequence[FragmentStep], ahead: int) -> Gathering | None:
        """The rows of the first steps, which work by rows, on their way into batches; None where nobody takes any."""
        layout, last = left[ahead - 1].work.layout, left[-1]
        needless = ahead == len(left) and not self._is_read_by_columns(last)
        if needless or layout is None or last.claims is not None or not has_exact_batches(layout):
            return None

        def take(columns: ColumnRows) -> bool:
            rows, still_left = worked(left[ahead:], [columns])
            if not still_left:
                with located(operator=last.name):
                    self._hand_on(last, rows[0])
            return not still_left

        return Gathering(layout, take)

    def _is_read_by_columns(self, step: FragmentStep) -> bool:
        """Whether somebody takes a step's rows by their columns: a step here, or a file that columns are placed in."""
        readers = (reader for reader in self._fragment.steps for incoming in reader.inputs if incoming.step == step.number)
        return any(map(takes_columns, readers)) or any(out.ship not in (Ship.RANGE, Ship.CUSTOM) for out in self._leaving(step))

    def _worked(
        self, steps: Sequence[FragmentStep], inputs: Sequence[Iterable[Row]]
    ) -> tuple[Sequence[Iterable[Row]], Sequence[FragmentStep]]:
        """What comes out of the first of some steps, as many as work by columns, and the steps that are left."""
        first, *behind = steps
        if not is_over_arrow(first.strategy, first.work):
            return worked(steps, inputs)
        context = self._context(first)
        rows = run_arrow(Step(first.strategy, first.work, context), inputs[0])
        self._add_up([context])
        if first.claims is not None:
            check = first.claims.check(self._part, self._fragment.parallelism, first.name)
            for row in rows:
                check(row)
        return worked(behind, [rows])

    def _add_up(self, contexts: Iterable[RuntimeContext]) -> None:
        """Add what functions added to their accumulators and aggregators."""
        for context in contexts:
            add_up(self._report.accumulators, context.accumulators)
            if context.iteration is not None:
                add_up(self._report.aggregators, context.iteration.aggregators)

    def _own(self, step: FragmentStep, inputs: Sequence[Iterable[Row]]) -> Iterable[Row]:
        if step.strategy == UPDATE:
            key = key_of(step.work.keys)
            rows = {key(row): row for row in inputs[0]}
            rows.update((key(row), row) for row in inputs[1])
            return rows.values()
        return chain.from_iterable(inputs)

    def _rows(self, incoming: Incoming, step: FragmentStep) -> Iterable[Row]:
        rows: Iterable[Row]
        if incoming.step is not None:
            rows = self._results[incoming.step]
            if isinstance(rows, ColumnRows) and self._readers[incoming.step] > 1 and not takes_columns(step):
                rows = self._lists[incoming.step] = self._lists.get(incoming.step) or list(rows)  # made once for all of them
        elif (source := self._job.sources.get(incoming.stored or 0)) is not None:
            rows = source.rows(self._job.folder, self._part, self._fragment.parallelism)
        else:
            rows = self._stored(incoming)
        if isinstance(rows, ColumnRows):
            return rows.to_be_sorted(incoming.order)
        if isinstance(rows, SameRows):
            return rows
        return rows if incoming.order is None or is_nothing(rows) else in_order(rows, incoming.order)

    def _stored(self, incoming: Incoming) -> Iterable[Row]:
        """The rows of a data set that was written down."""
        number, folder = incoming.stored or 0, self._job.folder
        stored = self._job.stored[number]
        chunks = stored.chunks if incoming.everything else stored.parts.get(self._part, ())
        if not chunks:
            return ()
        columns = folder.columns(chunks)
        if number in self._job.same:
            origin = Origin(folder.path, tuple((chunk.file, chunk.offset) for chunk in chunks), self._report.prepared)
            if columns is None:
                return SameRows(partial(folder.read, chunks), origin, incoming.order)
            columns.origin = origin
        return folder.read(chunks) if columns is None else columns

    def _context(self, step: FragmentStep) -> RuntimeContext:
        broadcasts = {name: self._broadcast(number) for name, number in step.broadcasts.items()}
        context = RuntimeContext(step.name, self._part, self._fragment.parallelism, broadcasts=broadcasts)
        now = self._job.round
        if now is not None and step.in_round:
            starts = {name: Accumulator(one.start, one.combine) for name, one in now.aggregators.items()}
            context.iteration = IterationContext(now.superstep, now.previous, starts)
        return context

    def _broadcast(self, number: int) -> list[Row]:
        if number not in self._broadcasts:
            rows = rows_at_hand(self._stored(Incoming(stored=number, everything=True)))
            self._broadcasts[number] = list(map(snapshot, rows)) if number in self._job.same else list(rows)
        return self._broadcasts[number]

    def _collector(self, step: FragmentStep) -> tuple[Callable[[Row], None], Callable[[], None]]:
        """A function that takes a step's rows, and another one that ends it."""
        takers: list[Callable[[Row], None]] = []
        if step.claims is not None:
            takers.append(step.claims.check(self._part, self._fragment.parallelism, step.name))
        ends: list[Callable[[], None]] = []
        if self._readers[step.number]:
            kept: list[Row] = []
            self._results[step.number] = kept
            takers.append(kept.append)
        for out in self._leaving(step):
            take, end = self._writing(out, self._job.folder.writer(f"{out.stored}-{self._part}"))
            takers.append(take)
            ends.append(end)
        count = 0

        def collect(row: Row) -> None:
            nonlocal count
            count += 1
            try:
                for take in takers:
                    take(row)
            except OperatorsError as error:  # a key by which rows are exchanged may be null
                error.locate(operator=step.name)
                raise

        def finish() -> None:
            self._report.rows[step.name] += count
            with located(operator=step.name):
                for end in ends:
                    end()

        return collect, finish

    def _hand_on(self, step: FragmentStep, rows: Iterable[Row]) -> None:
        """Give a step's rows, of which columns came out, to whatever reads them."""
        self._results[step.number] = rows
        self._report.rows[step.name] += rows.count if isinstance(rows, ColumnRows) else 0
        for out in self._leaving(step):
            writer = self._job.folder.writer(f"{out.stored}-{self._part}")
            take, end = self._writing(out, writer)
            if isinstance(rows, ColumnRows):
                write_columns(rows, out, self._part, writer, take)
            end()

    def _writing(self, out: Outgoing, writer: ChunkWriter) -> tuple[Callable[[Row], None], Callable[[], None]]:
        place = placing(out, self._part)
        unknown = out.ship is Ship.RANGE and out.bounds is None and out.ordering is not None
        sample = KeySample(out.ordering, SAMPLED * out.parts, self._part) if unknown and out.ordering is not None else None

        def take(row: Row) -> None:
            if sample is not None:
                sample.add(row)
            writer.add(place(row), row)

        def end() -> None:
            writer.close()
            self._report.stored[out.stored] = writer.parts
            if sample is not None:
                self._report.samples[out.stored] = sample.keys

        return take, end
