"""From the current rows of keys to changes: what a row replaces is taken back, from a state that has the current row of each key.

It is what Flink calls a changelog normalisation. Of an epoch's rows of a key the last one counts; next to the row that was there
it makes an insert, both sides of an update, a delete, or nothing. So duplicates, changes of rows that nobody knew, and updates
that do not say what was before are put right here, and nothing behind it has to know of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from dagster_operators.errors import PipelineError, SchemaError, StorageError
from dagster_operators.graph.changes import (
    CHANGE,
    DELETE,
    DELETED,
    ENTRY,
    INSERT,
    OPERATION,
    PLACE,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    ChangeKind,
    Changes,
)
from dagster_operators.graph.exchange import by_keys
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType, same_columns
from dagster_operators.graph.ports import InputPort
from dagster_operators.graph.row_expressions import columns_of_row
from dagster_operators.operators.engine_schema import schema_of
from dagster_operators.operators.key_join import kinds_to_compare, same_key, with_keys_of
from dagster_operators.operators.physical import (
    Analysed,
    Analysis,
    PhysicalState,
    RelationalOperator,
    Rows,
    RunFile,
    StageContext,
    StateRuns,
)
from dagster_operators.operators.relational.last_row import comes_before, last_first
from dagster_operators.operators.relational.ranking import NUMBER, OrderItem, first_rows
from dagster_operators.operators.unique_rows import groups_once
from dagster_operators.types.data_type import DataType
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VERSION: Final = "__version"
GONE: Final = "__gone"
UNSENT: Final = "__unsent"
"""Of an event: the columns whose values it leaves out; null for none."""
UNFILLED: Final = "__unfilled"
"""Of one whose values were looked up: a column of which none was found, by :func:`told_column`."""
SINCE: Final = "__since"
"""Of a row with values that its event did not send, where events may come late: the places of those that they are of."""
FIRST: Final = "__first"
_BEFORE: Final = "__before"
_LAST_TOLD: Final = "__told"
_LEFT: Final = "__left"
_WITHIN: Final = "then "
"""Before an operation that does not fit the one before it in the same epoch, whatever the state has."""
_OLD: Final = "__old_"
_NEW: Final = "__new"
_OLD_GONE: Final = "__old_gone"
_OLD_PLACE: Final = "__old_place"
_LAST_PLACE: Final = (OrderItem(PLACE, descending=True, nulls_first=False),)
ONLY: Final = "__only_updates"
"""Of a key that only updates came of: it is not there unless it was before."""
_POLICIES: Final = ("repair", "ignore", "fail")


@dataclass(frozen=True, kw_only=True)
class ToChanges(LogicalOperator):
    """Makes changes of rows each of which is the current one of its key.

    Attributes:
        keys: The key columns; of an updating stream its own.
        order: Of an append stream, Spark SQL by which the last row of a key is found, within an epoch and among epochs: a row
            that comes before the one that is there is left out. Of equal order :mod:`.last_row` decides. None for the order in
            which a source has them.
        deleted: Of an append stream, Spark SQL for whether a row says that its key is gone.
        unknown: What an update or delete of a key does that is not there: ``repair`` inserts the updated row and leaves the
            delete out, ``ignore`` leaves both out, ``fail`` fails the epoch; so does then an insert of a key that is there. Every
            row is judged by what those before it left, so it does not matter how they are cut into epochs. Rows that say nothing
            of an operation bring their row in any case.
        max_deleted: Where each epoch has all rows there are (an extract), so that what it lacks is gone: the share of the rows
            there are that one may lack. None where epochs add up. Nothing that is stored depends on how large it is.
    """

    kind: ClassVar[str] = "to_changes"
    keys: tuple[str, ...] = ()
    order: str | None = None
    deleted: str | None = None
    unknown: str = "repair"
    max_deleted: float | None = None

    @override
    def sql(self) -> tuple[str, ...]:
        return tuple(text for text in (self.order, self.deleted) if text is not None)

    @override
    def config(self) -> dict[str, Any]:
        extracts = {} if self.max_deleted is None else {"extracts": True}
        return {"keys": list(self.keys), "order": self.order, "deleted": self.deleted, "unknown": self.unknown, **extracts}

    @override
    def without_state(self) -> str:
        known = "keys that were known are unknown then, and updates of them are left out until an event brings their row"
        return known if self.unknown == "ignore" else ""

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        accepts = frozenset({ChangeKind.APPEND, ChangeKind.UPSERT})
        remedy = "its rows are changes already: leave to_changes out"
        return (InputPort("input", accepts, by_keys(self.keys_of(types[0])), remedy),)

    def keys_of(self, stream: StreamType) -> tuple[str, ...]:
        """The key columns as the stream spells them."""
        return stream.keys if stream.keys is not None else tuple(stream.resolve(key) or key for key in self.keys)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        stream = inputs[0]
        if self.unknown not in _POLICIES:
            raise PipelineError(
                f'unknown is "repair", "ignore" or "fail", not {self.unknown!r}', operator=self.name, remedy="choose one of them"
            )
        if stream.updating:
            self._check_plain()
        else:
            self._check_keyed(stream)
        columns = None if stream.columns is None else [name for name in stream.columns if name not in ENTRY]
        changes = replace(stream.with_columns(columns), changes=Changes.RETRACT, complete_windows=False)
        return changes if self._of_a_source(stream) else replace(changes, event_time=None)

    def _of_a_source(self, stream: StreamType) -> bool:
        """Whether the rows are events or extracts, whose event time is that of the row: what is taken back has its own."""
        return self.max_deleted is not None or PLACE in (stream.columns or ())

    def _check_plain(self) -> None:
        if self.keys or self.order or self.deleted:
            raise SchemaError(
                "an updating stream knows its keys, and has one row of each in an epoch", operator=self.name,
                remedy="write to_changes()",
            )  # fmt: skip

    def _check_keyed(self, stream: StreamType) -> None:
        if not self.keys:
            raise SchemaError("the changes of what key?", operator=self.name, remedy="name the key columns: to_changes('id')")
        self._require_keys(stream)
        if self.max_deleted is None and self.order is None and stream.columns is not None and PLACE not in stream.columns:
            raise SchemaError(
                "which row of a key is the last one? Rows have no order of their own", operator=self.name,
                remedy="name a column that grows: to_changes('id', order_by='updated_at')",
            )  # fmt: skip
        for text in self.sql():
            self.require(stream, columns_of_row(text), "to_changes")

    def _require_keys(self, stream: StreamType) -> None:
        """See that the key columns are there; the key of change events and extracts is a setting of their source."""
        if not self._of_a_source(stream):
            self.require(stream, self.keys, "to_changes")
            return
        for name in self.keys:
            if stream.resolve(name) is None:
                there = [column for column in stream.columns or () if column not in ENTRY]
                raise SchemaError(
                    f"the source's key={name!r} is no column of it", operator=self.name, column=name,
                    remedy=f"use one of: {', '.join(there)}",
                )  # fmt: skip

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return {name: origins for name, origins in same_columns(inputs[0]).items() if name not in ENTRY}

    @override
    def lower(self, inputs: Sequence[StreamType]) -> ChangesOfRows:
        """The last row of each key beside the one in the state."""
        if self.max_deleted is not None:
            from dagster_operators.operators.relational.extract_changes import ChangesOfExtracts

            return ChangesOfExtracts(self, self.keys_of(inputs[0]))
        if inputs[0].columns is not None and PLACE in inputs[0].columns:
            from dagster_operators.operators.relational.event_changes import ChangesOfEvents
            from dagster_operators.operators.relational.ignored_updates import ChangesOfIgnoredUpdates
            from dagster_operators.operators.relational.late_events import ChangesOfLateEvents

            in_any_order = {"repair": ChangesOfLateEvents, "ignore": ChangesOfIgnoredUpdates}
            kind = in_any_order.get(self.unknown, ChangesOfEvents) if self.order is not None else ChangesOfEvents
            return kind(self, self.keys_of(inputs[0]))
        return ChangesOfRows(self, self.keys_of(inputs[0]))


@dataclass(frozen=True)
class ChangesOfRows(RelationalOperator[tuple[str, ...]]):
    """The lowering of :class:`ToChanges`.

    The state has runs of rows: the version that its epoch wrote, the row, and whether its key is gone. The newest row of a key
    counts, so runs fold in any order; which keys are gone need not be known once there is nothing older. Where updates of unknown
    keys are ignored, an update counts by what is older than it, and so both are kept as long as some runs are left out.
    """

    states: ClassVar[tuple[PhysicalState, ...]] = (PhysicalState("rows", range_column=VERSION, of_rows=True),)
    of_events: ClassVar[bool] = False
    """Whether rows say what is done to the row of their key: of others none updates a row that is not there."""

    logical: ToChanges
    keys: tuple[str, ...]

    @property
    @override
    def asks_unique_by(self) -> tuple[str, ...] | None:
        return None if self.of_events or self.logical.max_deleted is not None else self.keys

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis[tuple[str, ...]]:
        columns = tuple(name for name in inputs[0].columns if name not in (*ENTRY, DELETED))
        rows = self._last_of_epoch(inputs[0], columns, 0)
        return Analysis(self._changes(rows, rows, columns), {"rows": rows}, facts=columns)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed[tuple[str, ...]]) -> Rows:
        if inputs[0] is None:
            return None
        columns, state = analysed.facts, context.state(self.logical.name, "rows")
        version = 1 + max((newest_in(file) for file in state.files), default=0)
        is_alone = context.edges(self.logical.name)[0].is_unique and groups_once(self.keys, analysed.states["rows"])
        state.append(self._last_of_epoch(inputs[0], columns, version, is_alone=is_alone))
        return self._beside_state(state, columns)

    def _beside_state(self, state: StateRuns, columns: Sequence[str]) -> Rows:
        """What the rows change that this epoch wrote into the state."""
        new = state.read(lambda file: file.fresh)
        old = state.read_with_keys_of_fresh(self.keys)
        state.fold(self._deciding_rows, None if self.logical.order is not None else self._there)
        if new is None:
            return None
        there = None if old is None else with_keys_of(old, new, self.keys)
        before = new.filter("false") if there is None else self._newest(there)
        if self._ignores_late:
            new = self._newest(new if there is None else new.unionByName(there))
        if self._ignores:
            before = before.filter(f"NOT {ONLY}")
        return self._changes(new, before, columns)

    def _last_of_epoch(self, frame: DataFrame, columns: Sequence[str], version: int, *, is_alone: bool = False) -> DataFrame:
        """The last row of each key of an epoch, as the state has them.

        Args:
            frame: The rows.
            columns: The columns of a row.
            version: The version of the epoch.
            is_alone: Whether no two rows have one key.
        """
        logical, marked = self.logical, DELETED in frame.columns
        if OPERATION in frame.columns:
            operation, place = OPERATION, PLACE
        else:
            gone = DELETED if marked else logical.deleted
            operation = "'upsert'" if gone is None else f"CASE WHEN {gone} THEN 'delete' ELSE 'upsert' END"
            place = f"({logical.order})" if logical.order else "0L"
        more = [name for name in (UNSENT, UNFILLED, SINCE, FIRST) if name in frame.columns]
        rows = frame.selectExpr(*map(quoted, columns), f"{operation} AS {OPERATION}", f"{place} AS {PLACE}", *more)
        if logical.unknown == "fail" and FIRST not in rows.columns:
            rows = self._judged(rows)
        if self._ignores and not self._ignores_late:
            rows = self._known_within(rows, PLACE, f"{OPERATION} <> 'update'", f"{OPERATION} = 'delete'")
        order = _LAST_PLACE if logical.order is None else last_first(self._deciding(rows), f"{OPERATION} = 'delete'")
        last = rows if marked or is_alone else first_rows(rows, self._together, order, None, 1).drop(NUMBER)
        return last.selectExpr(
            f"{self._version_of(last, version)} AS {VERSION}",
            *map(quoted, columns),
            f"coalesce({OPERATION} = 'delete', false) AS {GONE}",
            *([PLACE] if logical.order is not None else []),
            *self._more_columns(last),
            *([FIRST] if logical.unknown == "fail" else []),
            *([f"{OPERATION} = 'update' AS {ONLY}" if self._ignores_late else ONLY] if self._ignores else []),
        )

    def _more_columns(self, last: DataFrame) -> list[str]:  # noqa: ARG002 - others look at the rows
        """SQL for further columns of the state."""
        return []

    @property
    def _together(self) -> list[str]:
        """SQL for what rows of an epoch have in common one of which is left."""
        return [*map(quoted, self.keys), *([f"({OPERATION} = 'update')"] if self._ignores_late else [])]

    def _version_of(self, last: DataFrame, version: int) -> str:  # noqa: ARG002 - others look at the rows
        """SQL for the version of the rows that an epoch leaves."""
        return f"{version}L"

    @property
    def _ignores(self) -> bool:
        return self.logical.unknown == "ignore" and self.of_events

    @property
    def _ignores_late(self) -> bool:
        """Whether what is unknown when it comes may be known by what comes later: updates are judged when they are read."""
        return self._ignores and self.logical.order is not None

    def _known_within(self, rows: DataFrame, order: str, telling: str, gone: str) -> DataFrame:
        """The rows of keys without the updates that come when their key is gone, and whether nothing tells that it is there.

        Args:
            rows: Rows of any kind.
            order: Their order.
            telling: SQL for whether a row tells whether its key is there, whatever was before.
            gone: SQL for whether it is gone then.
        """
        key = f"PARTITION BY {', '.join(map(quoted, self.keys))}"
        pairs = ((telling, _LAST_TOLD), (gone, _LEFT))
        told, left = (f"max(CASE WHEN {one} THEN {order} END) OVER ({key}) AS {name}" for one, name in pairs)
        columns = [quoted(name) for name in rows.columns if name != ONLY]
        found = rows.selectExpr("*", told, left).filter(f"NOT coalesce({_LAST_TOLD} = {_LEFT} AND {order} > {_LAST_TOLD}, false)")
        return found.selectExpr(*columns, f"{_LAST_TOLD} IS NULL AS {ONLY}")

    def _judged(self, rows: DataFrame) -> DataFrame:
        """The rows with the first operation of their key, or with one that the row before it in the epoch does not allow."""
        key = f"PARTITION BY {', '.join(map(quoted, self.keys))}"
        in_order = f"{key} ORDER BY {PLACE}, {OPERATION} DESC"
        first = f"first_value({OPERATION}) OVER ({in_order}) AS {FIRST}"
        before = rows.selectExpr("*", first, f"lag({OPERATION}) OVER ({in_order}) AS {_BEFORE}")
        after_delete = f"{_BEFORE} = 'delete' AND {OPERATION} IN ('update', 'delete')"
        wrong = f"({after_delete}) OR ({_BEFORE} <> 'delete' AND {OPERATION} = 'insert')"
        found = f"min(CASE WHEN {wrong} THEN concat('{_WITHIN}', {OPERATION}) END) OVER ({key})"
        return before.selectExpr(*map(quoted, rows.columns), f"coalesce({found}, {FIRST}) AS {FIRST}")

    def _order_of_rows(self, rows: DataFrame) -> tuple[OrderItem, ...]:
        """What rows of a key with an order are sorted by, the last first."""
        return last_first(self._deciding(rows), GONE)

    def _newest(self, rows: DataFrame) -> DataFrame:
        """The newest row of each key."""
        if self._ignores:
            order_of = PLACE if self._ignores_late else VERSION
            rows = self._known_within(rows, order_of, f"NOT {ONLY}", f"NOT {ONLY} AND {GONE}")
        ordered = self._order_of_rows(rows) if self.logical.order is not None else ()
        order = (*ordered, OrderItem(VERSION, descending=True, nulls_first=False))
        return first_rows(rows, list(map(quoted, self.keys)), order, None, 1).drop(NUMBER)

    def _deciding_rows(self, rows: DataFrame) -> DataFrame:
        """The rows of some runs that may yet count.

        Where updates of unknown keys are ignored, a key may have two: the last that tells whether it is there, and the last
        update. Between them there may be one that tells otherwise, in a run that is larger and so is not folded with these.
        """
        if not self._ignores:
            return self._newest(rows)
        ordered = last_first(self._deciding(rows), GONE) if self._ignores_late else ()
        newest = (*ordered, OrderItem(VERSION, descending=True, nulls_first=False))
        return first_rows(rows, [*map(quoted, self.keys), ONLY], newest, None, 1).drop(NUMBER)

    def _deciding(self, rows: DataFrame) -> dict[str, DataType]:
        """The columns that decide between rows of a key that have the same place, with their types."""
        others = {*self.keys, *ENTRY, VERSION, GONE, UNSENT, SINCE, FIRST, ONLY}
        return {name: kind for name, kind in schema_of(rows).types.items() if name not in others}

    def _there(self, rows: DataFrame) -> DataFrame:
        """The newest rows of the keys that are not gone."""
        return self._newest(rows).filter(f"NOT {GONE} AND NOT {ONLY}" if self._ignores else f"NOT {GONE}")

    def _changes(self, new: DataFrame, old: DataFrame, columns: Sequence[str], *, may_be_late: bool = True) -> DataFrame:
        """What the new rows change, beside the old rows of their keys.

        Args:
            new: The new rows.
            old: The old ones.
            columns: The columns of a row.
            may_be_late: Whether a new row may come before the old one of its key, where rows have an order.
        """
        from pyspark.sql import functions as F

        ordered = self.logical.order is not None
        named = {name: f"{_OLD}{number}" for number, name in enumerate(columns)}
        kinds = schema_of(new).types
        kept = [f"{quoted(name)} AS {old_name}" for name, old_name in named.items()]
        before = old.selectExpr(*kept, f"{GONE} AS {_OLD_GONE}", *([f"{PLACE} AS {_OLD_PLACE}"] if ordered else []))
        compared = kinds_to_compare(new)
        on = " AND ".join(same_key(quoted(key), named[key], compared.get(key)) for key in self.keys) or "true"
        same = " AND ".join(same_value(quoted(name), old_name, kinds[name]) for name, old_name in named.items())
        there = f"coalesce(NOT {_OLD_GONE}, false)"
        stale = (
            f" OR ({comes_before(self._deciding(new), named, GONE, _OLD_PLACE, _OLD_GONE)})"
            if ordered and may_be_late and not self._ignores_late
            else ""
        )
        unknown = f" OR ({ONLY} AND NOT {there})" if self._ignores else ""
        nothing = f"({there} AND NOT {GONE} AND {same}){stale}{unknown}"
        taken = f"CASE WHEN {nothing} OR NOT {there} THEN NULL WHEN {GONE} THEN '{DELETE}' ELSE '{UPDATE_BEFORE}' END"
        given = f"CASE WHEN {nothing} OR {GONE} THEN NULL WHEN {there} THEN '{UPDATE_AFTER}' ELSE '{INSERT}' END"
        if self.logical.unknown == "fail":
            given = f"CASE WHEN {_unexpected(there)} THEN CAST(raise_error({_told(self.keys)}) AS STRING) ELSE {given} END"
        joined = new.join(before, F.expr(on), "left")
        sides = {**{quoted(name): (old_name, quoted(name)) for name, old_name in named.items()}, CHANGE: (taken, given)}
        both = joined.selectExpr("*", f"explode(array(false, true)) AS {_NEW}")
        chosen = (f"CASE WHEN {_NEW} THEN {now} ELSE {then} END AS {name}" for name, (then, now) in sides.items())
        return both.selectExpr(*chosen).filter(f"{CHANGE} IS NOT NULL")


def newest_in(file: RunFile) -> int:
    """The newest version in a file of the state."""
    if file.high is None:
        raise StorageError(
            "a file of the state does not tell which versions it has", file=file.path,
            remedy="put the table's log back from a backup; or pipeline.rebuild() computes the state anew",
        )  # fmt: skip
    return file.high


def same_value(one: str, other: str, kind: DataType) -> str:
    """SQL for whether two values are equal; maps are compared as text."""
    if kind.has_order:
        return f"{one} <=> {other}"
    return f"to_json(named_struct('value', {one})) <=> to_json(named_struct('value', {other}))"


def shown_keys(keys: Sequence[str]) -> str:
    """SQL for the values of a key as arguments of ``concat``."""
    return ", ', ', ".join(f"coalesce(CAST({quoted(key)} AS STRING), 'null')" for key in keys)


def _unexpected(there: str) -> str:
    of_state = f"(NOT {there} AND {FIRST} IN ('update', 'delete')) OR ({there} AND {FIRST} = 'insert')"
    return f"startswith({FIRST}, '{_WITHIN}') OR {of_state}"


def _told(keys: Sequence[str]) -> str:
    """SQL for what is wrong with a row whose key is there and should not be, or the other way round."""
    operation = f"replace({FIRST}, '{_WITHIN}', '')"
    there = f"CASE WHEN {operation} = 'insert' THEN ', which is there' ELSE ', which is not there' END"
    return f"concat('to_changes: a row of the operation ', {operation}, ' has the key ', {shown_keys(keys)}, {there})"
