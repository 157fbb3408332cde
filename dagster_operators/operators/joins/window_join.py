"""Joins of two streams within windows: rows of both sides wait until their window closes, and are then joined once.

The state holds the rows of each side by pane; files of which every window has closed leave it unread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from typing_extensions import override

from dagster_operators.errors import PipelineError
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType
from dagster_operators.graph.ports import InputPort
from dagster_operators.operators.engine_schema import empty
from dagster_operators.operators.joins.join_columns import (
    LATE,
    ONE_SIDED,
    SIDES,
    HowInWindows,
    JoinColumns,
    check_key_kinds,
    check_sides,
    equal_keys,
    from_either,
    join_columns,
    join_lineage,
    late_lineage,
    late_outputs,
    merged_keys,
    side_rows,
    sides,
)
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
from dagster_operators.operators.windows.aggregate_over_windows import WINDOW_END, WINDOW_START
from dagster_operators.operators.windows.window_rows import PANE, InputWindow, WindowRows, rows_of
from dagster_operators.operators.windows.windows import Window
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BOUNDS = (WINDOW_START, WINDOW_END)


@dataclass(frozen=True, kw_only=True)
class WindowJoin(LogicalOperator):
    """The pairs of rows that have the same key and a window in common, once for each such window, when it closes.

    Attributes:
        keys: The left side's key columns.
        right_keys: The right side's.
        window: The windows of both sides.
        event_times: The columns with the event time of each side.
        how: Which rows come out without a partner; or only the left side's, with or without one.
        columns: What to hand on of both sides besides the keys; None for everything.
    """

    kind: ClassVar[str] = "window_join"
    keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    window: Window | InputWindow
    event_times: tuple[str, str]
    how: HowInWindows = "inner"
    columns: tuple[str, ...] | None = None

    @override
    def config(self) -> dict[str, Any]:
        return {
            "keys": list(self.keys),
            "right_keys": list(self.right_keys),
            "window": self.window.config(),
            "event_times": list(self.event_times),
            "how": self.how,
            "columns": None if self.columns is None else list(self.columns),
        }

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return sides((self.keys, self.right_keys), window=True)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        check_sides(self, inputs, (self.keys, self.right_keys), self.how, get_args(HowInWindows))
        if isinstance(self.window, InputWindow) and self.event_times[0] != self.event_times[1]:
            raise PipelineError(
                "the windows of one side are sessions, those of the other are not", operator=self.name,
                remedy="put both into the same windows before the join",
            )  # fmt: skip
        left, right = (stream.columns for stream in inputs)
        if left is None or right is None:
            return StreamType(None, self._event_time, complete_windows=True)
        return StreamType(self.joined((left, right)).output, self._event_time, complete_windows=True)

    @property
    def _event_time(self) -> str:
        """Windows come out with their start as event time; those that rows carry with what these had."""
        return WINDOW_START if isinstance(self.window, Window) else self.event_times[0]

    def joined(self, inputs: Sequence[Sequence[str]]) -> JoinColumns:
        """The output's columns for inputs with these columns."""
        hidden = _BOUNDS if isinstance(self.window, InputWindow) else ()
        keys, sides = (self.keys, self.right_keys), inputs
        if self.how in ONE_SIDED:
            sides = (inputs[0], ())
        return join_columns(self, sides, keys=keys, own=_BOUNDS, hidden=hidden, chosen=self.columns)

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        times = frozenset(enumerate(self.event_times))
        return join_lineage(self, inputs, times)

    @override
    def side_outputs(self, inputs: Sequence[StreamType]) -> Mapping[str, StreamType]:
        return late_outputs(inputs)

    @override
    def side_lineage(self, port: str, inputs: Sequence[StreamType]) -> Lineage:
        return late_lineage(port, inputs)

    @override
    def watermark(self, inputs: int) -> int:
        return self.window.output_watermark(inputs)

    @override
    def lower(self, inputs: Sequence[StreamType]) -> JoinWindows:
        """A job for each side's new rows into the state, then the join of what closes."""
        return JoinWindows(self)


