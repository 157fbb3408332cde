"""A plan run in this process, part by part: what an engine that carries plans out is compared with.

Exchanges are made as the plan says, so that a wrong plan gives wrong rows. What the plan says of each operator's rows may be
checked, too (:mod:`~dagster_operators.operators.datasets.claims`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from dagster_operators.errors import PipelineError, located
from dagster_operators.operators.datasets.claims import check_claims
from dagster_operators.operators.datasets.context import Accumulator, IterationContext, Rounds, RuntimeContext, add_up
from dagster_operators.operators.datasets.drivers import grouping, joining, reducing, row_wise
from dagster_operators.operators.datasets.drivers.driver import Work
from dagster_operators.operators.datasets.key_kinds import KeyKinds
from dagster_operators.operators.datasets.rows import Row, in_order, key_of
from dagster_operators.operators.datasets.running.part_numbers import part_of
from dagster_operators.operators.datasets.running.placing import asked
from dagster_operators.operators.datasets.task import Step, is_over_arrow, run_arrow, run_task
from dagster_operators.optimizer.candidates import Candidate, Channel, Loop
from dagster_operators.optimizer.iterations import BulkIteration, DeltaIteration
from dagster_operators.optimizer.planning import OptimizedPlan
from dagster_operators.optimizer.program import Node, Sink, Source, Union
from dagster_operators.optimizer.properties.ordering import Ordering
from dagster_operators.optimizer.strategies import Ship

Parts: TypeAlias = list[list[Row]]
"""The rows of a data set, in its parts."""

_REGISTERED = (grouping, joining, reducing, row_wise)


class LocalExecution:
    """One run of a plan.

    Args:
        plan: The plan.
        sources: The rows of each source, by its name.
        claims: Whether it is checked that rows lie as the plan says.
    """

    def __init__(self, plan: OptimizedPlan, sources: Mapping[str, Sequence[Row]], *, claims: bool = False) -> None:
        self._plan = plan
        self._sources = sources
        self._claims = claims
        self._results: dict[int, Parts] = {}
        self._round: IterationContext | None = None
        self._rounds_of: Rounds = Rounds()
        self.accumulators: dict[str, Accumulator] = {}
        """What the functions' accumulators came to, once :meth:`run` has ended."""
        self.supersteps: dict[str, int] = {}
        """In how many rounds each iteration ended, by its name."""

    def run(self) -> dict[str, list[Row]]:
        """The rows that come to each sink, by its name.

        Raises:
            OperatorFailedError: A function failed.
            PipelineError: Rows do not lie as the plan says, and that is checked.
        """
        return {sink.node.name: [row for part in self._parts(sink) for row in part] for sink in self._plan.sinks}

    def _parts(self, candidate: Candidate) -> Parts:
        for one in candidate:
            if id(one) not in self._results:
                self._results[id(one)] = self._computed(one)
        return self._results[id(candidate)]

    def _computed(self, candidate: Candidate) -> Parts:
        node = candidate.node
        if isinstance(node, Source):
            parts: Parts = [[] for _ in range(candidate.parallelism)]
            for number, row in enumerate(self._sources[node.name]):
                parts[number % candidate.parallelism].append(row)
            return parts
        with located(operator=node.name):
            inputs = [self._shipped(channel, candidate.parallelism) for channel in candidate.inputs]
        if isinstance(node, Sink):
            return inputs[0]
        if isinstance(node, BulkIteration):
            parts = self._rounds(candidate, node, inputs[0])
        elif isinstance(node, DeltaIteration):
            parts = self._changes(candidate, node, *inputs)
        elif isinstance(node, Union):
            parts = [[*first, *second] for first, second in zip(*inputs, strict=True)]
        else:
            parts = self._worked(candidate, inputs)
        if self._claims:
            check_claims(candidate, parts)
        return parts

    def _worked(self, candidate: Candidate, inputs: Sequence[Parts]) -> Parts:
        work = candidate.node.work
        if not isinstance(work, Work):
            work = Work()
        broadcasts = {
            channel.name: [row for part in self._parts(channel.source) for row in part] for channel in candidate.broadcasts
        }
        contexts = [
            RuntimeContext(
                candidate.node.name, subtask, candidate.parallelism, broadcasts=broadcasts, iteration=self._part_of_round()
            )
            for subtask in range(candidate.parallelism)
        ]
        steps = [Step(candidate.driver, work, context) for context in contexts]
        results = [_rows_of(step, [parts[step.runtime.subtask] for parts in inputs]) for step in steps]
        kinds = KeyKinds()
        for context in contexts:
            kinds.add(context.key_kinds)
            add_up(self.accumulators, context.accumulators)
            if context.iteration is not None and self._round is not None:
                add_up(self._round.aggregators, context.iteration.aggregators)
        kinds.require_equality(candidate.node.name)
        return results

    def _part_of_round(self) -> IterationContext | None:
        if self._round is None:
            return None
        starts = {name: Accumulator(one.start, one.combine) for name, one in self._rounds_of.aggregators.items()}
        return IterationContext(self._round.superstep, self._round.previous, starts)

    def _shipped(self, channel: Channel, count: int) -> Parts:
        before = self._results[id(channel.source)]
        parts = before if channel.ship is Ship.FORWARD else exchanged(channel, before, count)
        if len(parts) != count:
            raise PipelineError(
                f"{len(parts)} parts come where {count} are expected", operator=channel.source.node.name,
                remedy="report it with the program: the plan is wrong",
            )  # fmt: skip
        if channel.local.dams and channel.local_ordering is not None:
            return [in_order(part, channel.local_ordering) for part in parts]
        return parts

    def _rounds(self, candidate: Candidate, node: BulkIteration, rows: Parts) -> Parts:
        loop = _loop_of(candidate)
        for _ in self._supersteps(node, node.rounds):
            rows, *criterion = self._in_round({id(loop.start): rows}, loop.ends)
            if criterion and not any(criterion[0]):
                break
        return rows

    def _changes(self, candidate: Candidate, node: DeltaIteration, solution: Parts, workset: Parts) -> Parts:
        loop, key = _loop_of(candidate), key_of(node.keys)
        tables = [{key(row): row for row in part} for part in solution]
        for _ in self._supersteps(node, node.rounds):
            begin = {id(loop.start): workset, id(loop.solution): [list(table.values()) for table in tables]}
            workset, delta = self._in_round(begin, loop.ends)
            for table, changes in zip(tables, delta, strict=True):
                table.update({key(row): row for row in changes})
            if not any(workset):
                break
        return [list(table.values()) for table in tables]

    def _supersteps(self, node: Node, most: int) -> Iterator[int]:
        """The rounds of an iteration, until one meets its criterion."""
        outside = self._round, self._rounds_of
        rounds = node.work if isinstance(node.work, Rounds) else Rounds()
        previous: dict[str, Any] = {}
        try:
            for superstep in range(1, most + 1):
                starts = {name: Accumulator(one.start, one.combine) for name, one in rounds.aggregators.items()}
                self._round, self._rounds_of = IterationContext(superstep, previous, starts), rounds
                self.supersteps[node.name] = superstep
                yield superstep
                previous = {name: accumulator.value for name, accumulator in self._round.aggregators.items()}
                if rounds.criterion is not None and rounds.criterion[1](superstep, previous[rounds.criterion[0]]):
                    return
        finally:
            self._round, self._rounds_of = outside

    def _in_round(self, begin: Mapping[int, Parts], ends: Sequence[Candidate]) -> list[Parts]:
        """What leaves a round; what is the same in all rounds is computed once."""
        for candidate in (candidate for end in ends for candidate in end if candidate.node.is_dynamic):
            self._results.pop(id(candidate), None)
        self._results.update(begin)
        return [self._parts(end) for end in ends]


