"""The ledger: a Delta table with one row per record, appended to by compare-and-set."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final

from dagster_operators.errors import LedgerError, StorageError, located
from dagster_operators.transactions.effects import Conflict
from dagster_operators.transactions.failpoints import reach
from dagster_operators.transactions.ledger_files import (
    SCHEMA_JSON,
    active_files,
    foldable,
    read_rows,
    to_entries,
    to_row,
    write_rows,
)
from dagster_operators.transactions.manifest import FORMAT_VERSION, check_format
from dagster_operators.transactions.records import Entry, Format, Record
from dagster_operators.transactions.view import LedgerView

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction

    from dagster_operators.transactions.ledger_files import LedgerFile
    from dagster_operators.transactions.storage import Root

_CONFIGURATION: Final = {"delta.checkpointInterval": "10", "delta.logRetentionDuration": "interval 1 days"}
"""The log behind the last checkpoint is replayed at every commit, so a short interval keeps appends fast."""

_KEPT_SECONDS: Final = 3600.0
"""Folded files stay this long for readers that still have the version before."""


class DeltaLedger:
    """The ledger of one pipeline.

    Args:
        root: The pipeline's storage root.
        name: The pipeline's name; a root that holds another pipeline's ledger is refused.
    """

    def __init__(self, root: Root, name: str) -> None:
        self._root = root
        self._name = name
        self._table: DeltaTable | None = None
        self._view: LedgerView | None = None

    def view(self) -> LedgerView:
        """The ledger as it is now; it is created when there is none. Cheap when nothing is new."""
        if self._table is None or self._view is None:
            return self._open()
        if not self._root.exists(_log_file(self._view.version + 1)):
            return self._view if self._root.exists(_log_file(self._view.version)) else self._reopen(self._view)
        with self._root.guard("ledger", "the ledger cannot be read"):
            self._table.update_incremental()
            self._view = self._catch_up(self._table, self._view)
        return self._view

    def append(self, record: Record, version: int) -> LedgerView | Conflict:
        """Append a record if the ledger is still at ``version``, else give the view of now."""
        table, view = self._at(version)
        if table is None or view is None:
            return Conflict(self.view())
        entry = Entry(view.entries[-1].seq + 1 if view.entries else 1, round(time.time(), 6), record)
        add = write_rows(self._root, to_row(entry))
        if not self._commit(table, [add], []):
            return Conflict(self.view())
        self._view = view.appended(version + 1, entry)
        return self._view

    def scan(self, kinds: Collection[str], after: int = 0) -> Iterator[Entry]:
        """All records of these kinds behind ``after``, oldest first. Its cost follows the number of records."""
        self.view()
        table = self._loaded()
        for file in active_files(table):
            if file.last > after:
                with self._root.guard(f"ledger/{file.path}", "the ledger cannot be read"):
                    rows = read_rows(self._root, file)
                yield from to_entries(rows, after, kinds)

    def fold(self) -> bool:
        """Fold small files into one if there are enough. Returns whether it did."""
        view = self.view()
        table, _ = self._at(view.version)
        if table is None:
            return False
        group = foldable(active_files(table))
        if not group:
            return False
        import pyarrow as pa

        with self._root.guard("ledger", "the ledger cannot be read"):
            rows = pa.concat_tables(read_rows(self._root, file) for file in group)
        add = write_rows(self._root, rows)
        add.data_change = False
        if not self._commit(table, [add], group):
            return False
        self._view = LedgerView(view.version + 1, view.pipeline, view.name, view.entries)
        if group[-1].size_class > 0:
            self._delete_folded()
        return True

    def _open(self) -> LedgerView:
        from deltalake import DeltaTable

        with self._root.guard("ledger", "the ledger cannot be opened"):
            if not DeltaTable.is_deltatable(self._root.join("ledger"), self._root.storage_options):
                self._create()
            self._table = DeltaTable(self._root.join("ledger"), storage_options=self._root.storage_options)
        while True:
            try:
                self._view = self._tail(self._table)
            except FileNotFoundError:  # folded and deleted since this version was loaded
                self._table = DeltaTable(self._root.join("ledger"), storage_options=self._root.storage_options)
                continue
            if self._view is not None:
                return self._view
            self._write_first()

    def _reopen(self, before: LedgerView) -> LedgerView:
        """Our version is gone from the log: so many came since that it was cleaned up, or this is not our ledger any more."""
        self._table = self._view = None
        view = self._open()
        if view.pipeline != before.pipeline or view.entries[-1].seq < before.entries[-1].seq:
            raise LedgerError(
                "the ledger was removed or replaced while in use", pipeline=self._name, file=self._root.join("ledger")
            )
        return view

    def _create(self) -> None:
        from deltalake import DeltaTable, Schema
        from deltalake.exceptions import DeltaError

        if self._root.is_local:
            self._root.files.create_dir(self._root.path("ledger"))
        reach("before:create_ledger")
        try:
            DeltaTable.create(
                self._root.join("ledger"),
                Schema.from_json(SCHEMA_JSON),
                mode="error",
                name="ledger",
                description=f"The epochs of the pipeline {self._name}: what began, was prepared, decided and completed",
                configuration=_CONFIGURATION,
                storage_options=self._root.storage_options,
            )
        except DeltaError:
            # Another run may have created it just now; anything else comes up again when it is opened.
            if not DeltaTable.is_deltatable(self._root.join("ledger"), self._root.storage_options):
                raise
        reach("after:create_ledger")

    def _write_first(self) -> None:
        """The format record, by compare-and-set on the empty table: of two runs that create the ledger at once, one writes it."""
        table = self._loaded()
        entry = Entry(1, round(time.time(), 6), Format(FORMAT_VERSION, uuid.uuid4().hex, self._name))
        self._commit(table, [write_rows(self._root, to_row(entry))], [])
        table.update_incremental()

    def _tail(self, table: DeltaTable) -> LedgerView | None:
        """The view from the first file and as many of the last ones as it takes; None while the ledger is empty."""
        files = active_files(table)
        if not files:
            return None
        first = to_entries(read_rows(self._root, files[0]))[0].record
        if not isinstance(first, Format):
            raise LedgerError("the ledger does not start with its format", pipeline=self._name, file=self._root.join("ledger"))
        with located(pipeline=self._name, file=self._root.join("ledger")):
            check_format(first.format)
        if first.name != self._name:
            raise LedgerError(
                f"the storage root belongs to the pipeline {first.name!r}",
                pipeline=self._name,
                file=self._root.uri,
                remedy="choose another root",
            )
        rows = _last_rows(self._root, files)
        return LedgerView(table.version(), first.pipeline, first.name, ()).appended(table.version(), *to_entries(rows))

    def _catch_up(self, table: DeltaTable, view: LedgerView) -> LedgerView:
        last = view.entries[-1].seq
        while True:
            try:
                new = [
                    entry
                    for file in active_files(table)
                    if file.last > last
                    for entry in to_entries(read_rows(self._root, file), last)
                ]
            except FileNotFoundError:  # folded and deleted since this version was loaded
                table.update_incremental()
                continue
            return view.appended(table.version(), *sorted(new, key=lambda entry: entry.seq))

    def _at(self, version: int) -> tuple[DeltaTable | None, LedgerView | None]:
        """The table loaded at exactly ``version``; None when the ledger is not at that version any more."""
        view, table = self._view, self._table
        if view is None or table is None or view.version != version:
            return None, None
        with self._root.guard("ledger", "the ledger cannot be read"):
            if table.version() < version:  # our own last append
                table.update_incremental()
        return (table, view) if table.version() == version else (None, None)

    def _commit(self, table: DeltaTable, adds: list[AddAction], removes: list[LedgerFile]) -> bool:
        """Whether the commit went through at the table's version; False when another was there first."""
        from deltalake import CommitProperties, PostCommitHookProperties
        from deltalake.transaction import RemoveAction

        now = int(time.time() * 1000)
        dropped = [RemoveAction(file.path, False, now, file.size, {}) for file in removes]  # noqa: FBT003
        version = table.version()
        try:
            with self._root.guard("ledger", "the ledger cannot be written"):
                table.create_write_transaction(
                    [*adds, *dropped],
                    "append",
                    table.schema(),
                    commit_properties=CommitProperties(max_commit_retries=0),
                    post_commithook_properties=PostCommitHookProperties(cleanup_expired_logs=bool(removes)),
                )
        except StorageError:
            if self._root.exists(_log_file(version + 1)):  # someone was first, or it is ours and only the answer was lost
                return False
            raise
        return True

    def _delete_folded(self) -> None:
        """Delete files that were folded a while ago, and ones that were written but never committed."""
        self.view()
        active = {file.path for file in active_files(self._loaded())}
        for name in self._root.children("ledger"):
            path = f"ledger/{name}"
            if name.endswith(".parquet") and name not in active:
                written = self._root.modified(path)
                if written is not None and written < time.time() - _KEPT_SECONDS:
                    self._root.delete_file(path)

    def _loaded(self) -> DeltaTable:
        if self._table is None:
            raise LedgerError("the ledger is not open", pipeline=self._name)
        if self._view is not None and self._table.version() < self._view.version:
            self._table.update_incremental()
        return self._table


def _last_rows(root: Root, files: list[LedgerFile]) -> pa.Table:
    """The rows from the begin of the last completed epoch on (all rows when none is complete)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows: pa.Table = None
    for file in reversed(files):
        read = read_rows(root, file)
        rows = read if rows is None else pa.concat_tables([read, rows])
        complete = rows.filter(pc.equal(rows["kind"], "complete"))
        if complete.num_rows:
            epoch = pc.max(complete["epoch"]).as_py()
            begins = rows.filter(pc.and_(pc.equal(rows["kind"], "begin"), pc.equal(rows["epoch"], epoch)))
            if begins.num_rows:
                return rows.filter(pc.greater_equal(rows["seq"], pc.min(begins["seq"])))
    return rows


def _log_file(version: int) -> str:
    return f"ledger/_delta_log/{version:020d}.json"