@dataclass(frozen=True)
class WindowJoinFacts:
    """What a join in windows finds out of its inputs' types.

    Attributes:
        columns: What it puts out.
        closing: The schema of each side's rows in their windows, as ``StructType`` JSON.
    """

    columns: JoinColumns
    closing: tuple[str, ...]


@dataclass(frozen=True)
class JoinWindows(RelationalOperator[WindowJoinFacts]):
    """The lowering of :class:`WindowJoin`."""

    states: ClassVar[tuple[PhysicalState, ...]] = tuple(PhysicalState(side, range_column=PANE, of_rows=True) for side in SIDES)

    logical: WindowJoin

    def _waiting(self, number: Varying = constant) -> list[WindowRows]:
        return [rows_of(self.logical.window, time, number) for time in self.logical.event_times]

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis[WindowJoinFacts]:
        columns = self.logical.joined([frame.columns for frame in inputs])
        check_key_kinds(columns, *inputs)
        waiting = self._waiting()
        sides = [self._kept(number, waiting[number].panes(frame), columns) for number, frame in enumerate(inputs)]
        closing = [rows.windows(side, MIN_WATERMARK, MAX_WATERMARK) for rows, side in zip(waiting, sides, strict=True)]
        facts = WindowJoinFacts(columns, tuple(frame.schema.json() for frame in closing))
        return Analysis(self._join(closing, columns), dict(zip(SIDES, sides, strict=True)), late_outputs(inputs), facts=facts)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed[WindowJoinFacts]) -> Rows:
        name, facts = self.logical.name, analysed.facts
        begin, both = context.watermark_begin(name), self._waiting(context.varying)
        states = [context.state(name, side) for side in SIDES]
        for number, (state, waiting, frame) in enumerate(zip(states, both, inputs, strict=True)):
            if frame is not None:
                on_time = waiting.on_time(context, name, LATE[number], waiting.panes(frame), begin)
                state.append(self._kept(number, on_time, facts.columns))
        end = context.watermark_end(name)
        closing = [waiting.closing(state, begin, end) for waiting, state in zip(both, states, strict=True)]
        for state, waiting in zip(states, both, strict=True):
            waiting.tidy(state, end)
        nothing = [side for side, rows in zip(SIDES, closing, strict=True) if rows is None]
        if len(nothing) == len(SIDES) or set(nothing) & _NEEDED[self.logical.how]:
            return None
        schemas = zip(closing, facts.closing, strict=True)
        sides = [empty(context.session, schema) if rows is None else rows for rows, schema in schemas]
        return self._join(sides, facts.columns)

    def _kept(self, number: int, panes: DataFrame, columns: JoinColumns) -> DataFrame:
        """What the state holds of a side's rows."""
        keys = [pair[number] for pair in columns.keys]
        values = (columns.left, columns.right)[number]
        bounds = _BOUNDS if isinstance(self.logical.window, InputWindow) else ()
        return side_rows(panes, SIDES[number], keys, values, [PANE, *bounds])

    def _join(self, closing: Sequence[DataFrame], columns: JoinColumns) -> DataFrame:
        from pyspark.sql import functions as F

        sides = []
        for side, frame in zip(SIDES, closing, strict=True):
            renamed = frame.withColumnRenamed(WINDOW_START, f"__{side}_start").withColumnRenamed(WINDOW_END, f"__{side}_end")
            sides.append(renamed)
        same = [*equal_keys(len(columns.keys)), "__left_start = __right_start", "__left_end = __right_end"]
        how = self.logical.how
        joined = sides[0].join(sides[1], F.expr(" AND ".join(same)), f"left_{how}" if how in ONE_SIDED else how)
        bounds = [f"{from_either('start', how)} AS {WINDOW_START}", f"{from_either('end', how)} AS {WINDOW_END}"]
        return joined.selectExpr(*merged_keys(columns, how), *bounds, *map(quoted, columns.values))


_NEEDED: dict[HowInWindows, set[str]] = {
    "inner": {"left", "right"},
    "left": {"left"},
    "right": {"right"},
    "full": set(),
    "semi": {"left", "right"},
    "anti": {"left"},
}
"""The sides without whose rows nothing comes out."""
