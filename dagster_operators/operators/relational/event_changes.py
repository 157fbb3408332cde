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
from dagster_operators.operators.key_join import with_keys_of
from dagster_operators.operators.physical import Analysed, Rows, StageContext, StateRuns
from dagster_operators.operators.relational.to_changes import UNFILLED, UNSENT, ChangesOfRows, newest_in, shown_keys
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LIFE: Final = "__life"
"""How often the row of a key was deleted before: what an event leaves out is of the same life."""
_FOUND: Final = "__found_"
_CUT: Final = "__cut"
_TRUNCATES: Final = f"{OPERATION} = '{TRUNCATE}'"


@dataclass(frozen=True)
class ChangesOfEvents(ChangesOfRows):
    """The lowering of a ``to_changes`` of change events."""

    reads_twice: ClassVar[bool] = True
    of_events: ClassVar[bool] = True

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed[tuple[str, ...]]) -> Rows:
        if inputs[0] is None:
            return None
        columns, state = analysed.facts, context.state(self.logical.name, "rows")
        version = 1 + max((newest_in(file) for file in state.files), default=0)
        state.append(self._last_of_epoch(inputs[0], columns, version))
        if all(file.low is not None and file.low >= 0 for file in state.files if file.fresh):
            return self._beside_state(state, columns)
        return self._again(state, _taken_apart(inputs[0]), columns, version)

    @override
    def _last_of_epoch(self, frame: DataFrame, columns: Sequence[str], version: int) -> DataFrame:
        return super()._last_of_epoch(frame if UNFILLED in frame.columns else _taken_apart(frame), columns, version)

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
        return f"CASE WHEN {UNFILLED} IS NOT NULL AND {OPERATION} <> 'delete' THEN {failed} ELSE {version}L END"

    def _again(self, state: StateRuns, events: DataFrame, columns: Sequence[str], version: int) -> Rows:
        """What the events of this epoch change, by the rows there were."""
        told = events.filter(f"{UNSENT} IS NOT NULL OR {_TRUNCATES}")
        found = told.selectExpr(UNSENT, f"CASE WHEN {_TRUNCATES} THEN {PLACE} END AS {_CUT}").distinct().collect()
        parts = {part for row in found for part in (row[UNSENT] or "").split()}
        names = [name for name in columns if told_column(name) in parts]
        if cuts := sorted(row[_CUT] for row in found if row[_CUT] is not None):
            self._require_order(parts)
            return self._truncated(state, events, columns, cuts, names, version)
        new, old = state.read(lambda file: file.fresh), state.read_with_keys_of_fresh(self.keys)
        there = None if old is None or new is None else self._there(with_keys_of(old, new, self.keys))
        state.drop(lambda file: file.fresh)
        state.append(self._last_of_epoch(self._filled(events, there, names), columns, version))
        return self._beside_state(state, columns)

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


def _taken_apart(frame: DataFrame) -> DataFrame:
    """Events with what is done to the row apart from the columns whose values are left out."""
    columns = [quoted(name) for name in frame.columns if name != OPERATION]
    told = f"CASE WHEN instr({OPERATION}, ' ') > 0 THEN concat(substring({OPERATION}, instr({OPERATION}, ' ')), ' ') END"
    done = f"substring_index({OPERATION}, ' ', 1)"
    return frame.selectExpr(*columns, f"IF({done} = '{MOVE}', 'delete', {done}) AS {OPERATION}", f"{told} AS {UNSENT}")
