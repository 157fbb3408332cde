"""A frontier operator as a program in a worker: when its logic is called, and what it still holds.

The constructor is called when the subtask begins its epoch; the logic whenever rows came, and when the frontiers moved at the
end of the epoch, until it is quiet: its input is read, and it asks for no further call.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from dagster_operators.errors import CapabilityError, OperatorFailedError, PipelineError
from dagster_operators.operators.frontier.capability import Capability, InputCapability, Outlet
from dagster_operators.operators.frontier.cut_by_time import apart_from_late, cut_by_time
from dagster_operators.operators.frontier.definition import ALWAYS, IF_CAPABILITY
from dagster_operators.operators.frontier.frontier_operator import LATE
from dagster_operators.operators.frontier.handles import InputHandle, OutputHandle
from dagster_operators.operators.frontier.kept import CAPABILITIES, INITIAL, Hold, Kept
from dagster_operators.operators.frontier.operator_info import OperatorInfo
from dagster_operators.operators.frontier.places import Places
from dagster_operators.operators.worker_program import failure
from dagster_operators.time.frontier import Frontier

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.operators.frontier.definition import Definition
    from dagster_operators.operators.frontier.shapes import Initial
    from dagster_operators.operators.worker_program import EndReason, ProgramContext, ProgramOutput

CALLS: Final = 1_000_000
"""How often the logic may ask to be called again without anything new."""


class FrontierProgram:
    """Calls an operator's constructor and its logic.

    Args:
        definition: What the operator is made of.
        times: The column with the time, of each input.
    """

    def __init__(self, definition: Definition, times: Sequence[str]) -> None:
        self._definition = definition
        self._times = times
        self._brought: list[InputCapability] = []

    def open(self, ctx: ProgramContext) -> None:
        """Find what lives on, and call the constructor."""
        self._ctx, own = ctx, self._definition
        self._outlets = [Outlet(port, number) for number, port in enumerate(port for port in ctx.ports if port != LATE)]
        kept = Kept(ctx.state[CAPABILITIES], ctx.subtask, ctx.parallelism) if self._definition.holds_time else None
        self._places = Places(self._definition.state, ctx.state, self._outlets, kept)
        self._inputs = [
            InputHandle(number, self._outlets, own.summaries_of(number), sees_frontier=own.sees_frontier)
            for number in range(len(own.pacts))
        ]
        for handle in self._inputs:
            handle.move(ctx.begin)
        self._outputs = [OutputHandle(outlet, ctx.ports[outlet.name], self._times[0]) for outlet in self._outlets]
        self._info = OperatorInfo(ctx.operator, ctx.epoch, ctx.subtask, ctx.parallelism, self._places.found)
        capabilities = self._first_capabilities(kept)
        self._initial = [None if each is None else weakref.ref(each) for each in capabilities]
        try:
            self._run = own.kind.start(own, capabilities, self._info, self._inputs, self._outputs)
        except Exception as error:
            raise failure("constructor", error, ctx.where, None) from error

    def on_batch(self, port: int, batch: pa.RecordBatch, out: ProgramOutput) -> None:
        """Cut the rows by time, and call the logic."""
        column = self._times[port]
        timely, late = apart_from_late(batch, column, self._ctx.begin)
        if late is not None:
            self._ctx.report.late += late.num_rows
            if LATE in self._ctx.read and port == 0:
                out.collect(late, LATE)
        if timely.num_rows:
            self._brought += self._inputs[port].put(cut_by_time(timely, column))
            self._call(out, batch)

    def on_frontier(self, inputs: Sequence[Frontier], out: ProgramOutput) -> Mapping[str, Frontier]:
        """Let the frontiers move, and call the logic until it is quiet; what it holds then."""
        for handle, frontier in zip(self._inputs, inputs, strict=True):
            handle.move(frontier)
        if self._wants_frontiers():
            self._call(out, None)
        left = next((handle for handle in self._inputs if not handle.is_empty), None)
        if left is not None:
            raise OperatorFailedError(
                f"rows of the input {left.number} are not read when the epoch ends", **self._ctx.where, hook="logic",
                remedy="read the input whenever the logic is called: for time, batch in input",
            )  # fmt: skip
        return {outlet.name: outlet.held() for outlet in self._outlets}

    def on_end(self, reason: EndReason, out: ProgramOutput) -> None:  # noqa: ARG002 - what it ends for makes no difference
        """Write what lives on, and refuse to lose what does not."""
        initial = self._held_initially()
        lost = self._places.undeclared(initial)
        if lost:
            gc.collect()  # what refers to itself in a circle is still there
            lost = self._places.undeclared(initial)
        if lost or (initial and not self._definition.holds_time):
            outlet, time = lost[0] if lost else (self._outlets[0], initial[0].time)
            raise CapabilityError(
                f"a capability for {time!r} is still held when the epoch ends, where it would be lost",
                **self._ctx.where, output=outlet.name,
                remedy="keep it in what is declared (state={'kept': CapabilityState()}, then info.state['kept'].insert(...); "
                "likewise NotifyState, StashState), or drop() it",
            )  # fmt: skip
        self._places.save(initial)

    def close(self) -> None:
        """Nothing: an operator holds nothing outside of its process."""

    def holds(self) -> list[Hold]:
        """What holds which time at which output."""
        return [*self._places.holds(), *self._held_initially()]

    def _wants_frontiers(self) -> bool:
        """Whether the logic is to be called because frontiers moved."""
        if self._definition.notify is None:
            return self._definition.kind.sees_frontier
        holding = any(outlet.counts for outlet in self._outlets)
        return any(when == ALWAYS or (when == IF_CAPABILITY and holding) for when in self._definition.notify)

    def _first_capabilities(self, kept: Kept | None) -> Initial:
        """For each output the initial capability as it was left; None once it was dropped."""
        if kept is None or not self._ctx.held:
            least = min(self._ctx.begin, default=None)
            return [None if least is None else Capability(least, outlet) for outlet in self._outlets]
        found = {hold.output: hold.time for hold in reversed(kept.holds(INITIAL))}
        return [Capability(found[each.number], each) if each.number in found else None for each in self._outlets]

    def _held_initially(self) -> list[Hold]:
        alive = [None if each is None else each() for each in self._initial]
        return [Hold(INITIAL, each.outlet.number, each.time) for each in alive if each is not None and not each.dropped]

    def _run_until_quiet(self) -> None:
        self._run()
        for _ in range(CALLS):
            if not self._info.activator.take():
                return
            self._run()
        raise PipelineError("the logic asks to be called for ever", remedy="activate only while there is work left")

    def _call(self, out: ProgramOutput, batch: pa.RecordBatch | None) -> None:
        try:
            self._run_until_quiet()
        except Exception as error:
            raise failure("logic", error, self._ctx.where, batch) from error
        if all(handle.is_empty for handle in self._inputs):
            for capability in self._brought:
                capability.used_up = True
            self._brought = []
        for output in self._outputs:
            output.flush(out)
