"""Aggregation per key and event-time window over rows that come and go: an append view, the row of each window once.

The state is that of :mod:`.window_aggregate_changes`. A window's row can change for as long as changes for it may come, so it
comes out in the epoch in which the watermark passes the window's end, from what is there then; changes that come later are late.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from dagster_operators.graph.operator import StreamType
from dagster_operators.operators.aggregates.weighted_partials import WeightedPartials
from dagster_operators.operators.physical import Rows, StageContext
from dagster_operators.operators.relational.weighted_rows import WEIGHT
from dagster_operators.operators.windows.aggregate_over_windows import AggregateOverWindows
from dagster_operators.operators.windows.window_aggregate_changes import AggregateWindowsOfChanges, WindowAggregateChanges
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True)
class FinalWindowAggregate(WindowAggregateChanges):
    """One row per key and window of the rows that are there when the watermark passes the window's end."""

    kind: ClassVar[str] = "final_window_aggregate"
    label: ClassVar[str] = "window_aggregate"

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        return AggregateOverWindows.output(self, inputs)

    @override
    def watermark(self, inputs: int) -> int:
        return self.window.output_watermark(inputs)

    @override
    def lower(self, inputs: Sequence[StreamType]) -> AggregateFinalWindows:
        """Two jobs: what changes into the state, then the merge of what closes."""
        return AggregateFinalWindows(self)


@dataclass(frozen=True)
class AggregateFinalWindows(AggregateWindowsOfChanges):
    """The lowering of :class:`FinalWindowAggregate`."""

    @override
    def _put_out(self, context: StageContext) -> Rows:
        """All state rows of the windows that close."""
        placed, name = self._placed(context.varying), self.logical.name
        begin, end = context.watermark_begin(name), context.watermark_end(name)
        found = placed.panes_closing(context.state(name, "weighted"), begin, end)
        return None if found is None else placed.closing_starts(found, begin, end)

    @override
    def _finish(self, rows: DataFrame, weighted: WeightedPartials) -> DataFrame:
        """The row of each window that has rows."""
        restored = weighted.restore(rows, self._group).filter(f"{WEIGHT} > 0")
        return restored.selectExpr(*map(quoted, self.logical.keys), *self._placed().bounds, *weighted.parts.results)
