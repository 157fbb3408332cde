"""Change events in any order that leave values out, where updates of rows that are not there are left out.

The state has two rows of a key: the last event that tells whether the row is there, which has all its values, and the last
update. Each value of the update is that of the last update that sent it, with the place of that update. So the two rows say how
the row of the key is, in whatever order the events came: no update waits for another event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from dagster_operators.graph.changes import OPERATION, PLACE, told_column
from dagster_operators.operators.key_join import with_keys_of
from dagster_operators.operators.physical import Rows, StageContext, StateRuns
from dagster_operators.operators.relational.event_changes import ChangesOfEvents, known_place
from dagster_operators.operators.relational.last_row import last_first
from dagster_operators.operators.relational.ranking import NUMBER, OrderItem, first_rows
from dagster_operators.operators.relational.to_changes import GONE, ONLY, SINCE, UNSENT, VERSION
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SENT: Final = "__sent_"
"""With the number of a column: its value of the last update that sent it, with the place of that."""
_TOLD: Final = "__told_"
"""With the number of a column: its value in the last event that tells whether the row is there."""
_TOLD_AT: Final = "__told_at"
"""The place of the last event that tells whether the row is there."""


@dataclass(frozen=True)
class ChangesOfIgnoredUpdates(ChangesOfEvents):
    """The lowering of a ``to_changes`` of change events in any order, by which updates of unknown rows are left out."""

    @override
    def _order_of_rows(self, rows: DataFrame) -> tuple[OrderItem, ...]:
        return last_first(self._deciding(rows), GONE)

    @override
    def _corrected(
        self, context: StageContext, state: StateRuns, events: DataFrame, columns: Sequence[str], version: int
    ) -> Rows:
        if any(file.fresh and (file.low or 0) < 0 for file in state.files):
            state.drop(lambda file: file.fresh)
            state.append(self._of_epoch(events, columns, version))
        new = state.read(lambda file: file.fresh)
        old = state.read_with_keys_of_fresh(self.keys)
        state.fold(partial(self._merged_updates, columns=columns))
        if new is None:
            return None
        there = None if old is None else with_keys_of(old, new, self.keys)
        before = new.filter("false") if there is None else self._current(there, columns)
        now = self._current(new if there is None else new.unionByName(there), columns)
        return self._changes(now, before.filter(f"NOT {ONLY}"), columns)

    def _of_epoch(self, events: DataFrame, columns: Sequence[str], version: int) -> DataFrame:
        """The two rows of each key of an epoch."""
        since = f"concat(' ', replace(trim({UNSENT}), ' ', ': '), ':') AS {SINCE}"
        rows = events.selectExpr(
            f"{version}L AS {VERSION}", *map(quoted, columns), f"coalesce({OPERATION} = 'delete', false) AS {GONE}",
            PLACE, since, f"{OPERATION} = 'update' AS {ONLY}",
        )  # fmt: skip
        return self._merged_updates(rows, columns)

    def _merged_updates(self, rows: DataFrame, columns: Sequence[str]) -> DataFrame:
        """The two rows of each key, the update with each value of the last one that sent it."""
        key = f"PARTITION BY {', '.join(map(quoted, self.keys))}, {ONLY}"
        places = {name: _place_of(name) for name in columns if name not in self.keys}
        found = {name: f"{_SENT}{number}" for number, name in enumerate(places)}
        parts = (f"struct({place} AS p, {quoted(name)} AS v) AS {found[name]}" for name, place in places.items())
        order = self._order_of_rows(rows)
        by_row = ", ".join(map(str, order))
        # A column before the window: Sail gives windows whose structs have the same names of fields each other's type.
        sent = (f"first_value({one}) OVER ({key} ORDER BY {one}.p DESC NULLS LAST, {by_row}) AS {one}" for one in found.values())
        rows = rows.selectExpr("*", *parts).selectExpr(*map(quoted, rows.columns), *sent)
        newest = (*order, OrderItem(f"abs({VERSION})", descending=True, nulls_first=False))
        last = first_rows(rows, [*map(quoted, self.keys), ONLY], newest, None, 1).drop(NUMBER)
        parts = (
            f"CASE WHEN {one}.p IS NULL OR {one}.p < {PLACE} "
            f"THEN concat(' {told_column(name)}:', coalesce(CAST({one}.p AS STRING), '')) END"
            for name, one in found.items()
        )
        since = f"CASE WHEN {ONLY} THEN nullif(concat_ws('', {', '.join(parts)}), '') END" if found else "CAST(NULL AS STRING)"
        values = (
            f"IF({ONLY}, {found[name]}.v, {quoted(name)}) AS {quoted(name)}" if name in found else quoted(name)
            for name in columns
        )
        merged = last.selectExpr(VERSION, *values, GONE, PLACE, f"{since} AS {SINCE}", ONLY)
        signed = f"IF({SINCE} IS NULL, abs({VERSION}), -abs({VERSION})) AS {VERSION}"
        return merged.selectExpr(signed, *map(quoted, columns), GONE, PLACE, SINCE, ONLY)

    def _current(self, rows: DataFrame, columns: Sequence[str]) -> DataFrame:
        """The row of each key with all its values, and whether only updates of it came."""
        key = f"PARTITION BY {', '.join(map(quoted, self.keys))}"
        others = {name: f"{_TOLD}{number}" for number, name in enumerate(columns) if name not in self.keys}
        at = f"max(CASE WHEN NOT {ONLY} THEN {PLACE} END) OVER ({key}) AS {_TOLD_AT}"
        told = (f"CASE WHEN NOT {ONLY} THEN struct({quoted(name)} AS v) END AS {one}" for name, one in others.items())
        over = (f"first_value({one}) IGNORE NULLS OVER ({key} ORDER BY {ONLY}) AS {one}" for one in others.values())
        merged = self._merged_updates(rows, columns)
        beside = merged.selectExpr("*", at, *told).selectExpr(*map(quoted, merged.columns), _TOLD_AT, *over)
        values = (
            f"IF({ONLY} AND coalesce({_place_of(name)} < {_TOLD_AT}, {_place_of(name)} IS NULL), "
            f"{others[name]}.v, {quoted(name)}) AS {quoted(name)}" if name in others else quoted(name)
            for name in columns
        )  # fmt: skip
        return self._newest(beside.selectExpr(f"abs({VERSION}) AS {VERSION}", *values, GONE, PLACE, ONLY))


def _place_of(name: str) -> str:
    """SQL for the place of the update that a column's value is of; null where none sent it."""
    return f"CASE WHEN instr({SINCE}, ' {told_column(name)}:') > 0 THEN {known_place(name)} ELSE {PLACE} END"
