"""One subtask of a graph of programs over one epoch: who is called when, and where rows go. No Spark.

Programs are opened from first to last. A batch goes depth first through all that read it before the next one comes; rows that
feedback edges take wait until then, and go around until none is left. At the end of the epoch time passes from program to
program: ``on_frontier``, then ``on_end``, and only then that of the next, so that whatever one puts out at its end still reaches
the next as ordinary rows. The programs of a loop get ``on_frontier`` until no more rows come around, and then end one by one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from dagster_operators.errors import EndlessLoopError, PipelineError
from dagster_operators.graph.conform import conform
from dagster_operators.operators.worker_program import (
    Ending,
    OriginTimes,
    ProgramContext,
    Report,
    Rows,
    WorkerProgram,
    failure,
    moved,
    port_name,
)
from dagster_operators.runtime.workers.staying_keys import check_keys_stay
from dagster_operators.time.frontier import Frontier, meet

if TYPE_CHECKING:
    from dagster_operators.runtime.workers.program_graph import Edge, ProgramGraph, Target
    from dagster_operators.state.store import StateStore

Write: TypeAlias = Callable[[str, str, pa.Table], None]
"""Takes rows that leave the graph: program, port, rows."""

ROUNDS: Final = 10_000
"""How often rows may go around in a loop."""


@dataclass(frozen=True)
class SubtaskId:
    """Which subtask it is, in which epoch.

    Attributes:
        epoch: The epoch's number.
        subtask: Which one, from 0.
        parallelism: How many there are.
    """

    epoch: int
    subtask: int
    parallelism: int


@dataclass(frozen=True)
class Member:
    """A program of the graph.

    Attributes:
        name: Its operator's name.
        program: A copy of its own.
        ports: The schema of each of its ports.
        leaving: The ports whose rows leave the graph.
        keys: The key columns of its first input, if it is keyed.
        state: Its state.
        begin: The frontier of its inputs together as the epoch began.
        held: The times that it held at each output then, all its subtasks together.
        shared: What it shares with the other programs of its logical operator.
        origins: The watermarks of the origins of its inputs.
        staying: The ports whose rows must have keys of this subtask: the key columns of each, with the types they are hashed as.
    """

    name: str
    program: WorkerProgram
    ports: Mapping[str, pa.Schema]
    leaving: frozenset[str]
    keys: tuple[str, ...]
    state: StateStore
    begin: Frontier
    held: Mapping[str, Frontier]
    shared: MutableMapping[str, Any] = field(default_factory=dict)
    origins: OriginTimes = field(default_factory=OriginTimes)
    staying: Mapping[str, Mapping[str, pa.DataType]] = field(default_factory=dict)


class Subtask:
    """Runs a graph of programs.

    Args:
        own: Which subtask it is.
        graph: Who reads whom.
        members: The programs, in the graph's order.
        write: Takes the rows that leave the graph.
        rounds: How often rows may go around in a loop.
        ends: The frontier at the end of the epoch of each input that gets rows from outside, where it is known.
    """

    def __init__(
        self,
        own: SubtaskId,
        graph: ProgramGraph,
        members: Sequence[Member],
        write: Write,
        *,
        rounds: int = ROUNDS,
        ends: Mapping[Target, Frontier] | None = None,
    ) -> None:
        self._graph = graph
        self._rounds = rounds
        self._circling: deque[tuple[Edge, pa.RecordBatch, int]] = deque()
        self._round = 0
        self._running = {member.name: _Running(own, graph, member, write, self._send, ends=ends or {}) for member in members}

    def open(self) -> None:
        """Open all programs."""
        for running in self._running.values():
            running.open()

    def process(self, target: Target, batch: pa.RecordBatch) -> None:
        """Work on a batch of rows from outside, and on all that comes of it."""
        self._round = 0
        self._running[target[0]].process(target[1], batch)
        self._go_around()

    def advance(self, frontiers: Mapping[Target, Frontier], watermarks: Mapping[str, int] | None = None) -> None:
        """Let time move on without ending the epoch.

        Args:
            frontiers: The frontier of each input that gets rows from outside.
            watermarks: Those of the origins then; by default those of the end of the epoch.
        """
        for running in self._running.values():
            running.watermarks = watermarks or running.watermarks
        for group in self._graph.groups:
            self._pass_time(group, frontiers)

    def finish(
        self,
        frontiers: Mapping[Target, Frontier],
        watermarks: Mapping[str, int] | None = None,
        ending: Ending | None = None,
    ) -> Mapping[str, Report]:
        """Let time pass to the end of the epoch and end everything; the state can be written afterwards."""
        for running in self._running.values():
            running.watermarks = watermarks or running.watermarks
            running.ending = ending or running.ending
        for group in self._graph.groups:
            self._pass_time(group, frontiers)
            for name in group:
                self._running[name].end()
                self._go_around()
        return self.reports()

    def close(self) -> None:
        """Close all programs."""
        for running in self._running.values():
            running.close()

    def abandon(self) -> None:
        """Close what is not closed yet, after an error."""
        for running in self._running.values():
            with suppress(Exception):
                running.close()

    def reports(self) -> Mapping[str, Report]:
        """What became of each program so far."""
        return {name: running.report for name, running in self._running.items()}

    def _pass_time(self, group: Sequence[str], frontiers: Mapping[Target, Frontier]) -> None:
        waiting = group
        for _ in range(self._rounds):
            for name in waiting:
                running = self._running[name]
                running.pass_time([self._frontier(name, index, frontiers) for index in range(self._graph.inputs[name])])
            self._go_around()
            waiting = [name for name in group if self._running[name].has_new_rows]
            if not waiting:
                return
        raise self._restless(next(edge for edge in self._graph.edges if edge.feedback and edge.target in group))

    def _frontier(self, name: str, index: int, frontiers: Mapping[Target, Frontier]) -> Frontier:
        found = [self._running[edge.source].report.frontiers[edge.port] for edge in self._graph.sources(name, index)]
        outside = [frontiers[name, index]] if (name, index) in self._graph.entries else []
        return meet([*found, *outside])

    def _send(self, edge: Edge, batch: pa.RecordBatch) -> None:
        if edge.feedback:
            self._circling.append((edge, batch, self._round + 1))
        else:
            self._running[edge.target].process(edge.input, batch)

    def _go_around(self) -> None:
        while self._circling:
            edge, batch, self._round = self._circling.popleft()
            if self._round > self._rounds if edge.limit is None else self._round >= edge.limit:
                if edge.ends:
                    continue
                raise self._restless(edge)
            self._running[edge.target].process(edge.input, batch)
        self._round = 0

    def _restless(self, edge: Edge) -> EndlessLoopError:
        rounds = self._rounds if edge.limit is None else edge.limit
        return EndlessLoopError(
            f"after {rounds} rounds rows still go round",
            operator=edge.target,
            loop=edge.loop,
            remedy="see that fewer and fewer rows are fed back; or allow more rounds by limit= of the loop",
        )


class _Running:
    """A program at work: the :class:`~dagster_operators.operators.worker_program.ProgramOutput` that it is handed."""

    def __init__(
        self,
        own: SubtaskId,
        graph: ProgramGraph,
        member: Member,
        write: Write,
        send: Callable[[Edge, pa.RecordBatch], None],
        *,
        ends: Mapping[Target, Frontier],
    ) -> None:
        inputs = [(member.name, index) for index in range(graph.inputs[member.name])]
        outside = all(one in ends and not graph.sources(*one) for one in inputs)
        self.report = Report({port: moved(None, held, member.begin) for port, held in member.held.items()})
        self.has_new_rows = False
        self.watermarks = member.origins.end
        self.ending = member.origins.ending
        self._member = member
        self._own = own
        self._ports = tuple(member.ports)
        self._readers = {port: graph.readers(member.name, port) for port in member.ports}
        self._write = write
        self._send = send
        self._inputs: Sequence[Frontier] = ()
        self._ended = self._closed = False
        self._context = ProgramContext(
            operator=member.name,
            epoch=own.epoch,
            subtask=own.subtask,
            parallelism=own.parallelism,
            keys=member.keys,
            ports=member.ports,
            read=member.leaving | graph.ports_read(member.name),
            begin=member.begin,
            held=member.held,
            state=member.state,
            report=self.report,
            shared=member.shared,
            watermarks=dict(member.origins.begin),
            coming=[ends[one] for one in inputs] if outside else (),
        )
        if outside:
            self._context.ending.become(self.ending)

    def open(self) -> None:
        self._call("open", self._context)

    def process(self, index: int, batch: pa.RecordBatch) -> None:
        if self._ended:
            raise PipelineError(
                "rows come to it after its end", operator=self._member.name, remedy="put none out in a loop's end"
            )
        self.has_new_rows = True
        try:
            self._member.program.on_batch(index, batch, self)
        except Exception as error:
            raise failure("on_batch", error, self._context.where, batch) from error

    def pass_time(self, inputs: Sequence[Frontier]) -> None:
        self.has_new_rows, self._inputs = False, inputs
        self._context.watermarks.update(self.watermarks)
        self._context.ending.become(self.ending)
        together, held = meet(inputs), self._call("on_frontier", inputs, self)
        before, self.report.held = self.report.frontiers, {port_name(port, self._context): times for port, times in held.items()}
        passed = getattr(self._member.program, "passed", None)
        ways = {} if passed is None else passed(inputs)
        self.report.frontiers = {port: moved(before.get(port), held.get(port), ways.get(port, together)) for port in self._ports}

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._call("close")

    def end(self) -> None:
        is_over = meet(self._inputs).finished and not self._member.origins.goes_on
        self._call("on_end", "end_of_data" if is_over else "stop", self)
        self._ended = True

    # --- where rows go -----------------------------------------------------------------------------------------------

    def fit(self, rows: Rows, port: str | int = 0) -> tuple[str, pa.Table]:
        """The port's name, and the rows with exactly its columns."""
        name = port_name(port, self._context)
        return name, conform(rows, self._member.ports[name], operator=self._member.name)

    def collect(self, rows: Rows, port: str | int = 0) -> None:
        """Put rows out."""
        name, fitted = self.fit(rows, port)
        if not fitted.num_rows:
            return
        if name in self._member.staying:
            check_keys_stay(fitted, self._member.staying[name], self._own.subtask, self._own.parallelism, self._context.where)
        if name in self._member.leaving:
            self._write(self._member.name, name, fitted)
        for edge in self._readers[name]:
            for batch in fitted.to_batches():
                self._send(edge, batch)

    def _call(self, method: str, *arguments: Any) -> Any:
        try:
            return getattr(self._member.program, method)(*arguments)
        except Exception as error:
            raise failure(method, error, self._context.where, None) from error
