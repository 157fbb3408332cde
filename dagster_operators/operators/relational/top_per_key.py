"""The first n rows of each key in an order of the user's: an updating table that is keyed by the key and the rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from typing_extensions import override

from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.graph.alternatives import Alternative
from dagster_operators.graph.changes import ChangeKind
from dagster_operators.graph.exchange import by_keys
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType, same_columns
from dagster_operators.graph.ports import InputPort
from dagster_operators.graph.row_expressions import columns_of_row
from dagster_operators.operators.forgetful import ForgetfulByKey
from dagster_operators.operators.forgetting_keys import forgetting_keys
from dagster_operators.operators.physical import RelationalOperator
from dagster_operators.operators.relational.first_of_changes import FirstRowsOfChanges
from dagster_operators.operators.relational.first_rows import FirstRows, alternatives, one_row_per_key
from dagster_operators.operators.relational.projection import from_columns
from dagster_operators.operators.relational.ranking import OrderItem, parse_order
from dagster_operators.optimizer.properties.fields import Forwarding


@dataclass(frozen=True, kw_only=True)
class TopPerKey(ForgetfulByKey):
    """The first rows of each key, brought up to date by every epoch that has rows of the key.

    Attributes:
        keys: The key columns.
        n: How many rows of each key.
        by: What comes behind ORDER BY.
        event_time: Decides between rows that are equal in this: the earlier one comes first.
        rank: The column with the row's place, from 1.
    """

    kind: ClassVar[str] = "top_per_key"
    keys: tuple[str, ...]
    n: int
    by: tuple[str, ...]
    event_time: str | None
    rank: str = "rank"

    @cached_property
    def order(self) -> tuple[OrderItem, ...]:
        """The order, taken apart."""
        return parse_order(self.by)

    @override
    def sql(self) -> tuple[str, ...]:
        return tuple(item.expression for item in self.order)

    @override
    def config(self) -> dict[str, Any]:
        settings = {"keys": list(self.keys), "n": self.n, "by": list(self.by), "event_time": self.event_time, "rank": self.rank}
        return {**settings, **self.forgetting}

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("input", frozenset({ChangeKind.APPEND, ChangeKind.RETRACT}), by_keys(self.keys)),)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        stream = inputs[0]
        check_top(self, stream, self.n, self.order)
        self.require(stream, self.keys, "key_by")
        self.check_forgetting(self.keys)
        check_rank(self, self.rank, stream.columns or ())
        return one_row_per_key(stream, (*self.keys, self.rank))

    @override
    def forwards(self, inputs: Sequence[StreamType]) -> Forwarding:
        return Forwarding.of(inputs[0].columns or ())

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return {**same_columns(inputs[0]), self.rank: ordered_by(self.order, inputs[0])}

    @override
    def side_outputs(self, inputs: Sequence[StreamType]) -> Mapping[str, StreamType]:
        return self.late_rows(inputs)

    @override
    def lower(self, inputs: Sequence[StreamType]) -> tuple[Alternative, ...] | RelationalOperator[Any]:
        """The new rows' keys, or first rows, and then the merge with the current rows of these keys; of changes all rows."""
        if self.forget_after is not None:
            return forgetting_keys(self, inputs, changes=True)
        first = FirstRows(keys=self.keys, order=self.order, n=self.n, event_time=self.event_time, rank=self.rank)
        if inputs[0].changes.kind is ChangeKind.RETRACT:
            return FirstRowsOfChanges(self.name, first)
        return alternatives(self.name, first)


def check_top(operator: LogicalOperator, stream: StreamType, n: int, order: Sequence[OrderItem]) -> None:
    """Raise unless this many rows of a stream can be put into this order."""
    given: object = n
    if not isinstance(given, int) or given < 1:
        raise PipelineError(f"top({n!r}) is no row at all", operator=operator.name, remedy="ask for one row or more")
    for item in order:
        operator.require(stream, columns_of_row(item.expression), f"by={str(item)!r}")


def check_rank(operator: LogicalOperator, rank: str, columns: Sequence[str]) -> None:
    """Raise if the rank would take the name of a column."""
    if rank.lower() in (column.lower() for column in columns):
        raise SchemaError(
            f"the rank would take the name of the column {rank!r}", operator=operator.name, column=rank,
            remedy="give it another name: rank='place'",
        )  # fmt: skip


def ordered_by(order: Sequence[OrderItem], stream: StreamType) -> frozenset[tuple[int, str]]:
    """The columns that decide about a rank."""
    return frozenset(origin for item in order for origin in from_columns(stream, item.expression))
