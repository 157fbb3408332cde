"""Between streams of rows that stay and streams of changes: rows read as changes, and changes to the current row of each key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from dagster_operators.errors import SchemaError
from dagster_operators.graph.changes import (
    ADDS,
    CHANGE,
    DELETE,
    DELETED,
    INSERT,
    REMOVES,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    ChangeKind,
    Changes,
)
from dagster_operators.graph.exchange import by_keys
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType, same_columns
from dagster_operators.graph.ports import InputPort
from dagster_operators.graph.row_expressions import columns_of_row
from dagster_operators.operators.physical import Stateless
from dagster_operators.operators.relational.projection import bare_column
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DELTA_CHANGE: Final = "_change_type"
"""The column in which Delta's change data feed says what a row does."""

_OF_COMMIT: Final = ("_commit_version", "_commit_timestamp")
_OF_DELTA: Final = {"update_preimage": UPDATE_BEFORE, "update_postimage": UPDATE_AFTER}
_WAYS_OUT: Final = {
    ChangeKind.RETRACT: "its rows are changes already: leave as_changes out",
    ChangeKind.UPSERT: "its rows replace each other: write to_changes(), which makes changes of them",
}
_NET = "__do_net"
_ROWS = "__do_rows"


@dataclass(frozen=True, kw_only=True)
class AsChanges(LogicalOperator):
    """Reads rows as changes: each says itself whether it is added or taken back.

    Attributes:
        change: Spark SQL for what a row does: insert, update_before, update_after or delete, or as Delta's change data feed says
            it. A plain column is taken out of the rows; with ``_change_type`` of that feed the columns of the commit, too,
            and ``_change`` of a table of changes.
    """

    kind: ClassVar[str] = "as_changes"
    row_wise: ClassVar[bool] = True
    change: str

    @override
    def sql(self) -> tuple[str, ...]:
        return (self.change,)

    @override
    def config(self) -> dict[str, Any]:
        return {"change": self.change}

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("input", remedy=_WAYS_OUT.get(types[0].changes.kind, "")),)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        stream = inputs[0]
        self.require(stream, columns_of_row(self.change), "the change")
        gone = told_by(stream, self.change)
        columns = None if stream.columns is None else [column for column in stream.columns if column not in gone]
        return replace(stream.with_columns(columns), changes=Changes.RETRACT)

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return {column: frozenset({(0, column)}) for column in self.output(inputs).columns or ()}

    @override
    def lower(self, inputs: Sequence[StreamType]) -> ReadChanges:
        """One select, which fails on a row that says something else."""
        return ReadChanges(self)


@dataclass(frozen=True)
class ReadChanges(Stateless):
    """The lowering of :class:`AsChanges`."""

    logical: AsChanges

    @override
    def rows(self, frame: DataFrame) -> DataFrame:
        change = self.logical.change
        gone = told_by(StreamType(tuple(frame.columns)), change)
        checked = _checked(change)
        if DELTA_CHANGE in gone and CHANGE in frame.columns:
            adds = ", ".join(map(repr, ADDS))
            is_same = f"(({checked}) IN ({adds})) = (({_checked(CHANGE)}) IN ({adds}))"
            checked = f"IF({is_same}, '{INSERT}', '{DELETE}')"
        return frame.selectExpr(*(quoted(name) for name in frame.columns if name not in gone), f"{checked} AS {CHANGE}")


def _checked(change: str) -> str:
    """SQL for what a row does in our words, which fails on any other."""
    known = ", ".join(f"'{kind}'" for kind in (*ADDS, *REMOVES))
    told = f"concat('as_changes: a change is called ', coalesce(CAST(({change}) AS STRING), 'null'), ', which is none')"
    of_delta = " ".join(f"WHEN '{theirs}' THEN '{ours}'" for theirs, ours in _OF_DELTA.items())
    other = f"CASE CAST(({change}) AS STRING) {of_delta} ELSE raise_error({told}) END"
    return f"CASE WHEN ({change}) IN ({known}) THEN CAST(({change}) AS STRING) ELSE {other} END"


def told_by(stream: StreamType, change: str) -> frozenset[str]:
    """The columns that say what a row does, and are none of it: with Delta's also those of the commit.

    With Delta's also ``_change``: in the feed of a table of changes a change that is taken back is the opposite of it.
    """
    column = bare_column(stream, change)
    if column is None:
        return frozenset()
    return frozenset({column, CHANGE, *_OF_COMMIT}) if column == DELTA_CHANGE else frozenset({column})


@dataclass(frozen=True, kw_only=True)
class Latest(LogicalOperator):
    """Makes of changes the current row of each key.

    An epoch's changes of a row are added up first, so that only their net effect is left; a key whose rows were all taken back
    leaves the table. There is nothing to remember: an update brings the row that it leaves.

    Attributes:
        keys: The key columns; there is one row per key at most.
    """

    kind: ClassVar[str] = "latest"
    keys: tuple[str, ...]

    @override
    def config(self) -> dict[str, Any]:
        return {"keys": list(self.keys)}

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        last = f"key_by({', '.join(map(repr, self.keys)) or '...'}).deduplicate(keep='last')"
        remedy = f"as_changes(...) reads rows as changes; of rows that stay, {last} keeps the last of each key"
        return (InputPort("input", frozenset({ChangeKind.RETRACT}), by_keys(self.keys), remedy),)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        if not self.keys:
            raise SchemaError("the current row of what key?", operator=self.name, remedy="name the key columns: latest('id')")
        self.require(inputs[0], self.keys, "latest")
        keys = tuple(inputs[0].resolve(key) or key for key in self.keys)
        return replace(inputs[0], changes=Changes.upsert(keys), event_time=None, complete_windows=False)

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return same_columns(inputs[0])

    @override
    def lower(self, inputs: Sequence[StreamType]) -> ConsolidateRows:
        """A sum over equal rows, then one row of each key."""
        return ConsolidateRows(self)


@dataclass(frozen=True)
class ConsolidateRows(Stateless):
    """The lowering of :class:`Latest`."""

    logical: Latest

    @override
    def rows(self, frame: DataFrame) -> DataFrame:
        columns = [quoted(name) for name in frame.columns if name != CHANGE]
        keys = ", ".join(map(quoted, self.logical.keys))
        adds = ", ".join(f"'{change}'" for change in ADDS)
        net = frame.selectExpr(*columns, f"IF({CHANGE} IN ({adds}), 1L, -1L) AS {_NET}").groupBy(*columns).agg({_NET: "sum"})
        net = net.selectExpr(*columns, f"`sum({_NET})` AS {_NET}").filter(f"{_NET} <> 0")
        ranked = net.selectExpr(
            "*",
            f"sum(greatest({_NET}, 0L)) OVER (PARTITION BY {keys}) AS {_ROWS}",
            f"row_number() OVER (PARTITION BY {keys} ORDER BY {_NET} DESC) AS __do_place",
        )
        told = "raise_error('latest: a key has several rows at the end of the epoch, so it is no key')"
        gone = f"CASE WHEN {_ROWS} > 1 THEN CAST({told} AS BOOLEAN) ELSE {_ROWS} = 0 END AS {DELETED}"
        return ranked.filter("__do_place = 1").selectExpr(*columns, gone)
