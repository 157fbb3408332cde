"""One row per key: the first, as an append stream, or the last, as an updating table.

The first row of a key is only known once no earlier one can come, so with an event time it comes out when the watermark has
passed it. Rows wait in one state table until then; another remembers the keys that are out, for ever or for as long as a row
within ``within`` can still be a duplicate of them. (Flink's keep-first by row time waits likewise.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.graph.alternatives import Alternative
from dagster_operators.graph.exchange import by_keys
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType, same_columns
from dagster_operators.graph.ports import InputPort
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
    StateRuns,
    Varying,
)
from dagster_operators.operators.relational.first_rows import FirstRows, alternatives, one_row_per_key
from dagster_operators.operators.relational.ranking import NUMBER, OrderItem, first_rows
from dagster_operators.operators.rows_by_time import TIME, micros_of, since, until
from dagster_operators.operators.unique_rows import groups_once
from dagster_operators.optimizer.properties.fields import Forwarding
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK, format_duration
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OF_CHANGES = "write key_by(...).deduplicate(keep=...), which takes changes too"


@dataclass(frozen=True, kw_only=True)
class DeduplicateFirst(LogicalOperator):
    """The first row of each key.

    Attributes:
        keys: The key columns.
        event_time: Orders the rows; without one the first row is that of the first epoch that has the key.
        within: After how long a key is new again, microseconds; None: never.
    """

    kind: ClassVar[str] = "deduplicate_first"
    durations: ClassVar[tuple[str, ...]] = ("within",)
    label: ClassVar[str] = "deduplicate"
    keys: tuple[str, ...]
    event_time: str | None
    within: int | None = None

    @override
    def config(self) -> dict[str, Any]:
        return {"keys": list(self.keys), "keep": "first", "event_time": self.event_time, "within": self.within}

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("input", exchange=by_keys(self.keys), remedy=_OF_CHANGES if types[0].retracting else ""),)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        self.require(inputs[0], self.keys, "key_by")
        if self.within is not None and self.within <= 0:
            raise PipelineError(
                f"within must be more than nothing, not {format_duration(self.within)}", operator=self.name,
                remedy="write within='1 day', say",
            )  # fmt: skip
        if self.within is not None and self.event_time is None:
            raise SchemaError(
                "within= needs an event time, and the stream has none", operator=self.name, remedy=inputs[0].timeless_remedy
            )
        # With within=, a row may come out epochs after the watermark has passed it.
        return replace(inputs[0], complete_windows=False)

    @override
    def forwards(self, inputs: Sequence[StreamType]) -> Forwarding:
        return Forwarding.everything()

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return same_columns(inputs[0])

    @override
    def side_outputs(self, inputs: Sequence[StreamType]) -> Mapping[str, StreamType]:
        return {"late": inputs[0]} if self.within is not None else {}

    @override
    def lower(self, inputs: Sequence[StreamType]) -> FirstOfKeys:
        """Three jobs: rows that wait and keys that are out into the state, and the rows that come out."""
        return FirstOfKeys(self)


@dataclass(frozen=True, kw_only=True)
class DeduplicateLast(LogicalOperator):
    """The last row of each key by event time, brought up to date by every epoch that has rows of the key.

    Attributes:
        keys: The key columns.
        event_time: Orders the rows.
    """

    kind: ClassVar[str] = "deduplicate_last"
    label: ClassVar[str] = "deduplicate"
    keys: tuple[str, ...]
    event_time: str | None

    @override
    def config(self) -> dict[str, Any]:
        return {"keys": list(self.keys), "keep": "last", "event_time": self.event_time}

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("input", exchange=by_keys(self.keys), remedy=_OF_CHANGES if types[0].retracting else ""),)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        stream = inputs[0]
        self.require(stream, self.keys, "key_by")
        if self.event_time is None:
            raise SchemaError(
                "the last row of a key needs an event time, and the stream has none",
                operator=self.name,
                remedy=stream.timeless_remedy,
            )
        return one_row_per_key(stream, self.keys)

    @override
    def forwards(self, inputs: Sequence[StreamType]) -> Forwarding:
        return Forwarding.everything()

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return same_columns(inputs[0])

    @override
    def lower(self, inputs: Sequence[StreamType]) -> tuple[Alternative, ...]:
        """The first row of each key from the end of time."""
        order = (OrderItem(quoted(self.event_time or ""), descending=True, nulls_first=False),)
        first = FirstRows(keys=self.keys, order=order, n=1, event_time=self.event_time, last=True)
        return alternatives(self.name, first)


@dataclass(frozen=True)
class FirstOfKeys(RelationalOperator):
    """The lowering of :class:`DeduplicateFirst`.

    Which rows come out of all that are on time is defined per key: walk through them by event time, and keep a row if no row kept
    before is nearer than ``within``. A row is on time while a row that was kept may still be nearer than that to one that is to
    come, so a row after its time cannot come out twice.
    """

    states: ClassVar[tuple[PhysicalState, ...]] = (
        PhysicalState("waiting", range_column=TIME, of_rows=True),
        PhysicalState("seen", range_column=TIME),
    )

    logical: DeduplicateFirst

    @property
    @override
    def unique_by(self) -> tuple[tuple[str, ...], ...]:
        return (self.logical.keys,) if self.logical.within is None else ()

    @property
    @override
    def asks_unique_by(self) -> tuple[str, ...] | None:
        return self.logical.keys if self.logical.within is None else None

    @property
    def _keys(self) -> list[str]:
        return list(map(quoted, self.logical.keys))

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis:
        waiting = self._timed(inputs[0])
        late = {"late": inputs[0]} if self.logical.within is not None else {}
        return Analysis(inputs[0], {"waiting": waiting, "seen": self._kept(waiting)}, late, facts=None)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed) -> Rows:
        name, keys, timeless = self.logical.name, self.logical.keys, self.logical.event_time is None
        begin = MIN_WATERMARK if timeless else context.watermark_begin(name)
        waiting, seen = context.state(name, "waiting"), context.state(name, "seen")
        are_alone = context.edges(name)[0].is_unique and not waiting.files and groups_once(keys, analysed.states["seen"])
        if inputs[0] is not None:
            waiting.append(self._on_time(context, self._timed(inputs[0]), begin))
        end = MAX_WATERMARK if timeless else context.watermark_end(name)
        rows = self._decided(waiting, begin, end, context.varying)
        waiting.drop(lambda file: file.high is not None and file.high < end)
        waiting.fold(lambda frame: self._first(since(frame, end, context.varying)))
        out = None
        if rows is not None:
            unseen = self._unseen(rows, seen.read(lambda _: True))
            seen.append(unseen.selectExpr(TIME, *self._keys) if are_alone else self._kept(unseen))
            kept = seen.read(lambda file: file.fresh)
            same_time = [f"one.{TIME} = other.{TIME}"]
            out = None if kept is None else join_by_keys(rows, kept, keys, "left_semi", conditions=same_time)
            out = out if out is None or are_alone else self._first(out)
        self._forget(seen, end, context.varying)
        return None if out is None else out.drop(TIME)

    def _timed(self, frame: DataFrame) -> DataFrame:
        time = self.logical.event_time
        value = "0L" if time is None else micros_of(time)
        return frame.selectExpr(f"{value} AS {TIME}", "*")  # first, since only the first columns of a file have statistics

    def _on_time(self, context: StageContext, rows: DataFrame, begin: int) -> DataFrame:
        within, name = self.logical.within, self.logical.name
        if self.logical.event_time is None:
            return rows
        too_late = f"{TIME} <= {context.varying(begin - (within or 0), TIME)}"
        late = late_condition(TIME, too_late, MIN_WATERMARK if within is None else begin)
        return on_time(context, name, rows, late, time=TIME)

    def _decided(self, waiting: StateRuns, begin: int, end: int, number: Varying) -> Rows:
        """The rows whose time came in this epoch; those of earlier epochs before its beginning were decided there."""
        if end == MIN_WATERMARK:
            return None
        new = waiting.read(lambda file: file.fresh and _begins_before(file, end))
        old = waiting.read(lambda file: not file.fresh and _begins_before(file, end))
        rows = None if old is None else since(old, begin, number)
        if new is not None:
            rows = new if rows is None else new.unionByName(rows)
        return None if rows is None else until(rows, end, number)

    def _unseen(self, rows: DataFrame, seen: Rows) -> DataFrame:
        """The rows that are no duplicates of rows that are out."""
        if seen is None:
            return rows
        near = [] if self.logical.within is None else [f"abs(one.{TIME} - other.{TIME}) < {self.logical.within}L"]
        return join_by_keys(rows, seen, self.logical.keys, "left_anti", conditions=near)

    def _kept(self, rows: DataFrame) -> DataFrame:
        """The keys and times of the rows that are kept when one walks through the rows of each key by time."""
        from pyspark.sql import functions as F

        grouped = rows.groupBy(*self._keys)
        if self.logical.within is None:
            return grouped.agg(F.expr(f"min({TIME})").alias(TIME)).selectExpr(TIME, *self._keys)
        keep = f"CASE WHEN size(a) = 0 OR t - element_at(a, -1) >= {self.logical.within}L THEN concat(a, array(t)) ELSE a END"
        walk = f"aggregate(sort_array(collect_set({TIME})), CAST(array() AS ARRAY<BIGINT>), (a, t) -> {keep})"
        return grouped.agg(F.expr(walk).alias("__kept")).selectExpr(f"explode(__kept) AS {TIME}", *self._keys)

    def _first(self, rows: DataFrame) -> DataFrame:
        """The rows that may come out: of each key the first, or, if it can be new again, the first of each moment."""
        groups = self._keys if self.logical.within is None else [*self._keys, TIME]
        return first_rows(rows, groups, (), self.logical.event_time, 1).drop(NUMBER)

    def _forget(self, seen: StateRuns, end: int, number: Varying) -> None:
        """Drop the keys that no row that is still on time can be a duplicate of."""
        if self.logical.within is None or end == MIN_WATERMARK:
            seen.fold(lambda rows: rows)
            return
        horizon = end - 2 * self.logical.within
        seen.drop(lambda file: file.high is not None and file.high <= horizon)
        seen.fold(lambda rows: rows.filter(f"{TIME} > {number(horizon, TIME)}"))


def _begins_before(file: RunFile, watermark: int) -> bool:
    return file.low is None or file.low < watermark
