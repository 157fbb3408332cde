"""One row per key of rows that come and go: when it is taken back, the next one takes its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from typing_extensions import override

from dagster_operators.errors import SchemaError
from dagster_operators.graph.changes import ChangeKind
from dagster_operators.graph.exchange import by_keys
from dagster_operators.graph.operator import Lineage, StreamType, same_columns
from dagster_operators.graph.ports import InputPort, check_taken_back
from dagster_operators.graph.row_expressions import columns_of_row
from dagster_operators.operators.forgetful import ForgetfulByKey
from dagster_operators.operators.forgetting_keys import forgetting_keys
from dagster_operators.operators.physical import RelationalOperator
from dagster_operators.operators.relational.first_of_changes import FirstRowsOfChanges
from dagster_operators.operators.relational.first_rows import FirstRows, one_row_per_key
from dagster_operators.operators.relational.ranking import OrderItem, parse_order
from dagster_operators.types.names import quoted


@dataclass(frozen=True, kw_only=True)
class DeduplicateChanges(ForgetfulByKey):
    """The first or last row of each key, of all rows that are there.

    Attributes:
        keys: The key columns.
        keep: ``first`` or ``last``.
        order_by: What comes behind ORDER BY; none for the event time.
        event_time: Orders the rows if ``order_by`` does not, and decides between rows that are equal in it: the earlier one
            comes first, and the later one is the last.
    """

    kind: ClassVar[str] = "deduplicate_changes"
    label: ClassVar[str] = "deduplicate"
    keys: tuple[str, ...]
    keep: str
    order_by: tuple[str, ...] = ()
    event_time: str | None = None

    @cached_property
    def order(self) -> tuple[OrderItem, ...]:
        """The order in which the row that is kept comes first."""
        last = self.keep == "last"
        items = parse_order(self.order_by)
        if last:
            items = tuple(OrderItem(item.expression, not item.descending, not item.nulls_first) for item in items)
        time = [] if self.event_time is None else [OrderItem(quoted(self.event_time), descending=last, nulls_first=False)]
        return (*items, *time)

    @override
    def sql(self) -> tuple[str, ...]:
        return tuple(item.expression for item in parse_order(self.order_by))

    @override
    def config(self) -> dict[str, Any]:
        settings = {"keys": list(self.keys), "keep": self.keep, "order_by": list(self.order_by), "event_time": self.event_time}
        return {**settings, **self.forgetting}

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("input", frozenset({ChangeKind.RETRACT}), by_keys(self.keys)),)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        stream = inputs[0]
        self.require(stream, self.keys, "key_by")
        self.check_forgetting(self.keys)
        if not self.order:
            raise SchemaError(
                f"which row of a key is the {self.keep}? The stream has no event time", operator=self.name,
                remedy=f"name columns that say so: deduplicate(keep={self.keep!r}, order_by='version')",
            )  # fmt: skip
        check_taken_back(self.sql(), [stream.changes])
        for item in self.order:
            self.require(stream, columns_of_row(item.expression), f"order_by={str(item)!r}")
        return one_row_per_key(stream, self.keys)

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return same_columns(inputs[0])

    @override
    def side_outputs(self, inputs: Sequence[StreamType]) -> Mapping[str, StreamType]:
        return self.late_rows(inputs)

    @override
    def lower(self, inputs: Sequence[StreamType]) -> RelationalOperator[Any]:
        """All rows in the state, of which those of the keys that are touched are put into order."""
        if self.forget_after is not None:
            return forgetting_keys(self, inputs)
        is_last = self.keep == "last"
        first = FirstRows(keys=self.keys, order=self.order, n=1, event_time=self.event_time, last=is_last)
        return FirstRowsOfChanges(self.name, first)
