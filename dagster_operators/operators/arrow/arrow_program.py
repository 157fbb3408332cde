"""An :class:`ArrowOperator` as a program in a worker: which hook is called when, and what becomes of an error.

The order within an epoch: ``on_start``; the batches, with ticks in between; then the timers that are due, ``handle_watermark``,
the last tick, ``handle_checkpoint``, ``on_close``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dagster_operators.errors import OperatorFailedError, OperatorsError, PipelineError
from dagster_operators.graph.ports import MAIN
from dagster_operators.operators.arrow.arrow_operator import LATE, REJECTS, ArrowOperator, action_for
from dagster_operators.operators.arrow.timers import StoredTimers
from dagster_operators.operators.batch_operator import ORIGIN, SEQUENCE
from dagster_operators.operators.worker_program import first_rows
from dagster_operators.time.frontier import Frontier, meet
from dagster_operators.time.watermark import MIN_WATERMARK, parse_duration

if TYPE_CHECKING:
    from dagster_operators.operators.arrow.operator_context import Metrics, Timers
    from dagster_operators.operators.worker_program import EndReason, ProgramContext, ProgramOutput, Rows


class ArrowProgram:
    """Calls the hooks of an operator.

    Args:
        operator: A copy of the operator that nobody else uses.
    """

    def __init__(self, operator: ArrowOperator) -> None:
        self._operator = operator

    def open(self, ctx: ProgramContext) -> None:
        """Call ``on_start``."""
        self._ctx = ctx
        self._held = meet(ctx.held.values()).to_watermark() if ctx.held else MIN_WATERMARK
        self._out = _Collector()
        self._context = _Context(self._operator, ctx, self._out)
        self._rejects = "reject" in _actions(self._operator)
        self._ticks = _Ticks(self._operator.tick_interval)
        self._call("on_start", self._context)

    def on_batch(self, port: int, batch: pa.RecordBatch, out: ProgramOutput) -> None:
        """Call ``process_batch_index``, and ``handle_tick`` if it is time."""
        self._out.bind(out)
        if batch.num_rows:
            self._process(port, batch)
        if self._ticks.are_due:
            self._tick()

    def on_frontier(self, inputs: Sequence[Frontier], out: ProgramOutput) -> Mapping[str, Frontier]:
        """Call ``handle_timer`` and ``handle_watermark``."""
        self._out.bind(out)
        watermark = self._context.watermark = meet(inputs).to_watermark()
        for moment, keys in self._context.stored_timers.due(watermark):
            self._call("handle_timer", moment, keys, self._context, self._out)
        answer = self._call("handle_watermark", watermark, self._context, self._out)
        for moment, keys in self._context.stored_timers.due(watermark):  # those that it set
            self._call("handle_timer", moment, keys, self._context, self._out)
        self._context.stored_timers.all_called()
        if answer is not None:
            self._held = max(self._held, self._checked(answer, watermark))
        return dict.fromkeys(self._ctx.ports, Frontier.from_watermark(self._held))

    def _checked(self, answer: Any, watermark: int) -> int:
        """The output's watermark as the operator returned it."""
        try:
            returned = None if isinstance(answer, bool) else int(answer)
        except (TypeError, ValueError):
            returned = None
        if returned is not None and returned <= watermark:
            return returned
        if returned is None:
            told, way = f"{answer!r}, which is no watermark", "return microseconds since 1970, or None to leave it where it is"
        else:
            told = f"{returned}, later than the input's watermark {watermark}: rows before that may still come"
            way = "return the watermark that it is given, an earlier one, or None to leave it where it is"
        raise PipelineError(f"handle_watermark returned {told}", **self._ctx.where, remedy=way)

    def on_end(self, reason: EndReason, out: ProgramOutput) -> None:
        """Call ``handle_tick`` a last time, ``handle_checkpoint`` and ``on_close``."""
        self._out.bind(out)
        if self._ticks.every is not None:
            self._tick()
        self._call("handle_checkpoint", self._ctx.epoch, self._context, self._out)
        self._call("on_close", reason, self._context, self._out)

    def close(self) -> None:
        """Nothing: an operator holds nothing outside of its process."""

    def _process(self, port: int, numbered: pa.RecordBatch) -> None:
        batch = self._context.take_places(numbered) if self._operator.needs_sequence else numbered
        if not self._rejects:
            self._refuse_rows(self._call("process_batch_index", port, batch, self._context, self._out, batch=batch))
            return
        self._out.hold_back()
        try:
            process: Callable[..., Any] = self._operator.process_batch_index
            given = process(port, batch, self._context, self._out)
        except Exception as error:
            self._out.forget()
            if action_for(self._operator, error) != "reject":
                raise self._failed("process_batch_index", error, batch) from error
            self._give_up_on(port, batch, numbered, error)
        else:
            self._refuse_rows(given)
            self._out.let_go()

    def _refuse_rows(self, given: object) -> None:
        """What ``process_batch`` returns goes nowhere: who returns or yields rows takes it for a function."""
        if isinstance(given, Generator | pa.RecordBatch | pa.Table) or hasattr(given, "columns"):
            does = "yields" if isinstance(given, Generator) else "returns"
            raise PipelineError(
                f"process_batch {does} rows, which go nowhere", **self._ctx.where, remedy="put them out: out.collect(rows)"
            )

    def _give_up_on(self, port: int, batch: pa.RecordBatch, numbered: pa.RecordBatch, error: Exception) -> None:
        """Halve the batch until the rows are found that cannot be processed."""
        if batch.num_rows == 1:
            self._context.reject(batch, f"{type(error).__name__}: {error}")
            return
        half = batch.num_rows // 2
        self._process(port, numbered.slice(0, half))
        self._process(port, numbered.slice(half))

    def _tick(self) -> None:
        self._call("handle_tick", self._ticks.next(), self._context, self._out)

    def _call(self, hook: str, *arguments: Any, batch: pa.RecordBatch | None = None) -> Any:
        try:
            return getattr(self._operator, hook)(*arguments)
        except Exception as error:
            raise self._failed(hook, error, batch) from error

    def _failed(self, hook: str, error: Exception, batch: pa.RecordBatch | None) -> OperatorsError:
        if isinstance(error, OperatorsError):
            return error.at(**self._ctx.where)
        hook = "process_batch" if hook == "process_batch_index" else hook
        return OperatorFailedError(
            f"{hook} raised {type(error).__name__}: {error}",
            **self._ctx.where,
            hook=hook,
            first_rows=first_rows(batch),
            retry=action_for(self._operator, error) == "retry",
            remedy="correct the operator or its input; on_error says whether to retry or to reject such rows",
        )


