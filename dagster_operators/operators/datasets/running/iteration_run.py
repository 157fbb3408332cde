"""The rounds of an iteration, each as jobs of an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from dagster_operators.errors import PipelineError
from dagster_operators.operators.datasets.columns.column_work import positions
from dagster_operators.operators.datasets.columns.updated import UpdatedRows
from dagster_operators.operators.datasets.context import Accumulator, Rounds, add_up
from dagster_operators.operators.datasets.drivers.driver import Work
from dagster_operators.operators.datasets.running.exchange_files import Stored
from dagster_operators.operators.datasets.running.fragment_runs import FragmentRuns, read_by
from dagster_operators.operators.datasets.running.fragment_task import Report, Round
from dagster_operators.operators.datasets.running.fragments import READ, UPDATE, Fragmenting, Incoming, Layout
from dagster_operators.operators.datasets.running.rounds_of_plan import in_round
from dagster_operators.operators.datasets.running.superstep import Superstep
from dagster_operators.optimizer.candidates import Candidate, Channel, Loop
from dagster_operators.optimizer.iterations import BulkIteration, DeltaIteration
from dagster_operators.optimizer.strategies import Ship

Reached: TypeAlias = Callable[[str, int], None]
"""Called with the name of a place within a superstep, and the superstep's number."""


@dataclass(frozen=True)
class BehindSuperstep:
    """An iteration behind a superstep.

    Attributes:
        number: The number of the superstep, from 1.
        ends: Whether it is the last one.
        aggregators: The value of each aggregator in it.
        workset: The rows that go round.
        solution: The solution set; None of a bulk iteration.
    """

    number: int
    ends: bool
    aggregators: Mapping[str, Any]
    workset: Stored
    solution: Stored | None


