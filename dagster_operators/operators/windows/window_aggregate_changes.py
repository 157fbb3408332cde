"""Aggregation per key and event-time window over rows that come and go: the current row of each window, until it closes.

A change counts in the windows of its row's event time, so one that takes a row back takes it out of the windows that it was in.
The state has, for each window, by how much each sum and the weight of each value change, as :mod:`.aggregate_changes` has without
windows. An epoch puts the windows that it touches together anew. When the watermark passes a window its row stays as it is,
its state goes, and changes that come for it are late.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from dagster_operators.graph.changes import DELETED
from dagster_operators.graph.operator import StreamType
from dagster_operators.operators.aggregates.aggregates import AggregateTypes
from dagster_operators.operators.aggregates.weighted_partials import WeightedPartials
from dagster_operators.operators.key_join import with_keys_of
from dagster_operators.operators.physical import (
    Analysed,
    Analysis,
    PhysicalState,
    RelationalOperator,
    Rows,
    StageContext,
    Varying,
    constant,
)
from dagster_operators.operators.relational.weighted_rows import WEIGHT
from dagster_operators.operators.rows_by_time import open_at
from dagster_operators.operators.windows.aggregate_over_windows_of_changes import AggregateOverWindowsOfChanges
from dagster_operators.operators.windows.window_rows import START, PlacedRows
from dagster_operators.operators.windows.windows import Window
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True)
class WindowAggregateChanges(AggregateOverWindowsOfChanges):
    """One row per key and window, brought up to date by every epoch that has changes in it, until the window closes."""

    kind: ClassVar[str] = "window_aggregate_changes"
    label: ClassVar[str] = "window_aggregate"
    window: Window

    @override
    def lower(self, inputs: Sequence[StreamType]) -> AggregateWindowsOfChanges:
        """Two jobs: what changes into the state, then the merge of the windows that changed."""
        return AggregateWindowsOfChanges(self)


@dataclass(frozen=True)
class AggregateWindowsOfChanges(RelationalOperator[AggregateTypes]):
    """The lowering of :class:`WindowAggregateChanges`."""

    states: ClassVar[tuple[PhysicalState, ...]] = (PhysicalState("weighted", range_column=START),)

    logical: WindowAggregateChanges

    @property
    def _group(self) -> list[str]:
        """What rows are grouped by; the window first, since only the first columns of a file have statistics."""
        return [START, *map(quoted, self.logical.keys)]

    def _placed(self, number: Varying = constant) -> PlacedRows:
        return PlacedRows(self.logical.event_time, self.logical.window, number)

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis[AggregateTypes]:
        placed = self._placed()
        parts = self.logical.parts.for_rows(inputs[0])
        weighted = WeightedPartials(parts)
        rows = weighted.update(placed.starts(placed.panes(inputs[0]), MIN_WATERMARK, MAX_WATERMARK), self._group)
        parts = parts.for_partials(weighted.restore(rows, self._group))
        output = self._finish(rows, WeightedPartials(parts))
        return Analysis(output, {"weighted": rows}, {"late": inputs[0]}, facts=parts.types)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed[AggregateTypes]) -> Rows:
        name, placed = self.logical.name, self._placed(context.varying)
        weighted = WeightedPartials(self.logical.parts.typed(analysed.facts))
        begin, end = context.watermark_begin(name), context.watermark_end(name)
        state = context.state(name, "weighted")
        if inputs[0] is not None:
            on_time = placed.on_time(context, name, "late", placed.panes(inputs[0]), begin)
            state.append(weighted.update(placed.starts(on_time, begin, MAX_WATERMARK), self._group))
        found = self._put_out(context)
        size = self.logical.window.size
        state.drop(lambda file: file.high is not None and file.high + size <= end)
        state.fold(lambda rows: weighted.fold(self._open(rows, end, context.varying), self._group))
        return None if found is None else self._finish(found, weighted)

    def _put_out(self, context: StageContext) -> Rows:
        """All state rows of the windows whose rows come out: those that the epoch changes."""
        state = context.state(self.logical.name, "weighted")
        new = state.read(lambda file: file.fresh)
        if new is None:
            return None
        old = state.read_with_keys_of_fresh((START, *self.logical.keys))
        return new if old is None else new.unionByName(with_keys_of(old, new, (START, *self.logical.keys)))

    def _open(self, rows: DataFrame, watermark: int, number: Varying) -> DataFrame:
        """The rows of the windows that are open at a watermark."""
        return open_at(rows, watermark, lambda: f"{START} > {number(watermark - self.logical.window.size, START)}")

    def _finish(self, rows: DataFrame, weighted: WeightedPartials) -> DataFrame:
        """The current row of each window; one that has no rows any more leaves the table."""
        keys, bounds = map(quoted, self.logical.keys), self._placed().bounds
        restored = weighted.restore(rows, self._group)
        return restored.selectExpr(*keys, *bounds, *weighted.results, f"{WEIGHT} = 0 AS {DELETED}")
