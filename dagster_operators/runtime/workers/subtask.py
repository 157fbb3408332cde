"""One subtask of a chain of batch operators over one epoch: which hook is called when, and where rows go. No Spark.

The order within an epoch: ``on_start`` of all; the batches; then operator by operator down the chain the timers that are due,
``handle_watermark``, the last tick, ``handle_checkpoint``, ``on_close``, so that whatever one puts out at the end still reaches
the next as ordinary rows before that one's own end.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from dagster_operators.errors import OperatorFailedError, OperatorsError, PipelineError
from dagster_operators.graph.conform import conform
from dagster_operators.graph.ports import MAIN
from dagster_operators.operators.arrow.arrow_operator import LATE, REJECTS, ArrowOperator, action_for, overrides
from dagster_operators.operators.arrow.operator_context import Metrics, Timers
from dagster_operators.runtime.workers.timers import StoredTimers
from dagster_operators.time.watermark import MAX_WATERMARK, parse_duration

if TYPE_CHECKING:
    from dagster_operators.state.store import StateStore

Write: TypeAlias = Callable[[str, str, pa.Table], None]
"""Takes rows that leave the chain: operator, port, rows."""

_SHOWN: Final = 3
"""Rows of a batch that an error shows."""


@dataclass(frozen=True)
class Place:
    """Where a subtask stands.

    Attributes:
        pipeline: The pipeline's name.
        epoch: The epoch's number.
        subtask: Which one, from 0.
        parallelism: How many there are.
        watermark_begin: Of the chain's input, as the epoch began.
        watermark_end: The same, as it ends.
    """

    pipeline: str
    epoch: int
    subtask: int
    parallelism: int
    watermark_begin: int
    watermark_end: int


@dataclass(frozen=True)
class Link:
    """An operator of a chain.

    Attributes:
        name: The operator's name.
        operator: A fresh copy of the operator.
        ports: The schema of each of its ports, ``late`` and ``rejects`` included.
        wanted: The ports whose rows leave the chain because somebody reads them.
        keys: The key columns, if it is keyed.
        store: Its state.
        held: Its output watermark at the end of the epoch before.
        watermark: Its input watermark as the epoch began.
    """

    name: str
    operator: ArrowOperator
    ports: Mapping[str, pa.Schema]
    wanted: frozenset[str]
    keys: tuple[str, ...]
    store: StateStore
    held: int
    watermark: int


@dataclass
class Report:
    """What became of an operator in a subtask.

    Attributes:
        watermark: Its output watermark.
        late: Rows that came too late.
        rejected: Rows that were given up on.
        metrics: Its figures.
        commit_data: What ``handle_commit`` is to get.
    """

    watermark: int
    late: int = 0
    rejected: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    commit_data: Any = None


class Subtask:
    """Runs a chain.

    Args:
        place: Where it stands.
        links: The operators, each fed by the main output of the one before.
        write: Takes the rows that leave the chain.
    """

    def __init__(self, place: Place, links: Sequence[Link], write: Write) -> None:
        self.place = place
        self._running: list[_Running] = []
        following: _Running | None = None
        for link in reversed(links):
            following = _Running(place, link, following, write)
            self._running.insert(0, following)

    def start(self) -> None:
        """Call ``on_start`` everywhere."""
        for running in self._running:
            running.call("on_start", running.context)

    def process(self, index: int, batch: pa.RecordBatch) -> None:
        """Work on a batch of one of the inputs."""
        self._running[0].process(index, batch)

    def finish(self) -> dict[str, Report]:
        """Let time pass to the end of the epoch and close; the state can be flushed afterwards."""
        watermark = self.place.watermark_end
        for running in self._running:
            watermark = running.finish(watermark)
        return self.reports()

    def advance(self, watermark: int) -> int:
        """Let the watermark move on without ending the epoch (for the harness); the last operator's output watermark."""
        for running in self._running:
            watermark = running.advance(watermark)
        return watermark

    def reports(self) -> dict[str, Report]:
        """What became of each operator so far."""
        return {running.link.name: running.report for running in self._running}


