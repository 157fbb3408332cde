"""A frontier operator as a program in a worker: when its logic is called, and what it still holds.

The constructor is called when the subtask begins its epoch; the logic whenever rows came, and when the frontiers moved at the
end of the epoch, until it is quiet: its input is read, and it asks for no further call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dagster_operators.operators.frontier.capability import Outlet
from dagster_operators.operators.frontier.cut_by_time import Gathered
from dagster_operators.operators.frontier.frontier_operator import LATE
from dagster_operators.operators.frontier.handles import OutputHandle
from dagster_operators.operators.frontier.instance import Instance
from dagster_operators.operators.frontier.kept import CAPABILITIES, Hold, Kept
from dagster_operators.operators.frontier.operator_info import OperatorInfo

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.operators.frontier.definition import Definition
    from dagster_operators.operators.frontier.time_columns import TimeColumns
    from dagster_operators.operators.worker_program import EndReason, ProgramContext, ProgramOutput
    from dagster_operators.time.frontier import Frontier


class FrontierProgram:
    """Calls an operator's constructor and its logic.

    Args:
        definition: What the operator is made of.
        times: The columns with the time, of each input.
        output_times: Those of the outputs.
    """

    def __init__(self, definition: Definition, times: Sequence[TimeColumns], output_times: TimeColumns) -> None:
        self._definition = definition
        self._times = times
        self._output_times = output_times

    def open(self, ctx: ProgramContext) -> None:
        """Find what lives on, and call the constructor."""
        self._ctx, own = ctx, self._definition
        self._gathered = [Gathered(columns.is_constant) for columns in self._times]
        kept = Kept(ctx.state[CAPABILITIES], ctx.subtask, ctx.parallelism) if own.holds_time else None
        outputs, first = outputs_of(ctx, self._output_times, self._times[0].names), first_time(ctx, kept)
        begins = [own.passed(number, [ctx.begin] * len(own.pacts)) for number in range(len(outputs))]
        least = None if first is None else [self._first_of(first, begin) for begin in begins]
        if own.times is not None:
            for output, begin in zip(outputs, begins, strict=True):
                output.floor = begin
        self._instance = Instance(own, outputs, tables=ctx.state, kept=kept, least=least, where=ctx.where)
        info = OperatorInfo(ctx.operator, ctx.epoch, ctx.subtask, ctx.parallelism)
        self._instance.start(info, [ctx.begin] * len(own.pacts))

    def _first_of(self, first: Any, begin: Frontier) -> Any:
        """The time of an output's initial capability, for that of the inputs."""
        if self._definition.times is None:
            return max([first, *begin], default=first)
        return min(begin, default=None)

    def on_batch(self, port: int, batch: pa.RecordBatch, out: ProgramOutput) -> None:
        """Cut the rows by time, and call the logic."""
        timely = without_late(self._ctx, port, batch, self._times[port], out)
        ready = self._gathered[port].add(timely)
        if ready is not None and ready.num_rows:
            self._instance.put(port, self._times[port].cut(ready))
            self._call(out, ready)

    def on_frontier(self, inputs: Sequence[Frontier], out: ProgramOutput) -> Mapping[str, Frontier]:
        """Let the frontiers move, and call the logic until it is quiet; what it holds then."""
        for port, gathered in enumerate(self._gathered):
            rest = gathered.rest()
            if rest is not None:
                self._instance.put(port, self._times[port].cut(rest))
                self._call(out, rest)
        self._instance.move(inputs)
        if self._instance.wants_frontiers:
            self._call(out, None)
        self._instance.check_read()
        return {output.outlet.name: output.outlet.held() for output in self._instance.outputs}

    def passed(self, inputs: Sequence[Frontier]) -> Mapping[str, Frontier]:
        """What comes through from the inputs to each output."""
        return {port: self._definition.passed(number, inputs) for number, port in enumerate(self._definition.ports)}

    def on_end(self, reason: EndReason, out: ProgramOutput) -> None:  # noqa: ARG002 - what it ends for makes no difference
        """Write what lives on, and refuse to lose what does not."""
        self._instance.save()
        self._instance.tell(self._ctx.report)

    def close(self) -> None:
        """Nothing: an operator holds nothing outside of its process."""

    def holds(self) -> list[Hold]:
        """What holds which time at which output."""
        return self._instance.holds()

    def _call(self, out: ProgramOutput, batch: pa.RecordBatch | None) -> None:
        self._instance.call(batch)
        for output in self._instance.outputs:
            output.flush(out)


def outputs_of(ctx: ProgramContext, time: TimeColumns, given: Sequence[str] = ()) -> list[OutputHandle]:
    """The outputs of a program, but for late rows; the rows that are put out may have the columns with the time of the input."""
    left_out = [name for name in given if name not in time.names]
    ports = [port for port in ctx.ports if port != LATE]
    return [OutputHandle(Outlet(port, number), ctx.ports[port], time, left_out) for number, port in enumerate(ports)]


def first_time(ctx: ProgramContext, kept: Kept | None) -> Any:
    """The time of the initial capabilities in an operator's first epoch, and in every one of an operator that keeps none."""
    return min(ctx.begin, default=None) if kept is None or not ctx.held else None


def without_late(ctx: ProgramContext, port: int, batch: pa.RecordBatch, times: TimeColumns, out: ProgramOutput) -> pa.RecordBatch:
    """The rows that are not late; the others are counted, and those of the first input put out."""
    timely, late = times.apart_from_late(batch, ctx.begin)
    if late is not None:
        ctx.report.late += late.num_rows
        if LATE in ctx.read and port == 0:
            out.collect(late, LATE)
    return timely
