"""What all aggregates over windows have in common, whatever their windows are: settings, columns, lineage, late rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

from typing_extensions import override

from dagster_operators.errors import SchemaError
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType
from dagster_operators.operators.aggregates import Decomposition, decompose
from dagster_operators.operators.projection import from_columns

WINDOW_START, WINDOW_END = "window_start", "window_end"


class Configured(Protocol):
    """The part of a window that its settings are told by."""

    def config(self) -> dict[str, Any]:
        """The window as JSON."""


@dataclass(frozen=True, kw_only=True)
class AggregateOverWindows(LogicalOperator):
    """One row per key and window, with aggregates of the rows in it.

    Attributes:
        keys: The key columns.
        window: The windows.
        event_time: The input's event time.
        aggregates: Output column and Spark SQL aggregate.
    """

    stateful: ClassVar[bool] = True
    keys: tuple[str, ...]
    window: Configured
    event_time: str
    aggregates: tuple[tuple[str, str], ...]

    @cached_property
    def parts(self) -> Decomposition:
        """The aggregates as partial results, how they merge, and how they end."""
        return decompose(dict(self.aggregates), event_time=self.event_time)

    @property
    def output_time(self) -> str:
        """Which column is the output's event time."""
        return WINDOW_START

    @override
    def config(self) -> dict[str, Any]:
        return {
            "keys": list(self.keys),
            "window": self.window.config(),
            "event_time": self.event_time,
            "aggregates": dict(self.aggregates),
        }

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        stream = inputs[0]
        if stream.updating:
            raise SchemaError("windows need an append stream, and this one is updating", operator=self.name)
        self.require(stream, self.keys, "key_by")
        for name, expression in self.aggregates:
            self.require(stream, self.parts.columns[name], f"aggregate {name!r} = {expression!r}")
        return StreamType((*self.keys, WINDOW_START, WINDOW_END, *dict(self.aggregates)), self.output_time)

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        time = frozenset({(0, self.event_time)})
        keys = {key: frozenset({(0, key)}) for key in self.keys}
        values = {name: from_columns(inputs[0], expression) for name, expression in self.aggregates}
        return {**keys, WINDOW_START: time, WINDOW_END: time, **values}

    @override
    def side_outputs(self, inputs: Sequence[StreamType]) -> Mapping[str, StreamType]:
        return {"late": inputs[0]}
