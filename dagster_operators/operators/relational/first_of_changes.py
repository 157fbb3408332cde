"""The first rows of each key, of rows that come and go: who follows moves up when one of them is taken back.

So all rows are kept, not only the first ones. An epoch puts the keys that it touches into order anew; the places that nobody has
any more leave the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final

from typing_extensions import override

from dagster_operators.graph.changes import DELETED
from dagster_operators.operators.engine_schema import schema_of
from dagster_operators.operators.physical import Analysed, Analysis, PhysicalState, RelationalOperator, Rows, StageContext
from dagster_operators.operators.relational.first_rows import FirstRows
from dagster_operators.operators.relational.ranking import OrderItem
from dagster_operators.operators.relational.weighted_rows import WEIGHT, added_to_state, repeated, weighted
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_EMPTY: Final = "__empty"
_PLACE: Final = "__place"


@dataclass(frozen=True)
class FirstRowsOfChanges(RelationalOperator):
    """The first rows of each key, where rows are also taken back.

    Attributes:
        name: The operator's name.
        first: Which rows.
    """

    states: ClassVar[tuple[PhysicalState, ...]] = (PhysicalState("weighted", of_rows=True),)

    name: str
    first: FirstRows

    @property
    @override
    def unique_by(self) -> tuple[tuple[str, ...], ...]:
        return self.first.unique_by

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis:
        rows = weighted(inputs[0])
        return Analysis(self._ranked(rows, rows), {"weighted": rows}, facts=None)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed) -> Rows:
        if inputs[0] is None:
            return None
        new, before = added_to_state(context.state(self.name, "weighted"), weighted(inputs[0]), self.first.keys)
        if new is None:
            return None
        return self._ranked(new if before is None else new.unionByName(before), new)

    def _ranked(self, rows: DataFrame, touched: DataFrame) -> DataFrame:
        """The places of the keys that were touched, from all their rows; one that nobody has is marked as deleted.

        Behind the rows of a key come as many that stand for nobody.
        """
        first, keys = self.first, self.first.quoted_keys
        kinds = {quoted(name): kind for name, kind in schema_of(rows).types.items() if name != WEIGHT}
        nobody = touched.groupBy(*keys).agg({WEIGHT: "count"}).selectExpr(
            *(name if name in keys else f"CAST(NULL AS {kind.sql}) AS {name}" for name, kind in kinds.items()),
            f"explode(sequence(1, {first.n})) AS {_PLACE}",
        )  # fmt: skip
        everybody = repeated(rows, first.n, keys).selectExpr(*kinds, f"false AS {_EMPTY}")
        all_ = everybody.union(nobody.selectExpr(*kinds, f"true AS {_EMPTY}"))
        ranked = replace(first, order=(OrderItem(_EMPTY), *first.order)).ranked(all_)
        return ranked.selectExpr(*(quoted(name) for name in ranked.columns if name != _EMPTY), f"{_EMPTY} AS {DELETED}")
