"""One Delta table of the pipeline: what it says of itself, and its commit, once per epoch."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Final

from dagster_operators.errors import DamagedTableError, LostFileError, RestoredTableError, StorageError
from dagster_operators.storage.causes import way_out
from dagster_operators.storage.delta_commit import (
    CHANGE_FEED,
    GONE,
    PIPELINE_PROPERTY,
    Stamp,
    TableLog,
    is_plain,
    unkept_settings,
)
from dagster_operators.storage.delta_log import entry_path
from dagster_operators.storage.log_damage import damage, mend, settle
from dagster_operators.storage.log_entries import versions_of
from dagster_operators.storage.log_entry import LogEntry
from dagster_operators.storage.log_history import added_since, marked_files
from dagster_operators.storage.log_sense import refusals
from dagster_operators.storage.presence import lost_files
from dagster_operators.storage.uri import public_uri
from dagster_operators.transactions.effects import (
    CommitTable,
    Conflict,
    CreateTable,
    DropDataset,
    RestoreTable,
    TableStatus,
)
from dagster_operators.transactions.logged import as_read, bounds_of, logged, partition_of, unlogged
from dagster_operators.transactions.lost import PUT_BACK, how_to_repair, lost_error, lost_table, written_files
from dagster_operators.transactions.manifest import FileEntry
from dagster_operators.types.schema import Schema, comments_of

if TYPE_CHECKING:
    from dagster_operators.storage.root import Root

_EPOCH: Final = re.compile(r"e(\d+)-")
_AT_ONCE: Final = 16
"""So many tables are asked about at a time."""

_LOOKED_BACK: Final = 20
"""So many versions before the present one are tried for a table that is put back."""


@dataclass
class _Known:
    """A table as last seen or committed. ``files`` are the active ones by path; None while nobody asked for them."""

    status: TableStatus
    stamp: Stamp
    schema_json: str
    plain: bool
    has_feed: bool
    files: Mapping[str, FileEntry] | None = None


@dataclass(frozen=True)
class _Version:
    """A version of a table."""

    version: int
    schema_json: str
    files: Mapping[str, FileEntry]


class Tables:
    """The tables of one pipeline; what is known of them is kept between epochs, so that in steady state no log is read.

    Threads may share one: those that ask for the same table take turns.
    """

    def __init__(self, root: Root) -> None:
        self._root = root
        self._known: dict[str, _Known] = {}
        self._versions: dict[str, _Version] = {}
        self._logs: dict[str, TableLog] = {}
        self._turns: dict[str, threading.RLock] = {}

    def status(self, dataset: str, pipeline: str, *, recent: bool = False) -> TableStatus:
        """What the table says now. Cheap when nobody wrote since we last looked.

        Args:
            dataset: The table.
            pipeline: Whose it should be.
            recent: On an object store it may be what it said some seconds ago.
        """
        with self._turn(dataset):
            return self._status(dataset, pipeline, recent=recent)

    def statuses(self, datasets: Collection[str], pipeline: str, *, recent: bool = False) -> dict[str, TableStatus]:
        """What several tables say; an object store is asked about all of them at once."""
        if self._root.is_local or len(datasets) == 1:
            return {dataset: self.status(dataset, pipeline, recent=recent) for dataset in datasets}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = pool.map(lambda dataset: self.status(dataset, pipeline, recent=recent), datasets)
            return dict(zip(datasets, found, strict=True))

    def _status(self, dataset: str, pipeline: str, *, recent: bool = False) -> TableStatus:
        known, log = self._known.get(dataset), self._log(dataset)
        if known and known.stamp != GONE:
            version = known.status.version
            if recent and log.was_last(version, known.stamp):
                return known.status
            if log.is_last(version, known.stamp):
                return known.status
        return self._load(dataset, pipeline)

    def create(self, effect: CreateTable) -> TableStatus:
        """Create the table, empty, unless there is one."""
        with self._turn(effect.dataset):
            return self._create(effect)

    def _create(self, effect: CreateTable) -> TableStatus:
        from deltalake.exceptions import DeltaError

        status = self.status(effect.dataset, effect.pipeline)
        if status.exists:
            return status
        description, properties = effect.record.description, {PIPELINE_PROPERTY: effect.pipeline}
        if effect.record.change_feed:
            properties[CHANGE_FEED] = "true"
        try:
            schema = Schema.from_json(effect.record.schema_json).with_nulls().to_json()
            by = effect.record.partition_by
            self._log(effect.dataset).create(schema, description=description, properties=properties, partition_by=by)
        except (DeltaError, OSError) as error:
            raise self._failed(effect.dataset, "a table cannot be created", error) from None
        # Another run of ours, or someone else, may have been first: the caller looks at it.
        return self._load(effect.dataset, effect.pipeline)

    def commit(self, effect: CommitTable) -> Conflict | None:
        """Commit the change if the table is exactly at ``effect.base``."""
        with self._turn(effect.dataset):
            return self._commit(effect)

    def _commit(self, effect: CommitTable) -> Conflict | None:
        # A store was asked just now, and creates the entry only if it is still the next.
        known = None if self._root.is_local else self._known.get(effect.dataset)
        status = known.status if known else self.status(effect.dataset, effect.pipeline)
        if status.version != effect.base:
            return Conflict()
        known, removes = self._known[effect.dataset], effect.change.removes
        if removes and known.files is None:
            known.files = self._version_at(effect.dataset, effect.base).files
        before, schema = known.files or {}, _other_columns(known.status, known.schema_json, effect.schema_json)
        entry = LogEntry(
            tuple(map(logged, effect.change.adds)),
            tuple(unlogged(before[path]) for path in removes),
            tuple(map(unlogged, effect.change.feed)),
            data_change=effect.change.data_change,
            transaction=(effect.pipeline, effect.epoch),
            metadata={"dagster_operators.epoch": str(effect.epoch)},
            schema_json=schema,
            starts_feed=effect.change_feed and not known.has_feed,
            partition_by=self._other_partitions(effect, known.status),
        )
        stamp = self._log(effect.dataset).append(effect.base, known.stamp, entry, plain=known.plain)
        if stamp is None:
            return Conflict()
        version = effect.base + 1
        by = known.status.partition_by if entry.partition_by is None else entry.partition_by
        known.status = replace(known.status, version=version, applied_epoch=effect.epoch, partition_by=by)
        known.stamp = stamp
        known.has_feed = known.has_feed or entry.starts_feed
        if schema:
            known.status, known.schema_json = replace(known.status, columns=columns_of(schema)), schema
        if known.files is not None:
            gone = set(removes)
            kept = {path: file for path, file in known.files.items() if path not in gone}
            known.files = kept | {file.path: as_read(file, known.status) for file in effect.change.adds}
        return None

    def _other_partitions(self, effect: CommitTable, status: TableStatus) -> tuple[str, ...] | None:
        """The partition columns that the table is to have, which no file of before has; None where they stay."""
        wanted = status.partition_by if effect.partition_by is None else effect.partition_by
        others = wanted != status.partition_by
        staying = {file.path for file in self.files(effect.dataset, effect.base)} - set(effect.change.removes) if others else ()
        if staying or any(tuple(name for name, _ in file.partition) != wanted for file in effect.change.adds):
            raise StorageError(
                f"files would be in the table that are not by its partition columns ({', '.join(wanted) or 'none'})",
                table=effect.dataset, remedy="please report this: the stage should have been refused",
            )  # fmt: skip
        return wanted if others else None

    def restore(self, effect: RestoreTable, content: Mapping[str, FileEntry]) -> TableStatus | Conflict:
        """Give the table at version ``effect.found`` these files again, and no others, in a commit of ours.

        Raises:
            LostFileError: One of the files is not there any more.
            StorageError: The commit failed.
        """
        with self._turn(effect.dataset):
            if self.status(effect.dataset, effect.pipeline).version != effect.found:
                return Conflict()
            files = written_files(effect.dataset, content.values())
            if not effect.replaced and (lost := lost_files(self._root, files)):
                raise _content_lost(effect, lost)
            done = self._restored_by_version(effect, content) or self._restored_by_files(effect, content)
            if not done:
                return Conflict()
            settle(self._root, effect.dataset)
            return self._load(effect.dataset, effect.pipeline)

    def _restored_by_version(self, effect: RestoreTable, content: Mapping[str, FileEntry]) -> bool:
        """By Delta's RESTORE, with the columns as they were, if a version shortly before has these files."""
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import DeltaError

        log, transaction = self._log(effect.dataset), Transaction(effect.pipeline, effect.epoch)
        properties = CommitProperties(max_commit_retries=0, app_transactions=[transaction])
        unkept: list[int] = []
        try:
            for version in range(effect.found - 1, max(effect.found - _LOOKED_BACK, 0) - 1, -1):
                if self._version_at(effect.dataset, version).files.keys() != content.keys():
                    continue
                with log.at(version) as table:
                    if unkept_settings(table):  # somebody else made it so; if it always was, so it stays
                        unkept.append(version)
                        continue
                log.load(effect.found).restore(version, commit_properties=properties)
                return True
            if unkept:
                log.load(effect.found).restore(unkept[0], commit_properties=properties)
        except (DeltaError, OSError, StorageError, RestoredTableError):
            return False
        return bool(unkept)

    def _restored_by_files(self, effect: RestoreTable, content: Mapping[str, FileEntry]) -> bool:
        known = self._known[effect.dataset]
        now = self._version_at(effect.dataset, effect.found).files
        entry = LogEntry(
            tuple(logged(file) for path, file in content.items() if path not in now),
            tuple(unlogged(file) for path, file in now.items() if path not in content),
            transaction=(effect.pipeline, effect.epoch),
            metadata={"dagster_operators.repair": "ours"},
        )
        return self._log(effect.dataset).append(effect.found, known.stamp, entry, plain=known.plain) is not None

    def digest(self, dataset: str, version: int) -> str:
        """The digest of a version's log entry; empty when it is not there."""
        text = self._root.read(f"{dataset}/{entry_path(version)}")
        return "" if text is None else hashlib.sha256(text).hexdigest()

    def drop(self, effect: DropDataset) -> bool:
        """Delete the table with all its files, if it is the pipeline's and no later epoch made it anew."""
        with self._turn(effect.dataset):
            found = self._status(effect.dataset, effect.pipeline)
            ours = found.pipeline == effect.pipeline
            later = ours and (found.applied_epoch > effect.epoch or self._last_written(effect.dataset) > effect.epoch)
            if ours and not later:
                self._root.delete_folder(effect.dataset)
            self._known.pop(effect.dataset, None)
            self._versions.pop(effect.dataset, None)
            return not later

    def _last_written(self, dataset: str) -> int:
        """The last epoch that has a folder in the table."""
        return max((int(found[1]) for name in self._root.children(dataset) if (found := _EPOCH.match(name))), default=0)

    def files(self, dataset: str, version: int) -> list[FileEntry]:
        """The active files at a version, by path, with the bounds of their whole-number columns."""
        with self._turn(dataset):
            known = self._known.get(dataset)
            if known is None or known.status.version != version:
                return _by_path(self._version_at(dataset, version).files)
            if known.files is None:
                known.files = self._version_at(dataset, version).files
            return _by_path(known.files)

    def active_since(self, dataset: str, version: int) -> set[str]:
        """The files that are active at a version, or in any since."""
        with self._turn(dataset):
            active = {file.path for file in self.files(dataset, version)}
            return active | added_since(self._root, dataset, version)

    def schema(self, dataset: str, version: int) -> str:
        """The columns at a version, as the JSON of a Spark ``StructType``."""
        with self._turn(dataset):
            known = self._known.get(dataset)
            return (
                known.schema_json if known and known.status.version == version else self._version_at(dataset, version).schema_json
            )

    def _version_at(self, dataset: str, version: int) -> _Version:
        """A version as it is read from the log; that of each table which was asked for last is kept."""
        found = self._versions.get(dataset)
        if found is None or found.version != version:
            problem = f"version {version} of a table cannot be read"
            with self._readable(dataset, problem, version), self._log(dataset).at(version) as table:
                actions, schema_json = table.get_add_actions(flatten=True), table.schema().to_json()
                by = table.metadata().partition_columns
            files = {
                row["path"]: FileEntry(
                    row["path"],
                    row["size_bytes"],
                    row["num_records"] or 0,
                    bounds_of(row),
                    partition_of(row, by),
                    changed_at=row["modification_time"] or 0,
                )
                for row in actions.to_struct_array().to_pylist()
            }
            found = self._versions[dataset] = _Version(version, schema_json, files)
        return found

    def _load(self, dataset: str, pipeline: str) -> TableStatus:
        """What the table says, read anew, and known from then on."""
        log = self._log(dataset)
        self._known.pop(dataset, None)
        self._versions.pop(dataset, None)  # it may be another table now
        with self._readable(dataset), log.reading() as table:
            if table is None:
                return TableStatus(alterable=self._root.creates)
            stamp = log.read_stamp(table.version())
            if stamp == GONE:  # a checkpoint alone tells of this version: nothing can be appended to it
                raise StorageError("the last entry of the log is missing", table=dataset, remedy=lost_table([dataset]))
            schema_json = table.schema().to_json()
            plain = is_plain(table)
            has_feed = table.metadata().configuration.get(CHANGE_FEED) == "true"
            status = TableStatus(
                table.version(),
                table.metadata().configuration.get(PIPELINE_PROPERTY) or "",
                table.transaction_version(pipeline) or 0,
                columns_of(schema_json),
                alterable=self._root.creates and plain,
                partition_by=tuple(table.metadata().partition_columns),
                unkept=unkept_settings(table),
            )
        self._known[dataset] = _Known(status, stamp, schema_json, plain, has_feed)
        return status

    @contextmanager
    def _readable(self, dataset: str, problem: str = "a table cannot be read", version: int = 0) -> Iterator[None]:
        """Errors of a log that is damaged, or ends before a version, say so."""
        try:
            with self._root.guard(dataset, problem), refusals(dataset, self._root.uri):
                yield
        except StorageError:
            if not self._root.exists(dataset) and self._root.exists(""):
                raise RestoredTableError(
                    f"{problem}: its folder is gone", table=dataset, file=self._root.join(dataset),
                    remedy=lost_table([dataset]),
                ) from None  # fmt: skip
            self._require_whole(dataset, problem)
            if version > (last := max(versions_of(self._root, dataset), default=version)):
                raise RestoredTableError(
                    f"{problem}: the table is older than the ledger says, its log ends with version {last}", table=dataset,
                    remedy=how_to_repair(dataset),
                ) from None  # fmt: skip
            raise

    def marked(self, dataset: str, *, whole: bool) -> set[str]:
        """The active files that have rows which are marked as deleted; with ``whole`` only of a log that is as it was written.

        Raises:
            DamagedTableError: The log is damaged.
        """
        if whole:
            self._require_whole(dataset, "not all of a table's log can be read")
        return marked_files(self._root, dataset)

    def _require_whole(self, dataset: str, problem: str) -> None:
        if found := damage(self._root, dataset):
            place = self._root.join(dataset)
            raise DamagedTableError(f"{problem}: {found}", table=dataset, file=place, remedy=lost_table([dataset])) from None

    def mend(self, dataset: str) -> bool:
        """Get damaged entries of the table's log out of the way; whether there were some, also at an earlier try."""
        with self._turn(dataset):
            self._known.pop(dataset, None)
            self._versions.pop(dataset, None)
            self._logs.pop(dataset, None)
            return mend(self._root, dataset)

    def _log(self, dataset: str) -> TableLog:
        if dataset not in self._logs:
            self._logs[dataset] = TableLog(self._root, dataset)
        return self._logs[dataset]

    def _turn(self, dataset: str) -> threading.RLock:
        return self._turns.setdefault(dataset, threading.RLock())

    def _failed(self, dataset: str, problem: str, error: Exception) -> StorageError:
        return StorageError(
            f"{problem}: {self._root.redact(str(error))}",
            table=dataset,
            file=self._root.join(dataset),
            remedy=way_out(error, public_uri(self._root.uri)),
        )


