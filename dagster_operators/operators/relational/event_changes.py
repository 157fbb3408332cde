"""From change events to changes, with what takes the rows there are: a truncation, and values that an update leaves out.

Both are rare, and known only when an epoch's events have been taken apart. So an epoch writes the last row of each key into its
state as every ``to_changes`` does, but a truncation, or a row that is not complete, with a version below zero, which the footers
of the files tell. Where there is one, the events are read again beside the rows there were, and the state gets what they leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from typing_extensions import override

from dagster_operators.errors import BadInputError
from dagster_operators.graph.changes import CHANGE, DELETE, ENTRY, MOVE, OF_SEVERAL, OPERATION, PLACE, TRUNCATE, told_column
from dagster_operators.operators.engine_schema import schema_of
from dagster_operators.operators.key_join import with_keys_of
from dagster_operators.operators.physical import Analysed, PhysicalState, Rows, StageContext, StateRuns
from dagster_operators.operators.relational.last_row import orderable
from dagster_operators.operators.relational.ranking import OrderItem, first_rows
from dagster_operators.operators.relational.to_changes import (
    FIRST,
    GONE,
    SINCE,
    UNFILLED,
    UNSENT,
    VERSION,
    ChangesOfRows,
    newest_in,
    shown_keys,
)
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LIFE: Final = "__life"
"""How often the row of a key was deleted before: what an event leaves out is of the same life."""
_FOUND: Final = "__found_"
WAITED: Final = "__waited"
"""Of an event that waited for others: the epoch in which it came."""
STORED: Final = "__stored"
"""Whether a row is that of a key as it is, beside the events of an epoch."""
_CUT: Final = "__cut"
_TRUNCATES: Final = f"{OPERATION} = '{TRUNCATE}'"


@dataclass(frozen=True)
class ChangesOfEvents(ChangesOfRows):
    """The lowering of a ``to_changes`` of change events."""

    states: ClassVar[tuple[PhysicalState, ...]] = (PhysicalState("rows", range_column=VERSION, may_lack=(SINCE,), of_rows=True),)
    reads_twice: ClassVar[bool] = True
    of_events: ClassVar[bool] = True

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed[tuple[str, ...]]) -> Rows:
        if inputs[0] is None:
            return None
        columns, state = analysed.facts, context.state(self.logical.name, "rows")
        version = 1 + max((max(newest_in(file), -(file.low or 0)) for file in state.files), default=0)
        events, has_waited = self._with_waiting(context, taken_apart(inputs[0]))
        state.append(self._last_of_epoch(events, columns, version))
        is_whole = all(file.low is not None and file.low >= 0 for file in state.files if file.fresh or self._may_be_late)
        if is_whole and not has_waited:
            return self._beside_state(state, columns)
        return self._again(context, state, events, columns, version)

    def _with_waiting(self, context: StageContext, events: DataFrame) -> tuple[DataFrame, bool]:  # noqa: ARG002 - of others
        """An epoch's events with those that waited for others, and whether any did."""
        return events, False

    def _ready(self, context: StageContext, rows: DataFrame, names: Sequence[str]) -> DataFrame:  # noqa: ARG002
        """The events and rows of keys but for the events that wait for others, in whose place nothing is done yet.

        Args:
            context: Of the stage.
            rows: Events of an epoch, and the rows there are of their keys, which :data:`STORED` tells.
            names: The columns of which some lack values, or have those of earlier events.
        """
        return rows

    @property
    def _may_be_late(self) -> bool:
        """Whether rows keep the places of values that their events did not send: events that come late may correct these."""
        return self.logical.order is not None

    @override
    def _more_columns(self, last: DataFrame) -> list[str]:
        there = SINCE if SINCE in last.columns else f"CAST(NULL AS STRING) AS {SINCE}"
        return [there] if self._may_be_late else []

    @override
    def _order_of_rows(self, rows: DataFrame) -> tuple[OrderItem, ...]:
        place, gone, *others = super()._order_of_rows(rows)
        corrected = OrderItem(f"IF({SINCE} IS NULL, 0L, abs({VERSION}))", descending=True, nulls_first=False)
        return (place, gone, corrected, *others) if self._may_be_late else (place, gone, *others)

    @override
    def _last_of_epoch(self, frame: DataFrame, columns: Sequence[str], version: int, *, is_alone: bool = False) -> DataFrame:
        is_apart = not {UNFILLED, UNSENT}.isdisjoint(frame.columns)
        return super()._last_of_epoch(frame if is_apart else taken_apart(frame), columns, version, is_alone=is_alone)

    @property
    @override
    def _together(self) -> list[str]:
        return [*super()._together, f"({_TRUNCATES})"]

    @override
    def _version_of(self, last: DataFrame, version: int) -> str:
        if UNFILLED not in last.columns:
            return f"IF({UNSENT} IS NOT NULL OR {_TRUNCATES}, -{version}L, {version}L)"
        told = f"concat('to_changes: the value of column ', {UNFILLED}, ' was not sent for the key ', {shown_keys(self.keys)})"
        failed = f"CAST(raise_error(concat({told}, ', whose row is not there')) AS BIGINT)"
        done = f"IF({SINCE} IS NULL, {version}L, -{version}L)" if SINCE in last.columns else f"{version}L"
        return f"CASE WHEN {UNFILLED} IS NOT NULL AND {OPERATION} <> 'delete' THEN {failed} ELSE {done} END"

    def _again(self, context: StageContext, state: StateRuns, events: DataFrame, columns: Sequence[str], version: int) -> Rows:
        """What the events of this epoch change, by the rows there were."""
        told = events.filter(f"{UNSENT} IS NOT NULL OR {_TRUNCATES}")
        found = told.selectExpr(UNSENT, f"CASE WHEN {_TRUNCATES} THEN {PLACE} END AS {_CUT}").distinct().collect()
        parts = {part for row in found for part in (row[UNSENT] or "").split()}
        names = [name for name in columns if told_column(name) in parts]
        if cuts := sorted(row[_CUT] for row in found if row[_CUT] is not None):
            self._require_order(parts)
            return self._truncated(state, events, columns, cuts, names, version)
        if self.logical.order is not None:
            return self._corrected(context, state, events, columns, version)
        new, old = state.read(lambda file: file.fresh), state.read_with_keys_of_fresh(self.keys)
        there = None if old is None or new is None else self._there(with_keys_of(old, new, self.keys))
        state.drop(lambda file: file.fresh)
        state.append(self._last_of_epoch(self._filled(events, there, names), columns, version))
        return self._beside_state(state, columns)

    def _corrected(
        self, context: StageContext, state: StateRuns, events: DataFrame, columns: Sequence[str], version: int
    ) -> Rows:
        """The changes where events may come late: each value is that of the last event that sent it, of all that came."""
        old = state.read_with_keys_of_fresh(self.keys)
        state.drop(lambda file: file.fresh)
        told = self._judged(events) if self.logical.unknown == "fail" else events
        new = told.selectExpr(
            *map(quoted, columns), PLACE, f"{OPERATION} = 'delete' AS {GONE}", UNSENT, f"CAST(NULL AS STRING) AS {SINCE}",
            f"{version}L AS {VERSION}", *(name for name in (FIRST, WAITED) if name in told.columns),
        )  # fmt: skip
        there = new.filter("false") if old is None else self._newest(with_keys_of(old, events, self.keys))
        told_then = {UNSENT: f"CAST(NULL AS STRING) AS {UNSENT}", FIRST: f"CAST(NULL AS STRING) AS {FIRST}"}
        told_then[WAITED] = f"CAST(NULL AS BIGINT) AS {WAITED}"
        beside = there.selectExpr(*(told_then.get(name) or quoted(name) for name in new.columns))
        rows = new.selectExpr("*", f"false AS {STORED}").union(beside.selectExpr("*", f"true AS {STORED}"))
        names = _filled_columns(rows, [name for name in columns if name not in self.keys])
        merged = self._merged(self._ready(context, rows, names).drop(STORED), columns, names)
        state.append(self._last_of_epoch(merged, columns, version))
        found = state.read(lambda file: file.fresh)
        state.fold(self._newest)
        return None if found is None else self._changes(found, there, columns, may_be_late=False)

    def _merged(self, rows: DataFrame, columns: Sequence[str], names: Sequence[str]) -> DataFrame:
        """One row of each key, as an event that is complete."""
        hexes = {name: told_column(name) for name in names}
        place = {name: place_of(name) for name in names}
        kinds, key = schema_of(rows).types, f"PARTITION BY {', '.join(map(quoted, self.keys))}"
        last = (
            f"first_value(struct({place[name]} AS p, {GONE} AS g, {quoted(name)} AS v)) OVER ({key} ORDER BY {place[name]} DESC "
            f"NULLS LAST, {GONE} DESC, {orderable(quoted(name), kinds[name])} DESC NULLS LAST) AS {_FOUND}{hexes[name]}"
            for name in names
        )
        first = [f"max({FIRST}) OVER ({key}) AS {FIRST}"] if FIRST in rows.columns else []
        others = [quoted(name) for name in rows.columns if name != FIRST]
        newest = first_rows(
            rows.selectExpr(*others, *first, *last), list(map(quoted, self.keys)), self._order_of_rows(rows), None, 1
        )
        got = {name: f"{_FOUND}{hexes[name]}" for name in names}
        values = (
            f"IF({GONE}, {quoted(name)}, {got[name]}.v) AS {quoted(name)}" if name in got else quoted(name) for name in columns
        )
        since = ", ".join(f"IF({one}.p < {PLACE}, concat(' {hexes[name]}:', {one}.p), NULL)" for name, one in got.items())
        none = " ".join(f"WHEN {one}.p IS NULL OR {one}.g THEN '{hexes[name]}'" for name, one in got.items())
        unfilled = f"CASE WHEN {GONE} THEN NULL {none} END" if names else "CAST(NULL AS STRING)"
        told = f"IF({GONE}, NULL, nullif(concat_ws('', {since}), ''))" if names else "CAST(NULL AS STRING)"
        done = f"IF({GONE}, 'delete', 'upsert') AS {OPERATION}"
        columns_of_state = f"{unfilled} AS {UNFILLED}", f"{told} AS {SINCE}", f"CAST(NULL AS STRING) AS {UNSENT}"
        return newest.selectExpr(*values, done, PLACE, *columns_of_state, *([FIRST] if first else []))

    def _require_order(self, told: set[str]) -> None:
        """Refuse a truncation where it is not known which events are before it: no table would be right."""
        if self.logical.order is not None:
            raise BadInputError(
                "a truncation among events that may come late: which of those that come later were before it is not known",
                operator=self.logical.name, remedy="read the events in the order of their source, without order_by=",
            )  # fmt: skip
        if OF_SEVERAL in told:
            raise BadInputError(
                "a truncation in a topic of several partitions, between which there is no order", operator=self.logical.name,
                remedy="have Debezium write the table into a topic of one partition, beginning with a snapshot, and read that",
            )  # fmt: skip

    def _truncated(  # noqa: PLR0917 - all that is known of the epoch
        self,
        state: StateRuns,
        events: DataFrame,
        columns: Sequence[str],
        cuts: Sequence[int],
        names: Sequence[str],
        version: int,
    ) -> Rows:
        """All rows there were are taken back, and those come that events behind the last truncation leave."""
        stored = state.read(lambda file: not file.fresh)
        there = None if stored is None else self._there(stored)
        if self.logical.unknown == "fail":
            before = there
            for begin, end in zip([-1, *cuts], cuts, strict=False):  # events before it are judged as others are
                between = self._filled(events.filter(f"{PLACE} > {begin} AND {PLACE} < {end}"), before, names)
                rows = self._last_of_epoch(between, columns, version)
                self._changes(rows, rows.filter("false") if before is None else before, columns).count()
                before = None
        state.drop(lambda _: True)
        left = self._filled(events.filter(f"{PLACE} > {cuts[-1]}"), None, names)
        state.append(self._last_of_epoch(left, columns, version))
        new = state.read(lambda _: True)
        given = None if new is None else self._changes(new, new.filter("false"), columns)
        taken = None if there is None else there.selectExpr(*map(quoted, columns), f"'{DELETE}' AS {CHANGE}")
        return given.union(taken) if given is not None and taken is not None else taken if given is None else given

    def _filled(self, events: DataFrame, there: DataFrame | None, names: Sequence[str]) -> DataFrame:
        """The events with the values that they leave out, which the row of their key has as those before them left it.

        Args:
            events: The events; truncations among them count for nothing.
            there: The rows there are before them, of their keys at least.
            names: The columns whose values some leave out.
        """
        columns = [name for name in events.columns if name not in (*ENTRY, UNSENT)]
        rows = events.filter(f"NOT {_TRUNCATES}")
        if there is not None:
            first = f"'upsert' AS {OPERATION}", f"-1L AS {PLACE}", f"CAST(NULL AS STRING) AS {UNSENT}"
            rows = rows.unionByName(there.selectExpr(*map(quoted, columns), *first))
        key = f"PARTITION BY {', '.join(map(quoted, self.keys))}"
        rows = rows.selectExpr("*", f"count_if({OPERATION} = 'delete') OVER ({key} ORDER BY {PLACE}) AS {_LIFE}")
        left = {name: f"coalesce(instr({UNSENT}, ' {told_column(name)} ') > 0, false)" for name in names}
        found = {name: f"{_FOUND}{told_column(name)}" for name in names}
        last = (
            f"last_value(CASE WHEN {OPERATION} <> 'delete' AND NOT {lacks} THEN struct({quoted(name)} AS v) END) IGNORE NULLS "
            f"OVER ({key}, {_LIFE} ORDER BY {PLACE}) AS {found[name]}"
            for name, lacks in left.items()
        )
        values = (
            f"IF({left[name]}, {found[name]}.v, {quoted(name)}) AS {quoted(name)}" if name in left else quoted(name)
            for name in columns
        )
        nothing = (f"{lacks} AND {found[name]} IS NULL THEN '{told_column(name)}'" for name, lacks in left.items())
        unfilled = f"CAST({' '.join(['CASE', *(f'WHEN {one}' for one in nothing), 'END']) if names else 'NULL'} AS STRING)"
        filled = rows.selectExpr("*", *last).filter(f"{PLACE} >= 0").selectExpr(*values, *ENTRY, f"{unfilled} AS {UNFILLED}")
        return filled.filter(f"{UNFILLED} IS NULL") if self._ignores else filled


