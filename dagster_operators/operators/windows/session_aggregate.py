"""Aggregation per key and session, with the mergeable partial results of open sessions as state.

In an epoch the new rows become pieces of sessions. As long as few sessions are open they are merged with the pieces and written
anew. When many are, an epoch must cost what its new rows cost: then the pieces are written as one run of the state, the sessions
that they touch are merged with them and written as a further run, and a tombstone takes the place of each row that was merged
into another. Sessions that the watermark closes are emitted once, with nothing more to merge. What has ended is no longer
state: files in which everything has ended are dropped unread, the rest goes when runs are folded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from typing_extensions import override

from dagster_operators.graph.operator import StreamType
from dagster_operators.operators.aggregates.aggregates import AggregateTypes, Decomposition
from dagster_operators.operators.key_join import join_by_keys
from dagster_operators.operators.late_rows import late_condition, on_time
from dagster_operators.operators.physical import (
    Analysed,
    Analysis,
    PhysicalState,
    RelationalOperator,
    Rows,
    RunFile,
    StageContext,
    Varying,
)
from dagster_operators.operators.rows_by_time import TIME, open_at, timed
from dagster_operators.operators.windows.aggregate_over_windows import WINDOW_END, WINDOW_START, AggregateOverWindows
from dagster_operators.operators.windows.session import LAST, START, Session, merge_sessions
from dagster_operators.time.watermark import MAX_WATERMARK
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

VERSION = "__version"
"""The state's column that says how often a session was merged; with key, start and last row it tells each state of a session."""

FEW = 500_000
"""As long as the state has no more rows than this, all open sessions are written anew by an epoch with rows."""


@dataclass(frozen=True, kw_only=True)
class SessionAggregate(AggregateOverWindows):
    """One row per key and session, emitted when the watermark passes the session's end."""

    kind: ClassVar[str] = "session_aggregate"
    window: Session

    @property
    @override
    def output_time(self) -> str:
        return WINDOW_END

    @override
    def watermark(self, inputs: int) -> int:
        return self.window.output_watermark(inputs)

    @override
    def lower(self, inputs: Sequence[StreamType]) -> AggregateSessions:
        """Two jobs: new pieces merged with open sessions into the state, and what closes; four where many sessions are open."""
        return AggregateSessions(self)


