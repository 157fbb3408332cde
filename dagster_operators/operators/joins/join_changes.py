"""What an epoch's changes of two sides change about their join, from a state that has all rows of both sides with their weights.

Weights multiply: of rows that are there twice and three times there are six pairs. With L and R as they were, and dL and dR that
come, the pairs change by dL * (R + dR) + L * dR (Budiu et al., DBSP, 2023). A row that comes out for want of a partner, or since
it has one, changes where it is new, or where rows came or went that may be its partners. Rows are looked up in the state by key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final

from typing_extensions import override

from dagster_operators.errors import SchemaError
from dagster_operators.graph.changes import CHANGE, ChangeKind, Changes
from dagster_operators.graph.operator import StreamType
from dagster_operators.operators.engine_schema import schema_of
from dagster_operators.operators.forgetting_keys import SINCE, ForgettingKeys, KeyedInput
from dagster_operators.operators.joins.join import Join
from dagster_operators.operators.joins.join_columns import LATE, ONE_SIDED, SIDES, equal_keys
from dagster_operators.operators.joins.kept_sides import JoinFacts, key_names, key_types, without_changes
from dagster_operators.operators.one_task import all_of, joined, part_of
from dagster_operators.operators.physical import Analysed, Analysis, PhysicalState, RelationalOperator, Rows, StageContext
from dagster_operators.operators.relational.weighted_rows import (
    WEIGHT,
    added_up,
    all_or_none,
    changes_of,
    not_there,
    taken_back,
    weight_of,
)
from dagster_operators.types.data_type import DataType, Plain
from dagster_operators.types.names import quoted
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_JUDGED: Final[Mapping[str, tuple[int, ...]]] = {"left": (0,), "right": (1,), "full": (0, 1), "semi": (0,), "anti": (0,)}
"""The sides of which rows come out by whether they have a partner."""


@dataclass(frozen=True)
class JoinChanges(RelationalOperator[JoinFacts]):
    """The lowering of :class:`Join`.

    Attributes:
        logical: The join.
        retracting: Whether rows of each side are taken back.
    """

    states: ClassVar[tuple[PhysicalState, ...]] = tuple(PhysicalState(side, of_rows=True) for side in SIDES)

    logical: Join
    retracting: tuple[bool, ...]

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis[JoinFacts]:
        left, right = without_changes(inputs, self.retracting)
        names = (left.columns, right.columns)
        columns = self.logical.joined(names)
        facts = JoinFacts(columns, self.logical.kept(names), key_types(columns, left, right))
        left, right = (self._weighted(number, frame, facts) for number, frame in enumerate(inputs))
        self._check_condition(left, right, facts)
        if self.logical.how in ONE_SIDED:
            types = [schema_of(side).types for side in (left, right)]
            rows = self._alone(0, self._partnered(0, left, right, facts, has=True), types, facts)
        else:
            rows = self._pairs(left, right, facts)
        return Analysis(self._finish(rows), {"left": left, "right": right}, facts=facts)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed[JoinFacts]) -> Rows:
        facts = analysed.facts
        states = [context.state(self.logical.name, side) for side in SIDES]
        for number, (state, rows) in enumerate(zip(states, inputs, strict=True)):
            if rows is not None:
                state.append(self._weighted(number, rows, facts))
        new = [state.read(lambda file: file.fresh) for state in states]
        if new[0] is None and new[1] is None:
            return None
        asking = [[one for number, one in enumerate(states) if number != side or self._asks_itself(side)] for side in (0, 1)]
        old = [state.read_with_keys_of(asked, facts.keys) for state, asked in zip(states, asking, strict=True)]
        for state, taken in zip(states, self.retracting, strict=True):
            state.fold(added_up if taken else lambda rows: rows)
        types = [Schema.from_json(analysed.states[side]).types for side in SIDES]
        found = [] if self.logical.how in ONE_SIDED else self._changed_pairs(new, old, facts)
        for side in _JUDGED.get(self.logical.how, ()):
            found += [self._alone(side, rows, types, facts) for rows in self._judged(side, new, old, facts)]
        found += [
            self._alone(side, not_there(rows, old[side]), types, facts)
            for side, rows in enumerate(new)
            if rows is not None and self.retracting[side]
        ]
        return None if not found else self._finish(all_of(*found))

    def _asks_itself(self, side: int) -> bool:
        """Whether the rows that a side had of the keys that it has new rows of are asked for."""
        return self.retracting[side] or 1 - side in _JUDGED.get(self.logical.how, ())

    # --- rows as the state has them ----------------------------------------------------------------------------------

    def _weighted(self, side: int, rows: DataFrame, facts: JoinFacts) -> DataFrame:
        """An epoch's rows of a side; without those that come out never, as their key is null."""
        weight = weight_of(retracting=self.retracting[side])
        kept = rows.selectExpr(*facts.key_columns(side), *map(quoted, facts.kept[side]), f"{weight} AS {WEIGHT}")
        if side not in _JUDGED.get(self.logical.how, ()) or self.logical.how == "semi":
            kept = kept.filter(" AND ".join(f"{name} IS NOT NULL" for name in facts.keys))
        return added_up(kept) if self.retracting[side] else kept

    def _side(self, side: int, rows: DataFrame, facts: JoinFacts, *, whole: bool = True) -> DataFrame:
        """Rows of the state as one side of a join: keys and weights are named by the side.

        Args:
            side: Which one.
            rows: Its rows.
            facts: What is known of them.
            whole: All columns; else those that the condition reads.
        """
        read = {name.lower() for name in self.logical.conditions_columns()}
        if side == 1:
            read -= {key.lower() for key in self.logical.keys}
        ours = (self.logical.keys, self.logical.right_keys)[side]
        named = [f"{name} AS {quoted(key)}" for name, key in zip(facts.keys, ours, strict=True) if key.lower() in read]
        values = [name for name in facts.kept[side] if whole or name.lower() in read]
        keys = [f"{name} AS __{SIDES[side]}_{number}" for number, name in enumerate(facts.keys)]
        return part_of(rows.selectExpr(*keys, *named, *map(quoted, values), f"{WEIGHT} AS __{SIDES[side]}_rows"), rows)

    def _joined(self, left: DataFrame, right: DataFrame, facts: JoinFacts, how: str) -> DataFrame:
        from pyspark.sql import functions as F

        condition = [] if self.logical.condition is None else [f"({self.logical.condition})"]
        return joined(left, right, F.expr(" AND ".join([*equal_keys(len(facts.keys)), *condition])), how)

    def _check_condition(self, left: DataFrame, right: DataFrame, facts: JoinFacts) -> None:
        """Raise for a condition that is not true or false: Sail tells it while an epoch runs."""
        if self.logical.condition is None:
            return
        pairs = self._side(0, left, facts, whole=False).crossJoin(self._side(1, right, facts, whole=False))
        kind = schema_of(pairs.selectExpr(f"({self.logical.condition}) AS holds")).fields[0].type
        if kind != Plain("boolean"):
            raise SchemaError(
                f"the condition ({self.logical.condition}) is a {kind}, not true or false",
                operator=self.logical.name, expression=self.logical.condition,
                remedy="write what has to hold for a pair, such as condition='price > least'",
            )  # fmt: skip

    # --- pairs -------------------------------------------------------------------------------------------------------

    def _changed_pairs(self, new: Sequence[Rows], old: Sequence[Rows], facts: JoinFacts) -> list[DataFrame]:
        """The pairs of which at least one row is new."""
        now = all_or_none(old[1], new[1])
        met = [(new[0], now, 0), (old[0], new[1], 1)]
        return [self._pairs(left, right, facts, few) for left, right, few in met if left is not None and right is not None]

    def _pairs(self, left: DataFrame, right: DataFrame, facts: JoinFacts, few: int = 0) -> DataFrame:
        """The pairs of two sides; that with few rows stands first, of which Sail makes a table to look the others up in."""
        sides = [self._side(side, rows, facts) for side, rows in enumerate((left, right))]
        keys = [f"__left_{number}" for number in range(len(facts.keys))]
        values = [quoted(name) for name in facts.columns.values]
        joined = self._joined(sides[few], sides[1 - few], facts, "inner")
        return facts.output(joined, keys, values, "__left_rows * __right_rows")

    # --- rows by whether they have a partner -------------------------------------------------------------------------

    def _judged(self, side: int, new: Sequence[Rows], old: Sequence[Rows], facts: JoinFacts) -> list[DataFrame]:
        """The rows of a side that come out, or no longer do, by whether they have partners."""
        mine, before, others = new[side], old[side], new[1 - side]
        touched = None if before is None or others is None else self._partnered(side, before, others, facts, has=True)
        now = self._there(1 - side, all_or_none(old[1 - side], others))
        found = []
        if (rows := all_or_none(mine, touched)) is not None:
            found.append(self._partnered(side, rows, now, facts, has=self.logical.how == "semi"))
        if touched is not None:
            then = self._partnered(side, touched, self._there(1 - side, old[1 - side]), facts, has=self.logical.how == "semi")
            found.append(taken_back(then))
        return found

    def _there(self, side: int, rows: Rows) -> Rows:
        """The rows of a side that are there."""
        return rows if rows is None or not self.retracting[side] else added_up(rows).filter(f"{WEIGHT} > 0")

    def _partnered(self, side: int, rows: DataFrame, others: Rows, facts: JoinFacts, *, has: bool) -> DataFrame:
        """The rows of a side that have a partner among the others, or that have none."""
        if others is None:
            return rows.filter("false") if has else rows
        partners = self._side(1 - side, others, facts, whole=False)
        mine = self._side(side, rows, facts)
        joined = self._joined(mine, partners, facts, "left_semi" if has else "left_anti")
        keys = [f"__{SIDES[side]}_{number} AS {name}" for number, name in enumerate(facts.keys)]
        return joined.selectExpr(*keys, *map(quoted, facts.kept[side]), f"__{SIDES[side]}_rows AS {WEIGHT}")

    def _alone(self, side: int, rows: DataFrame, types: Sequence[Mapping[str, DataType]], facts: JoinFacts) -> DataFrame:
        """Rows of one side as output, with nulls for the other's columns."""
        own = facts.kept[side]
        values = [quoted(name) if name in own else f"CAST(NULL AS {types[1 - side][name].sql})" for name in facts.columns.values]
        return facts.output(rows, facts.keys, values)

    # --- the output --------------------------------------------------------------------------------------------------

    def _finish(self, rows: DataFrame) -> DataFrame:
        """Rows with weights as rows that come, or as changes; what cancels out is left out."""
        kinds = [Changes.RETRACT if taken else Changes.APPEND for taken in self.retracting]
        stay = self.logical.gives(kinds).kind is ChangeKind.APPEND
        changes = changes_of(rows if stay and self.logical.how == "inner" else added_up(rows))
        return changes.drop(CHANGE) if stay else changes


def forgetting_join(join: Join, inputs: Sequence[StreamType]) -> ForgettingKeys[JoinFacts]:
    """The lowering of one that forgets keys of which neither side has had a row for a while."""
    sides = (join.keys, join.right_keys)
    keys, right_keys = ((*keys, SINCE) for keys in sides)
    within = replace(join, keys=keys, right_keys=right_keys, forget_after=None, event_times=())
    keyed = tuple(KeyedInput(*one) for one in zip(sides, join.event_times, LATE, strict=True))
    taken = tuple(stream.retracting for stream in inputs)
    return ForgettingKeys(join.name, JoinChanges(within, taken), keyed, key_names(len(keys)), join.forget_after or 0)
