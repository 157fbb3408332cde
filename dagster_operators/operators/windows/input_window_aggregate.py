"""Aggregation per key and the window that the rows carry: aggregates of aggregates, such as the largest count of each window.

Rows that carry windows mostly come in the epoch that closes their window, so the state, partial results per window, is mostly
empty; it is needed where the watermark of the rows is behind, as after a union or a join with a slower stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from dagster_operators.graph.operator import Lineage, StreamType
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
from dagster_operators.operators.windows.aggregate_over_windows import WINDOW_END, WINDOW_START, AggregateOverWindows
from dagster_operators.operators.windows.window_rows import PANE, CarriedRows, InputWindow
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True)
class InputWindowAggregate(AggregateOverWindows):
    """One row per key and window that rows carry, emitted when the watermark has passed the rows' event time.

    Attributes:
        keys: The key columns.
        window: Says that rows carry their windows.
        event_time: The window's start or end, whichever the input has as event time.
        aggregates: Output column and Spark SQL aggregate.
    """

    kind: ClassVar[str] = "input_window_aggregate"
    label: ClassVar[str] = "window_aggregate"
    window: InputWindow

    @property
    @override
    def output_time(self) -> str:
        return self.event_time

    @property
    @override
    def reads_ahead(self) -> int | None:
        return 0

    @override
    def reads(self, inputs: Sequence[StreamType], wanted: frozenset[str]) -> Sequence[frozenset[str] | None]:
        (columns,) = super().reads(inputs, wanted)
        return [None if columns is None else columns | {WINDOW_START, WINDOW_END}]

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return {**super().lineage(inputs), **{column: frozenset({(0, column)}) for column in (WINDOW_START, WINDOW_END)}}

    @override
    def lower(self, inputs: Sequence[StreamType]) -> AggregateInputWindows:
        """Two jobs: partial results per window into the state, then the merge of what closes; one if windows are complete."""
        return AggregateInputWindows(self) if self.keeps_state(inputs) else AggregateCompleteWindows(self)

    @override
    def keeps_state(self, inputs: Sequence[StreamType]) -> bool:
        return not inputs[0].complete_windows


@dataclass(frozen=True)
class AggregateInputWindows(RelationalOperator[AggregateTypes]):
    """The lowering of :class:`InputWindowAggregate`."""

    states: ClassVar[tuple[PhysicalState, ...]] = (PhysicalState("panes", range_column=PANE),)

    logical: InputWindowAggregate

    def _waiting(self, number: Varying = constant) -> CarriedRows:
        return CarriedRows(self.logical.event_time, number)

    @property
    def _groups(self) -> list[str]:
        return [*map(quoted, self.logical.keys), WINDOW_START, WINDOW_END]

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis[AggregateTypes]:
        parts = self.logical.parts.for_rows(inputs[0])
        panes = parts.update(self._waiting().panes(inputs[0]), [*self._groups, PANE])
        parts = parts.for_partials(panes)
        return Analysis(self._finish(panes, parts), {"panes": panes}, {"late": inputs[0]}, facts=parts.types)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed[AggregateTypes]) -> Rows:
        name, waiting, parts = self.logical.name, self._waiting(context.varying), self.logical.parts.typed(analysed.facts)
        begin = context.watermark_begin(name)
        state = context.state(name, "panes")
        if inputs[0] is not None:
            on_time = waiting.on_time(context, name, "late", waiting.panes(inputs[0]), begin)
            state.append(parts.update(on_time, [*self._groups, PANE]))
        end = context.watermark_end(name)
        closing = waiting.closing(state, begin, end)
        waiting.tidy(state, end, lambda panes: parts.merge(panes, [*self._groups, PANE]))
        return None if closing is None else self._finish(closing.selectExpr("*", f"0L AS {PANE}"), parts)

    def _finish(self, panes: DataFrame, parts: Decomposition) -> DataFrame:
        return parts.merge(panes, [*self._groups, PANE]).selectExpr(*self._groups, *parts.results)


@dataclass(frozen=True)
class AggregateCompleteWindows(AggregateInputWindows):
    """The same for windows all of whose rows come in one epoch: nothing is remembered, and no row is late."""

    states: ClassVar[tuple[PhysicalState, ...]] = ()

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis[AggregateTypes]:
        return replace(super().analyse(inputs), states={})

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed[AggregateTypes]) -> Rows:
        if inputs[0] is None:
            return None
        parts = self.logical.parts.typed(analysed.facts)
        # Merged too, though there is nothing to merge: a function of the user's own may count on it.
        return self._finish(parts.update(self._waiting().panes(inputs[0]), [*self._groups, PANE]), parts)
