"""Joins of rows that are near each other in event time: right.time between left.time + lower and left.time + upper.

Both sides keep their rows as state, in runs by epoch. An epoch joins its new rows with what is there, so a pair comes out as soon
as both its rows are there. A pair is *closed* once the watermark has passed both its rows: one that would be made later is not
made, so a row all of whose pairs are closed is late, and a row without a partner comes out (in outer joins) when its last
pair is closed. Files whose rows nobody needs any more leave the state unread.

Each row keeps the watermark that its epoch began with. From these anybody can tell which pairs were made, so no row is ever
marked as matched, and the state is never written anew. (The interval join is Flink's; there a row is late as soon as the
watermark has passed the row itself.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from typing_extensions import override

from dagster_operators.errors import PipelineError
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType
from dagster_operators.graph.ports import InputPort
from dagster_operators.operators.engine_schema import empty
from dagster_operators.operators.joins.join_columns import (
    LATE,
    SIDES,
    How,
    JoinColumns,
    check_key_kinds,
    check_sides,
    equal_keys,
    join_columns,
    join_lineage,
    late_lineage,
    late_outputs,
    merged_keys,
    side_rows,
    sides,
)
from dagster_operators.operators.late_rows import late_condition, on_time
from dagster_operators.operators.one_task import all_of, joined, part_of
from dagster_operators.operators.physical import (
    Analysed,
    Analysis,
    PhysicalState,
    RelationalOperator,
    Rows,
    StageContext,
    StateRuns,
    Varying,
    constant,
)
from dagster_operators.operators.rows_by_time import micros_of
from dagster_operators.time.watermark import MIN_WATERMARK, behind, parse_duration, require_unit
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FAR = 2**62
"""Microseconds before and after any event time: the ends of time as numbers that one can calculate with."""


def parse_bound(bound: str | timedelta | int) -> int:
    """A signed duration as microseconds.

    Raises:
        ValueError: It is no duration of fixed length.

    >>> parse_bound("-1 hour"), parse_bound("0 seconds")
    (-3600000000, 0)
    """
    require_unit(abs(bound) if isinstance(bound, int) else bound)
    if isinstance(bound, str) and bound.strip().startswith("-"):
        return -parse_duration(bound.strip().removeprefix("-"))
    return parse_duration(bound.strip().removeprefix("+") if isinstance(bound, str) else bound)


@dataclass(frozen=True, kw_only=True)
class IntervalJoin(LogicalOperator):
    """The pairs of rows of one key that are near each other in event time.

    Attributes:
        keys: The left side's key columns.
        right_keys: The right side's.
        event_times: The columns with the event time of each side.
        low: How much later than the left row (negative: earlier) the right one is at least, microseconds.
        high: How much later it is at most.
        how: Which rows come out without a partner.
        columns: What to hand on of both sides besides the keys; None for everything.
    """

    kind: ClassVar[str] = "interval_join"
    durations: ClassVar[tuple[str, ...]] = ("low", "high")
    keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    event_times: tuple[str, str]
    low: int
    high: int
    how: How = "inner"
    columns: tuple[str, ...] | None = None

    @property
    def reach(self) -> tuple[int, int]:
        """How long after a row of the left and of the right side its last pair is closed, microseconds."""
        return max(self.high, 0), max(-self.low, 0)

    @property
    def retention(self) -> tuple[int, int]:
        """How long after a row of either side somebody needs it: its own pairs, or a row that asks whether it had a partner."""
        left, right = self.reach
        keep_left = self.high + right if self.how in ("right", "full") else left
        keep_right = left - self.low if self.how in ("left", "full") else right
        return keep_left, keep_right

    @override
    def config(self) -> dict[str, Any]:
        return {
            "keys": list(self.keys),
            "right_keys": list(self.right_keys),
            "event_times": list(self.event_times),
            "lower": self.low,
            "upper": self.high,
            "how": self.how,
            "columns": None if self.columns is None else list(self.columns),
        }

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return sides((self.keys, self.right_keys))

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        check_sides(self, inputs, (self.keys, self.right_keys), self.how, get_args(How))
        if self.low > self.high:
            raise PipelineError(
                "the interval is empty: its lower bound is above the upper one", operator=self.name, remedy="swap the bounds"
            )
        left, right = (stream.columns for stream in inputs)
        if left is None or right is None:
            return StreamType(None, self._event_time)
        columns = self.joined((left, right)).output
        return StreamType(columns, self._event_time if self._event_time in columns else None)

    @property
    def _event_time(self) -> str | None:
        """That of the side all rows have; in a full join there is none."""
        return None if self.how == "full" else self.event_times[self.how == "right"]

    def joined(self, inputs: Sequence[Sequence[str]]) -> JoinColumns:
        """The output's columns for inputs with these columns."""
        return join_columns(self, inputs, keys=(self.keys, self.right_keys), chosen=self.columns)

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return join_lineage(self, inputs)

    @override
    def side_outputs(self, inputs: Sequence[StreamType]) -> Mapping[str, StreamType]:
        return late_outputs(inputs)

    @override
    def side_lineage(self, port: str, inputs: Sequence[StreamType]) -> Lineage:
        return late_lineage(port, inputs)

    @override
    def watermark(self, inputs: int) -> int:
        """Rows wait until no partner can come any more, so they come out by their reach after their time."""
        return behind(inputs, self.reach[self.how == "right"])

    @override
    def lower(self, inputs: Sequence[StreamType]) -> JoinIntervals:
        """A job for each side's new rows into the state, then the pairs they make and the rows left alone."""
        return JoinIntervals(self)


