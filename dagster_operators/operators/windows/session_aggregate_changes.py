"""Aggregation per key and session over rows that come and go: sessions grow and merge, shrink and split.

All rows of a key make its sessions, so an epoch puts the keys that it touches together anew: what their sessions are, and which
of those that were there are no more. The state has, for each key and time, by how much each sum and the weight of each value
change, as :mod:`.window_aggregate_changes` has for each window.

Changes whose time lies a gap behind the watermark are late. So what comes on time is after ``watermark - gap``, and reaches no
session whose last row lies two gaps behind: those are final. Their rows are no longer state, and are left out when as many
rows as the rest may be such.
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
from dagster_operators.operators.engine_schema import schema_of
from dagster_operators.operators.key_join import join_by_keys, with_keys_of
from dagster_operators.operators.late_rows import late_condition, on_time
from dagster_operators.operators.physical import (
    Analysed,
    Analysis,
    PhysicalState,
    RelationalOperator,
    Rows,
    RunFile,
    StageContext,
)
from dagster_operators.operators.relational.weighted_rows import WEIGHT
from dagster_operators.operators.rows_by_time import TIME, timed
from dagster_operators.operators.windows.aggregate_over_windows import WINDOW_END, WINDOW_START
from dagster_operators.operators.windows.aggregate_over_windows_of_changes import AggregateOverWindowsOfChanges
from dagster_operators.operators.windows.session import ISLAND, LAST, START, Session
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FEW = 100_000
"""State of no more rows than this is not looked through for rows of sessions that are final."""

_NEW = "__new"


@dataclass(frozen=True, kw_only=True)
class SessionAggregateChanges(AggregateOverWindowsOfChanges):
    """One row per key and session of the rows that are there, until nothing that comes on time can change it."""

    kind: ClassVar[str] = "session_aggregate_changes"
    label: ClassVar[str] = "session_aggregate"
    window: Session

    @override
    def lower(self, inputs: Sequence[StreamType]) -> AggregateSessionsOfChanges:
        """Two jobs: what changes into the state, then the sessions of the keys that changed."""
        return AggregateSessionsOfChanges(self)


@dataclass(frozen=True)
class AggregateSessionsOfChanges(RelationalOperator[AggregateTypes]):
    """The lowering of :class:`SessionAggregateChanges`."""

    states: ClassVar[tuple[PhysicalState, ...]] = (PhysicalState("weighted", range_column=TIME),)

    logical: SessionAggregateChanges

    @property
    def _group(self) -> list[str]:
        """What rows are grouped by; the time first, since only the first columns of a file have statistics."""
        return [TIME, *map(quoted, self.logical.keys)]

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis[AggregateTypes]:
        parts = self.logical.parts.for_rows(inputs[0])
        weighted = WeightedPartials(parts)
        rows = weighted.update(timed(inputs[0], self.logical.event_time), self._group)
        parts = parts.for_partials(weighted.restore(rows, self._group))
        output = self._output(rows, rows, WeightedPartials(parts))
        return Analysis(output, {"weighted": rows}, {"late": inputs[0]}, facts=parts.types)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed[AggregateTypes]) -> Rows:
        name, gap = self.logical.name, self.logical.window.gap
        weighted = WeightedPartials(self.logical.parts.typed(analysed.facts))
        begin, end = context.watermark_begin(name), context.watermark_end(name)
        state = context.state(name, "weighted")
        if inputs[0] is not None:
            rows = timed(inputs[0], self.logical.event_time)
            late = late_condition(TIME, f"{TIME} <= {context.varying(begin - gap, TIME)}", begin)
            changed = on_time(context, name, rows, late, time=TIME)
            state.append(weighted.update(changed, self._group))
        found = self._put_out(context, weighted)
        if end == MAX_WATERMARK:
            state.drop(lambda _: True)
        else:
            self._leave_out(context, weighted, end)
            state.fold(lambda rows: weighted.fold(rows, self._group))
        return found

    def _put_out(self, context: StageContext, weighted: WeightedPartials) -> Rows:
        """The sessions of the keys that the epoch changes."""
        keys, state = self.logical.keys, context.state(self.logical.name, "weighted")
        new = state.read(lambda file: file.fresh)
        if new is None:
            return None
        old = state.read_with_keys_of_fresh(keys) if keys else state.read(lambda file: not file.fresh)
        before = None if old is None else with_keys_of(old, new, keys)
        return self._output(new if before is None else new.unionByName(before), before, weighted)

    def _leave_out(self, context: StageContext, weighted: WeightedPartials, watermark: int) -> None:
        """Drop the rows of sessions that are final, if there may be many: an old row may be of a session that goes on."""
        if watermark == MIN_WATERMARK:
            return
        state, final = context.state(self.logical.name, "weighted"), watermark - 2 * self.logical.window.gap
        sizes: dict[bool, int] = {True: 0, False: 0}
        earlier: set[str] = set()

        def counted(file: RunFile) -> bool:
            sizes[file.high is not None and file.high <= final] += file.rows
            earlier.update(() if file.fresh else (file.path,))
            return not file.fresh

        stored, new = state.read(counted), state.read(lambda file: file.fresh)
        if stored is None or sizes[True] <= max(FEW, sizes[False]):
            return
        marked = stored.selectExpr("*", f"false AS {_NEW}")
        every = marked if new is None else marked.unionByName(new.selectExpr("*", f"true AS {_NEW}"))
        of = ", ".join((*map(quoted, self.logical.keys), START))
        sessions = self._sessions(every, weighted).selectExpr("*", f"bool_or({_NEW}) OVER (PARTITION BY {of}) AS __has_new")
        going_on = sessions.filter(f"{LAST} > {context.varying(final, LAST)} OR __has_new")  # a session goes as a whole
        times = going_on.select(*map(quoted, self.logical.keys), TIME).distinct()
        kept = join_by_keys(stored, times, self.logical.keys, "left_semi", conditions=[f"one.{TIME} = other.{TIME}"])
        state.append(kept)
        state.drop(lambda file: file.path in earlier)

    def _sessions(self, rows: DataFrame, weighted: WeightedPartials) -> DataFrame:
        """State rows, all there are of their keys, with where the session starts that they are of and its last row.

        Rows that say nothing any more are of none; what is wrong among them stays, for the query to fail. Rows of one
        time have any order: the first of them begins a session, and its number is that of all up to this time.
        """
        partition = ", ".join(map(quoted, self.logical.keys))
        by, of = (
            f"PARTITION BY {partition} " if partition else "",
            f"PARTITION BY {partition}, " if partition else "PARTITION BY ",
        )
        before = rows.filter(weighted.anything).selectExpr(
            "*", f"max({TIME}) OVER ({by}ORDER BY {TIME} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS __before"
        )
        begins = f"CASE WHEN __before IS NULL OR {TIME} - __before >= {self.logical.window.gap}L THEN 1L ELSE 0L END"
        numbered = before.selectExpr(
            "*", f"sum({begins}) OVER ({by}ORDER BY {TIME} RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS {ISLAND}"
        )
        extent = (f"{of_both}({TIME}) OVER ({of}{ISLAND}) AS {column}" for of_both, column in (("min", START), ("max", LAST)))
        return numbered.selectExpr("*", *extent).drop("__before", ISLAND)

    @property
    def _session(self) -> list[str]:
        """What a session is told by."""
        return [*map(quoted, self.logical.keys), START, LAST]

    @property
    def _bounds(self) -> list[str]:
        """The columns with the start and the end of a session."""
        stop = f"{LAST} + {self.logical.window.gap}L"
        return [f"timestamp_micros({START}) AS {WINDOW_START}", f"timestamp_micros({stop}) AS {WINDOW_END}"]

    def _output(self, now: DataFrame, before: DataFrame | None, weighted: WeightedPartials) -> DataFrame:
        """The sessions of keys as they are now; those that were there before, and are no more, leave the table."""
        keys, group, bounds = [*map(quoted, self.logical.keys)], self._session, self._bounds
        merged = weighted.added_up(now, self._group)
        found = weighted.restore(self._sessions(merged, weighted), group)
        rows = found.selectExpr(*keys, *bounds, *weighted.results, f"{WEIGHT} = 0 AS {DELETED}")
        if before is None:
            return rows
        were = self._sessions(weighted.added_up(before, self._group), weighted).select(*group).distinct()
        same = [f"one.{START} = other.{START}", f"one.{LAST} = other.{LAST}"]
        gone = join_by_keys(were, found.select(*group), self.logical.keys, "left_anti", conditions=same)
        kinds = schema_of(rows).types
        nulls = [f"CAST(NULL AS {kinds[name]}) AS {quoted(name)}" for name in dict(self.logical.aggregates)]
        return rows.unionByName(gone.selectExpr(*keys, *bounds, *nulls, f"true AS {DELETED}"))
