"""A plan carried out: its fragments level by level, and its iterations round by round, once all that they read is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from dagster_operators.errors import PipelineError
from dagster_operators.operators.datasets.running.exchange_files import ExchangeFolder, Stored
from dagster_operators.operators.datasets.running.fragment_runs import FragmentRuns, Launch, Results
from dagster_operators.operators.datasets.running.fragment_task import SinkWriter, Source
from dagster_operators.operators.datasets.running.fragments import Fragment, Fragmenting, reads_what_is_there
from dagster_operators.operators.datasets.running.iteration_run import IterationRun
from dagster_operators.operators.datasets.running.rounds_of_plan import channels_into, outside_of_rounds
from dagster_operators.optimizer.candidates import Candidate
from dagster_operators.optimizer.iterations import BulkIteration, DeltaIteration
from dagster_operators.optimizer.planning import OptimizedPlan
from dagster_operators.optimizer.program import Source as SourceNode

_REPORT_PLAN: Final = "report it with the program: the plan is wrong"


class Execution:
    """A run of a plan.

    Args:
        plan: The plan.
        folder: The folder of its exchanges.
        launch: Runs jobs.
        sources: The sources, by the name of their operator.
        sinks: The writers of the sinks, by their names.
        ended_round: Called with the number of each round of an iteration that has ended.
    """

    def __init__(
        self,
        plan: OptimizedPlan,
        folder: ExchangeFolder,
        launch: Launch,
        sources: Mapping[str, Source],
        sinks: Mapping[str, SinkWriter],
        *,
        ended_round: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._plan = plan
        self._sources = sources
        self._ended_round = ended_round
        self._runs = FragmentRuns(folder, launch, sinks)
        self._read: dict[int, int] = {}
        self._channels: Mapping[int, int] = {}
        self._same: Mapping[int, int] = {}

    def run(self) -> Results:
        """Run it.

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
        self._run(layout.fragments, [candidate for candidate in outside if candidate.loop is not None])
        return self._runs.results

    def _run(self, fragments: Sequence[Fragment], iterations: Sequence[Candidate]) -> None:
        """Run fragments and iterations, each once all that it reads is there."""
        waiting, loops = list(fragments), list(iterations)
        while waiting or loops:
            ready = [fragment for fragment in waiting if self._runs.is_ready(fragment)]
            if ready:
                self._runs.run(ready)
                waiting = [fragment for fragment in waiting if fragment not in ready]
                continue
            loop = next((one for one in loops if all(number in self._runs.stored for number in self._before(one))), None)
            if loop is None:
                raise PipelineError("the fragments of a plan wait for each other", remedy=_REPORT_PLAN)
            loops.remove(loop)
            self._runs.stored[self._read[id(loop)]] = self._rounds(loop)

    def _before(self, iteration: Candidate) -> list[int]:
        """The data sets that an iteration reads."""
        return [self._channels[id(channel)] for channel in (*iteration.inputs, *channels_into(iteration))]

    def _rounds(self, candidate: Candidate) -> Stored:
        """The rows that an iteration ends with."""
        node, loop = candidate.node, candidate.loop
        if loop is None or not isinstance(node, BulkIteration | DeltaIteration):
            raise PipelineError("an iteration of a plan has no rounds", operator=node.name, remedy=_REPORT_PLAN)
        run = IterationRun(self._runs, candidate, node, loop, channels=self._channels, same=self._same)
        return run.run(self._ended_round)
