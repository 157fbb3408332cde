"""Driving an operator without Spark: rows and watermarks in, rows out, epochs, snapshots, another parallelism.

The harness runs the same code as the workers do (``runtime/workers/subtask.py``) and keeps state in memory. It is fast enough for
hundreds of tests a second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self, TypeAlias

import pyarrow as pa

from dagster_operators.errors import CapabilityError, PipelineError
from dagster_operators.graph.conform import conform
from dagster_operators.graph.operator import LogicalOperator
from dagster_operators.graph.ports import MAIN
from dagster_operators.operators.arrow.arrow_operator import ArrowOperator
from dagster_operators.operators.batch_operator import PortSchemas, key_types, numbered
from dagster_operators.operators.frontier.definition import Definition
from dagster_operators.operators.frontier.frontier_program import FrontierProgram
from dagster_operators.operators.frontier.scope_program import ScopeProgram
from dagster_operators.operators.worker_program import Ending, OriginTimes, Report, WorkerProgram, add_figures
from dagster_operators.runtime.stages.numbered_rows import ROWS_OF_AN_EPOCH
from dagster_operators.runtime.workers.program_graph import ProgramGraph, Target
from dagster_operators.runtime.workers.subtask import Member, Subtask, SubtaskId
from dagster_operators.state.key_hash import hash_columns, subtasks
from dagster_operators.state.store import StateStore, next_epoch
from dagster_operators.testing.driven import driven
from dagster_operators.testing.parts import PartsTogether, physical_of, tables_of
from dagster_operators.time.frontier import FINISHED, Frontier, meet
from dagster_operators.time.kinds import Times, fits, names_of
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK, to_micros
from dagster_operators.types.arrow_schema import arrow_type
from dagster_operators.types.schema import Schema

Rows: TypeAlias = "Sequence[Mapping[str, Any]] | pa.RecordBatch | pa.Table"
"""Rows as dictionaries or Arrow; times may be datetimes or ISO texts."""

Moment: TypeAlias = "int | str | datetime"
"""A time: microseconds since 1970, an ISO text, or a datetime."""


@dataclass(frozen=True)
class HarnessSnapshot:
    """An operator between two epochs: what a pipeline keeps of it.

    Attributes:
        epoch: The last epoch.
        watermark: The input's watermark.
        held: The output's.
        state: The rows of each state table, for each subtask.
        watermarks: That of each input; by default they are all at ``watermark``.
        held_at: What was held at each output, of a frontier operator.
        ends: The frontier of each input, whose times are no event times.
        last: The last event time that there was at each input, as far as the operator is told of it.
    """

    epoch: int
    watermark: int
    held: int
    state: Sequence[Mapping[str, pa.Table]]
    watermarks: Sequence[int] = ()
    held_at: Mapping[str, Frontier] = field(default_factory=dict)
    ends: Sequence[Frontier] = ()
    last: Sequence[int] = ()


class OperatorHarness:
    """An operator at work.

    Rows that are given count to the running epoch. :meth:`end_epoch` moves the watermark, as the end of an epoch does, and begins
    the next one with fresh copies of the operator and the state as it is then.

    Args:
        operator: The operator: an ``ArrowOperator``; a frontier operator as ``frontier.define`` gives it; or a logical operator,
            of any package, that lowers to a batch operator, or to parts that stay in one subtask, as a build and a probe side.
        inputs: The schema of each input, as Spark DDL or an Arrow schema.
        keys: The key columns: of all inputs, or for each input; of other operators they are known.
        parallelism: How many subtasks there are.
        name: The operator's name.
        event_time: The column with the time, of a frontier or logical operator's inputs; of times of several parts the first one.
        times: The kind of a frontier operator's times, if they are no event times, as ``do.frontier.retime`` takes it. Its inputs
            have a column for each part, and where a watermark is given it is such a time, or a ``Frontier`` of several.

    Raises:
        SchemaError: The operator does not fit its inputs, or its state not its keys.

    Example:
        >>> import pyarrow as pa, pyarrow.compute as pc
        >>> from dagster_operators import ArrowOperator, KeyedState
        >>> class Totals(ArrowOperator):
        ...     state = {"totals": KeyedState("k string, total long", key="k")}
        ...     def output_schema(self, rows):
        ...         return "k string, total long"
        ...     def process_batch(self, batch, ctx, out):
        ...         sums = pa.table({"k": batch["k"], "v": batch["v"]}).group_by("k").aggregate([("v", "sum")])
        ...         before = ctx.state["totals"].get(sums.select(["k"]))["total"]
        ...         totals = pa.table({"k": sums["k"], "total": pc.add(sums["v_sum"], pc.fill_null(before, 0))})
        ...         ctx.state["totals"].put(totals)
        ...         out.collect(totals)
        >>> with OperatorHarness(Totals(), "k string, v long", keys=["k"], parallelism=2) as harness:
        ...     harness.process([{"k": "a", "v": 1}, {"k": "b", "v": 2}])
        ...     report = harness.end_epoch()
        ...     harness.process([{"k": "a", "v": 10}])
        ...     sorted((row["k"], row["total"]) for row in harness.rows())
        [('a', 1), ('a', 11), ('b', 2)]
    """

    def __init__(
        self,
        operator: ArrowOperator | Definition | LogicalOperator,
        *inputs: str | pa.Schema,
        keys: Sequence[str] | Sequence[Sequence[str]] = (),
        parallelism: int = 1,
        name: str | None = None,
        event_time: str | None = None,
        times: Any = None,
    ) -> None:
        self.inputs = tuple(Schema.of(schema).to_arrow() for schema in inputs)
        self._times = None if times is None else Times(times, names_of(times, str(event_time)))
        self._driven = driven(operator, self.inputs, keys, name, event_time, times=self._times)
        physical = self._driven.physical
        self.ports = physical.outputs(self.inputs)
        self._tables = physical.tables(PortSchemas(self.inputs, self.ports))
        together = physical if isinstance(physical, PartsTogether) else None
        self._last_part = self._driven.name if together is None else together.parts.parts[-1].name
        self._parts_ports = {} if together is None else together.ports(self.inputs)
        self._out: dict[str, list[pa.Table]] = defaultdict(list)
        self._late = self._rejected = 0
        self._next = [0] * len(inputs)
        self._subtasks: list[Subtask] = []
        self.parallelism = parallelism if self._driven.keys[0] else 1
        self.commit_data: dict[int, Any] = {}
        self.metrics: dict[str, float] = {}
        self.epoch, self.held = 1, MIN_WATERMARK
        self._resume(HarnessSnapshot(0, MIN_WATERMARK, MIN_WATERMARK, []))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the harness."""
        self.close()

    def close(self) -> None:
        """Close the operator of the running epoch, with the threads and processes that it has.

        >>> from dagster_operators import ArrowOperator
        >>> class Same(ArrowOperator):
        ...     def output_schema(self, rows):
        ...         return rows
        >>> OperatorHarness(Same(), "v long").close()
        """
        for subtask in self._subtasks:
            subtask.abandon()

    # --- in ----------------------------------------------------------------------------------------------------------

    def process(self, rows: Rows, index: int = 0) -> None:
        """Give rows to the input with this index, all in one batch for each subtask, in the order that the operator wants.

        >>> from dagster_operators import ArrowOperator
        >>> class Same(ArrowOperator):
        ...     def output_schema(self, rows):
        ...         return rows
        ...     def process_batch(self, batch, ctx, out):
        ...         out.collect(batch)
        >>> with OperatorHarness(Same(), "v long") as harness:
        ...     harness.process([{"v": 1}])
        ...     harness.rows()
        [{'v': 1}]
        """
        table = conform(_table(rows, self.inputs[index]), self.inputs[index])
        self._note_last(table, index)
        table = self._numbered(table, index) if self._driven.physical.is_numbered else table
        if order := self._driven.physical.ordered_by:
            table = table.sort_by([(column, "ascending", "at_start") for column in order])
        for subtask, part in self._parts(table, index):
            for batch in part.combine_chunks().to_batches():
                for target in (target for target, read in self._entries.items() if read == index):
                    self._subtasks[subtask].process(target, batch)

    @property
    def watermark(self) -> int:
        """The watermark of all inputs together."""
        return min(self._watermarks)

    def move(self, watermark: Moment, index: int | None = None) -> None:
        """Set the watermark of an input, or of all, as it is to be when the epoch ends; it never goes back.

        Raises:
            CapabilityError: An input of a frontier operator would go back.

        >>> from dagster_operators import ArrowOperator
        >>> class Same(ArrowOperator):
        ...     def output_schema(self, left, right):
        ...         return left
        ...     def process_batch(self, batch, ctx, out):
        ...         out.collect(batch)
        >>> with OperatorHarness(Same(), "v long", "v long") as harness:
        ...     harness.move("1970-01-01T00:00:02", index=0)
        ...     harness.move("1970-01-01T00:00:01", index=1)
        ...     harness.watermark
        1000000
        """
        numbers = range(len(self.inputs)) if index is None else [index]
        if self._times is not None:
            self._move(self._times, watermark, numbers)
            return
        to = moment(watermark)
        for number in numbers:
            if to < self._watermarks[number] and self._driven.is_strict:
                raise CapabilityError(
                    f"the input {number} is at {self._watermarks[number]} and cannot move back to {to}",
                    operator=self._driven.name, remedy="move it to the same time or a later one",
                )  # fmt: skip
            self._watermarks[number] = max(self._watermarks[number], to)
            self._last[number] = max(self._last[number], to if to < MAX_WATERMARK else MIN_WATERMARK)

    def _move(self, times: Times, end: Any, numbers: Iterable[int]) -> None:
        """The same for times that are no event times."""
        to = FINISHED if end == MAX_WATERMARK else end if isinstance(end, Frontier) else Frontier([end])
        wrong = next((time for time in to if not fits(times.kind, time)), None)
        if wrong is not None:
            raise PipelineError(
                f"{wrong!r} is no time of the kind {times}", operator=self._driven.name, remedy="give such a time, or a Frontier"
            )
        for number in numbers:
            if not self._ends[number].dominates(to):
                raise CapabilityError(
                    f"the input {number} is at {self._ends[number]} and cannot move back to {to}",
                    operator=self._driven.name, remedy="move it to the same time or a later one",
                )  # fmt: skip
            self._ends[number], self._watermarks[number] = to, times.watermark(to)

    def advance(self, watermark: Moment) -> int:
        """Move the watermark within the epoch: timers that are due, then ``handle_watermark``; the output's watermark.

        >>> from dagster_operators import ArrowOperator
        >>> class Same(ArrowOperator):
        ...     def output_schema(self, rows):
        ...         return rows
        ...     def process_batch(self, batch, ctx, out):
        ...         out.collect(batch)
        >>> with OperatorHarness(Same(), "v long") as harness:
        ...     harness.advance("1970-01-01T00:00:01")
        1000000
        """
        self.move(watermark)
        for subtask in self._subtasks:
            subtask.advance(self._frontiers(), self._origins())
        return min(self._report(subtask).watermark for subtask in self._subtasks)

    def end_epoch(self, watermark: Moment | None = None) -> Mapping[int, Report]:
        """Move the watermark if one is given, close the epoch, and begin the next.

        Returns:
            What became of the operator in each subtask.

        >>> from dagster_operators import ArrowOperator
        >>> class Same(ArrowOperator):
        ...     def output_schema(self, rows):
        ...         return rows
        ...     def process_batch(self, batch, ctx, out):
        ...         out.collect(batch)
        >>> with OperatorHarness(Same(), "v long", parallelism=1) as harness:
        ...     reports = harness.end_epoch("1970-01-01T00:00:01")
        ...     harness.epoch, reports[0].watermark
        (2, 1000000)
        """
        return self._end(watermark, Ending(self._last, of_sources=self._last))

    def _end(self, watermark: Moment | None, ending: Ending) -> Mapping[int, Report]:
        if watermark is not None:
            self.move(watermark)
        reports, end = {}, self._frontiers()
        for number, subtask in enumerate(self._subtasks):
            reports[number] = subtask.finish(end, self._origins(), ending)[self._last_part]
            subtask.close()
        self._late, self._rejected = self.late_rows, self.rejected_rows
        self.commit_data = {n: report.commit_data for n, report in reports.items() if report.commit_data is not None}
        for report in self._all_reports():
            add_figures(self.metrics, report.metrics)
        self.held = min(report.watermark for report in reports.values())
        self._held_at = {port: meet(report.held.get(port, FINISHED) for report in reports.values()) for port in self.ports}
        for part, ports in self._parts_ports.items():
            held = [subtask.reports()[part].held for subtask in self._subtasks]
            self._held_at |= {f"{part}.{port}": meet(own.get(port, FINISHED) for own in held) for port in ports.outputs}
        self._begin(self.epoch + 1)
        return reports

    def stop(self, ended: Collection[int] = ()) -> Mapping[int, Report]:
        """End the epoch as one with which the pipeline is stopped: event operators are told.

        Args:
            ended: The inputs that end until it is run again.

        >>> from dagster_operators import ArrowOperator
        >>> class Same(ArrowOperator):
        ...     def output_schema(self, rows):
        ...         return rows
        ...     def process_batch(self, batch, ctx, out):
        ...         out.collect(batch)
        >>> with OperatorHarness(Same(), "v long") as harness:
        ...     len(harness.stop())
        1
        """
        return self._end(None, Ending(self._last, stops=True, ended=ended, of_sources=self._last))

    def run_epoch(self, rows: Rows, watermark: Moment | None = None, index: int = 0) -> list[dict[str, Any]]:
        """One whole epoch over some rows; what came out of the main port.

        >>> from dagster_operators import ArrowOperator
        >>> class Same(ArrowOperator):
        ...     def output_schema(self, rows):
        ...         return rows
        ...     def process_batch(self, batch, ctx, out):
        ...         out.collect(batch)
        >>> with OperatorHarness(Same(), "v long") as harness:
        ...     [harness.run_epoch([{"v": v}]) for v in (1, 2)]
        [[{'v': 1}], [{'v': 2}]]
        """
        self.process(rows, index)
        self.end_epoch(watermark)
        return self.rows()

    def finish(self) -> Mapping[int, Report]:
        """End the input: the watermark goes to infinity.

        >>> from dagster_operators import ArrowOperator
        >>> class Same(ArrowOperator):
        ...     def output_schema(self, rows):
        ...         return rows
        ...     def process_batch(self, batch, ctx, out):
        ...         out.collect(batch)
        >>> from dagster_operators.time.watermark import MAX_WATERMARK
        >>> with OperatorHarness(Same(), "v long") as harness:
        ...     harness.finish()[0].watermark == MAX_WATERMARK
        True
        """
        return self.end_epoch(MAX_WATERMARK)

    # --- out ---------------------------------------------------------------------------------------------------------

    def table(self, port: str = MAIN) -> pa.Table:
        """What came out of a port since this was last asked.

        >>> from dagster_operators import ArrowOperator
        >>> class Same(ArrowOperator):
        ...     def output_schema(self, rows):
        ...         return rows
        ...     def process_batch(self, batch, ctx, out):
        ...         out.collect(batch)
        >>> with OperatorHarness(Same(), "v long") as harness:
        ...     harness.process([{"v": 1}])
        ...     harness.table().num_rows, harness.table().num_rows
        (1, 0)
        """
        return pa.concat_tables([self.ports[port].empty_table(), *self._out.pop(port, [])])

    def rows(self, port: str = MAIN) -> list[dict[str, Any]]:
        """The same as dictionaries.

        >>> from dagster_operators import ArrowOperator
        >>> class Same(ArrowOperator):
        ...     def output_schema(self, rows):
        ...         return rows
        ...     def process_batch(self, batch, ctx, out):
        ...         out.collect(batch)
        >>> with OperatorHarness(Same(), "v long") as harness:
        ...     harness.process([{"v": 1}])
        ...     harness.rows()
        [{'v': 1}]
        """
        rows: list[dict[str, Any]] = self.table(port).to_pylist()
        return rows

    @property
    def late_rows(self) -> int:
        """How many rows came too late, in all epochs."""
        return self._late + sum(report.late for report in self._all_reports())

    @property
    def rejected_rows(self) -> int:
        """How many rows were given up on, in all epochs."""
        return self._rejected + sum(report.rejected for report in self._all_reports())

    def state(self, table: str) -> pa.Table:
        """The rows of a state table, of all subtasks; of an operator of several parts it is ``<part>.<table>``.

        >>> from dagster_operators import ArrowOperator, KeyedState
        >>> class Last(ArrowOperator):
        ...     state = {"last": KeyedState("k string, v long", key="k")}
        ...     def output_schema(self, rows):
        ...         return rows
        ...     def process_batch(self, batch, ctx, out):
        ...         out.collect(ctx.state["last"].get(batch.select(["k"])))
        ...         ctx.state["last"].put(batch)
        >>> with OperatorHarness(Last(), "k string, v long", keys=["k"]) as harness:
        ...     rows = harness.run_epoch([{"k": "a", "v": 1}])
        ...     harness.state("last").to_pylist()
        [{'k': 'a', 'v': 1}]
        """
        return pa.concat_tables([store[table].scan() for store in self._stores])

    def frontier(self, port: str = MAIN) -> Frontier:
        """The frontier of an output: the inputs', and what is held.

        >>> from dagster_operators import ArrowOperator
        >>> class Same(ArrowOperator):
        ...     def output_schema(self, rows):
        ...         return rows
        ...     def process_batch(self, batch, ctx, out):
        ...         out.collect(batch)
        >>> with OperatorHarness(Same(), "v long") as harness:
        ...     reports = harness.end_epoch("1970-01-01T00:00:01")
        ...     harness.frontier()
        Frontier([1000000])
        """
        inputs = [self._end_of(number) for number in range(len(self.inputs))]
        return meet([self._driven.passed(port, inputs), self._held_at.get(port, FINISHED)])

    def holds(self) -> list[dict[str, Any]]:
        """What holds an output of a frontier operator back: the place, the time, the output, and the subtask.

        A place is the name of a declared state, or the initial capability. What is said holds between epochs and within them.

        >>> from dagster_operators import ArrowOperator
        >>> class Same(ArrowOperator):
        ...     def output_schema(self, rows):
        ...         return rows
        ...     def process_batch(self, batch, ctx, out):
        ...         out.collect(batch)
        >>> with OperatorHarness(Same(), "v long") as harness:
        ...     harness.holds()  # an ArrowOperator holds no times
        []
        """
        found = [
            {"place": hold.place, "time": hold.time, "output": list(self.ports)[hold.output], "subtask": number}
            for number, program in enumerate(self._programs)
            if isinstance(program, FrontierProgram | ScopeProgram)
            for hold in program.holds()
        ]
        return sorted(found, key=lambda hold: (hold["time"], hold["output"], hold["place"], hold["subtask"]))

    # --- between epochs ----------------------------------------------------------------------------------------------

    def snapshot(self) -> HarnessSnapshot:
        """What a pipeline would keep after the last epoch; rows of the running one must not have been given yet.

        >>> from dagster_operators import ArrowOperator, KeyedState
        >>> class Last(ArrowOperator):
        ...     state = {"last": KeyedState("k string, v long", key="k")}
        ...     def output_schema(self, rows):
        ...         return rows
        ...     def process_batch(self, batch, ctx, out):
        ...         out.collect(ctx.state["last"].get(batch.select(["k"])))
        ...         ctx.state["last"].put(batch)
        >>> with OperatorHarness(Last(), "k string, v long", keys=["k"]) as harness:
        ...     rows = harness.run_epoch([{"k": "a", "v": 1}])
        ...     harness.snapshot().epoch
        1
        """
        states = [store.export() for store in self._stores]
        marks = tuple(self._watermarks)
        ends, last = tuple(self._ends), tuple(self._last)
        return HarnessSnapshot(self.epoch - 1, self.watermark, self.held, states, marks, self._held_at, ends, last)

    def restore(self, snapshot: HarnessSnapshot, *, parallelism: int | None = None) -> None:
        """Go on from a snapshot, with another number of subtasks if one is given.

        >>> from dagster_operators import ArrowOperator, KeyedState
        >>> class Last(ArrowOperator):
        ...     state = {"last": KeyedState("k string, v long", key="k")}
        ...     def output_schema(self, rows):
        ...         return rows
        ...     def process_batch(self, batch, ctx, out):
        ...         out.collect(ctx.state["last"].get(batch.select(["k"])))
        ...         ctx.state["last"].put(batch)
        >>> with OperatorHarness(Last(), "k string, v long", keys=["k"]) as harness:
        ...     rows = harness.run_epoch([{"k": "a", "v": 1}])
        ...     kept = harness.snapshot()
        ...     rows = harness.run_epoch([{"k": "a", "v": 2}])
        ...     harness.restore(kept)  # as if the second epoch had died
        ...     harness.run_epoch([{"k": "a", "v": 3}])
        [{'k': 'a', 'v': 1}]
        """
        if parallelism is not None:
            self.parallelism = parallelism if self._driven.keys[0] else 1
        self._resume(snapshot)

    def rescale(self, parallelism: int) -> None:
        """Go on with another number of subtasks.

        >>> from dagster_operators import ArrowOperator, KeyedState
        >>> class Last(ArrowOperator):
        ...     state = {"last": KeyedState("k string, v long", key="k")}
        ...     def output_schema(self, rows):
        ...         return rows
        ...     def process_batch(self, batch, ctx, out):
        ...         out.collect(ctx.state["last"].get(batch.select(["k"])))
        ...         ctx.state["last"].put(batch)
        >>> with OperatorHarness(Last(), "k string, v long", keys=["k"], parallelism=2) as harness:
        ...     rows = harness.run_epoch([{"k": "a", "v": 1}])
        ...     harness.rescale(3)
        ...     harness.run_epoch([{"k": "a", "v": 2}])
        [{'k': 'a', 'v': 1}]
        """
        self.restore(self.snapshot(), parallelism=parallelism)

    def _resume(self, snapshot: HarnessSnapshot) -> None:
        self._watermarks = list(snapshot.watermarks) or [snapshot.watermark] * len(self.inputs)
        least = [] if self._times is None else [Frontier([self._times.least])] * len(self.inputs)
        self._ends = list(snapshot.ends) or least
        self._last = list(snapshot.last) or [MIN_WATERMARK] * len(self.inputs)
        self.held, self._held_at = snapshot.held, dict(snapshot.held_at)
        self._stores = [self._store(number, snapshot) for number in range(self.parallelism)]
        self._begin(snapshot.epoch + 1)

    def _store(self, number: int, snapshot: HarnessSnapshot) -> StateStore:
        store = StateStore(
            self._tables,
            operator=self._driven.name,
            epoch=snapshot.epoch + 1,
            subtask=number,
            parallelism=self.parallelism,
            watermark=snapshot.watermark,
            stream_key=self._driven.keys[0],
        )
        if snapshot.state:
            store.load(snapshot.state)
        return store

    def _begin(self, epoch: int) -> None:
        self.epoch = epoch
        self.close()
        self._subtasks = []
        self._programs: list[WorkerProgram] = []
        self._stores = next_epoch(self._stores, epoch=epoch, watermark=self.watermark)
        for number, store in enumerate(self._stores):
            subtask = Subtask(SubtaskId(epoch, number, self.parallelism), self._graph(), self._members(store), self._collect)
            self._subtasks.append(subtask)
            subtask.open()

    def _graph(self) -> ProgramGraph:
        if isinstance(self._driven.physical, PartsTogether):
            return self._driven.physical.graph
        return ProgramGraph({self._driven.name: len(self.inputs)}, (), self._entries)

    @property
    def _entries(self) -> dict[Target, int]:
        """The inputs of programs that get rows from outside, and which."""
        if isinstance(self._driven.physical, PartsTogether):
            return self._driven.physical.entries
        return {(self._driven.name, index): index for index in range(len(self.inputs))}

    def _frontiers(self) -> dict[Target, Frontier]:
        return {target: self._end_of(read) for target, read in self._entries.items()}

    def _end_of(self, number: int) -> Frontier:
        return self._ends[number] if self._ends else Frontier.from_watermark(self._watermarks[number])

    def _origins(self) -> dict[str, int]:
        """The watermark of each input, which is an origin."""
        return {_origin(index): watermark for index, watermark in enumerate(self._watermarks)}

    def _members(self, store: StateStore) -> list[Member]:
        begin, origins = meet(map(self._end_of, range(len(self.inputs)))), OriginTimes(self._origins())
        held = Frontier.from_watermark(self.held)
        if not isinstance(self._driven.physical, PartsTogether):
            program = self._driven.program()
            self._programs.append(program)
            before = self._held_at if isinstance(program, FrontierProgram | ScopeProgram) else dict.fromkeys(self.ports, held)
            return [
                Member(
                    self._driven.name, program, self.ports, frozenset(self.ports), self._driven.keys[0], store, begin, before,
                    origins=origins,
                )
            ]  # fmt: skip
        shared: dict[str, Any] = {}
        members = []
        for part in self._driven.physical.parts.parts:
            ports = self._parts_ports[part.name].outputs
            leaving = frozenset(ports if part.name == self._last_part else ())
            before = {port: self._held_at.get(f"{part.name}.{port}", held) for port in ports}
            state: Any = tables_of(part.name, store)
            program, keys = physical_of(part).program(), self._driven.keys[0]
            members.append(Member(part.name, program, ports, leaving, keys, state, begin, before, shared, origins))
        return members

    def _collect(self, _: str, port: str, rows: pa.Table) -> None:
        self._out[port].append(rows)

    def _note_last(self, table: pa.Table, index: int) -> None:
        """Note the last event time that there was, for an operator that is told of it."""
        for column in self._driven.physical.ordered_by if self._driven.physical.is_numbered else ():
            if pa.types.is_timestamp(table.schema.field(column).type) or pa.types.is_int64(table.schema.field(column).type):
                times = table.column(column).cast(pa.int64()).drop_null().to_pylist()
                self._last[index] = max([self._last[index], *times])

    def _numbered(self, table: pa.Table, index: int) -> pa.Table:
        """The rows with their places, each input being an origin."""
        first = max(self._next[index], self.epoch * ROWS_OF_AN_EPOCH)
        self._next[index] = first + table.num_rows
        numbers = pa.array(range(first, first + table.num_rows), pa.int64())
        origins = pa.array([_origin(index)] * table.num_rows, pa.string())
        return pa.Table.from_arrays([*table.columns, origins, numbers], schema=numbered(table.schema))

    def _report(self, subtask: Subtask) -> Report:
        return subtask.reports()[self._last_part]

    def _all_reports(self) -> list[Report]:
        return [report for subtask in self._subtasks for report in subtask.reports().values()]

    def _parts(self, table: pa.Table, index: int) -> list[tuple[int, pa.Table]]:
        if self.parallelism == 1 or not table.num_rows:
            return [(0, table)]
        if index in self._driven.everywhere:
            return [(number, table) for number in range(self.parallelism)]
        named = key_types(self._driven.keys[0], self.inputs[0], self._tables)
        kinds = map(arrow_type, named)
        keys = [table[key].combine_chunks().cast(kind) for key, kind in zip(self._driven.keys[index], kinds, strict=True)]
        targets = subtasks(hash_columns(keys), self.parallelism)
        return [(number, table.filter(pa.array(targets == number))) for number in range(self.parallelism)]


def moment(time: Moment) -> int:
    """A time as microseconds since 1970; a datetime or text without a zone is UTC.

    >>> moment("1970-01-01T00:00:01"), moment(datetime(1970, 1, 1, 0, 0, 2))
    (1000000, 2000000)
    """
    if isinstance(time, int):
        return time
    parsed = datetime.fromisoformat(time) if isinstance(time, str) else time
    return to_micros(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC))


def _table(rows: Rows, schema: pa.Schema) -> pa.RecordBatch | pa.Table:
    if isinstance(rows, pa.RecordBatch | pa.Table):
        return rows
    given = set().union(*(row.keys() for row in rows)) - set(schema.names)
    if given:
        raise PipelineError(f"the input has no column {min(given)!r}", remedy=f"it has: {', '.join(schema.names)}")
    columns = {field.name: pa.array([_value(row.get(field.name), field.type) for row in rows], field.type) for field in schema}
    return pa.table(columns, schema=schema)


def _value(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, str) and pa.types.is_timestamp(kind):
        parsed = datetime.fromisoformat(value)
        return parsed if parsed.tzinfo or not kind.tz else parsed.replace(tzinfo=UTC)
    return value


def _origin(index: int) -> str:
    """What an input is called as an origin."""
    return f"input_{index}"
