"""What all aggregates over windows of changing rows have in common: a row of each window that is brought up to date."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from typing_extensions import override

from dagster_operators.graph.changes import ChangeKind, Changes
from dagster_operators.graph.exchange import by_keys
from dagster_operators.graph.operator import StreamType
from dagster_operators.graph.ports import InputPort
from dagster_operators.operators.windows.aggregate_over_windows import WINDOW_END, WINDOW_START, AggregateOverWindows


@dataclass(frozen=True, kw_only=True)
class AggregateOverWindowsOfChanges(AggregateOverWindows):
    """One row per key and window of the rows that are there, for as long as changes for the window may come."""

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("input", frozenset({ChangeKind.RETRACT}), by_keys(self.keys, window=True)),)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        self.check(inputs[0])
        keys = (*self.keys, WINDOW_START, WINDOW_END)
        return StreamType((*keys, *dict(self.aggregates)), changes=Changes.upsert(keys))
