"""What all aggregates over windows have in common, whatever their windows are: columns, late rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from typing_extensions import override

from dagster_operators.graph.exchange import by_keys
from dagster_operators.graph.operator import Lineage, StreamType
from dagster_operators.graph.ports import InputPort
from dagster_operators.operators.aggregates.aggregation import Aggregation

WINDOW_START, WINDOW_END = "window_start", "window_end"


class Configured(Protocol):
    """The part of a window that its settings are told by."""

    def config(self) -> dict[str, Any]:
        """The window as JSON."""


@dataclass(frozen=True, kw_only=True)
class AggregateOverWindows(Aggregation):
    """One row per key and window, with aggregates of the rows in it.

    Attributes:
        keys: The key columns.
        window: The windows.
        event_time: The input's event time.
        aggregates: Output column and Spark SQL aggregate.
    """

    window: Configured
    event_time: str

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
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("input", exchange=by_keys(self.keys, window=True)),)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        self.check(inputs[0])
        return StreamType((*self.keys, WINDOW_START, WINDOW_END, *dict(self.aggregates)), self.output_time, complete_windows=True)

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return {**super().lineage(inputs), **dict.fromkeys((WINDOW_START, WINDOW_END), frozenset({(0, self.event_time)}))}

    @override
    def side_outputs(self, inputs: Sequence[StreamType]) -> Mapping[str, StreamType]:
        return {"late": inputs[0]}
