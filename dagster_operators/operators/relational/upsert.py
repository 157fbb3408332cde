"""Rows each of which is the current one of its key: a row of a later epoch takes the place of the one that was there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from dagster_operators.errors import SchemaError
from dagster_operators.graph.changes import Changes
from dagster_operators.graph.exchange import by_keys
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType, same_columns
from dagster_operators.graph.ports import InputPort
from dagster_operators.operators.aggregates.partial_results import one_zero_one_nan
from dagster_operators.operators.engine_schema import schema_of
from dagster_operators.operators.physical import Analysed, Rows, StageContext, Stateless
from dagster_operators.operators.relational.to_changes import shown_keys
from dagster_operators.operators.unique_rows import groups_once
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COUNT: Final = "__rows_of_key"


@dataclass(frozen=True, kw_only=True)
class Upsert(LogicalOperator):
    """Makes an updating stream of rows: one row of each key, that of the last epoch which had some.

    Two rows of a key in one epoch fail it: rows have no order by which one of them would be the last.

    Attributes:
        keys: The key columns.
    """

    kind: ClassVar[str] = "upsert"
    stateless: ClassVar[bool] = True
    by_epoch: ClassVar[bool] = True
    keys: tuple[str, ...]

    @override
    def config(self) -> dict[str, Any]:
        return {"keys": list(self.keys)}

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("input", exchange=by_keys(self._keys_of(types[0])), remedy="leave mode='upsert' out"),)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        if not self.keys:
            raise SchemaError("the rows of what key?", operator=self.name, remedy="name the key columns: key=['id']")
        self.require(inputs[0], self.keys, "upsert")
        changes = Changes.upsert(self._keys_of(inputs[0]))
        return replace(inputs[0], event_time=None, times=None, changes=changes, complete_windows=False)

    def _keys_of(self, stream: StreamType) -> tuple[str, ...]:
        """The key columns as the stream spells them."""
        return tuple(stream.resolve(key) or key for key in self.keys)

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return same_columns(inputs[0])

    @override
    def lower(self, inputs: Sequence[StreamType]) -> OneRowOfKey:
        """The same rows, with a look at how many there are of each key."""
        return OneRowOfKey(self, self._keys_of(inputs[0]))


@dataclass(frozen=True)
class OneRowOfKey(Stateless):
    """The lowering of :class:`Upsert`: the table that the rows go to takes the earlier rows of their keys out."""

    logical: Upsert
    keys: tuple[str, ...]

    @property
    @override
    def unique_by(self) -> tuple[tuple[str, ...], ...]:
        return (self.keys,)

    @property
    @override
    def asks_unique_by(self) -> tuple[str, ...]:
        return self.keys

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed) -> Rows:
        """The rows; those that are unique by the key already are not looked at."""
        is_alone = context.edges(self.logical.name)[0].is_unique and groups_once(self.keys, analysed.output)
        return inputs[0] if is_alone else super().run(context, inputs, analysed)

    @override
    def rows(self, frame: DataFrame) -> DataFrame:
        kinds = schema_of(frame).types
        group = ", ".join(one_zero_one_nan(quoted(key), str(kinds[key]) if key in kinds else None) for key in self.keys)
        several = f"CAST(raise_error(concat('upsert: two rows of the epoch have the key ', {shown_keys(self.keys)})) AS BOOLEAN)"
        counted = frame.selectExpr("*", f"count(*) OVER (PARTITION BY {group}) AS {_COUNT}")
        return counted.filter(f"CASE WHEN {_COUNT} > 1 THEN {several} ELSE true END").drop(_COUNT)
