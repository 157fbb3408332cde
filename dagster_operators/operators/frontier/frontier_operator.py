"""An operator written as those of timely dataflow are, as a node of the dataflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from dagster_operators.errors import SchemaError
from dagster_operators.functions.content import digest_of
from dagster_operators.functions.references import ObjectReference
from dagster_operators.graph.exchange import Broadcast as Everywhere
from dagster_operators.graph.exchange import Exchange, Forward, Gather, HashBy
from dagster_operators.graph.operator import Lineage, StreamType
from dagster_operators.graph.ports import MAIN, InputPort
from dagster_operators.graph.state_tables import StateTable
from dagster_operators.graph.values import Fields
from dagster_operators.operators.by_reference import ByReference
from dagster_operators.operators.frontier.functions_in import functions_in
from dagster_operators.operators.frontier.pacts import Broadcast, Pact
from dagster_operators.operators.frontier.scope_rounds import Settled
from dagster_operators.operators.frontier.time_columns import TimeColumns
from dagster_operators.time.frontier import Frontier, meet
from dagster_operators.time.kinds import Times, kind_text
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from dagster_operators.operators.frontier.definition import Columns, Definition
    from dagster_operators.operators.frontier.frontier_batch import FrontierBatch

LATE = "late"
"""The port of rows whose time had passed when they came."""

INCOMPLETE = "incomplete"
"""The figure of how many subtasks have work left for another epoch."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FrontierOperator(ByReference):
    """A closure over input, frontier and output, with capabilities, as timely dataflow has them.

    Attributes:
        definition: What it is made of. A plan that was read gives a reference, resolved when it is asked for.
    """

    kind: ClassVar[str] = "frontier"
    referred: ClassVar[str] = "definition"
    repeatable: ClassVar[bool] = False
    declares_state: ClassVar[bool] = True
    definition: Definition

    @cached_property
    @override
    def reference(self) -> ObjectReference:
        """The definition by its attributes, found once: reading the code that a function takes from outside is slow."""
        return super().reference

    @override
    def encode(self) -> Fields:
        return {"name": self.name, "chain": self.chain, "definition": self.reference}

    @override
    def keeps_state(self, inputs: Sequence[StreamType]) -> bool:
        """Whether it has state or holds time; of a plan that was read, whose code may be missing, it is taken to have some."""
        from dagster_operators.operators.frontier.frontier_batch import states_of

        return not self.is_given or bool(states_of(self.definition))

    @property
    def holds_time(self) -> bool:
        """Whether it may hold capabilities at the end of an epoch; of a scope in rounds that is said where its rows leave it."""
        part = self.definition.part
        return self.definition.holds_time if part is None else isinstance(part, Settled)

    @cached_property
    def code(self) -> str:
        """A digest of the user's function, and what that takes from outside."""
        function = self.definition.constructor
        if isinstance(function, FunctionType):
            return digest_of(function)
        return digest_of(type(function), *(value for _, value in sorted(vars(function).items())), *functions_in(function))

    @override
    def config(self) -> dict[str, Any]:
        own, function = self.definition, self.definition.constructor
        found: dict[str, Any] = {
            "shape": own.shape,
            "constructor": f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}",
            "code": self.code,
        }
        if own.pacts[0].by:
            found["exchange"] = [list(pact.by) for pact in own.pacts]
        if any(isinstance(pact, Broadcast) for pact in own.pacts):
            found["broadcast"] = [number for number, pact in enumerate(own.pacts) if isinstance(pact, Broadcast)]
        if own.schema is not None:
            told = [schema and Schema.of(schema).to_ddl(everything=False) for schema in own.schemas]
            found["schema"] = told if isinstance(own.schema, tuple) else told[0]
        if own.summaries is not None:
            found["summaries"] = repr(own.summaries)
        if own.notify is not None:
            found["notify"] = list(own.notify)
        if own.state:
            found["state"] = {
                name: kept.config() if isinstance(kept, StateTable) else repr(kept) for name, kept in own.state.items()
            }
        if own.calls is not None:
            found["calls"] = own.calls
        if own.initial:
            found["initial"] = list(own.initial)
        if own.times is not None:
            found["times"] = kind_text(own.times)
        return found

    @property
    @override
    def gives_times(self) -> bool:
        return True

    @override
    def keeps_times(self, port: str) -> bool:
        return True

    @override
    def frontier(self, port: str, inputs: Sequence[Frontier]) -> Frontier:
        ports = self.definition.ports
        return self.definition.passed(ports.index(port), inputs) if port in ports else meet(inputs)

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        several = len(types) > 1
        return tuple(
            InputPort(f"input_{number}" if several else "input", exchange=self._exchange(pact))
            for number, pact in enumerate(self.definition.pacts)
        )

    def _exchange(self, pact: Pact) -> Exchange:
        if pact.by:
            return HashBy(pact.by)
        if isinstance(pact, Broadcast) and not self.definition.single:
            return Everywhere()
        return Gather() if self.definition.single else Forward()

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        if self.definition.part is not None:
            return self.definition.part.stream_types(inputs)[MAIN]
        for stream, pact in zip(inputs, self.definition.pacts, strict=True):
            self.require(stream, pact.by, "the exchange")
        check_timed(inputs, self.name)
        return self._type(self.definition.schemas[0], inputs[0])

    @override
    def side_outputs(self, inputs: Sequence[StreamType]) -> Mapping[str, StreamType]:
        own = self.definition
        if own.part is not None:
            return {port: kind for port, kind in own.part.stream_types(inputs).items() if port != MAIN}
        further = zip(own.ports[1:], own.schemas[1:], strict=True)
        found = {port: self._type(schema, inputs[0]) for port, schema in further}
        return {**found, LATE: replace(inputs[0], complete_windows=False)}

    def _type(self, schema: Columns, first: StreamType) -> StreamType:
        """The type of an output with these columns, for a first input."""
        given, own = time_columns(first), self._times(first)
        if schema is not None:
            names: tuple[str, ...] | None = tuple(field.name for field in Schema.of(schema).fields)
        elif own == given or first.columns is None:
            names = first.columns
        else:
            names = tuple(name for name in first.columns if name not in given.names)
        columns = names and (*names, *(name for name in own.names if name not in names))
        if own.kind is datetime:
            return StreamType(columns, own.names[0])
        return StreamType(columns, times=Times(own.kind, own.names))

    def _times(self, first: StreamType) -> TimeColumns:
        """The columns with the time of the outputs, for a first input."""
        given, kind = time_columns(first), self.definition.times
        return given if kind is None or kind == given.kind else TimeColumns.of(kind, given.names[0])

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        everything = frozenset((index, column) for index, stream in enumerate(inputs) for column in stream.columns or ())
        same = {
            column: frozenset((index, column) for index, stream in enumerate(inputs) if column in (stream.columns or ()))
            for column in self.output(inputs).columns or ()
        }
        return {column: origins or everything for column, origins in same.items()}

    @override
    def lower(self, inputs: Sequence[StreamType]) -> FrontierBatch:
        """Itself, behind a shuffle."""
        from dagster_operators.operators.frontier.frontier_batch import FrontierBatch

        part = self.definition.part
        if part is not None:
            return FrontierBatch(self, part.time_columns(), part.time_columns()[0])
        return FrontierBatch(self, tuple(map(time_columns, inputs)), self._times(inputs[0]))


def check_timed(streams: Sequence[StreamType], operator: str) -> None:
    """Refuse streams that have no times, or times that cannot be compared.

    Raises:
        SchemaError: One has none, or they are of different kinds.
    """
    if any(stream.event_time is None and stream.times is None for stream in streams):
        raise SchemaError(
            "the rows of an input have no time", operator=operator,
            remedy="give the source an event_time, and keep that column on the way",
        )  # fmt: skip
    if len({(stream.times and stream.times.kind) for stream in streams}) > 1:
        told = " and ".join(str(stream.times or "event times") for stream in streams)
        raise SchemaError(
            f"the inputs have times of different kinds: {told}", operator=operator,
            remedy="bring all to one kind: do.frontier.retime(stream, function, times=...)",
        )  # fmt: skip


def time_columns(stream: StreamType) -> TimeColumns:
    """The columns in which a stream's rows have their time."""
    if stream.times is not None:
        return TimeColumns(stream.times.columns, stream.times.kind)
    return TimeColumns((str(stream.event_time),))
