"""A plan carried out: its fragments level by level, and its iterations round by round, once all that they read is there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final, TypeAlias

from dagster_operators.errors import PipelineError
from dagster_operators.operators.datasets.prepared import MEMORY
from dagster_operators.operators.datasets.running.exchange_files import ExchangeFolder
from dagster_operators.operators.datasets.running.fragment_runs import FragmentRuns, Launch, Results, read_by
from dagster_operators.operators.datasets.running.fragment_task import SinkWriter, Source
from dagster_operators.operators.datasets.running.fragments import Fragment, Fragmenting, reads_what_is_there
from dagster_operators.operators.datasets.running.iteration_run import BehindSuperstep, IterationRun, Reached
from dagster_operators.operators.datasets.running.rounds_of_plan import channels_into, outside_of_rounds
from dagster_operators.operators.datasets.running.superstep import Superstep
from dagster_operators.optimizer.candidates import Candidate
from dagster_operators.optimizer.dump import as_json
from dagster_operators.optimizer.iterations import BulkIteration, DeltaIteration
from dagster_operators.optimizer.planning import OptimizedPlan
from dagster_operators.optimizer.program import Source as SourceNode

Keep: TypeAlias = Callable[[Superstep], frozenset[str] | None]
"""Keeps a superstep, and gives the files that must stay for it; None where it is not kept."""

_REPORT_PLAN: Final = "report it with the program: the plan is wrong"


class Execution:
    """A run of a plan.

    Args:
        plan: The plan.
        folder: The folder of its exchanges.
        launch: Runs jobs.
        sources: The sources, by the name of their operator.
        sinks: The writers of the sinks, by their names.
        keep: Keeps a superstep, and gives the files that must stay for it; None where it is not kept.
        reached: Called with the places within each superstep.
    """

    def __init__(
        self,
        plan: OptimizedPlan,
        folder: ExchangeFolder,
        launch: Launch,
        sources: Mapping[str, Source],
        sinks: Mapping[str, SinkWriter],
        *,
        keep: Keep = lambda _: None,
        reached: Reached = lambda _place, _superstep: None,
    ) -> None:
        self._plan = plan
        self._sources = sources
        self._keep = keep
        self._reached = reached
        self._folder = folder
        self._runs = FragmentRuns(folder, launch, sinks)
        self._read: dict[int, int] = {}
        self._channels: Mapping[int, int] = {}
        self._same: Mapping[int, int] = {}
        self._fragments: Sequence[Fragment] = ()
        self._iterations: Sequence[Candidate] = ()
        self._waiting: dict[int, Fragment] = {}
        self._loops: dict[int, Candidate] = {}

    @cached_property
    def digest(self) -> str:
        """A digest of the plan: numbers of data sets mean the same in runs of plans with an equal one."""
        return hashlib.sha256(as_json(self._plan).encode()).hexdigest()

    def run(self, taken: Superstep | None = None) -> Results:
        """Run it.

        Args:
            taken: The superstep that an earlier attempt at the same plan kept last, whose rows are in the folder.

        Raises:
            OperatorFailedError: A function failed.
        """
        outside, leaving, kept = outside_of_rounds(self._plan)
        for candidate in outside:
            if reads_what_is_there(candidate):
                number = self._read[id(candidate)] = self._runs.numbers.new()
                if isinstance(candidate.node, SourceNode):
                    self._runs.sources[number] = self._sources[candidate.node.name]
        fragmenting = Fragmenting(outside, self._runs.numbers, self._read, kept=kept, leaving=leaving)
        layout = fragmenting.layout()
        self._channels, self._same = fragmenting.channels, layout.stored
        self._waiting = dict(enumerate(layout.fragments))
        self._loops = dict(enumerate(candidate for candidate in outside if candidate.loop is not None))
        self._fragments, self._iterations = layout.fragments, list(self._loops.values())
        if taken is not None:
            self._go_on(taken)
        try:
            self._run()
        finally:
            MEMORY.forget(self._folder.path)  # where tasks run in this process; other processes do it in time
        return self._runs.results

    def _go_on(self, taken: Superstep) -> None:
        """Go on behind a superstep."""
        self._runs.go_on(taken)
        for number in taken.fragments:
            del self._waiting[number]
        for number in taken.iterations:
            del self._loops[number]
        self._iterate(taken.iteration, taken)

    def _run(self) -> None:
        """Run fragments and iterations, each once all that it reads is there."""
        while self._waiting or self._loops:
            ready = {number: fragment for number, fragment in self._waiting.items() if self._runs.is_ready(fragment)}
            if ready:
                self._runs.run(list(ready.values()))
                for number in ready:
                    del self._waiting[number]
                continue
            next_loop = next((number for number, loop in self._loops.items() if self._is_ready(loop)), None)
            if next_loop is None:
                raise PipelineError("the fragments of a plan wait for each other", remedy=_REPORT_PLAN)
            self._iterate(next_loop, None)

    def _is_ready(self, iteration: Candidate) -> bool:
        return all(number in self._runs.stored for number in self._before(iteration))

    def _before(self, iteration: Candidate) -> list[int]:
        """The data sets that an iteration reads."""
        return [self._channels[id(channel)] for channel in (*iteration.inputs, *channels_into(iteration))]

    def _iterate(self, number: int, taken: Superstep | None) -> None:
        """Run an iteration, or the rest of it."""
        candidate = self._loops.pop(number)
        node, loop = candidate.node, candidate.loop
        if loop is None or not isinstance(node, BulkIteration | DeltaIteration):
            raise PipelineError("an iteration of a plan has no rounds", operator=node.name, remedy=_REPORT_PLAN)
        run = IterationRun(self._runs, candidate, node, loop, channels=self._channels, same=self._same)
        if taken is not None:
            self._kept(taken)
        result = run.run(taken, self._reached, lambda behind: self._kept(self._superstep(number, run, behind)))
        self._runs.stored[self._read[id(candidate)]] = result

    def _superstep(self, number: int, run: IterationRun, behind: BehindSuperstep) -> Superstep:
        """All that is needed to go on behind a superstep."""
        results, stored = self._runs.results, self._runs.stored
        later = {read for fragment in self._waiting.values() for read in read_by(fragment)}
        needed = later.union(run.reads, *map(self._before, self._loops.values()))
        return Superstep(
            number, behind.number, behind.ends, behind.workset, behind.solution,
            {read: stored[read] for read in sorted(needed) if read in stored},
            tuple(place for place in range(len(self._fragments)) if place not in self._waiting),
            tuple(place for place in range(len(self._iterations)) if place not in self._loops and place != number),
            behind.aggregators, {name: accumulator.value for name, accumulator in results.accumulators.items()},
            dict(results.supersteps), dict(results.rows),
            {name: tuple(chunks) for name, chunks in results.sinks.items()}, self.digest,
            ways=dict(results.ways),
        )  # fmt: skip

    def _kept(self, superstep: Superstep) -> None:
        files = self._keep(superstep)
        if files is not None:
            self._runs.keep(files)