class IterationRun:
    """The rounds of an iteration.

    Args:
        runs: Runs its fragments.
        candidate: The iteration, as the plan has it.
        node: The iteration, as the program has it.
        loop: Its round.
        channels: The numbers of the data sets of channels from outside.
        same: The numbers of data sets that leave a round and are the same in each, by candidate.
    """

    def __init__(
        self,
        runs: FragmentRuns,
        candidate: Candidate,
        node: BulkIteration | DeltaIteration,
        loop: Loop,
        *,
        channels: Mapping[int, int],
        same: Mapping[int, int],
    ) -> None:
        self._runs = runs
        self._candidate = candidate
        self._node = node
        self._channels = channels
        self._rounds = node.work if isinstance(node.work, Rounds) else Rounds()
        read = {id(start): runs.numbers.new() for start in (loop.start, loop.solution) if start is not None}
        kept = [end for end in loop.ends if end.node.is_dynamic]
        layout: Layout = Fragmenting(in_round(loop), runs.numbers, read, kept=kept, channels=channels).layout()
        leaving = {**same, **read, **layout.stored}
        self._fragments = layout.fragments
        self._start = read[id(loop.start)]
        self._solution = None if loop.solution is None else read[id(loop.solution)]
        self._end = leaving[id(loop.end)]
        self._delta = None if loop.delta is None else leaving[id(loop.delta)]
        self._criterion = None if loop.criterion is None else leaving[id(loop.criterion)]
        written = {out.stored for fragment in self._fragments for out in fragment.outgoing}
        self._same = frozenset(set().union(*map(read_by, self._fragments)) - written - set(read.values()))

    def run(self, taken: Superstep | None, reached: Reached, keep: Callable[[BehindSuperstep], None]) -> Stored:
        """Run the rounds; the rows that leave the last one.

        Args:
            taken: The superstep that an earlier attempt kept last; None to begin at the first one.
            reached: Called with the places within each round.
            keep: Called behind each round.
        """
        node, stored = self._node, self._runs.stored
        superstep, ends, previous = 0, False, dict[str, Any]()
        if taken is None:
            self._begin()
        else:
            superstep, ends, previous = taken.number, taken.ends, dict(taken.aggregators)
            stored[self._start] = taken.workset
            if self._solution is not None and taken.solution is not None:
                stored[self._solution] = taken.solution
        while not ends and superstep < node.rounds:
            superstep += 1
            reached("superstep_begun", superstep)
            previous = self._round(superstep, previous)
            reached("superstep_ran", superstep)
            ends = self._ends_here(superstep, previous)
            self._go_round()
            solution = None if self._solution is None else stored[self._solution]
            keep(BehindSuperstep(superstep, ends, previous, stored[self._start], solution))
            reached("superstep", superstep)
        if isinstance(node, DeltaIteration) and node.must_end and stored[self._start].rows:
            raise PipelineError(
                f"the workset still has {stored[self._start].rows} rows behind {superstep} rounds: the next epoch would go on "
                "from a solution set that is not the end of the iteration", operator=node.name,
                remedy="give it more rounds: iterate_delta(workset, rounds, ..., keep=True)",
            )  # fmt: skip
        return stored[self._start if self._solution is None else self._solution]

    @property
    def reads(self) -> set[int]:
        """The numbers of the data sets from outside that a round reads, or that leave it and are the same in each."""
        ends = {number for number in (self._end, self._delta, self._criterion) if number is not None}
        return set().union(ends, *map(read_by, self._fragments)) - {self._start, self._solution}

    def _begin(self) -> None:
        """Have the rows of the first round."""
        stored = self._runs.stored
        inputs = [self._come_in(channel) for channel in self._candidate.inputs]
        stored[self._start] = inputs[-1]
        if self._solution is not None:
            stored[self._solution] = self._updated(inputs[0], Stored())

    def _round(self, superstep: int, previous: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the aggregators in a round."""
        values = {name: Accumulator(one.start, one.combine) for name, one in self._rounds.aggregators.items()}
        self._runs.results.supersteps[self._node.name] = superstep
        for report in self._superstep(Round(superstep, previous, self._rounds.aggregators)):
            add_up(values, report.aggregators)
        return {name: accumulator.value for name, accumulator in values.items()}

    def _come_in(self, channel: Channel) -> Stored:
        """The rows of the first round, in the order that the plan says."""
        number, node = self._channels[id(channel)], self._node
        everything, order = channel.ship is Ship.BROADCAST, channel.local_ordering if channel.local.dams else None
        if not everything and order is None:
            return self._runs.stored[number]
        incoming = Incoming(stored=number, everything=everything, order=order)
        return self._runs.handed_on(node.name, READ, Work(), [incoming], self._candidate.parallelism)

    def _ends_here(self, superstep: int, values: Mapping[str, Any]) -> bool:
        stored, criterion = self._runs.stored, self._rounds.criterion
        if criterion is not None and criterion[1](superstep, values[criterion[0]]):
            return True
        if self._criterion is not None:
            return stored[self._criterion].rows == 0
        return self._solution is not None and stored[self._end].rows == 0

    def _superstep(self, now: Round) -> list[Report]:
        """The reports of a round's tasks."""
        reports: list[Report] = []
        for level in sorted({fragment.level for fragment in self._fragments}):
            reports += self._runs.run([fragment for fragment in self._fragments if fragment.level == level], now, self._same)
        return reports

    def _go_round(self) -> None:
        """Let the rows that leave a round be those that come into the next one."""
        stored = self._runs.stored
        before = [stored[self._start]]
        end = stored[self._end]
        if self._solution is not None and self._delta is not None and stored[self._delta].rows:
            before.append(stored[self._solution])
            stored[self._solution] = self._updated(stored[self._solution], stored[self._delta])
        stored[self._start] = end
        self._runs.forget({out.stored for fragment in self._fragments for out in fragment.outgoing}, before)

    def _updated(self, solution: Stored, delta: Stored) -> Stored:
        """A solution set with changes taken in: a row for each key, in each part."""
        runs, node = self._runs, self._node
        if not isinstance(node, DeltaIteration):
            return solution
        first, second = (runs.numbers.new() for _ in range(2))
        runs.stored.update({first: solution, second: delta})
        incoming = [Incoming(stored=first), Incoming(stored=second)]
        keys = positions(node.keys)
        work = Work(keys=node.keys, columns=None if keys is None else UpdatedRows(keys))
        updated = runs.handed_on(node.name, UPDATE, work, incoming, node.parallelism)
        del runs.stored[first], runs.stored[second]
        return updated
