"""Fragments run by an engine, and the data sets that they wrote down."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from dagster_operators.operators.datasets.context import Accumulator, add_up
from dagster_operators.operators.datasets.drivers.driver import Work
from dagster_operators.operators.datasets.key_kinds import KeyKinds
from dagster_operators.operators.datasets.running.exchange_files import Chunk, ExchangeFolder, Stored
from dagster_operators.operators.datasets.running.fragment_task import Job, Report, Round, SinkWriter, Source
from dagster_operators.operators.datasets.running.fragments import READ, Fragment, FragmentStep, Incoming, Numbers, Outgoing
from dagster_operators.operators.datasets.running.placing import range_bounds
from dagster_operators.operators.datasets.running.superstep import Superstep
from dagster_operators.optimizer.properties.ordering import Ordering
from dagster_operators.optimizer.strategies import DriverStrategy, Ship

Launch: TypeAlias = Callable[[Job], list[Report]]
"""Runs the tasks of a job, and gives their reports."""


@dataclass
class Results:
    """What a run of a plan came to.

    Attributes:
        sinks: The chunks of each sink, by its name.
        accumulators: The values of the functions' accumulators, by name.
        supersteps: The number of rounds of each iteration, by its name.
        rows: The number of rows that came out of each operator, by its name.
        ways: In how many parts each operator worked by columns, and by rows, by its name and the word.
        prepared: How often tasks made something of rows that are the same in all rounds, and how often they used it again.
        jobs: The number of jobs that an engine was given.
    """

    sinks: dict[str, list[Chunk]] = field(default_factory=dict)
    accumulators: dict[str, Accumulator] = field(default_factory=dict)
    supersteps: dict[str, int] = field(default_factory=dict)
    rows: Counter[str] = field(default_factory=Counter)
    ways: Counter[tuple[str, str]] = field(default_factory=Counter)
    prepared: Counter[str] = field(default_factory=Counter)
    jobs: int = 0


class FragmentRuns:
    """Runs fragments as jobs of an engine.

    Args:
        folder: The folder of the exchanges.
        launch: Runs jobs.
        sinks: The writers of the sinks, by their names.

    Attributes:
        numbers: Gives numbers of data sets.
        stored: The data sets that were written down, by number.
        sources: The sources that are read, by the number that their rows have.
        results: What the run came to so far.
    """

    def __init__(self, folder: ExchangeFolder, launch: Launch, sinks: Mapping[str, SinkWriter]) -> None:
        self._folder = folder
        self._launch = launch
        self._sinks = sinks
        self.numbers = Numbers()
        self.stored: dict[int, Stored] = {}
        self.sources: dict[int, Source] = {}
        self.results = Results()
        self._kept: frozenset[str] = frozenset()
        self._left: set[str] = set()
        self._taken: set[str] = set()

    def is_ready(self, fragment: Fragment) -> bool:
        """Whether all that a fragment reads is there."""
        return all(number in self.stored or number in self.sources for number in read_by(fragment))

    def run(self, fragments: Sequence[Fragment], now: Round | None = None, same: frozenset[int] = frozenset()) -> list[Report]:
        """Run fragments, and take down what they wrote.

        Args:
            fragments: The fragments; none reads what another one writes.
            now: The round that they are in.
            same: The numbers of the data sets that are the same in all rounds.
        """
        read = {number for fragment in fragments for number in read_by(fragment)}
        job = Job(
            self._folder, tuple(fragments), {number: self.stored[number] for number in read if number in self.stored},
            {number: self.sources[number] for number in read if number in self.sources}, self._sinks, now,
            same=same & read,
        )  # fmt: skip
        reports = self._launch(job)
        self.results.jobs += 1
        for report in reports:
            if report.error is not None:
                raise report.error
        _require_equal_keys(fragments, reports)
        outgoing = [out for fragment in fragments for out in fragment.outgoing]
        for out in outgoing:
            self.stored[out.stored] = Stored()
        for report in reports:
            for number, parts in report.stored.items():
                self.stored[number].add(parts)
            for name, chunks in report.sinks.items():
                self.results.sinks.setdefault(name, []).extend(chunks)
            self._add_up(report.accumulators)
            self.results.rows.update(report.rows)
            self.results.ways.update(report.ways)
            self.results.prepared.update(report.prepared)
        for out in outgoing:
            if out.ship is Ship.RANGE and out.bounds is None and out.ordering is not None:
                self._split(out, out.ordering, [key for report in reports for key in report.samples.get(out.stored, ())])
        return reports

    def _split(self, out: Outgoing, ordering: Ordering, samples: Iterable[Any]) -> None:
        """Move rows into ranges, once their keys are known."""
        raw = self.numbers.new()
        self.stored[raw] = self.stored.pop(out.stored)
        known = replace(out, step=0, bounds=range_bounds(ordering, samples, out.parts))
        parallelism = 1 + max(self.stored[raw].parts, default=0)
        step = FragmentStep(0, out.reader, READ, Work(), (Incoming(stored=raw),))
        self.run([Fragment((step,), (known,), parallelism, 0)])
        self.forget([raw])

    def handed_on(self, name: str, strategy: DriverStrategy, work: Work, inputs: Sequence[Incoming], parallelism: int) -> Stored:
        """What a step by itself makes of data sets that were written down; rows stay in their parts.

        Args:
            name: The name that errors have.
            strategy: How the step's work is done.
            work: The work.
            inputs: Where its rows come from.
            parallelism: The number of parts.
        """
        result = self.numbers.new()
        step = FragmentStep(0, name, strategy, work, tuple(inputs))
        self.run([Fragment((step,), (Outgoing(result, 0, Ship.FORWARD, parallelism),), parallelism, 0)])
        return self.stored.pop(result)

    def forget(self, numbers: Iterable[int], more: Iterable[Stored] = ()) -> None:
        """Delete the files of data sets that nobody reads any more.

        Args:
            numbers: Their numbers.
            more: Data sets that have no number any more.
        """
        gone = [*more, *(self.stored.pop(number) for number in numbers if number in self.stored)]
        kept = {chunk.file for stored in self.stored.values() for chunk in stored.chunks}
        files = {chunk.file for stored in gone for chunk in stored.chunks} - kept
        self._folder.delete(files - self._kept)
        self._left |= files & self._kept

    def keep(self, files: frozenset[str]) -> None:
        """Let files be, since the superstep that was kept last needs them; those that only the one before needed are deleted.

        Args:
            files: The files.
        """
        self._folder.delete(self._left - files)
        self._left &= files
        self._kept = files

    def go_on(self, superstep: Superstep) -> None:
        """Go on as if all up to a superstep had run here.

        Args:
            superstep: The superstep.
        """
        self.stored.update(superstep.stored)
        self.results.supersteps.update(superstep.supersteps)
        self.results.rows.update(superstep.rows)
        self.results.ways.update(superstep.ways)
        self.results.sinks.update({name: list(chunks) for name, chunks in superstep.sinks.items()})
        self.results.accumulators.update({name: Accumulator(value) for name, value in superstep.accumulators.items()})
        self._taken = set(superstep.accumulators)

    def _add_up(self, values: Mapping[str, Accumulator]) -> None:
        """Add to the accumulators. A value that was taken over comes without the function that adds to it."""
        for name in self._taken & values.keys():
            self.results.accumulators[name].combine = values[name].combine
            self._taken.discard(name)
        add_up(self.results.accumulators, values)


def _require_equal_keys(fragments: Sequence[Fragment], reports: Iterable[Report]) -> None:
    """Refuse operators whose inputs have keys of types that are never equal: a task may have seen rows of one input alone."""
    met: defaultdict[tuple[int, int], KeyKinds] = defaultdict(KeyKinds)
    for report in reports:
        for place, kinds in report.key_kinds.items():
            met[place].add(kinds)
    for (number, step), kinds in met.items():
        kinds.require_equality(next(other.name for other in fragments[number].steps if other.number == step))


def read_by(fragment: Fragment) -> set[int]:
    """The numbers of the data sets that a fragment reads."""
    numbers = {incoming.stored for step in fragment.steps for incoming in step.inputs if incoming.stored is not None}
    return numbers | {number for step in fragment.steps for number in step.broadcasts.values()}
