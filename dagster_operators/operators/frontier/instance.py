"""An operator at work in one subtask and epoch: its handles, what lives on, and its logic. It knows not where rows come from."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import CapabilityError, OperatorFailedError, PipelineError
from dagster_operators.operators.frontier.capability import Capability, InputCapability, Outlet
from dagster_operators.operators.frontier.definition import ALWAYS, IF_CAPABILITY
from dagster_operators.operators.frontier.frontier_operator import INCOMPLETE
from dagster_operators.operators.frontier.handles import InputHandle, OutputHandle
from dagster_operators.operators.frontier.kept import ACTIVATION, INITIAL, Hold, Kept
from dagster_operators.operators.frontier.lost import Variables
from dagster_operators.operators.frontier.places import Places
from dagster_operators.operators.worker_program import DUE, add_figures, failure
from dagster_operators.time.frontier import FINISHED, Frontier, meet

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from dagster_operators.operators.frontier.definition import Definition
    from dagster_operators.operators.frontier.operator_info import OperatorInfo
    from dagster_operators.operators.worker_program import Report
    from dagster_operators.time.antichain import MinimalTimes

CALLS: Final = 1_000_000
"""How often the logic may ask to be called again without anything new."""


class Instance:
    """An operator at work.

    Args:
        definition: What it is made of.
        outputs: Its outputs.
        tables: Its state tables, by the names that it declared.
        kept: What it held before; None if it may not hold anything.
        least: The time of the initial capability for each output, in the operator's first epoch; None in later ones.
        where: The place that errors name.

    Attributes:
        inputs: Its inputs.
        outputs: Its outputs.
        incomplete: Whether it has work left for another epoch: it says so, or was called as often as it may be.
    """

    def __init__(
        self,
        definition: Definition,
        outputs: Sequence[OutputHandle],
        *,
        tables: Mapping[str, Any],
        kept: Kept | None,
        least: Sequence[Any] | None,
        where: Mapping[str, Any],
    ) -> None:
        self._definition = definition
        self._where = where
        self._brought: list[InputCapability] = []
        self._kept = kept
        self._least = least
        self._again = 0
        self._was_called = False
        self.incomplete = False
        self.outputs = outputs
        self._outlets: list[Outlet] = [output.outlet for output in outputs]
        self._places = Places(definition.state, tables, self._outlets, kept)
        self.inputs = [
            InputHandle(number, self._outlets, definition.summaries_of(number), sees_frontier=definition.sees_frontier)
            for number in range(len(definition.pacts))
        ]

    def start(self, info: OperatorInfo, frontiers: Sequence[MinimalTimes]) -> None:
        """Call the constructor.

        Args:
            info: What it is told; its state is filled in.
            frontiers: The frontiers of the inputs.
        """
        self.move(frontiers)
        due = [] if self._kept is None else [hold.time for hold in self._kept.holds(ACTIVATION)]
        self._info = info.with_state(self._places.found, due)
        capabilities = self._first_capabilities()
        self._initial = [None if each is None else weakref.ref(each) for each in capabilities]
        try:
            self._run = self._definition.kind.start(self._definition, capabilities, self._info, self.inputs, self.outputs)
        except Exception as error:
            raise failure("constructor", error, self._where, None) from error
        self._variables = Variables(self._definition.constructor, self._run.logic)

    def put(self, number: int, parts: Iterable[tuple[Any, pa.RecordBatch]]) -> None:
        """Give rows with their times to an input."""
        self._brought += self.inputs[number].put(parts)

    def move(self, frontiers: Sequence[MinimalTimes]) -> None:
        """Let the frontiers of the inputs move."""
        for handle, frontier in zip(self.inputs, frontiers, strict=True):
            handle.move(frontier)

    @property
    def wants_frontiers(self) -> bool:
        """Whether the logic is to be called because frontiers moved, it asked for it in an earlier epoch, or never was called.

        In the operator's first epoch it is called once, whatever it wants: it may have made something of its first capabilities.
        """
        if self._info.activator.is_asked or (self._kept is not None and self._least is not None and not self._was_called):
            return True
        if self._definition.notify is None:
            return self._definition.kind.sees_frontier
        holding = any(outlet.counts for outlet in self._outlets)
        return any(when == ALWAYS or (when == IF_CAPABILITY and holding) for when in self._definition.notify)

    def call(self, batch: pa.RecordBatch | None = None) -> None:
        """Call the logic until it asks for no further call."""
        try:
            self._run_until_quiet()
        except Exception as error:
            raise failure("logic", error, self._where, batch) from error
        if all(handle.is_empty for handle in self.inputs):
            for capability in self._brought:
                capability.used_up = True
            self._brought = []

    def check_read(self) -> None:
        """Raise OperatorFailedError if rows were left unread."""
        left = next((handle for handle in self.inputs if not handle.is_empty), None)
        if left is not None:
            raise OperatorFailedError(
                f"rows of the input {left.number} are not read when the epoch ends", **self._where, hook="logic",
                remedy="read the input whenever the logic is called: for time, batch in input",
            )  # fmt: skip

    def tell(self, report: Report, within: str = "") -> None:
        """Report what holds which times, and what makes another epoch begin: work that is left, or a moment for another call.

        Args:
            report: What the program tells.
            within: What the places begin with, of an operator in a scope; then all of it holds the scope's first output.
        """
        for hold in self.holds():
            of_port = report.holders.setdefault(self.outputs[0 if within else hold.output].outlet.name, {})
            of_port[within + hold.place] = meet([of_port.get(within + hold.place, FINISHED), Frontier([hold.time])])
        self.tell_figures(report)

    def tell_figures(self, report: Report) -> None:
        """Report what makes another epoch begin."""
        if self.incomplete:
            report.metrics[INCOMPLETE] = 1.0
        first = next(iter(self._info.activator.waiting), 0)
        if first:
            add_figures(report.metrics, {DUE: float(first)})

    def holds(self) -> list[Hold]:
        """What holds which time at which output."""
        return [*self._places.holds(), *self._held_initially()]

    def save(self) -> None:
        """Write what lives on, and refuse to lose what does not.

        Raises:
            CapabilityError: A capability is still held that is in no declared place.
        """
        initial = self._held_initially()
        lost = self._places.undeclared(initial)
        if lost:
            gc.collect()  # what refers to itself in a circle is still there
            lost = self._places.undeclared(initial)
        if lost or (initial and self._kept is None):
            outlet, time = lost[0] if lost else (self._outlets[0], initial[0].time)
            raise CapabilityError(
                f"a capability for {time!r} is still held when the epoch ends, where it would be lost",
                **self._where, output=outlet.name,
                remedy="keep it in what is declared (state={'kept': CapabilityState()}, then info.state['kept'].insert(...); "
                "likewise NotifyState, StashState), or drop() it",
            )  # fmt: skip
        self._places.save([*initial, *self._activations()])
        self._variables.warn(self._info.name)

    def _activations(self) -> list[Hold]:
        """When the logic is to be called again; what is incomplete goes on in the next epoch."""
        due = {*self._info.activator.waiting, *([0] if self.incomplete else [])}
        if due and self._kept is None:
            raise PipelineError(
                "the logic is to be called again after the epoch, and the operator keeps nothing from epoch to epoch",
                **self._where, remedy="use unary_frontier or build_reschedule, or declare a CapabilityState",
            )  # fmt: skip
        return [Hold(ACTIVATION, 0, moment) for moment in sorted(due)]

    def _first_capabilities(self) -> list[Capability | None]:
        """For each output the initial capability as it was left; None once it was dropped."""
        if self._least is not None:
            return [Capability(time, outlet) for time, outlet in zip(self._least, self._outlets, strict=True)]
        holds = [] if self._kept is None else self._kept.holds(INITIAL)
        found = {hold.output: hold.time for hold in reversed(holds)}
        return [Capability(found[each.number], each) if each.number in found else None for each in self._outlets]

    def _held_initially(self) -> list[Hold]:
        alive = [None if each is None else each() for each in self._initial]
        return [Hold(INITIAL, each.outlet.number, each.time) for each in alive if each is not None and not each.dropped]

    def _run_until_quiet(self) -> None:
        self._run_once()
        while self._info.activator.is_asked:
            if self._again >= (self._definition.calls or CALLS):
                if self._definition.calls is None:
                    raise PipelineError("the logic asks to be called for ever", remedy="activate only while there is work left")
                self.incomplete = True
                return
            self._again += 1
            self._run_once()

    def _run_once(self) -> None:
        self._was_called = True
        self._info.activator.take()
        told = self._run()
        if self._definition.kind.reschedules:
            if not isinstance(told, bool):
                raise TypeError(f"the logic returned {told!r}; it is to say whether it is incomplete: True or False")
            self.incomplete = told
