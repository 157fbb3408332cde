"""A scope in several subtasks as two operators of the dataflow: one in a loop of stages, and one behind that for what leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from dagster_operators.graph.operator import StreamType
from dagster_operators.graph.ports import MAIN
from dagster_operators.operators.frontier.routes import ROUTE
from dagster_operators.operators.frontier.scope_body import ScopeBody
from dagster_operators.operators.frontier.time_columns import TimeColumns
from dagster_operators.operators.frontier.travelling import TOLD, TRAVELLING
from dagster_operators.time.kinds import Times
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.operators.frontier.definition import Columns
    from dagster_operators.operators.worker_program import WorkerProgram


class ScopeRounds(ScopeBody):
    """What is within a scope whose rows may go to other subtasks, in rounds of stages.

    Attributes:
        times: The column with the time, of each stream that enters; of times of several parts the first one.
        kind: The kind of the times.
        parts: The columns with the time, of each stream that enters, if they are no event times.
        columns: For each output of the scope its columns without the time, if they were declared.
        spreads: Whether an operator within gets all rows in every subtask, so that rows travel to all of them.
    """

    times: tuple[str, ...] = ()
    columns: tuple[Columns, ...] = ()
    spreads = False
    kind: Any = datetime
    parts: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(cls, body: ScopeBody, times: Sequence[TimeColumns], columns: Sequence[Columns]) -> ScopeRounds:
        """A scope's body, in rounds, for streams that enter with their times in these columns."""
        made = cls(
            body.nodes, body.feedbacks, body.leaves, entries=body.entries, iterative=body.iterative, limit=body.limit,
            likes=body.likes,
        )  # fmt: skip
        made.times, made.columns = tuple(own.names[0] for own in times), tuple(columns)
        if times[0].kind is not datetime:
            made.kind, made.parts = times[0].kind, tuple(own.names for own in times)
        if any(made.is_spread(node.name, number) for node in made.nodes for number in range(len(node.inputs))):
            made.spreads = True
        return made

    @property
    def ports(self) -> tuple[str, ...]:
        """The names of all outputs: what leaves, and what goes on to the next round."""
        count = len(self.leaves) + len(self.going_on)
        return tuple(f"output_{number}" if number else MAIN for number in range(count))

    @property
    def going_on(self) -> tuple[str, ...]:
        """The columns of what goes on to the next round: rows that travel, what subtasks tell, and rows that travel to all."""
        return (TRAVELLING, TOLD, TRAVELLING) if self.spreads else (TRAVELLING, TOLD)

    @property
    def further_ports(self) -> tuple[str, ...]:
        """The ports of what goes on to the next round."""
        return self.ports[len(self.leaves) :]

    def is_spread(self, node: str, number: int) -> bool:
        """Whether an input of an operator gets all rows in every subtask."""
        found: bool = self._definitions[node].is_spread(number)
        return found

    def exchanged_by(self, node: str, number: int) -> tuple[str, ...] | None:
        """The columns by which rows meet at an input of an operator; none if all do; None if they stay where they are."""
        own = self._definitions[node]
        return own.pacts[number].by or (() if own.single else None)

    def placed_by(self, prefix: str) -> tuple[str, ...]:
        """The columns by which the state of an operator is distributed."""
        own: tuple[str, ...] = self._definitions[prefix.removesuffix("__")].pacts[0].by
        return own

    @property
    def _definitions(self) -> dict[str, Any]:
        return {node.name: node.definition for node in self.nodes}

    def time_columns(self) -> tuple[TimeColumns, ...]:
        """Where the rows of each stream that enters have their time."""
        return tuple(TimeColumns(names, self.kind) for names in self.parts or zip(self.times))

    def typed(self, names: tuple[str, ...] | None) -> StreamType:
        """The type of a stream with these columns that has left, with the times of the first that enters."""
        own = self.time_columns()[0]
        if own.kind is datetime:
            return StreamType(names, own.names[0])
        return StreamType(names, times=Times(own.kind, own.names))

    def stream_types(self, inputs: Sequence[StreamType]) -> dict[str, StreamType]:
        """The types of the outputs: in a loop no stream has an event time."""
        leaving = [replace(self.typed(self._names(columns, inputs[0])), event_time=None) for columns in self.columns]
        going_on = [StreamType(tuple(Schema.from_ddl(ddl).names)) for ddl in self.going_on]
        return dict(zip(self.ports, [*leaving, *going_on], strict=True))

    def _names(self, columns: Columns, first: StreamType) -> tuple[str, ...] | None:
        if columns is None:
            return first.columns and tuple(name for name in first.columns if name != ROUTE)
        names = tuple(field.name for field in Schema.of(columns).fields)
        return (*names, *(name for name in self.time_columns()[0].names if name not in names))

    def schemas(self, inputs: Sequence[pa.Schema]) -> dict[str, pa.Schema]:
        """The columns of the outputs, as Arrow."""
        first = without_route(inputs[0])
        found = []
        for columns in self.columns:
            own = first if columns is None else Schema.of(columns).to_arrow()
            for name in self.time_columns()[0].names:
                own = own if name in own.names else own.append(first.field(name))
            found.append(own)
        return dict(zip(self.ports, [*found, *(Schema.from_ddl(ddl).to_arrow() for ddl in self.going_on)], strict=True))

    def program(self) -> WorkerProgram:
        """What runs in the workers."""
        from dagster_operators.operators.frontier.rounds_program import RoundsProgram

        return RoundsProgram(self, self.time_columns())


class Settled:
    """What stands behind the loop of a scope: its rows get their event time back, and its time is held back.

    Args:
        body: The scope's.
        number: Which of its outputs it is.
    """

    def __init__(self, body: ScopeRounds, number: int) -> None:
        self.body = body
        self.number = number

    def time_columns(self) -> tuple[TimeColumns, ...]:
        """Where the rows have their time."""
        return self.body.time_columns()[:1]

    def __call__(self, *_: object) -> None:
        """Nothing: its program is one of its own."""

    def stream_types(self, inputs: Sequence[StreamType]) -> Mapping[str, StreamType]:
        """The type of the rows, which have their event time again."""
        return {MAIN: self.body.typed(inputs[0].columns)}

    def schemas(self, inputs: Sequence[pa.Schema]) -> Mapping[str, pa.Schema]:
        """The columns of the rows."""
        return {MAIN: inputs[0]}

    def program(self) -> WorkerProgram:
        """What runs in the workers."""
        from dagster_operators.operators.frontier.rounds_program import SettledProgram

        return SettledProgram(self.body, self.number, self.time_columns())


def without_route(schema: pa.Schema) -> pa.Schema:
    """The columns of a stream that enters, without the one that the rows are distributed by."""
    return schema.remove(schema.get_field_index(ROUTE))