@dataclass(frozen=True)
class AggregateSessions(RelationalOperator[AggregateTypes]):
    """The lowering of :class:`SessionAggregate`."""

    states: ClassVar[tuple[PhysicalState, ...]] = (
        PhysicalState("sessions", range_column=LAST),
        PhysicalState("tombstones", range_column=LAST),
    )

    logical: SessionAggregate

    @property
    @override
    def unique_by(self) -> tuple[tuple[str, ...], ...]:
        return ((*self.logical.keys, WINDOW_START),)

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis[AggregateTypes]:
        parts = self.logical.parts.for_rows(inputs[0])
        panes = self._panes(timed(inputs[0], self.logical.event_time), parts)
        parts = parts.for_partials(panes)
        sessions = self._pieces(panes, parts)
        states = {"sessions": sessions, "tombstones": sessions.selectExpr(*self._identity)}
        return Analysis(self._finish(sessions, parts), states, {"late": inputs[0]}, facts=parts.types)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed[AggregateTypes]) -> Rows:
        name, window, parts = self.logical.name, self.logical.window, self.logical.parts.typed(analysed.facts)
        begin, number = context.watermark_begin(name), context.varying
        sessions, tombstones = context.state(name, "sessions"), context.state(name, "tombstones")
        if inputs[0] is not None:
            panes = self._panes(self._on_time(context, timed(inputs[0], self.logical.event_time), begin), parts)
            self._add(context, self._pieces(panes, parts), parts)
        end = context.watermark_end(name)
        closing = None
        if end > begin:
            closing = sessions.read(lambda file: not window.is_over(file.high, begin) and _may_be_over(window, file.low, end))
        dead = tombstones.read(lambda file: not window.is_over(file.high, begin))
        for state in (sessions, tombstones):
            state.drop(lambda file: window.is_over(file.high, end))
        sessions.fold(lambda frame: self._without(self._open(frame, end, number), dead))
        tombstones.fold(lambda frame: self._open(frame, end, number).distinct())
        if closing is None:
            return None
        live = self._without(self._open(closing, begin, number), dead)
        return self._finish(self._over(live, end, number), parts)

    def _add(self, context: StageContext, pieces: DataFrame, parts: Decomposition) -> None:
        """Merge new pieces with the open sessions."""
        name, window, sizes = self.logical.name, self.logical.window, []
        begin = context.watermark_begin(name)
        sessions, tombstones = context.state(name, "sessions"), context.state(name, "tombstones")

        def may_be_open(file: RunFile) -> bool:
            if window.is_over(file.high, begin):
                return False
            sizes.append(file.rows)
            return True

        old = sessions.read(may_be_open)
        dead = tombstones.read(lambda file: not window.is_over(file.high, begin))
        if old is None:
            sessions.append(pieces)
            return
        live = self._without(self._open(old, begin, context.varying), dead)
        if sum(sizes) <= FEW:
            merged = merge_sessions(live.unionByName(pieces), self.logical.keys, window.gap, parts.merges())
            sessions.append(self._stored(merged, parts, "0"))
            sessions.drop(lambda file: not file.fresh)
            tombstones.drop(lambda _: True)
            return
        sessions.append(pieces)
        new = sessions.read(lambda file: file.fresh)
        if new is None:
            return
        touched = self._touching(live, new)
        tombstones.append(touched.unionByName(self._touching(new, touched)).selectExpr(*self._identity).distinct())
        merging = tombstones.read(lambda file: file.fresh)
        if merging is not None:
            merged = self._of(live.unionByName(new), merging, "left_semi")
            grown = merge_sessions(merged, self.logical.keys, window.gap, [*parts.merges(), _next_version()])
            sessions.append(self._stored(grown, parts, "__next"))

    def _on_time(self, context: StageContext, rows: DataFrame, begin: int) -> DataFrame:
        late = late_condition(TIME, f"{TIME} <= {context.varying(begin - self.logical.window.gap, TIME)}", begin)
        return on_time(context, self.logical.name, rows, late, time=TIME)

    def _panes(self, rows: DataFrame, parts: Decomposition) -> DataFrame:
        """Rows aggregated per gap of time: those within one belong together in any case, and this needs no sort."""
        from pyspark.sql import functions as F

        gap, keys = self.logical.window.gap, self.logical.keys
        extent = [F.expr(f"min({TIME})").alias(START), F.expr(f"max({TIME})").alias(LAST)]
        panes = rows.withColumn("__pane", F.expr(f"{TIME} - pmod({TIME}, {gap}L)"))
        return parts.update(panes, [*map(quoted, keys), "__pane"], *extent).drop("__pane")

    def _pieces(self, panes: DataFrame, parts: Decomposition) -> DataFrame:
        """The sessions that new rows make up among themselves."""
        return self._stored(merge_sessions(panes, self.logical.keys, self.logical.window.gap, parts.merges()), parts, "0")

    def _stored(self, sessions: DataFrame, parts: Decomposition, version: str) -> DataFrame:
        """Sessions as rows of the state."""
        values = [part.column for part in parts.partials]
        return sessions.selectExpr(*map(quoted, self.logical.keys), START, LAST, f"CAST({version} AS INT) AS {VERSION}", *values)

    @property
    def _identity(self) -> list[str]:
        return [*map(quoted, self.logical.keys), START, LAST, VERSION]

    def _touching(self, sessions: DataFrame, others: DataFrame) -> DataFrame:
        """The sessions that overlap one of the others of their key."""
        gap = self.logical.window.gap
        overlap = [f"one.{START} < other.{LAST} + {gap}L", f"other.{START} < one.{LAST} + {gap}L"]
        others = others.selectExpr(*map(quoted, self.logical.keys), START, LAST)
        return join_by_keys(sessions, others, self.logical.keys, "left_semi", conditions=overlap)

    def _open(self, frame: DataFrame, watermark: int, number: Varying) -> DataFrame:
        """The rows of sessions that had not ended at a watermark."""
        return open_at(frame, watermark, lambda: f"{LAST} > {number(watermark - self.logical.window.gap, LAST)}")

    def _over(self, frame: DataFrame, watermark: int, number: Varying) -> DataFrame:
        if watermark == MAX_WATERMARK:
            return frame
        return frame.filter(f"{LAST} <= {number(watermark - self.logical.window.gap, LAST)}")

    def _of(self, sessions: DataFrame, others: DataFrame, how: Literal["left_semi", "left_anti"]) -> DataFrame:
        """The sessions that are, or are not, among others."""
        same = [f"one.{column} = other.{column}" for column in (START, LAST, VERSION)]
        return join_by_keys(sessions, others.selectExpr(*self._identity), self.logical.keys, how, conditions=same)

    def _without(self, sessions: DataFrame, dead: Rows) -> DataFrame:
        """The sessions that were not merged into others."""
        return sessions if dead is None else self._of(sessions, dead, "left_anti")

    def _finish(self, sessions: DataFrame, parts: Decomposition) -> DataFrame:
        start = f"timestamp_micros({START}) AS {WINDOW_START}"
        stop = f"timestamp_micros({LAST} + {self.logical.window.gap}L) AS {WINDOW_END}"
        return sessions.selectExpr(*map(quoted, self.logical.keys), start, stop, *parts.results)


def _next_version() -> Column:
    from pyspark.sql import functions as F

    return F.expr(f"max({VERSION}) + 1").alias("__next")


def _may_be_over(window: Session, low: int | None, watermark: int) -> bool:
    return low is None or window.is_over(low, watermark)
