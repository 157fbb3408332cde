"""Aggregation per key and event-time window, with mergeable partial results as state.

In an epoch the new rows are aggregated per key and pane and written as one run of the state (so an epoch costs what its new rows
cost); the windows that the watermark closes are then merged from the runs that hold their panes, and emitted once. Files whose
panes have all expired leave the state without being read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
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
    RunFile,
    StageContext,
    Varying,
    constant,
    quoted,
)
from dagster_operators.operators.windows.aggregate_over_windows import WINDOW_END, WINDOW_START, AggregateOverWindows
from dagster_operators.operators.windows.windows import Window
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PANE = "__pane"
"""The state's column with the start of the pane, microseconds since 1970."""


@dataclass(frozen=True, kw_only=True)
class WindowAggregate(AggregateOverWindows):
    """One row per key and window, emitted when the watermark passes the window's end."""

    kind: ClassVar[str] = "window_aggregate"
    window: Window

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

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis[AggregateTypes]:
        parts = self.logical.parts.for_rows(inputs[0])
        panes = parts.update(self._panes(inputs[0]), [*self._keys, PANE])
        parts = parts.for_partials(panes)
        output = self._close(panes, parts, MIN_WATERMARK, MAX_WATERMARK)
        return Analysis(output, {"panes": panes}, {"late": inputs[0]}, facts=parts.types)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed[AggregateTypes]) -> Rows:
        name, window, parts = self.logical.name, self.logical.window, self.logical.parts.typed(analysed.facts)
        begin = context.watermark_begin(name)
        state = context.state(name, "panes")
        if inputs[0] is not None:
            state.append(parts.update(self._on_time(context, self._panes(inputs[0]), begin), [*self._keys, PANE]))
        end = context.watermark_end(name)
        closing = state.read(partial(self._may_close, begin, end)) if end > begin else None
        state.drop(lambda file: file.high is not None and window.expired(file.high, end))
        state.fold(lambda frame: self._merge_panes(frame, parts, end, context.varying))
        return None if closing is None else self._close(closing, parts, begin, end, context.varying)

    @property
    def _keys(self) -> list[str]:
        return list(map(quoted, self.logical.keys))

    def _panes(self, frame: DataFrame) -> DataFrame:
        window = self.logical.window
        time = f"unix_micros(CAST({quoted(self.logical.event_time)} AS TIMESTAMP))"
        panes = frame.selectExpr("*", f"{time} - pmod({time} - {window.offset}L, {window.pane}L) AS {PANE}")
        if window.slide > window.size:
            panes = panes.filter(f"{PANE} IS NULL OR {PANE} + {window.pane}L <= {self._last_start()} + {window.size}L")
        return panes

    def _last_start(self) -> str:
        window = self.logical.window
        return f"({PANE} - pmod({PANE} - {window.offset}L, {window.slide}L))"

    def _on_time(self, context: StageContext, panes: DataFrame, begin: int) -> DataFrame:
        if begin == MAX_WATERMARK:
            late = "true"
        else:  # a row without a time, which only a transform can make, belongs to no window that is still open
            late = f"{PANE} IS NULL"
            if begin != MIN_WATERMARK:
                late += f" OR {self._last_start()} + {self.logical.window.size}L <= {context.varying(begin, PANE)}"
        context.put_out(self.logical.name, "late", lambda: panes.filter(late).drop(PANE))
        return context.count_late(self.logical.name, panes, late).filter(f"NOT ({late})")

    def _merge_panes(self, frame: DataFrame, parts: Decomposition, watermark: int, varying: Varying) -> DataFrame:
        if MIN_WATERMARK < watermark < MAX_WATERMARK:
            frame = frame.filter(f"{self._last_start()} + {self.logical.window.size}L > {varying(watermark, PANE)}")
        return parts.merge(frame, [*self._keys, PANE])

    def _may_close(self, begin: int, end: int, file: RunFile) -> bool:
        window = self.logical.window
        expired = file.high is not None and window.expired(file.high, begin)
        return not expired and (file.low is None or window.first_end(file.low) <= end)

    def _close(self, panes: DataFrame, parts: Decomposition, begin: int, end: int, varying: Varying = constant) -> DataFrame:
        window = self.logical.window
        if window.slide == window.size:
            windows = panes.withColumnRenamed(PANE, "__window")
        else:
            last, slide = self._last_start(), f"{window.slide}L"
            first = f"{last} - ({last} + {window.size - window.pane}L - {PANE}) div {slide} * {slide}"
            spread = f"explode(sequence({first}, {last}, {slide})) AS __window"
            windows = panes.selectExpr(*self._keys, *(quoted(part.column) for part in parts.partials), spread)
        if begin != MIN_WATERMARK:
            windows = windows.filter(f"__window > {varying(begin - window.size, '__window')}")
        if end != MAX_WATERMARK:
            windows = windows.filter(f"__window <= {varying(end - window.size, '__window')}" if end != MIN_WATERMARK else "false")
        merged = parts.merge(windows, [*self._keys, "__window"])
        start, stop = (
            f"timestamp_micros(__window) AS {WINDOW_START}",
            f"timestamp_micros(__window + {window.size}L) AS {WINDOW_END}",
        )
        return merged.selectExpr(*self._keys, start, stop, *parts.results)
