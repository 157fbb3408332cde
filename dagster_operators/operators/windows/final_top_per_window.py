"""The first n rows of each key and window of rows that come and go, when the window closes: an append view.

A row that goes lets others move up, so the state has all rows of the windows that are open, by pane, each with how often it is
there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from dagster_operators.graph.changes import ChangeKind
from dagster_operators.graph.exchange import by_keys
from dagster_operators.graph.operator import StreamType
from dagster_operators.graph.ports import InputPort
from dagster_operators.operators.physical import Analysed, Analysis, PhysicalState, Rows, StageContext
from dagster_operators.operators.relational.weighted_rows import added_up, repeated, weighted
from dagster_operators.operators.windows.top_per_window import FirstRowsOfWindows, TopPerWindow
from dagster_operators.operators.windows.window_rows import PANE
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True)
class FinalTopPerWindow(TopPerWindow):
    """The first rows of each key and window of the rows that are there when the watermark passes the window's end."""

    kind: ClassVar[str] = "final_top_per_window"
    label: ClassVar[str] = "top_per_window"

    @property
    @override
    def reads_ahead(self) -> int | None:
        return None

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("input", frozenset({ChangeKind.RETRACT}), by_keys(self.keys, window=True)),)

    @override
    def lower(self, inputs: Sequence[StreamType]) -> FirstRowsOfFinalWindows:
        """Two jobs: what changes into the state, then the first rows of what closes."""
        return FirstRowsOfFinalWindows(self)


@dataclass(frozen=True)
class FirstRowsOfFinalWindows(FirstRowsOfWindows):
    """The lowering of :class:`FinalTopPerWindow`."""

    states: ClassVar[tuple[PhysicalState, ...]] = (PhysicalState("weighted", range_column=PANE, of_rows=True),)

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis:
        rows = weighted(self._waiting().panes(inputs[0]))
        output = self._finish(repeated(self._waiting().windows(rows, MIN_WATERMARK, MAX_WATERMARK)))
        return Analysis(output, {"weighted": rows}, {"late": inputs[0]}, facts=None)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed) -> Rows:
        name, waiting = self.logical.name, self._waiting(context.varying)
        begin, end = context.watermark_begin(name), context.watermark_end(name)
        state = context.state(name, "weighted")
        if inputs[0] is not None:
            state.append(weighted(waiting.on_time(context, name, "late", waiting.panes(inputs[0]), begin)))
        closing = waiting.closing(state, begin, end)
        waiting.tidy(state, end, added_up)
        if closing is None:
            return None
        # Of the windows that close alone: of others, of which runs are dropped or not read, the weights need not add up.
        return self._finish(repeated(closing, None if self.logical.ties else self.logical.n))