def _rows_of(step: Step, inputs: Sequence[list[Row]]) -> list[Row]:
    return list(run_arrow(step, *inputs)) if is_over_arrow(step.strategy, step.work) else run_task(step, inputs)


def _loop_of(candidate: Candidate) -> Loop:
    if candidate.loop is None:
        raise PipelineError("the plan has no rounds of an iteration", operator=candidate.node.name, remedy="close the iteration")
    return candidate.loop


def exchanged(channel: Channel, parts: Parts, count: int) -> Parts:
    """Rows moved to other parts.

    Args:
        channel: How they move.
        parts: The parts they are in.
        count: How many parts there are behind.
    """
    rows = [row for part in parts for row in part]
    if channel.ship is Ship.BROADCAST:
        return [list(rows) for _ in range(count)]
    place = _place(channel, rows, count)
    moved: Parts = [[] for _ in range(count)]
    for number, row in enumerate(rows):
        moved[place(number, row)].append(row)
    return moved


def _place(channel: Channel, rows: Sequence[Row], count: int) -> Callable[[int, Row], int]:
    """In which part a row is to be."""
    if channel.ship is Ship.RANGE and channel.ordering is not None:
        return _place_in_ranges(channel.ordering, rows, count)
    if channel.keys is None:
        return lambda number, _: number % count
    key = key_of(channel.keys)
    if channel.ship is Ship.CUSTOM:
        return lambda _, row: asked(channel.partitioner, key(row)[0], count, channel.source.node.name)
    return lambda _, row: part_of(key(row), count)


def _place_in_ranges(ordering: Ordering, rows: Sequence[Row], count: int) -> Callable[[int, Row], int]:
    key = key_of(ordering.fields)
    places: dict[Any, int] = {}
    for row in in_order(rows, ordering):
        places.setdefault(key(row), len(places))
    bounds = [len(places) * number // count for number in range(1, count)]
    return lambda _, row: bisect_right(bounds, places[key(row)])
