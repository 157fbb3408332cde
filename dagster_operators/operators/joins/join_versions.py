"""Rows with the version that was in force at their time, from a state that has the rows and the versions that may still meet.

Of the versions of a key, sorted by time, a row has the last one up to its time. Rows and versions are put into one order, by time
with versions first, and each takes the number of versions up to it: so it costs a sort, and not the pairs of a key.

With corrections an epoch looks at its new rows, and at those that were there from the time of its earliest new version of their
key on: these are computed with the versions of before and of now, and what differs comes out. Without, a row waits until the
watermark has passed it. What lies before the time that is settled is late, so of each key the newest version before it is enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from typing_extensions import override

from dagster_operators.operators.joins.as_of_join import AsOfJoin
from dagster_operators.operators.joins.join_columns import LATE, SIDES, JoinColumns, late_outputs
from dagster_operators.operators.joins.kept_sides import JoinFacts, key_types, without_changes
from dagster_operators.operators.key_join import with_keys_of
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
)
from dagster_operators.operators.relational.ranking import total_order
from dagster_operators.operators.relational.weighted_rows import (
    WEIGHT,
    added_up,
    all_or_none,
    changes_of,
    not_there,
    taken_back,
    there,
    weight_of,
)
from dagster_operators.operators.rows_by_time import TIME, since, timed, until
from dagster_operators.time.watermark import MIN_WATERMARK
from dagster_operators.types.data_type import DataType
from dagster_operators.types.names import quoted
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SIDE: Final = "__side"
_VERSION: Final = "__version"
_PLACE: Final = "__place"
_ORDER: Final = "__order_"
"""Before the numbers of columns that are kept for the order of versions alone."""
_LAST: Final = 2**62
"""Microseconds after any event time."""
_UP_TO: Final = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"

Types = Mapping[str, DataType]


@dataclass(frozen=True)
class JoinVersions(RelationalOperator[JoinFacts]):
    """The lowering of :class:`AsOfJoin`.

    Attributes:
        logical: The join.
        retracting: Whether rows of each side are taken back.
    """

    states: ClassVar[tuple[PhysicalState, ...]] = tuple(PhysicalState(side, range_column=TIME, of_rows=True) for side in SIDES)

    logical: AsOfJoin
    retracting: tuple[bool, ...]

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis[JoinFacts]:
        left, right = without_changes(inputs, self.retracting)
        columns = self.logical.joined((left.columns, right.columns))
        kept, ordering = (columns.left, columns.right), self._ordering(columns, right.columns)
        facts = JoinFacts(columns, kept, key_types(columns, left, right), ordering)
        left, right = (self._kept(side, timed(frame, self.logical.event_times[side]), facts) for side, frame in enumerate(inputs))
        types = tuple(Schema.from_json(frame.schema.json()).types for frame in (left, right))
        output = self._finish(self._as_of(left, right, facts, types))
        return Analysis(output, {"left": left, "right": right}, late_outputs(inputs), facts=facts)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed[JoinFacts]) -> Rows:
        logical, facts = self.logical, analysed.facts
        begin, end = (logical.settled(mark(logical.name)) for mark in (context.watermark_begin, context.watermark_end))
        states = [context.state(logical.name, side) for side in SIDES]
        for side, (state, rows) in enumerate(zip(states, inputs, strict=True)):
            if rows is not None:
                state.append(self._kept(side, self._on_time(context, side, rows, begin), facts))
        types = tuple(Schema.from_json(analysed.states[side]).types for side in SIDES)
        if logical.corrections:
            found = self._corrected(states, facts, types)
        else:
            found = self._settled(context, states, facts, types, (begin, end))
        self._tidy(states, facts, types, end, context.varying)
        return self._finish(all_of(*found)) if found else None

    def _ordering(self, columns: JoinColumns, versions: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """All columns in which versions of one key and time may differ: what is handed on has no say in which one counts."""
        same = {name.lower() for name in (self.logical.event_times[1], *self.logical.right_keys)} - {
            *map(str.lower, columns.right)
        }
        named = enumerate(name for name in versions if name.lower() not in same)
        return tuple((name, name if name in columns.right else f"{_ORDER}{number}") for number, name in named)

    # --- rows as the state has them ----------------------------------------------------------------------------------

    def _on_time(self, context: StageContext, side: int, rows: DataFrame, settled: int) -> DataFrame:
        late = late_condition(TIME, f"{TIME} < {context.varying(settled, TIME)}", settled)
        return on_time(context, self.logical.name, timed(rows, self.logical.event_times[side]), late, time=TIME, port=LATE[side])

    def _kept(self, side: int, rows: DataFrame, facts: JoinFacts) -> DataFrame:
        """An epoch's rows of a side; without versions that nobody has, as their key is null."""
        weight = weight_of(retracting=self.retracting[side])
        further = [f"{quoted(name)} AS {kept}" for name, kept in facts.ordering if side == 1 and name not in facts.kept[1]]
        kept = rows.selectExpr(*facts.key_columns(side), TIME, *map(quoted, facts.kept[side]), *further, f"{weight} AS {WEIGHT}")
        if side == 1:
            kept = kept.filter(" AND ".join(f"{key} IS NOT NULL" for key in facts.keys))
        return added_up(kept) if self.retracting[side] else kept

    def _tidy(self, states: Sequence[StateRuns], facts: JoinFacts, types: Sequence[Types], settled: int, number: Varying) -> None:
        """Drop what nobody asks for any more: rows that are settled, and all but the newest version of those."""
        left, right = states
        left.drop(lambda file: file.high is not None and file.high < settled)
        taken = [added_up if one else lambda rows: rows for one in self.retracting]
        left.fold(lambda rows: since(taken[0](rows), settled, number))

        def newest(rows: DataFrame) -> DataFrame:
            return self._newest(taken[1](rows), facts, types[1], settled, number)

        right.fold(*((taken[1], newest) if self.retracting[1] else (newest,)))

    def _newest(self, versions: DataFrame, facts: JoinFacts, types: Types, settled: int, number: Varying) -> DataFrame:
        """Of the versions before a time only the newest one of each key, and all others."""
        if settled == MIN_WATERMARK:
            return versions
        open_ = f"{TIME} >= {number(min(settled, _LAST), TIME)}"
        order = ", ".join([f"{TIME} DESC", *self._latest_first(facts, types)])
        place = f"row_number() OVER (PARTITION BY {', '.join(facts.keys)}, {open_} ORDER BY {order}) AS {_PLACE}"
        return versions.selectExpr("*", place).filter(f"{open_} OR {_PLACE} = 1").drop(_PLACE)

    # --- rows with versions ------------------------------------------------------------------------------------------

    def _corrected(self, states: Sequence[StateRuns], facts: JoinFacts, types: Sequence[Types]) -> list[DataFrame]:
        """The new rows with their versions, and what changes about those that were there."""
        new = [state.read(lambda file: file.fresh) for state in states]
        if new[0] is None and new[1] is None:
            return []
        asking = [[one for side, one in enumerate(states) if side == 1 or self.retracting[0]], states]
        before, versions = (state.read_with_keys_of(asked, facts.keys) for state, asked in zip(states, asking, strict=True))
        touched = None if before is None or new[1] is None else _from_earliest(before, new[1], facts.keys)
        asked = all_or_none(*(rows.selectExpr(*facts.keys) for rows in new if rows is not None))
        if versions is not None and asked is not None:
            versions = with_keys_of(versions, asked, facts.keys)
        found = []
        if (rows := all_or_none(new[0], touched)) is not None:
            found.append(self._as_of(rows, all_or_none(versions, new[1]), facts, types))
        if touched is not None:
            found.append(taken_back(self._as_of(touched, versions, facts, types)))
        if new[0] is not None and self.retracting[0]:
            found.append(self._as_of(not_there(new[0], before), None, facts, types))
        return found

    def _settled(
        self, context: StageContext, states: Sequence[StateRuns], facts: JoinFacts, types: Sequence[Types], times: tuple[int, int]
    ) -> list[DataFrame]:
        """The rows that the watermark passed in this epoch."""
        begin, end = times
        if end <= begin:
            return []
        rows = states[0].read(lambda file: file.low is None or file.low < end)
        if rows is None:
            return []
        passed = until(since(rows, begin, context.varying), end, context.varying)
        versions = states[1].read(lambda file: file.low is None or file.low < end)
        if versions is not None:
            versions = with_keys_of(versions, passed, facts.keys)
        return [self._as_of(passed, versions, facts, types)]

    def _as_of(self, rows: DataFrame, versions: Rows, facts: JoinFacts, types: Sequence[Types]) -> DataFrame:
        """Rows with their versions' columns, and the rows' weights."""
        left, right = facts.kept
        if versions is None:
            found = rows.selectExpr(*facts.keys, *map(quoted, left), *_nulls(right, types[1]), WEIGHT)
            return self._named(found if self.logical.how == "left" else found.filter("false"), facts)
        ours = rows.selectExpr(*facts.keys, TIME, f"1 AS {_SIDE}", *map(quoted, left), *_nulls(right, types[1]), WEIGHT)
        theirs = self._versions(versions, facts, types[1]).selectExpr(
            *facts.keys, TIME, f"0 AS {_SIDE}", *_nulls(left, types[0]), *map(quoted, right), WEIGHT
        )
        keys = ", ".join(facts.keys)
        number = f"count(CASE WHEN {_SIDE} = 0 THEN 1 END) OVER (PARTITION BY {keys} ORDER BY {TIME}, {_SIDE} {_UP_TO})"
        both = theirs.union(ours).selectExpr("*", f"{number} AS {_VERSION}")
        own = f"OVER (PARTITION BY {keys}, {_VERSION} ORDER BY {_SIDE} {_UP_TO})"
        values = [f"first_value({quoted(name)}) {own} AS {quoted(name)}" for name in right]
        filled = both.selectExpr(*facts.keys, _SIDE, _VERSION, *map(quoted, left), *values, WEIGHT)
        met = f" AND {_VERSION} > 0" if self.logical.how == "inner" else ""
        return self._named(filled.filter(f"{_SIDE} = 1{met}"), facts)

    def _versions(self, rows: DataFrame, facts: JoinFacts, types: Types) -> DataFrame:
        """The versions there are, one for each key and time."""
        order = ", ".join(self._latest_first(facts, types)) or TIME
        place = f"row_number() OVER (PARTITION BY {', '.join(facts.keys)}, {TIME} ORDER BY {order}) AS {_PLACE}"
        return (there(rows) if self.retracting[1] else rows).selectExpr("*", place).filter(f"{_PLACE} = 1")

    def _latest_first(self, facts: JoinFacts, types: Types) -> list[str]:
        """Of versions of one time, the one with the greater columns is the later one."""
        kinds = {kept: types[kept] for _, kept in facts.ordering}
        return [f"{one} DESC NULLS LAST" for one in total_order(kinds, None)]

    # --- the output --------------------------------------------------------------------------------------------------

    def _named(self, rows: DataFrame, facts: JoinFacts) -> DataFrame:
        return facts.output(rows, facts.keys, [quoted(name) for name in facts.columns.values])

    def _finish(self, rows: DataFrame) -> DataFrame:
        """Rows with weights as changes, without those that cancel out; or as rows that come."""
        return changes_of(added_up(rows)) if self.logical.corrections else rows.drop(WEIGHT)


def _from_earliest(rows: DataFrame, versions: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The rows that are not before the earliest of some versions of their key."""
    from pyspark.sql import functions as F

    named = [f"{key} AS __first_{key}" for key in keys]
    first = versions.groupBy(*keys).agg({TIME: "min"}).selectExpr(*named, f"`min({TIME})` AS __first")
    same = [f"{key} = __first_{key}" for key in keys]
    met = joined(rows, part_of(first, versions), F.expr(" AND ".join([*same, f"{TIME} >= __first"])), "inner")
    return met.select(*map(quoted, rows.columns))


def _nulls(names: Sequence[str], types: Types) -> list[str]:
    return [f"CAST(NULL AS {types[name].sql}) AS {quoted(name)}" for name in names]
