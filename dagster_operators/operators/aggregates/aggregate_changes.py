"""Aggregation per key without a window over rows that come and go: the current row of each key, as long as it has rows.

An epoch's changes become state rows that say by how much each sum, and the weight of each value, changes. Then the groups that
were touched are put together from all that the state holds of them; a group of which nothing is left leaves the table. Without
keys all rows are one group, which has its row from the first epoch on, whether or not there is anything in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from dagster_operators.graph.changes import DELETED
from dagster_operators.operators.aggregates.aggregates import AggregateTypes
from dagster_operators.operators.aggregates.aggregation import Aggregation
from dagster_operators.operators.aggregates.weighted_partials import WeightedPartials
from dagster_operators.operators.key_join import with_keys_of
from dagster_operators.operators.physical import Analysed, Analysis, PhysicalState, RelationalOperator, Rows, StageContext
from dagster_operators.operators.relational.weighted_rows import WEIGHT
from dagster_operators.operators.unique_rows import groups_once
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class AggregateChanges(RelationalOperator[AggregateTypes]):
    """The lowering of a keyed aggregate on a stream of changes."""

    states: ClassVar[tuple[PhysicalState, ...]] = (PhysicalState("weighted"),)

    logical: Aggregation

    @property
    @override
    def unique_by(self) -> tuple[tuple[str, ...], ...]:
        return (self.logical.keys,)

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis[AggregateTypes]:
        parts = self.logical.parts.for_rows(inputs[0])
        weighted = WeightedPartials(parts)
        rows = weighted.update(inputs[0], self._keys)
        parts = parts.for_partials(weighted.restore(rows, self._keys))
        return Analysis(self._finish(rows, WeightedPartials(parts)), {"weighted": rows}, facts=parts.types)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed[AggregateTypes]) -> Rows:
        if inputs[0] is None and self.logical.keys:
            return None
        weighted = WeightedPartials(self.logical.parts.typed(analysed.facts))
        state = context.state(self.logical.name, "weighted")
        if inputs[0] is not None:
            state.append(weighted.update(inputs[0], self._keys))
        if not (self.logical.keys or state.files or context.round):
            state.append(weighted.nothing(context.session, analysed.states["weighted"]))
        new = state.read(lambda file: file.fresh)
        old = state.read_with_keys_of_fresh(self.logical.keys)
        state.fold(lambda frame: weighted.fold(frame, self._keys))
        if new is None:
            return None
        is_merged = groups_once([*self.logical.keys, *weighted.values], analysed.states["weighted"])
        if old is None:
            return self._finish(new, weighted, is_merged=is_merged)
        old = with_keys_of(old, new, self.logical.keys, is_unique=is_merged and not weighted.values)
        return self._finish(new.unionByName(old), weighted)

    @property
    def _keys(self) -> list[str]:
        return list(map(quoted, self.logical.keys))

    def _finish(self, rows: DataFrame, weighted: WeightedPartials, *, is_merged: bool = False) -> DataFrame:
        """The current row of each group; one row in all stays when there is nothing left."""
        restored = weighted.restore(rows, self._keys, is_merged=is_merged)
        if not self.logical.keys:
            return restored.selectExpr(*weighted.parts.results)
        return restored.selectExpr(*self._keys, *weighted.results, f"{WEIGHT} = 0 AS {DELETED}")