class _Collector:
    """The operator's :class:`~dagster_operators.operators.arrow.operator_context.Collector`: it can hold rows back."""

    def __init__(self) -> None:
        self._out: ProgramOutput | None = None
        self._held: list[tuple[Rows, str | int]] | None = None
        self._early: list[tuple[Rows, str | int]] = []

    def bind(self, out: ProgramOutput) -> None:
        """Put rows out there from now on, those of ``on_start`` first."""
        self._out, early, self._early = out, self._early, []
        for rows, port in early:
            out.collect(rows, port)

    def collect(self, rows: Rows, port: str | int = MAIN) -> None:
        """Put rows out."""
        if self._out is None:
            self._early.append((rows, port))
        elif self._held is None:
            self._out.collect(rows, port)
        else:
            name, fitted = self._out.fit(rows, port)
            self._held.append((fitted, name))

    def hold_back(self) -> None:
        """Keep what is put out until it is clear that the batch can be processed."""
        self._held = []

    def forget(self) -> None:
        """Drop what was held back."""
        self._held = None

    def let_go(self) -> None:
        """Put out what was held back."""
        held, self._held = self._held or [], None
        for rows, port in held:
            self.collect(rows, port)


class _Ticks:
    """The clock on the wall."""

    def __init__(self, interval: str | None) -> None:
        self.every = None if interval is None else parse_duration(interval) / 1e6
        self._last, self._count = time.monotonic(), 0

    @property
    def are_due(self) -> bool:
        return self.every is not None and time.monotonic() - self._last >= self.every

    def next(self) -> int:
        self._last, tick = time.monotonic(), self._count
        self._count += 1
        return tick


class _Context:
    """The :class:`~dagster_operators.operators.arrow.operator_context.OperatorContext` of a running operator."""

    def __init__(self, operator: ArrowOperator, ctx: ProgramContext, out: _Collector) -> None:
        self._commits = operator.is_committing
        self._ctx = ctx
        self._out = out
        self.operator = ctx.operator
        self.epoch = ctx.epoch
        self.subtask = ctx.subtask
        self.parallelism = ctx.parallelism
        self.watermark = ctx.begin.to_watermark()
        self.watermarks: Mapping[str, int] = MappingProxyType(ctx.watermarks)
        self.state: Any = ctx.state
        self.origins: pa.Array | None = None
        self.sequences: pa.Array | None = None
        self.stored_timers = StoredTimers(ctx)
        self.timers: Timers = self.stored_timers
        self.metrics: Metrics = ctx.report

    def take_places(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Tell of a batch where its rows come from; the batch without the columns that say so."""
        self.origins, self.sequences = batch.column(ORIGIN), batch.column(SEQUENCE)
        return batch.drop_columns([ORIGIN, SEQUENCE])

    def late(self, rows: Rows) -> None:
        self._ctx.report.late += rows.num_rows
        if LATE in self._ctx.read:
            self._out.collect(rows, LATE)

    def reject(self, rows: Rows, reason: str) -> None:
        if REJECTS not in self._ctx.read:
            raise PipelineError(
                "rows are to be rejected, and nobody reads them",
                operator=self.operator,
                reason=reason,
                remedy="keep them: stream.rejects().to_table(...), where stream is the operator's output",
            )
        self._ctx.report.rejected += rows.num_rows
        records = [json.dumps(row, default=str) for row in rows.to_pylist()]
        columns = {"record": records, "reason": [reason] * len(records)}
        self._out.collect(pa.Table.from_pydict(columns, schema=self._ctx.ports[REJECTS]), REJECTS)

    def commit(self, data: Any) -> None:
        if not self._commits:
            raise PipelineError("the operator does not commit", operator=self.operator, remedy="set is_committing = True")
        self._ctx.report.commit_data = data


def _actions(operator: ArrowOperator) -> set[str]:
    return {operator.on_error} if isinstance(operator.on_error, str) else set(operator.on_error.values())