class _Running:
    """An operator at work: its context, its collector, and the one behind it."""

    def __init__(self, place: Place, link: Link, following: _Running | None, write: Write) -> None:
        self.link = link
        self.report = Report(link.held)
        self.timers = StoredTimers(link)
        self.context = _Context(self, place)
        self._place = place
        self._following = following
        self._write = write
        self._buffer: list[tuple[str, pa.Table]] | None = None
        interval = link.operator.tick_interval
        self._tick_every = None if interval is None else parse_duration(interval) / 1e6
        self._ticked, self._ticks = time.monotonic(), 0

    # --- the hooks ---------------------------------------------------------------------------------------------------

    def process(self, index: int, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._process(index, batch)
        if self._tick_every is not None and time.monotonic() - self._ticked >= self._tick_every:
            self._tick()

    def _process(self, index: int, batch: pa.RecordBatch) -> None:
        operator = self.link.operator
        if "reject" not in _actions(operator):
            self.call("process_batch_index", index, batch, self.context, self, batch=batch)
            return
        self._buffer = []
        try:
            operator.process_batch_index(index, batch, self.context, self)
        except Exception as error:
            self._buffer = None
            if action_for(operator, error) != "reject":
                raise self._failed("process_batch_index", error, batch) from error
            if batch.num_rows == 1:
                self.context.reject(batch, f"{type(error).__name__}: {error}")
                return
            half = batch.num_rows // 2
            self._process(index, batch.slice(0, half))
            self._process(index, batch.slice(half))
            return
        collected, self._buffer = self._buffer, None
        for port, rows in collected:
            self._hand_on(port, rows)

    def advance(self, watermark: int) -> int:
        """Move the input watermark; the output watermark."""
        self.context.watermark = watermark
        for moment, keys in self.timers.due(watermark):
            self.call("handle_timer", moment, keys, self.context, self)
        answer = self.call("handle_watermark", watermark, self.context, self)
        if answer is not None:
            self.report.watermark = max(self.report.watermark, min(int(answer), watermark))
        return self.report.watermark

    def finish(self, watermark: int) -> int:
        """The end of the epoch; the output watermark."""
        output = self.advance(watermark)
        if self._tick_every is not None:
            self._tick()
        self.call("handle_checkpoint", self._place.epoch, self.context, self)
        self.call("on_close", "end_of_data" if watermark == MAX_WATERMARK else "stop", self.context, self)
        return output

    def _tick(self) -> None:
        self._ticked, tick = time.monotonic(), self._ticks
        self._ticks += 1
        self.call("handle_tick", tick, self.context, self)

    def call(self, hook: str, *arguments: Any, batch: pa.RecordBatch | None = None) -> Any:
        try:
            return getattr(self.link.operator, hook)(*arguments)
        except Exception as error:
            raise self._failed(hook, error, batch) from error

    def _failed(self, hook: str, error: Exception, batch: pa.RecordBatch | None) -> OperatorsError:
        where = {"operator": self.link.name, "subtask": self._place.subtask, "epoch": self._place.epoch}
        if isinstance(error, OperatorsError):
            return error.at(**where)
        shown = None if batch is None else json.dumps(batch.slice(0, _SHOWN).to_pylist(), default=str)
        hook = "process_batch" if hook == "process_batch_index" else hook
        return OperatorFailedError(
            f"{hook} raised {type(error).__name__}: {error}",
            **where,
            hook=hook,
            first_rows=shown,
            retry=action_for(self.link.operator, error) == "retry",
            remedy="correct the operator or its input; on_error says whether to retry or to reject such rows",
        )

    # --- where rows go -----------------------------------------------------------------------------------------------

    def collect(self, rows: pa.RecordBatch | pa.Table, port: str | int = MAIN) -> None:
        """Put rows out."""
        name = self._port(port)
        fitted = conform(rows, self.link.ports[name], operator=self.link.name)
        if not fitted.num_rows:
            return
        if self._buffer is not None:
            self._buffer.append((name, fitted))
        else:
            self._hand_on(name, fitted)

    def _port(self, port: str | int) -> str:
        ports = list(self.link.ports)
        if isinstance(port, int) and 0 <= port < len(ports):
            return ports[port]
        if port in ports:
            return str(port)
        raise PipelineError(f"there is no output {port!r}", operator=self.link.name, remedy=f"there are: {', '.join(ports)}")

    def _hand_on(self, port: str, rows: pa.Table) -> None:
        if port in self.link.wanted:
            self._write(self.link.name, port, rows)
        if port == MAIN and self._following is not None:
            for batch in rows.to_batches():
                self._following.process(0, batch)


class _Context:
    """The :class:`~dagster_operators.operators.arrow.operator_context.OperatorContext` of a running operator."""

    def __init__(self, running: _Running, place: Place) -> None:
        self._running = running
        self.operator = running.link.name
        self.epoch = place.epoch
        self.subtask = place.subtask
        self.parallelism = place.parallelism
        self.watermark = running.link.watermark
        self.state: Any = running.link.store
        self.timers: Timers = running.timers
        self.metrics: Metrics = _Metrics(running.report)

    def late(self, rows: pa.RecordBatch | pa.Table) -> None:
        self._running.report.late += rows.num_rows
        if LATE in self._running.link.wanted:
            self._running.collect(rows, LATE)

    def reject(self, rows: pa.RecordBatch | pa.Table, reason: str) -> None:
        if REJECTS not in self._running.link.wanted:
            raise PipelineError(
                f"rows are to be rejected ({reason}), and nobody reads them",
                operator=self.operator,
                remedy="keep them: stream.rejects().to_table(...), where stream is the operator's output",
            )
        self._running.report.rejected += rows.num_rows
        records = [json.dumps(row, default=str) for row in rows.to_pylist()]
        schema = self._running.link.ports[REJECTS]
        table = pa.Table.from_pydict({"record": records, "reason": [reason] * len(records)}, schema=schema)
        self._running.collect(table, REJECTS)

    def commit(self, data: Any) -> None:
        if not self._running.link.operator.is_committing:
            raise PipelineError("the operator does not commit", operator=self.operator, remedy="set is_committing = True")
        self._running.report.commit_data = data


class _Metrics:
    def __init__(self, report: Report) -> None:
        self._report = report

    def add(self, name: str, value: float = 1) -> None:
        self._report.metrics[name] = self._report.metrics.get(name, 0.0) + value


def _actions(operator: ArrowOperator) -> set[str]:
    return {operator.on_error} if isinstance(operator.on_error, str) else set(operator.on_error.values())


def uses_time(operator: ArrowOperator) -> bool:
    """Whether the operator may act although there are no rows: then it runs in every epoch."""
    hooks = ("handle_watermark", "handle_timer", "handle_tick", "handle_checkpoint", "on_start", "on_close")
    return any(overrides(operator, hook) for hook in hooks)


def batches_of(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """The batches of tables one after another."""
    for table in tables:
        yield from table.to_batches()
