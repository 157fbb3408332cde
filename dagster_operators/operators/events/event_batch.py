"""What a dataflow of event operators lowers to: the schemas of its outputs, its state table, and the program that runs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from typing_extensions import override

from dagster_operators.errors import SchemaError
from dagster_operators.graph.ports import MAIN
from dagster_operators.graph.state_tables import KeyedState, StateTable
from dagster_operators.operators.batch_operator import BatchOperator, PortSchemas
from dagster_operators.operators.events.event_program import SAVED, EventProgram
from dagster_operators.operators.events.message_rows import output_schema
from dagster_operators.operators.events.wiring import ROW
from dagster_operators.operators.physical import PhysicalState
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.operators.events.event_operators import EventOperators
    from dagster_operators.operators.worker_program import WorkerProgram


@dataclass(frozen=True)
class EventBatch(BatchOperator):
    """A dataflow of event operators in the engine's workers.

    Attributes:
        logical: What it was lowered from.
        time: The column with the time, in the rows of all inputs.
    """

    exclusive = True
    states = (PhysicalState(SAVED),)

    logical: EventOperators
    time: str

    @property
    @override
    def ordered_by(self) -> tuple[str, ...]:
        return (self.time,)

    @property
    @override
    def is_numbered(self) -> bool:
        return True

    @override
    def program(self) -> WorkerProgram:
        return EventProgram(self.logical, self.time)

    @override
    def outputs(self, inputs: Sequence[pa.Schema]) -> dict[str, pa.Schema]:
        """What operators did, and the messages of each of their outputs."""
        for source, schema in zip(self.logical.sources, inputs, strict=True):
            for output, column in source.outputs:
                if column not in (ROW, source.time, *schema.names):
                    raise SchemaError(
                        f"the output {source.node}/{output} is the column {column!r}, which the source does not have",
                        operator=self.logical.name, column=column, remedy=f"use one of: {', '.join(schema.names)}",
                    )  # fmt: skip
        summary = "epoch bigint, operator string, events bigint, messages bigint, dropped bigint, stopped string"
        types = self.logical.types
        return {
            MAIN: Schema.of(summary).to_arrow(),
            **{address: output_schema(types.get(address)) for address in self.logical.addresses},
        }

    @override
    def tables(self, ports: PortSchemas) -> dict[str, StateTable]:
        return {SAVED: KeyedState("path string, state string, saved binary", key="path")}