@dataclass(frozen=True)
class JoinIntervals(RelationalOperator[JoinColumns]):
    """The lowering of :class:`IntervalJoin`."""

    states: ClassVar[tuple[PhysicalState, ...]] = tuple(
        PhysicalState(side, range_column=f"__{side}_time", of_rows=True) for side in SIDES
    )

    logical: IntervalJoin

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis[JoinColumns]:
        columns = self.logical.joined([frame.columns for frame in inputs])
        check_key_kinds(columns, *inputs)
        sides = [_kept(number, self._timed(number, frame), columns, MIN_WATERMARK) for number, frame in enumerate(inputs)]
        output = self._finish(self._pairs(sides[0], sides[1], columns, "inner"), columns)
        return Analysis(output, dict(zip(SIDES, sides, strict=True)), late_outputs(inputs), facts=columns)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed[JoinColumns]) -> Rows:
        begin = context.watermark_begin(self.logical.name)
        states = [context.state(self.logical.name, side) for side in SIDES]
        for number, (state, frame) in enumerate(zip(states, inputs, strict=True)):
            if frame is not None:
                timed = self._timed(number, frame)
                state.append(_kept(number, self._on_time(context, number, timed, begin), analysed.facts, begin, context.varying))
        end = context.watermark_end(self.logical.name)
        found = [*self._new_pairs(states, analysed.facts, begin), *self._alone(context, states, analysed, begin, end)]
        for state, keep in zip(states, self.logical.retention, strict=True):
            _tidy(state, keep, end, context.varying)
        return all_of(*found) if found else None

    def _timed(self, number: int, frame: DataFrame) -> DataFrame:
        time = micros_of(self.logical.event_times[number])
        return frame.selectExpr("*", f"{time} AS __{SIDES[number]}_time")

    def _on_time(self, context: StageContext, number: int, rows: DataFrame, begin: int) -> DataFrame:
        time, name = f"__{SIDES[number]}_time", self.logical.name
        late = late_condition(time, f"{time} < {context.varying(begin - self.logical.reach[number], time)}", begin)
        return on_time(context, name, rows, late, time=time, port=LATE[number])

    def _new_pairs(self, states: Sequence[StateRuns], columns: JoinColumns, begin: int) -> list[DataFrame]:
        """The pairs of which this epoch brought at least one row."""
        (left_reach, right_reach), (left, right) = self.logical.reach, states
        new_left, old_left = (
            left.read(lambda file, fresh=fresh: file.fresh is fresh and not _is_past(file.high, left_reach, begin))  # type: ignore[misc]
            for fresh in (True, False)
        )
        new_right = right.read(lambda file: file.fresh)
        all_right = right.read(lambda file: not _is_past(file.high, right_reach, begin))
        sides = ((new_left, all_right), (old_left, new_right))
        met = [(one, other) for one, other in sides if one is not None and other is not None]
        return [self._finish(self._pairs(one, other, columns, "inner"), columns) for one, other in met]

    def _alone(
        self, context: StageContext, states: Sequence[StateRuns], analysed: Analysed[JoinColumns], begin: int, end: int
    ) -> list[DataFrame]:
        """The rows of which the last pair was closed in this epoch, and that were in none."""
        if end <= begin:
            return []
        found, columns = [], analysed.facts
        for number, side in enumerate(SIDES):
            if self.logical.how not in (side, "full"):
                continue
            reach = self.logical.reach[number]
            closing = states[number].read(
                lambda file, reach=reach: not _is_past(file.high, reach, begin) and (file.low is None or file.low + reach < end)  # type: ignore[misc]
            )
            if closing is None:
                continue
            time, other = f"__{side}_time", 1 - number
            first, last = (context.varying(_finite(mark) - reach, time) for mark in (begin, end))
            ended = part_of(closing.filter(f"{time} >= {first} AND {time} < {last}"), closing)
            partners = states[other].read(lambda _: True)
            if partners is None:
                partners = empty(context.session, analysed.states[SIDES[other]])
            sides = (ended, partners) if number == 0 else (partners, ended)
            alone = self._pairs(sides[0], sides[1], columns, side).filter(f"__{SIDES[other]}_time IS NULL")
            found.append(self._finish(alone, columns))
        return found

    def _pairs(self, left: DataFrame, right: DataFrame, columns: JoinColumns, how: str) -> DataFrame:
        """The rows joined, but for pairs that were closed when the second of the two came."""
        from pyspark.sql import functions as F

        logical = self.logical
        near = f"__right_time BETWEEN __left_time + ({logical.low}L) AND __left_time + ({logical.high}L)"
        still_open = "greatest(__left_time, __right_time) >= greatest(__left_begin, __right_begin)"
        return joined(left, right, F.expr(" AND ".join([*equal_keys(len(columns.keys)), near, still_open])), how)

    def _finish(self, joined: DataFrame, columns: JoinColumns) -> DataFrame:
        """The output's columns, all said to be nullable as in outer joins, for an engine that believes a union's first side."""
        keys = [text.rpartition(" AS ") for text in merged_keys(columns, self.logical.how)]
        named = [*((key, name) for key, _, name in keys), *((quoted(name), quoted(name)) for name in columns.values)]
        there = "coalesce(__left_time, __right_time) IS NOT NULL"
        return joined.selectExpr(*(f"CASE WHEN {there} THEN {value} END AS {name}" for value, name in named))


def _kept(number: int, rows: DataFrame, columns: JoinColumns, begin: int, varying: Varying = constant) -> DataFrame:
    """What the state holds of a side's rows."""
    side, keys = SIDES[number], [pair[number] for pair in columns.keys]
    extra = [f"__{side}_time", f"{varying(_finite(begin), f'__{side}_time')} AS __{side}_begin"]
    return side_rows(rows, side, keys, (columns.left, columns.right)[number], extra)


def _finite(watermark: int) -> int:
    return min(max(watermark, -_FAR), _FAR)


def _is_past(high: int | None, distance: int, watermark: int) -> bool:
    """Whether all times up to ``high`` lie more than a distance before a watermark."""
    return high is not None and high + distance < watermark


def _tidy(state: StateRuns, keep: int, watermark: int, varying: Varying) -> None:
    """Drop the rows that can have no partner any more."""
    state.drop(lambda file: _is_past(file.high, keep, watermark))

    def still_needed(frame: DataFrame) -> DataFrame:
        time = "__left_time" if "__left_time" in frame.columns else "__right_time"
        return frame.filter(f"{time} >= {varying(_finite(watermark) - keep, time)}")

    state.fold(still_needed)
