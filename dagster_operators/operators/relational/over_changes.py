"""Window functions over rows that come and go: the keys that an epoch touches are computed as they were, and as they are.

All rows are kept, each with how often it is there. What the rows of a key gave before the epoch is taken back, and what they give
now added; what is the same in both cancels out, so that only the rows whose values change come out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from dagster_operators.operators.aggregates.partial_results import one_zero_one_nan
from dagster_operators.operators.engine_kind import reads_like_spark
from dagster_operators.operators.engine_schema import schema_of
from dagster_operators.operators.physical import Analysed, Analysis, PhysicalState, RelationalOperator, Rows, StageContext
from dagster_operators.operators.relational.over import Over
from dagster_operators.operators.relational.ranking import OrderItem, total_order
from dagster_operators.operators.relational.weighted_rows import WEIGHT, added_to_state, added_up, changes_of, repeated, weighted
from dagster_operators.operators.relational.window_functions import OF_ROW, Order
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class OverChanges(RelationalOperator[tuple[tuple[str, str, str | None], ...]]):
    """The lowering of :class:`Over`; what it finds out is the SQL of each new column.

    Attributes:
        logical: The operator.
        retracting: Whether its rows are taken back.
    """

    states: ClassVar[tuple[PhysicalState, ...]] = (PhysicalState("weighted", of_rows=True),)

    logical: Over
    retracting: bool

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis[tuple[tuple[str, str, str | None], ...]]:
        rows = self._weighted(inputs[0])
        plain = rows.drop(WEIGHT)
        order = self._order(plain)
        written = tuple((name, *call.sql(order, self.logical.frame, plain)) for name, call in self.logical.calls.items())
        return Analysis(self._changes(rows, rows, written), {"weighted": rows}, facts=written)

    @override
    def run(
        self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed[tuple[tuple[str, str, str | None], ...]]
    ) -> Rows:
        if inputs[0] is None:
            return None
        state = context.state(self.logical.name, "weighted")
        new, before = added_to_state(state, self._weighted(inputs[0]), self.logical.keys)
        if new is None:
            return None
        return self._changes(new if before is None else new.unionByName(before), before, analysed.facts)

    def _weighted(self, rows: DataFrame) -> DataFrame:
        return weighted(rows) if self.retracting else added_up(rows.selectExpr("*", f"1L AS {WEIGHT}"))

    def _order(self, rows: DataFrame) -> Order:
        """The orders, with floating-point numbers as Spark compares them."""
        logical, kinds = self.logical, schema_of(rows).types
        items = logical.order
        typed = schema_of(rows.selectExpr(*(f"({item.expression}) AS item_{n}" for n, item in enumerate(items)))).fields
        kinds_of = tuple(str(one.type) for one in typed)
        same = (one_zero_one_nan(f"({item.expression})", kind) for item, kind in zip(items, kinds_of, strict=True))
        ordered = tuple(OrderItem(text, item.descending, item.nulls_first) for text, item in zip(same, items, strict=True))
        key = tuple(one_zero_one_nan(quoted(name), str(kinds[name])) for name in self._key_columns(rows))
        like_spark = reads_like_spark(rows.sparkSession)
        return Order(key, ordered, kinds_of, tuple(total_order(kinds, logical.event_time, like_spark=like_spark)))

    def _key_columns(self, rows: DataFrame) -> list[str]:
        spelt = {name.lower(): name for name in rows.columns}
        return [spelt[key.lower()] for key in self.logical.keys]

    def _changes(self, now: DataFrame, before: DataFrame | None, written: Sequence[tuple[str, str, str | None]]) -> DataFrame:
        """What the rows give now, less what they gave before."""
        keys = [quoted(name) for name in self._key_columns(now)]
        given = self._placed(repeated(now, keys=keys), written).selectExpr("*", f"1L AS {WEIGHT}")
        if before is not None:
            given = given.union(self._placed(repeated(before, keys=keys), written).selectExpr("*", f"-1L AS {WEIGHT}"))
        return changes_of(added_up(given))

    def _placed(self, rows: DataFrame, written: Sequence[tuple[str, str, str | None]]) -> DataFrame:
        """The rows with their new columns."""
        given = [quoted(name) for name in rows.columns]
        first = rows.selectExpr("*", *(f"{sql} AS {quoted(name)}" for name, sql, _ in written))
        if all(of_peers is None for _, _, of_peers in written):
            return first
        taken = [
            quoted(name) if of_peers is None else f"{of_peers.replace(OF_ROW, quoted(name))} AS {quoted(name)}"
            for name, _, of_peers in written
        ]
        return first.selectExpr(*given, *taken)
