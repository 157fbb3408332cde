"""Aggregation per key and event-time window, with mergeable partial results as state.

In an epoch the new rows are aggregated per key and pane and written as one run of the state (so an epoch costs what its new rows
cost); the windows that the watermark closes are then merged from the runs that hold their panes, and emitted once. Files whose
panes have all expired leave the state without being read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from dagster_operators.graph.operator import StreamType
from dagster_operators.operators.aggregates.aggregates import AggregateTypes, Decomposition
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
from dagster_operators.operators.unique_rows import groups_once
from dagster_operators.operators.windows.aggregate_over_windows import WINDOW_START, AggregateOverWindows
from dagster_operators.operators.windows.window_rows import PANE, START, PlacedRows
from dagster_operators.operators.windows.windows import Window
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True)
class WindowAggregate(AggregateOverWindows):
    """One row per key and window, emitted when the watermark passes the window's end."""

    kind: ClassVar[str] = "window_aggregate"
    window: Window

    @property
    @override
    def reads_ahead(self) -> int | None:
        return self.window.size

    @override
    def watermark(self, inputs: int) -> int:
        return self.window.output_watermark(inputs)

    @override
    def lower(self, inputs: Sequence[StreamType]) -> AggregateWindows:
        """Two jobs: partial results per pane into the state, then the merge of what closes."""
        return AggregateWindows(self)


@dataclass(frozen=True)
class AggregateWindows(RelationalOperator[AggregateTypes]):
    """The lowering of :class:`WindowAggregate`."""

    states: ClassVar[tuple[PhysicalState, ...]] = (PhysicalState("panes", range_column=PANE),)

    logical: WindowAggregate

    @property
    @override
    def unique_by(self) -> tuple[tuple[str, ...], ...]:
        return ((*self.logical.keys, WINDOW_START),)

    def _waiting(self, number: Varying = constant) -> PlacedRows:
        return PlacedRows(self.logical.event_time, self.logical.window, number)

    @property
    def _keys(self) -> list[str]:
        return list(map(quoted, self.logical.keys))

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis[AggregateTypes]:
        parts, waiting = self.logical.parts.for_rows(inputs[0]), self._waiting()
        panes = parts.update(waiting.panes(inputs[0]), [*self._keys, PANE])
        parts = parts.for_partials(panes)
        output = self._finish(waiting, waiting.starts(panes, MIN_WATERMARK, MAX_WATERMARK), parts)
        return Analysis(output, {"panes": panes}, {"late": inputs[0]}, facts=parts.types)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed[AggregateTypes]) -> Rows:
        name, parts, waiting = self.logical.name, self.logical.parts.typed(analysed.facts), self._waiting(context.varying)
        begin = context.watermark_begin(name)
        state = context.state(name, "panes")
        is_unique = groups_once(self.logical.keys, analysed.states["panes"])
        if inputs[0] is not None:
            on_time = waiting.on_time(context, name, "late", waiting.panes(inputs[0]), begin)
            state.append(parts.update(on_time, [*self._keys, PANE]))
        end = context.watermark_end(name)
        closing = waiting.panes_closing(state, begin, end)
        others = [file for file in state.files if not file.fresh and waiting.may_close(file, begin, end)]
        waiting.tidy(state, end, lambda panes: parts.merge(panes, [*self._keys, PANE]))
        if closing is None:
            return None
        starts = waiting.starts(closing, begin, end)
        if is_unique and not others and self.logical.window.size == self.logical.window.slide:
            return self._results(waiting, starts, parts)  # one row for each key and window already
        return self._finish(waiting, starts, parts)

    def _finish(self, waiting: PlacedRows, starts: DataFrame, parts: Decomposition) -> DataFrame:
        return self._results(waiting, parts.merge(starts, [*self._keys, START]), parts)

    def _results(self, waiting: PlacedRows, merged: DataFrame, parts: Decomposition) -> DataFrame:
        return merged.selectExpr(*self._keys, *waiting.bounds, *parts.results)
