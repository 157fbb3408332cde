"""What all operators that aggregate have in common, with windows or without: settings, partial results, checks, lineage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from typing_extensions import override

from dagster_operators.graph.exchange import by_keys
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType
from dagster_operators.graph.ports import InputPort
from dagster_operators.operators.aggregates.aggregates import Decomposition, decompose
from dagster_operators.operators.relational.projection import from_columns
from dagster_operators.optimizer.properties.fields import Forwarding


@dataclass(frozen=True, kw_only=True)
class Aggregation(LogicalOperator):
    """Rows that are grouped by keys.

    Attributes:
        keys: The key columns.
        event_time: The input's event time.
        aggregates: Output column and Spark SQL aggregate.
    """

    keys: tuple[str, ...]
    event_time: str | None
    aggregates: tuple[tuple[str, str], ...]

    @cached_property
    def parts(self) -> Decomposition:
        """The aggregates as partial results, how they merge, and how they end."""
        return decompose(dict(self.aggregates), event_time=self.event_time)

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("input", exchange=by_keys(self.keys)),)

    @override
    def sql(self) -> tuple[str, ...]:
        return tuple(expression for _, expression in self.aggregates)

    def check(self, stream: StreamType) -> None:
        """Raise unless the stream has the columns that keys and aggregates use."""
        self.require(stream, self.keys, "key_by")
        for name, expression in self.aggregates:
            self.require(stream, self.parts.columns[name], f"aggregate {name!r} = {expression!r}")

    @override
    def reads(self, inputs: Sequence[StreamType], wanted: frozenset[str]) -> Sequence[frozenset[str] | None]:
        """All that it keeps partial results of, wanted or not: these are stored."""
        time = {self.event_time} if self.event_time is not None else set()
        return [frozenset({*self.keys, *time}).union(*self.parts.columns.values())]

    @override
    def forwards(self, inputs: Sequence[StreamType]) -> Forwarding:
        return Forwarding.of(self.keys)

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        keys = {key: frozenset({(0, key)}) for key in self.keys}
        return {**keys, **{name: from_columns(inputs[0], expression) for name, expression in self.aggregates}}
