"""Aggregation per key and session over rows that come and go: an append view, the row of each session once.

The state is that of :mod:`.session_aggregate_changes`. A session can change until the watermark is two gaps behind its last row:
what comes on time is less than a gap behind the watermark, and reaches rows that are less than a gap behind it. Then it comes
out. None that came out is there again with another last row: what goes of a session that is not final leaves none behind
whose last row is further back than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from dagster_operators.graph.operator import StreamType
from dagster_operators.operators.aggregates.weighted_partials import WeightedPartials
from dagster_operators.operators.physical import Rows, StageContext
from dagster_operators.operators.windows.aggregate_over_windows import WINDOW_END, AggregateOverWindows
from dagster_operators.operators.windows.session import LAST
from dagster_operators.operators.windows.session_aggregate_changes import AggregateSessionsOfChanges, SessionAggregateChanges
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK, behind
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True)
class FinalSessionAggregate(SessionAggregateChanges):
    """One row per key and session of the rows that are there, once nothing that comes on time can change it."""

    kind: ClassVar[str] = "final_session_aggregate"
    label: ClassVar[str] = "session_aggregate"

    @property
    @override
    def output_time(self) -> str:
        return WINDOW_END

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        return AggregateOverWindows.output(self, inputs)

    @override
    def watermark(self, inputs: int) -> int:
        return self.window.output_watermark(behind(inputs, self.window.gap))

    def final(self, watermark: int) -> int:
        """The last row that a session may have to be final at a watermark."""
        return behind(watermark, 2 * self.window.gap)

    @override
    def lower(self, inputs: Sequence[StreamType]) -> AggregateFinalSessions:
        """Two jobs: what changes into the state, then the sessions that become final."""
        return AggregateFinalSessions(self)


@dataclass(frozen=True)
class AggregateFinalSessions(AggregateSessionsOfChanges):
    """The lowering of :class:`FinalSessionAggregate`."""

    logical: FinalSessionAggregate

    @override
    def _put_out(self, context: StageContext, weighted: WeightedPartials) -> Rows:
        """The sessions that were not final when the epoch began and are now."""
        name, number = self.logical.name, context.varying
        begin, end = context.watermark_begin(name), context.watermark_end(name)
        if end <= begin:
            return None
        reaching = behind(end, self.logical.window.gap)  # later rows make no session go on that is final
        rows = context.state(name, "weighted").read(lambda file: file.low is None or file.low <= reaching)
        if rows is None:
            return None
        since, until = self.logical.final(begin), self.logical.final(end)
        becoming = [f"{LAST} > {number(since, LAST)}"] if begin != MIN_WATERMARK else []
        becoming += [f"{LAST} <= {number(until, LAST)}"] if end != MAX_WATERMARK else []
        sessions = self._sessions(weighted.added_up(rows, self._group), weighted)
        return self._final(sessions.filter(" AND ".join(becoming)) if becoming else sessions, weighted)

    @override
    def _output(self, now: DataFrame, before: DataFrame | None, weighted: WeightedPartials) -> DataFrame:
        return self._final(self._sessions(now, weighted), weighted)

    def _final(self, sessions: DataFrame, weighted: WeightedPartials) -> DataFrame:
        found = weighted.restore(sessions, self._session)
        return found.selectExpr(*map(quoted, self.logical.keys), *self._bounds, *weighted.parts.results)