@cache
def columns_of(schema_json: str) -> tuple[tuple[str, str], ...]:
    """Name and type of each column of a schema in JSON, whoever wrote it; whether nulls are allowed plays no part.

    >>> columns_of('{"type": "struct", "fields": [{"name": "k", "type": "long", "nullable": false, "metadata": {}}]}')
    (('k', 'long'),)
    """
    return tuple((field.name, field.type.spelt_as_json) for field in Schema.from_json(schema_json))


def _other_columns(status: TableStatus, known: str, schema_json: str) -> str:
    """The columns that a table is to have, or what is to be said of them; empty where it is so, or cannot be changed."""
    if not schema_json or not status.alterable:
        return ""
    told = comments_of(schema_json).items() - comments_of(known).items()
    if columns_of(schema_json) == status.columns and not told:
        return ""
    return Schema.from_json(schema_json).with_nulls().to_json()


def _content_lost(effect: RestoreTable, lost: Mapping[str, str]) -> LostFileError:
    """The table is computed anew, or what is there accepted."""
    error = lost_error(lost, "our content cannot be put back", PUT_BACK, version=effect.found)
    error.remedy += f"; or {how_to_repair(effect.dataset, 'theirs')}"
    return error


def _by_path(files: Mapping[str, FileEntry]) -> list[FileEntry]:
    return sorted(files.values(), key=lambda file: file.path)
