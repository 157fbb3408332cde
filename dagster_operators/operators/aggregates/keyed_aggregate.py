"""Aggregation per key without a window: an updating stream with one current row per key.

The state holds runs of mergeable partial results. An epoch writes its new rows' partials as one run, then merges, for the keys
it touched only, all that the state holds of them; those rows replace the keys' rows in the table. A stream of changes takes
``aggregate_changes.py`` instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from dagster_operators.graph.changes import ChangeKind, Changes
from dagster_operators.graph.exchange import by_keys
from dagster_operators.graph.operator import StreamType
from dagster_operators.graph.ports import InputPort
from dagster_operators.operators.aggregates.aggregate_changes import AggregateChanges
from dagster_operators.operators.aggregates.aggregates import AggregateTypes, Decomposition
from dagster_operators.operators.aggregates.aggregation import Aggregation
from dagster_operators.operators.forgetful import ForgetfulByKey
from dagster_operators.operators.forgetting_keys import forgetting_keys
from dagster_operators.operators.key_join import with_keys_of
from dagster_operators.operators.physical import Analysed, Analysis, PhysicalState, RelationalOperator, Rows, StageContext
from dagster_operators.operators.unique_rows import groups_once
from dagster_operators.types.names import quoted
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, kw_only=True)
class KeyedAggregate(ForgetfulByKey, Aggregation):
    """One row per key, brought up to date by every epoch that has rows of the key."""

    kind: ClassVar[str] = "keyed_aggregate"

    @override
    def config(self) -> dict[str, Any]:
        settings = {"keys": list(self.keys), "event_time": self.event_time, "aggregates": dict(self.aggregates)}
        return {**settings, **self.forgetting}

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        self.check(inputs[0])
        self.check_forgetting(self.keys)
        return StreamType((*self.keys, *dict(self.aggregates)), changes=Changes.upsert(self.keys))

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("input", frozenset({ChangeKind.APPEND, ChangeKind.RETRACT}), by_keys(self.keys)),)

    @override
    def side_outputs(self, inputs: Sequence[StreamType]) -> Mapping[str, StreamType]:
        return self.late_rows(inputs)

    @override
    def lower(self, inputs: Sequence[StreamType]) -> RelationalOperator[Any]:
        """Two jobs: partial results into the state, then the merge of the keys that changed."""
        if self.forget_after is not None:
            return forgetting_keys(self, inputs)
        return AggregateChanges(self) if inputs[0].changes.kind is ChangeKind.RETRACT else AggregateKeys(self)


@dataclass(frozen=True)
class AggregateKeys(RelationalOperator[AggregateTypes]):
    """The lowering of :class:`KeyedAggregate`."""

    states: ClassVar[tuple[PhysicalState, ...]] = (PhysicalState("partials"),)

    logical: KeyedAggregate

    @property
    @override
    def unique_by(self) -> tuple[tuple[str, ...], ...]:
        return (self.logical.keys,)

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis[AggregateTypes]:
        parts = self.logical.parts.for_rows(inputs[0])
        partials = parts.update(inputs[0], self._keys)
        parts = parts.for_partials(partials)
        return Analysis(self._finish(partials, parts), {"partials": partials}, facts=parts.types)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed[AggregateTypes]) -> Rows:
        if inputs[0] is None and self.logical.keys:
            return None
        parts = self.logical.parts.typed(analysed.facts)
        state = context.state(self.logical.name, "partials")
        is_unique = groups_once(self.logical.keys, analysed.states["partials"])
        if inputs[0] is not None:
            state.append(parts.update(inputs[0], self._keys))
        elif not (state.files or context.round):  # all rows have one row, also if there are none
            state.append(parts.merge(_no_rows(context.session, analysed.states["partials"]), ()))
        new = state.read(lambda file: file.fresh)
        old = state.read_with_keys_of_fresh(self.logical.keys)
        state.fold(lambda frame: parts.merge(frame, self._keys))
        if new is None:
            return None
        if old is None and is_unique:  # one row for each key already: there is nothing to bring together
            return self._results(new, parts)
        if old is not None:
            new = new.unionByName(with_keys_of(old, new, self.logical.keys, is_unique=is_unique))
        return self._finish(new, parts)

    @property
    def _keys(self) -> list[str]:
        return list(map(quoted, self.logical.keys))

    def _finish(self, frame: DataFrame, parts: Decomposition) -> DataFrame:
        return self._results(parts.merge(frame, self._keys), parts)

    def _results(self, merged: DataFrame, parts: Decomposition) -> DataFrame:
        return merged.selectExpr(*self._keys, *parts.results)


def _no_rows(session: SparkSession, schema_json: str) -> DataFrame:
    columns = (f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in Schema.from_json(schema_json).types.items())
    return session.range(0).selectExpr(*columns)
