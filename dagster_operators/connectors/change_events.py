"""Change events in a column of any stream: what each does to the row of its key, as a source of events gives it.

The rows of a stream have no order, so what orders the events of a key is a whole number that comes with each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from dagster_operators.connectors.debezium_reader import check_key, entries_in
from dagster_operators.connectors.required_places import required_places
from dagster_operators.errors import SchemaError
from dagster_operators.graph.changes import ENTRY, Changes
from dagster_operators.graph.expressions import columns_of
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType
from dagster_operators.graph.row_expressions import columns_of_row
from dagster_operators.operators.physical import Stateless
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True)
class ChangeEvents(LogicalOperator):
    """Reads Debezium's change events as what is done to rows.

    Attributes:
        column: Spark SQL for an event, as text or as bytes.
        schema: The columns of the table's rows, as DDL.
        keys: The key columns of the table.
        order: Spark SQL for a whole number that grows with the events of a key.
    """

    kind: ClassVar[str] = "change_events"
    stateless: ClassVar[bool] = True
    column: str
    schema: str
    keys: tuple[str, ...]
    order: str

    @override
    def sql(self) -> tuple[str, ...]:
        return (self.column, self.order)

    @override
    def config(self) -> dict[str, Any]:
        return {"column": self.column, "schema": self.schema, "keys": list(self.keys), "order": self.order}

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        (stream,) = inputs
        check_key(self.schema, self.keys)
        self.require(stream, columns_of_row(self.column), "the column of change events")
        self.require(stream, columns_of_row(self.order), f"order_by={self.order!r}")
        names = Schema.from_ddl(self.schema).names
        for name in names:
            if name.lower() in ENTRY:
                raise SchemaError(f"a column cannot be called {name!r}", operator=self.name, column=name, remedy="rename it")
        return StreamType((*names, *ENTRY), changes=Changes.APPEND)

    @override
    def reads(self, inputs: Sequence[StreamType], wanted: frozenset[str]) -> Sequence[frozenset[str] | None]:
        return [frozenset({*columns_of(self.column), *columns_of(self.order)})]

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        read = frozenset((0, name) for name in columns_of(self.column))
        return dict.fromkeys(self.output(inputs).columns or (), read)

    @override
    def lower(self, inputs: Sequence[StreamType]) -> ReadEvents:
        """One pass in Python, whose texts the engine casts."""
        return ReadEvents(self)


@dataclass(frozen=True)
class ReadEvents(Stateless):
    """The lowering of :class:`ChangeEvents`."""

    logical: ChangeEvents

    @override
    def rows(self, frame: DataFrame) -> DataFrame:
        logical = self.logical
        fields = Schema.from_ddl(logical.schema)
        required = required_places(fields)
        return entries_in(frame, logical.column, logical.order, fields.types, logical.keys, required)
