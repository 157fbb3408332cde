"""A dataflow of event operators as a node of a pipeline: it reads sources, and each output of each operator is a port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from dagster_operators.errors import SchemaError
from dagster_operators.graph.exchange import Gather
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType
from dagster_operators.graph.ports import InputPort
from dagster_operators.operators.events.swapped import swapped
from dagster_operators.operators.events.wiring import TIMER, EventOperator, EventSource, as_json, origins_of

if TYPE_CHECKING:
    from dagster_operators.operators.events.event_batch import EventBatch

TIME = "time"
COLUMNS = (TIME, "seq", "value", "metadata")
"""The columns of an output."""

SUMMARY = ("epoch", "operator", "events", "messages", "dropped", "stopped")
"""The columns of the main output: what each operator did in an epoch."""


@dataclass(frozen=True, kw_only=True, eq=False)
class EventOperators(LogicalOperator):
    """Operators that react to events, as those of dora do, wired as its dataflow files say.

    Attributes:
        sources: The nodes that are sources of this package, in the order of the inputs.
        operators: The operators.
        files: Pairs of a Python file and its text: those of the operators, and what they import from beside them.
        descriptor: The dataflow's file as JSON, which operators find as ``dataflow_descriptor``.
    """

    kind: ClassVar[str] = "event_operators"
    repeatable: ClassVar[bool] = False
    declares_state: ClassVar[bool] = True
    sources: tuple[EventSource, ...]
    operators: tuple[EventOperator, ...]
    files: tuple[tuple[str, str], ...] = ()
    descriptor: str = "{}"

    @cached_property
    def addresses(self) -> tuple[str, ...]:
        """The addresses of all outputs of operators."""
        return tuple(operator.address(output) for operator in self.operators for output in operator.outputs)

    @cached_property
    def types(self) -> dict[str, str]:
        """The declared type of the values in an output's messages, by address."""
        return {operator.address(output): kind for operator in self.operators for output, kind in operator.types}

    @cached_property
    def timers(self) -> tuple[str, ...]:
        """The addresses of all timers."""
        read = [one.source for operator in self.operators for one in operator.inputs]
        return tuple(sorted({source for source in read if source.startswith(TIMER)}))

    @override
    def config(self) -> dict[str, Any]:
        files = {path: sha256(text.encode()).hexdigest()[:16] for path, text in self.files}
        return {"sources": as_json(self.sources), "operators": as_json(self.operators), "files": files}

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return tuple(InputPort(source.node, exchange=Gather()) for source in self.sources)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        for source, stream in zip(self.sources, inputs, strict=True):
            if stream.event_time is None:
                raise SchemaError(
                    f"the rows of the source {source.node!r} have no time", operator=self.name, source=source.node,
                    remedy="give it event_time, by which messages are put in order",
                )  # fmt: skip
        return StreamType(SUMMARY)

    @override
    def side_outputs(self, inputs: Sequence[StreamType]) -> Mapping[str, StreamType]:
        return dict.fromkeys(self.addresses, StreamType(COLUMNS, TIME))

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        everything = frozenset((index, column) for index, stream in enumerate(inputs) for column in stream.columns or ())
        return dict.fromkeys(SUMMARY, everything)

    @override
    def side_lineage(self, port: str, inputs: Sequence[StreamType]) -> Lineage:
        before, found = origins_of(self.operators, port), set[tuple[int, str]]()
        for index, (source, stream) in enumerate(zip(self.sources, inputs, strict=True)):
            for address, column in source.addresses():
                if address in before:
                    found |= {(index, name) for name in stream.columns or () if column in ("*", name)}
        times = frozenset((index, str(inputs[index].event_time)) for index in {index for index, _ in found})
        return {**dict.fromkeys(COLUMNS, frozenset(found)), TIME: times}

    @override
    def mixed_up(self, before: LogicalOperator) -> str:
        found = swapped(before, self) if isinstance(before, EventOperators) else None
        return f"{found[0]!r} runs what {found[1]!r} ran, and state is kept by the ids of nodes and operators" if found else ""

    @override
    def lower(self, inputs: Sequence[StreamType]) -> EventBatch:
        from dagster_operators.operators.events.event_batch import EventBatch

        return EventBatch(self, str(inputs[0].event_time))
