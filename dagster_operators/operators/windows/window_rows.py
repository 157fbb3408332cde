"""Rows that wait for their windows to close: where they wait, when they are late, and which windows they are in.

Operators that need a window's rows themselves (joins, top-n) keep them by *pane*, the piece of time that no window cuts, and
spread them over their windows only when these close. A stream that comes out of a window aggregate has its rows' windows in
``window_start`` and ``window_end`` already; for such rows a pane is their event time, and their window is complete as soon as
the watermark has passed it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from dagster_operators.graph.values import Fields, check_fields
from dagster_operators.operators.late_rows import late_condition, on_time
from dagster_operators.operators.physical import RunFile, StageContext, StateRuns, Varying, constant
from dagster_operators.operators.rows_by_time import micros_of, open_at
from dagster_operators.operators.windows.aggregate_over_windows import WINDOW_END, WINDOW_START
from dagster_operators.operators.windows.windows import Window
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PANE = "__pane"
"""The column with the start of the pane, microseconds since 1970."""

START = "__window"
"""The column with the start of the window, microseconds since 1970."""


@dataclass(frozen=True)
class InputWindow:
    """The windows that rows carry in ``window_start`` and ``window_end``: what ``window()`` without an argument means."""

    kind: ClassVar[str] = "input_window"

    def encode(self) -> Fields:
        """Nothing: it has no settings."""
        return {}

    @classmethod
    def decode(cls, fields: Fields) -> InputWindow:
        """The windows that were encoded."""
        check_fields("windows that rows carry", fields, {})
        return cls()

    def output_watermark(self, watermark: int) -> int:
        """Rows come out with the event time that they came in with, once the watermark has passed it."""
        return watermark

    def config(self) -> dict[str, Any]:
        """The settings as JSON values."""
        return {"of": "input"}

    def __str__(self) -> str:
        return "window"


@dataclass(frozen=True)
class WindowRows(ABC):
    """The rows of one input, by pane.

    Attributes:
        event_time: The input's column with the event time.
    """

    event_time: str

    def panes(self, frame: DataFrame) -> DataFrame:
        """The rows that are in a window at all, behind the column :data:`PANE`; null for a row without event time.

        It is the first column because only the first ones of a file have statistics, and files are pruned by it.
        """
        return frame.selectExpr(f"{self._time} AS {PANE}", "*")

    @property
    def _time(self) -> str:
        return micros_of(self.event_time)

    def on_time(self, context: StageContext, operator: str, port: str, panes: DataFrame, begin: int) -> DataFrame:
        """The rows of which some window is still open; the others are counted as late and go to a side output."""
        late = late_condition(PANE, f"NOT ({self.still_open(begin)})", begin)
        return on_time(context, operator, panes, late, time=PANE, port=port)

    def closing(self, state: StateRuns, begin: int, end: int) -> DataFrame | None:
        """The rows of the windows that an epoch closes, one for each of their windows, which it adds; None if there are none."""
        rows = self.panes_closing(state, begin, end)
        return None if rows is None else self.windows(rows, begin, end)

    def panes_closing(self, state: StateRuns, begin: int, end: int) -> DataFrame | None:
        """At least the rows of the windows that an epoch closes, by pane; None if there are none."""
        return state.read(lambda file: self.may_close(file, begin, end)) if end > begin else None

    def tidy(self, state: StateRuns, end: int, merge: Callable[[DataFrame], DataFrame] = lambda rows: rows) -> None:
        """Drop the rows that no open window needs; ``merge`` says which of the others are needed where runs are folded."""
        state.drop(lambda file: file.high is not None and self.is_over(file.high, end))
        state.fold(lambda frame: merge(self.open_panes(frame, end)))

    def open_panes(self, frame: DataFrame, watermark: int) -> DataFrame:
        """The rows that some window needs that is open at a watermark."""
        return open_at(frame, watermark, lambda: self.still_open(watermark))

    @abstractmethod
    def still_open(self, watermark: int) -> str:
        """The condition that some window of a pane is open at a watermark."""

    @abstractmethod
    def is_over(self, pane: int, watermark: int) -> bool:
        """Whether all windows of this and earlier panes have closed."""

    @abstractmethod
    def may_close(self, file: RunFile, begin: int, end: int) -> bool:
        """Whether a file may have rows of windows that close while the watermark goes from ``begin`` to ``end``."""

    @abstractmethod
    def windows(self, panes: DataFrame, begin: int, end: int) -> DataFrame:
        """The rows with ``window_start`` and ``window_end``, one for each of their windows that closes."""


@dataclass(frozen=True)
class PlacedRows(WindowRows):
    """Rows that are put into tumbling or sliding windows by their event time.

    Attributes:
        window: The windows.
        number: How a number that differs from epoch to epoch is written.
    """

    window: Window
    number: Varying = constant

    @override
    def panes(self, frame: DataFrame) -> DataFrame:
        window, time = self.window, self._time
        panes = frame.selectExpr(f"{time} - pmod({time} - {window.offset}L, {window.pane}L) AS {PANE}", "*")
        if window.slide > window.size:
            panes = panes.filter(f"{PANE} IS NULL OR {PANE} + {window.pane}L <= {self._last_start} + {window.size}L")
        return panes

    @property
    def _last_start(self) -> str:
        return f"({PANE} - pmod({PANE} - {self.window.offset}L, {self.window.slide}L))"

    @override
    def still_open(self, watermark: int) -> str:
        return f"{self._last_start} > {self.number(watermark - self.window.size, PANE)}"

    @override
    def is_over(self, pane: int, watermark: int) -> bool:
        return self.window.expired(pane, watermark)

    @override
    def may_close(self, file: RunFile, begin: int, end: int) -> bool:
        over = file.high is not None and self.is_over(file.high, begin)
        return not over and (file.low is None or self.window.first_end(file.low) <= end)

    @override
    def windows(self, panes: DataFrame, begin: int, end: int) -> DataFrame:
        return self.starts(panes, begin, end).selectExpr("*", *self.bounds).drop(START)

    def starts(self, panes: DataFrame, begin: int, end: int) -> DataFrame:
        """The rows with :data:`START` in place of the pane, one for each of their windows that closes."""
        window, last, slide = self.window, self._last_start, f"{self.window.slide}L"
        if window.slide == window.size:
            placed = panes.withColumnRenamed(PANE, START)
        else:
            first = f"{last} - ({last} + {window.size - window.pane}L - {PANE}) div {slide} * {slide}"
            placed = panes.selectExpr("*", f"explode(sequence({first}, {last}, {slide})) AS {START}").drop(PANE)
        return self.closing_starts(placed, begin, end)

    def closing_starts(self, rows: DataFrame, begin: int, end: int) -> DataFrame:
        """The rows with :data:`START` of windows that close while the watermark goes from ``begin`` to ``end``."""
        window, closing = self.window, []
        if begin != MIN_WATERMARK:
            closing.append(f"{START} > {self.number(begin - window.size, START)}")
        if end != MAX_WATERMARK:
            closing.append(f"{START} <= {self.number(end - window.size, START)}" if end != MIN_WATERMARK else "false")
        return rows.filter(" AND ".join(closing)) if closing else rows

    @property
    def bounds(self) -> list[str]:
        """The columns with the start and the end of a window, to be selected from rows with :data:`START`."""
        stop = f"{START} + {self.window.size}L"
        return [f"timestamp_micros({START}) AS {WINDOW_START}", f"timestamp_micros({stop}) AS {WINDOW_END}"]


@dataclass(frozen=True)
class CarriedRows(WindowRows):
    """Rows that carry their windows: a window has all its rows once the watermark has passed their event time.

    Attributes:
        number: How a number that differs from epoch to epoch is written.
    """

    number: Varying = constant

    @override
    def still_open(self, watermark: int) -> str:
        return f"{PANE} >= {self.number(watermark, PANE)}"

    @override
    def is_over(self, pane: int, watermark: int) -> bool:
        return pane < watermark

    @override
    def may_close(self, file: RunFile, begin: int, end: int) -> bool:
        return not (file.high is not None and file.high < begin) and (file.low is None or file.low < end)

    @override
    def windows(self, panes: DataFrame, begin: int, end: int) -> DataFrame:
        if begin != MIN_WATERMARK:
            panes = panes.filter(self.still_open(begin))
        if end != MAX_WATERMARK:
            panes = panes.filter(f"{PANE} < {self.number(end, PANE)}" if end != MIN_WATERMARK else "false")
        return panes.drop(PANE)


def rows_of(window: Window | InputWindow, event_time: str, number: Varying = constant) -> WindowRows:
    """How the rows of a stream with this event time wait for these windows."""
    return PlacedRows(event_time, window, number) if isinstance(window, Window) else CarriedRows(event_time, number)