def taken_apart(frame: DataFrame) -> DataFrame:
    """Events with what is done to the row apart from the columns whose values are left out."""
    columns = [quoted(name) for name in frame.columns if name != OPERATION]
    told = f"CASE WHEN instr({OPERATION}, ' ') > 0 THEN concat(substring({OPERATION}, instr({OPERATION}, ' ')), ' ') END"
    done = f"substring_index({OPERATION}, ' ', 1)"
    return frame.selectExpr(*columns, f"IF({done} = '{MOVE}', 'delete', {done}) AS {OPERATION}", f"{told} AS {UNSENT}")


def lacks(name: str) -> str:
    """SQL for whether an event leaves a column's value out."""
    return f"coalesce(instr({UNSENT}, ' {told_column(name)} ') > 0, false)"


def place_of(name: str) -> str:
    """SQL for the place of the event that a column's value is of; null where it was left out."""
    return f"CASE WHEN {lacks(name)} THEN NULL ELSE coalesce({known_place(name)}, {PLACE}) END"


def may_be_filled(name: str) -> str:
    """SQL for whether a column's value is of another event than its row."""
    return f"({lacks(name)} OR {known_place(name)} IS NOT NULL)"


def known_place(name: str) -> str:
    """SQL for the place of an earlier event that a column's value is of; null where it is not of one."""
    return f"CAST(nullif(regexp_extract({SINCE}, ' {told_column(name)}:(-?[0-9]+)', 1), '') AS BIGINT)"


def _filled_columns(rows: DataFrame, columns: Sequence[str]) -> list[str]:
    """The columns of which some values are of other events than their rows."""
    found = rows.selectExpr(*(f"coalesce(max({may_be_filled(name)}), false)" for name in columns)).collect() if columns else [()]
    return [name for name, some in zip(columns, found[0], strict=True) if some]
