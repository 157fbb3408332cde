"""Between streams of rows that stay and streams of changes: rows read as changes, and changes to the current row of each key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from dagster_operators.errors import SchemaError
from dagster_operators.graph.alternatives import Alternative, ChangesAreRaw, RowsGoToTable
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
from dagster_operators.operators.one_task import made_of
from dagster_operators.operators.physical import (
    Analysed,
    Analysis,
    OwnTable,
    PhysicalState,
    RelationalOperator,
    Rows,
    StageContext,
    Stateless,
    TableOperator,
)
from dagster_operators.operators.relational.projection import bare_column
from dagster_operators.operators.relational.weighted_rows import WEIGHT, added_to_state, weighted
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
_THERE = "__do_there"
_SEVERAL: Final = "CAST(raise_error('latest: a key has several rows at the end of the epoch, so it is no key') AS BOOLEAN)"


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
    leaves the table. Of changes that operators make nothing is remembered: an update brings the row that it leaves. A user's
    log may take back rows that are not there, or before they come: of it all rows are kept, each with how often it is there.

    Attributes:
        keys: The key columns; there is one row per key at most.
        remembers: Whether rows are kept, so that the result is the same however the changes are cut into epochs. Plans of
            earlier versions say nothing of it: they keep none, and compare with the rows of a table right behind.
    """

    kind: ClassVar[str] = "latest"
    keys: tuple[str, ...]
    remembers: bool = False

    @override
    def keeps_state(self, inputs: Sequence[StreamType]) -> bool:
        return self.remembers

    @override
    def going_on(self, before: LogicalOperator, were: Sequence[str], are: Sequence[str]) -> Latest:
        """As it was: rows of earlier epochs, which were not kept, cannot be had."""
        return replace(self, remembers=before.remembers) if isinstance(before, Latest) else self

    @override
    def config(self) -> dict[str, Any]:
        return {"keys": list(self.keys), **({"remembers": True} if self.remembers else {})}

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
    def lower(self, inputs: Sequence[StreamType]) -> tuple[Alternative, ...]:
        """A sum over equal rows, then one row of each key; of changes from outside with the rows of earlier epochs."""
        if self.remembers:
            return (Alternative("with all rows", ConsolidateAllRows(self)),)
        beside = Alternative("beside its table", ConsolidateBesideTable(self), (RowsGoToTable(), ChangesAreRaw()))
        return (beside, Alternative("by itself", ConsolidateRows(self)))


@dataclass(frozen=True)
class ConsolidateRows(Stateless):
    """The lowering of :class:`Latest` where the row that is there need not be looked at."""

    logical: Latest

    @property
    @override
    def unique_by(self) -> tuple[tuple[str, ...], ...]:
        return (self.logical.keys,)

    @override
    def rows(self, frame: DataFrame) -> DataFrame:
        return _current_rows(_net(frame), self.logical.keys)


@dataclass(frozen=True)
class ConsolidateAllRows(RelationalOperator):
    """The lowering of :class:`Latest` that keeps all rows, as changes of a user's log may take back what is not there."""

    states: ClassVar[tuple[PhysicalState, ...]] = (PhysicalState("weighted", of_rows=True),)
    logical: Latest

    @property
    @override
    def unique_by(self) -> tuple[tuple[str, ...], ...]:
        return (self.logical.keys,)

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis:
        rows = weighted(inputs[0])
        return Analysis(self._current(rows), {"weighted": rows}, facts=None)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed) -> Rows:
        if inputs[0] is None:
            return None
        state = context.state(self.logical.name, "weighted")
        new, before = added_to_state(state, weighted(inputs[0]), self.logical.keys)
        if new is None:
            return None
        return self._current(new if before is None else new.unionByName(before))

    def _current(self, rows: DataFrame) -> DataFrame:
        """The row of each key, from all rows with weights; a key that has none is marked as deleted, with a row it had."""
        columns = [quoted(name) for name in rows.columns if name != WEIGHT]
        summed = rows.groupBy(*columns).agg({WEIGHT: "sum"}).selectExpr(*columns, f"`sum({WEIGHT})` AS {_NET}")
        return _current_rows(summed, self.logical.keys)


@dataclass(frozen=True)
class ConsolidateBesideTable(TableOperator):
    """The lowering of :class:`Latest` that leaves a row in its table which is not the one that is taken back."""

    remembers: ClassVar[bool] = False
    logical: Latest

    @property
    @override
    def replaces_by(self) -> tuple[str, ...]:
        return self.logical.keys

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis:
        net = _net(inputs[0])
        return Analysis(self._changed(net, net.select(*_columns_of(net))), facts=None)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed, table: OwnTable) -> Rows:
        if inputs[0] is None:
            return None
        net, kept = table.beside(made_of(_net(inputs[0]), inputs[0]), lambda rows: rows)
        if net is None:
            return None
        return self._changed(net, net.select(*_columns_of(net)).filter("false") if kept is None else kept)

    def _changed(self, net: DataFrame, kept: DataFrame) -> DataFrame:
        """The rows that are another one now, and those that are gone: what is taken back is the row that is there, or nothing."""
        columns = _columns_of(net)
        both = net.selectExpr(*columns, _NET, f"0L AS {_THERE}").union(
            kept.selectExpr(*columns, f"0L AS {_NET}", f"1L AS {_THERE}")
        )
        added = both.groupBy(*columns).agg({_NET: "sum", _THERE: "sum"})
        added = added.selectExpr(*columns, f"`sum({_NET})` AS {_NET}", f"`sum({_THERE})` AS {_THERE}")
        taken = f"({_NET} < 0 AND {_THERE} > 0)"
        chosen = _ranked(added, self.logical.keys, f"greatest({_NET}, 0L) DESC, {taken} DESC").filter(f"{_ROWS} > 0 OR {taken}")
        return chosen.selectExpr(*columns, f"CASE WHEN {_ROWS} > 1 THEN {_SEVERAL} ELSE {_ROWS} = 0 END AS {DELETED}")


def _columns_of(frame: DataFrame) -> list[str]:
    return [quoted(name) for name in frame.columns if name not in (CHANGE, _NET, _THERE)]


def _net(frame: DataFrame) -> DataFrame:
    """The rows of changes, each with how often it was added more than taken back."""
    columns = _columns_of(frame)
    adds = ", ".join(f"'{change}'" for change in ADDS)
    net = frame.selectExpr(*columns, f"IF({CHANGE} IN ({adds}), 1L, -1L) AS {_NET}").groupBy(*columns).agg({_NET: "sum"})
    return net.selectExpr(*columns, f"`sum({_NET})` AS {_NET}").filter(f"{_NET} <> 0")


def _current_rows(net: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The row of each key, or one that is marked as deleted."""
    gone = f"CASE WHEN {_ROWS} > 1 THEN {_SEVERAL} ELSE {_ROWS} = 0 END AS {DELETED}"
    return _ranked(net, keys, f"{_NET} DESC").selectExpr(*_columns_of(net), gone)


def _ranked(net: DataFrame, keys: Sequence[str], order: str) -> DataFrame:
    """The first row of each key, with how many rows the key has."""
    key = ", ".join(map(quoted, keys))
    ranked = net.selectExpr(
        "*",
        f"sum(greatest({_NET}, 0L)) OVER (PARTITION BY {key}) AS {_ROWS}",
        f"row_number() OVER (PARTITION BY {key} ORDER BY {order}) AS __do_place",
    )
    return ranked.filter("__do_place = 1")
