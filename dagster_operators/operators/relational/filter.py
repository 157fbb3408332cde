"""Filter: the rows for which a condition is true.

On an updating stream a row that no longer passes must leave the table, so there a filter marks rows as deleted (the column
``__deleted``) instead of leaving them out; the table's writer does the rest. Of a retracting stream each change is filtered by
itself: a row that comes to pass is added, one that passes no more is taken back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from dagster_operators.errors import SchemaError
from dagster_operators.graph.changes import DELETED
from dagster_operators.graph.expressions import without_comments
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType, same_columns
from dagster_operators.graph.ports import ANY, InputPort
from dagster_operators.graph.row_expressions import columns_of_row, generator_of
from dagster_operators.operators.physical import Stateless
from dagster_operators.optimizer.properties.fields import Forwarding
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True)
class Filter(LogicalOperator):
    """Keeps the rows for which a condition is true."""

    kind: ClassVar[str] = "filter"
    row_wise: ClassVar[bool] = True
    condition: str

    @property
    @override
    def gives_one_at_most(self) -> bool:
        return True

    @override
    def sql(self) -> tuple[str, ...]:
        return (self.condition,)

    @override
    def config(self) -> dict[str, Any]:
        return {"condition": self.condition}

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("input", ANY),)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        self.require(inputs[0], columns_of_row(self.condition), "the condition")
        generator = generator_of(self.condition)
        if generator is not None:
            raise SchemaError(
                f"{generator}() makes several rows of one, and a condition is one value", operator=self.name,
                expression=self.condition, remedy="unnest before the filter: unnest('xs AS x').filter('x > 1')",
            )  # fmt: skip
        return inputs[0]

    @override
    def reads(self, inputs: Sequence[StreamType], wanted: frozenset[str]) -> Sequence[frozenset[str] | None]:
        return [wanted | columns_of_row(self.condition)]

    @override
    def forwards(self, inputs: Sequence[StreamType]) -> Forwarding:
        return Forwarding.everything()

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return same_columns(inputs[0])

    @override
    def lower(self, inputs: Sequence[StreamType]) -> FilterRows | MarkRows:
        """Spark's filter; on an updating stream a mark."""
        return MarkRows(self) if inputs[0].updating else FilterRows(self)


@dataclass(frozen=True)
class FilterRows(Stateless):
    """The lowering of :class:`Filter` on an append stream."""

    logical: Filter

    @override
    def rows(self, frame: DataFrame) -> DataFrame:
        return frame.filter(self.logical.condition)


@dataclass(frozen=True)
class MarkRows(Stateless):
    """The lowering of :class:`Filter` on an updating stream."""

    logical: Filter

    @override
    def rows(self, frame: DataFrame) -> DataFrame:
        gone = f"NOT coalesce(({without_comments(self.logical.condition)}), false)"
        if DELETED in frame.columns:  # of a row that is gone the condition may well fail
            gone = f"CASE WHEN {DELETED} THEN true ELSE {gone} END"
        return frame.selectExpr(*(quoted(name) for name in frame.columns if name != DELETED), f"{gone} AS {DELETED}")
