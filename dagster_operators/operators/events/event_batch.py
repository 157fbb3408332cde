"""What a dataflow of event operators lowers to: the schemas of its outputs, its state table, and the program that runs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from typing_extensions import override

from dagster_operators.errors import SchemaError
from dagster_operators.graph.ports import MAIN
from dagster_operators.graph.state_tables import KeyedState, StateTable
from dagster_operators.operators.batch_operator import BatchOperator, PortSchemas
from dagster_operators.operators.events.event_program import SAVED, EventProgram
from dagster_operators.operators.events.message_rows import output_schema
from dagster_operators.operators.events.wiring import KEY, ROW
from dagster_operators.operators.physical import PhysicalState
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from dagster_operators.operators.events.event_operators import EventOperators
    from dagster_operators.operators.worker_program import WorkerProgram

_KEYS: Final = (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_date)
KEY_REMEDY: Final = "use a column of text, whole numbers, truth values or dates"


def can_be_key(kind: pa.DataType) -> bool:
    """Whether operators can be partitioned by a column of a type: its values have one spelling each.

    >>> can_be_key(pa.string()), can_be_key(pa.float64())
    (True, False)
    """
    return any(is_one(kind) for is_one in _KEYS)


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

    @property
    @override
    def is_placed(self) -> bool:
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
        key = self._key(inputs)
        summary = "epoch bigint, operator string, events bigint, messages bigint, dropped bigint, stopped string"
        types = self.logical.types
        return {
            MAIN: pa.schema([*Schema.of(summary).to_arrow(), *key]),
            **{address: pa.schema([*output_schema(types.get(address)), *key]) for address in self.logical.addresses},
            **{source.late: schema for source, schema in zip(self.logical.sources, inputs, strict=True)},
        }

    @override
    def tables(self, ports: PortSchemas) -> dict[str, StateTable]:
        path, state, saved = self.logical.saved_columns
        plain = f"{path} string, {state} string, {saved} binary"
        by = self.logical.partition_by
        if not by:
            return {SAVED: KeyedState(plain, key=path)}
        (key,) = self._key(ports.inputs)
        return {SAVED: KeyedState(pa.schema([key.with_name(by), *Schema.of(plain).to_arrow()]), key=(by, path))}

    def _key(self, inputs: Sequence[pa.Schema]) -> list[pa.Field]:
        """The column with the key, if the dataflow is partitioned.

        Raises:
            SchemaError: It is none that keys can be, or another one in every source.
        """
        by, found = self.logical.partition_by, set[pa.DataType]()
        for schema in inputs if by else ():
            found.add(schema.field(by).type)
        if len(found) > 1:
            kinds = " and ".join(sorted(map(str, found)))
            raise SchemaError(
                f"the sources have {by!r} as {kinds}, and operators are partitioned by it",
                operator=self.logical.name, column=by, remedy="give it one type in the schemas of all sources",
            )  # fmt: skip
        for kind in found:
            if not can_be_key(kind):
                raise SchemaError(
                    f"operators cannot be partitioned by {by!r}, which is of the type {kind}",
                    operator=self.logical.name, column=by, remedy=KEY_REMEDY,
                )  # fmt: skip
        return [pa.field(KEY, kind) for kind in found]
