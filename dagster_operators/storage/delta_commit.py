"""The log of one Delta table of ours: an entry is appended if its version is free, without reading the log again.

What a run commits it knows, so an entry is one small file that is created only if there is none: made visible by a hard link on a
local root, by a conditional write on an object store. deltalake would read the log again after every commit, and list its folder,
which grows with every epoch. It commits all the same to a table whose protocol asks for more than our entries have. The format is
Delta's transaction log protocol.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dagster_operators.errors import StorageError
from dagster_operators.storage.altered import LARGEST_CHECKPOINT, altered_entry, is_altered_checkpoint
from dagster_operators.storage.causes import of_damage
from dagster_operators.storage.delta_log import HINT, LOG, checkpoint_path, entry_path
from dagster_operators.storage.digests import hint_with_digest, sealed
from dagster_operators.storage.first_entry import first_entry
from dagster_operators.storage.forked import require_own_process
from dagster_operators.storage.log_checkpoint import hinted_file, sum_up
from dagster_operators.storage.log_copy import LogCopy, copied
from dagster_operators.storage.log_damage import without_checkpoints
from dagster_operators.storage.log_entry import LogEntry, actions_of, commit_by_deltalake
from dagster_operators.storage.table_features import (
    FEATURES_WRITER,
    FEED_WRITER,
    UNZONED,
    asked_of,
    has_unzoned,
    has_unzoned_in_maps,
    without_maps,
)

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from dagster_operators.storage.root import Root

Stamp: TypeAlias = tuple[int, int]
"""When an entry's file was written (nanoseconds) or its ETag, and its size: another entry of that version has another stamp."""

GONE: Final[Stamp] = (0, 0)
"""The stamp of an entry that is not there."""

CHECKPOINT_INTERVAL: Final = 20
"""So many entries at most are read when a log is opened."""

_KEPT_BYTES: Final = 1 << 20
"""What is larger of a log is read again when it is needed."""

_SHORT: Final = 3.0
"""Seconds. Entries are cleaned out an hour and two hundred versions later, and a ledger is replaced when a lease is over."""

CHANGE_FEED: Final = "delta.enableChangeDataFeed"
"""The property of a table whose readers can ask what each version did to the rows."""

PIPELINE_PROPERTY: Final = "dagster_operators.pipeline"
"""The table property that says which pipeline's a table is."""

_PLAIN_WRITERS: Final = frozenset({1, 2, FEED_WRITER, FEATURES_WRITER})
_PLAIN_FEATURES: Final = frozenset({"appendOnly", "invariants", "timestampNtz", "changeDataFeed"})

_APPEND_ONLY: Final = "delta.appendOnly"
_CONSTRAINTS: Final = "delta.constraints."
_GENERATED: Final = "delta.generationExpression"

_log = logging.getLogger(__name__)


class TableLog:
    """The log of a table.

    Args:
        root: The pipeline's storage root.
        dataset: The table's folder below it.
        checkpoint_interval: After so many versions the log is summed up in a checkpoint.
    """

    def __init__(self, root: Root, dataset: str, checkpoint_interval: int = CHECKPOINT_INTERVAL) -> None:
        self._root = root
        self._dataset = dataset
        self._interval = checkpoint_interval
        self._table: DeltaTable | None = None
        self._seen: tuple[int, Stamp, tuple[float, float]] | None = None
        """The last version, its stamp, and when that was seen."""
        self._entries: dict[int, bytes] = {}
        """On an object store what was read or appended here since the last checkpoint, up to :attr:`_appended`."""
        self._appended: tuple[int, Stamp] | None = None
        self._summed: tuple[int, bytes] | None = None
        """The last checkpoint that was read or written here."""
        self._copy: LogCopy | None = None
        """On an object store the log as it was read last."""

    def has(self, version: int) -> bool:
        """Whether the log has an entry for the version."""
        return self._root.exists(self._file(version))

    def stamp(self, version: int) -> Stamp:
        """The entry's stamp; :data:`GONE` when there is none."""
        return self._root.stamp(self._file(version))

    def is_last(self, version: int, stamp: Stamp) -> bool:
        """Whether the log ends with the version as it was when it had that stamp."""
        at = _moment()
        names = [entry_path(number).removeprefix(f"{LOG}/") for number in (version, version + 1)]
        found, behind = self._root.stamps(f"{self._dataset}/{LOG}", names)
        if found != stamp or behind != GONE:
            return False
        self._seen = (version, stamp, at)
        return True

    @contextmanager
    def reading(self) -> Iterator[DeltaTable | None]:
        """The table as it is now, to be looked at; None if there is none."""
        if self._root.is_local or not self._root.creates:
            yield self.load() if self.is_table() else None
            return
        at = _moment()
        with self._root.guard(self._dataset, "a table cannot be looked up"):
            found = copied(self._root, self._dataset)
        self._copy = found if isinstance(found, LogCopy) else None
        if self._copy is None:
            yield self.load() if found and self.is_table() else None
            return
        self._keep_copy(self._copy, at)
        with self._copy.opened() as table:
            yield table

    def _keep_copy(self, copy: LogCopy, at: tuple[float, float]) -> None:
        """Know what was read, so that it need neither be looked at nor read again at once."""
        if copy.stamp == GONE:
            return
        self._seen, self._appended = (copy.version, copy.stamp, at), (copy.version, copy.stamp)
        self._entries = {number: content for number, content in copy.entries.items() if len(content) <= _KEPT_BYTES}
        self._summed = copy.checkpoint if copy.checkpoint and len(copy.checkpoint[1]) <= _KEPT_BYTES else None

    def read_stamp(self, version: int) -> Stamp:
        """The stamp of the version that was read last, as it was then, where reading tells it; else as it is now."""
        return self._copy.stamp if self._copy and self._copy.version == version else self.stamp(version)

    @contextmanager
    def at(self, version: int) -> Iterator[DeltaTable]:
        """The table at a version, to be looked at: as it was read last, brought forward if that is enough."""
        if self._copy and self._copy.version < version:
            self._copy = self._copy.brought_to(self._root, self._dataset, version)
        if self._copy and self._copy.version == version:
            with self._copy.opened() as table:
                yield table
        else:
            yield self._loaded_at(version)

    def _loaded_at(self, version: int) -> DeltaTable:
        if self._table is not None and (known := self._table.version()) < version:
            table, self._table = self._table, None  # nothing of an altered entry is kept
            table.update_incremental()
            self._require_whole(table.version(), above=known)
            self._table = table
        return self._table if self._table is not None and self._table.version() == version else self.load(version)

    def load(self, version: int | None = None) -> DeltaTable:
        """The table as deltalake reads it, at a version or as it is now; without checkpoints that only stand in the way.

        Raises:
            DeltaError: It cannot be read (OSError likewise).
            StorageError: An entry, or the last checkpoint, is not as it was written.
        """
        from deltalake.exceptions import DeltaError

        try:
            self._table = self._load(version)
        except (DeltaError, StorageError):
            if not without_checkpoints(self._root, self._dataset):
                raise
            self._table = self._load(version)
        return self._table

    def _load(self, version: int | None) -> DeltaTable:
        from deltalake import DeltaTable

        require_own_process()
        if is_altered_checkpoint(self._root, self._dataset, at_most=LARGEST_CHECKPOINT):
            raise StorageError(
                "the last checkpoint of the log was changed", table=self._dataset, remedy=of_damage(self._root.uri)
            )
        table = DeltaTable(self._root.join(self._dataset), version=version, storage_options=self._root.access.for_deltalake())
        self._require_whole(table.version())
        return table

    def _require_whole(self, version: int, *, above: int = -1) -> None:
        if altered_entry(self._root, self._dataset, version, above=above):
            raise StorageError(
                "an entry of the log is empty, or was changed", table=self._dataset, remedy=of_damage(self._root.uri)
            )

    def is_table(self) -> bool:
        """Whether there is a Delta table."""
        from deltalake import DeltaTable

        require_own_process()
        with self._root.guard(self._dataset, "a table cannot be looked up"):
            return DeltaTable.is_deltatable(self._root.join(self._dataset), self._root.access.for_deltalake())

    def create(
        self,
        schema_json: str,
        *,
        description: str = "",
        properties: Mapping[str, str] | None = None,
        partition_by: Sequence[str] = (),
    ) -> None:
        """Create the table, empty, unless another run was first.

        Args:
            schema_json: Its columns, as the JSON of a Spark ``StructType``.
            description: What it is, for people.
            properties: Its properties, besides how often its log is summed up.
            partition_by: Its partition columns.

        Raises:
            DeltaError: It cannot be created (OSError likewise).
        """
        from deltalake import DeltaTable, Schema
        from deltalake.exceptions import DeltaError

        declared = without_maps(schema_json) if has_unzoned_in_maps(schema_json) else schema_json

        def made(place: str, access: dict[str, str] | None = None) -> None:
            DeltaTable.create(
                place,
                Schema.from_json(declared),
                mode="error",
                partition_by=list(partition_by) or None,
                name=self._dataset.rpartition("/")[2],
                description=description or None,
                configuration={**(properties or {}), "delta.checkpointInterval": str(self._interval)},
                storage_options=access,
                raise_if_key_not_exists=False,
            )

        uri = self._root.join(self._dataset)
        if self._root.is_local:
            self._root.files.create_dir(self._root.path(self._dataset, LOG))
        try:
            if self._root.creates:  # of two runs deltalake would have the second one commit it again, as version 1
                content = first_entry(uri, made, schema_json if declared != schema_json else "")
                if (stamp := self._root.create(self._file(0), content)) and not self._root.is_local:
                    self._keep(0, content, stamp)
            else:
                made(uri, self._root.access.for_deltalake())
        except (DeltaError, OSError):
            if not self.is_table():
                raise
        self._root.flush([self._file(0)])

    def append(self, base: int, stamp: Stamp, entry: LogEntry, *, plain: bool = True) -> Stamp | None:
        """Commit the entry as version ``base + 1``; None when that is taken, or ``base`` is not what it was.

        Args:
            base: The version to build on.
            stamp: Its stamp, as last seen. A run that was paused for long may find its ``base`` cleaned out of the log, and the
                next version with it: that one is then free, but it is not the table's next.
            entry: What to do.
            plain: Whether the table is :func:`is_plain`.

        Returns:
            The stamp of the new version.

        Raises:
            StorageError: It could not be written.
        """
        if stamp == GONE:
            return None
        linked, at = self._root.creates and plain, _moment()
        if self._appended != (base, stamp):
            self._entries, self._appended, self._summed = {}, None, None
        written = self._link(base, entry) if linked else self._commit(base, stamp, entry)
        if written is None:
            return None
        if not self.was_last(base, stamp) and (found := self.stamp(base)) != stamp:
            # Where another entry was written over the version, others may have built on ours since: the log must have no hole.
            if found == GONE or not self.has(base + 2):
                self._root.delete_file(self._file(base + 1))
            return None
        self._seen = (base + 1, written, at)
        if linked and (base + 1) % self._interval == 0:
            self._checkpoint(base + 1)
        return written

    def was_last(self, base: int, stamp: Stamp) -> bool:
        """Whether the log ended with the version so short a time ago that it cannot have been cleaned out or replaced since.

        On a local root to look again costs nothing.
        """
        if self._root.is_local or not self._root.creates or self._seen is None or self._seen[:2] != (base, stamp):
            return False
        return all(0 <= now - then < _SHORT for now, then in zip(_moment(), self._seen[2], strict=True))

    def _link(self, base: int, entry: LogEntry) -> Stamp | None:
        first, *others = actions_of(entry)
        told = list(self._told(base, entry)) if entry.alters else []
        actions = [first, *told, *others]
        made = self._root.create(self._file(base + 1), content := sealed(actions))
        if made and not self._root.is_local:
            self._keep(base + 1, content, made)
        return made

    def _keep(self, version: int, content: bytes, stamp: Stamp) -> None:
        """Know an entry of ours, so that the log can be summed up without reading it again; large ones are read again."""
        self._appended = (version, stamp)
        if len(content) <= _KEPT_BYTES:
            self._entries[version] = content

    def _told(self, base: int, entry: LogEntry) -> Iterator[dict[str, Any]]:
        """What the table says of itself, with other columns or with a change data feed, and what it then asks of its writers."""
        with self.at(base) as table:
            protocol, known, there = table.protocol(), table.metadata(), table.schema().to_json()
        unzoned = has_unzoned(entry.schema_json) and UNZONED not in (protocol.reader_features or ())
        if entry.starts_feed or unzoned:
            yield {"protocol": asked_of(protocol, feed=entry.starts_feed, unzoned=unzoned)}
        schema_json, properties = entry.schema_json or there, {CHANGE_FEED: "true"} if entry.starts_feed else {}
        told = {"name": known.name, "description": known.description, "createdTime": known.created_time}
        yield {
            "metaData": {
                "id": str(known.id),
                **{name: value for name, value in told.items() if value is not None},
                "format": {"provider": "parquet", "options": {}},
                "schemaString": schema_json,
                "partitionColumns": list(known.partition_columns if entry.partition_by is None else entry.partition_by),
                "configuration": {**known.configuration, **properties},
            }
        }

    def _commit(self, base: int, stamp: Stamp, entry: LogEntry) -> Stamp | None:
        try:
            with self._root.guard(self._dataset, "a table cannot be committed to"):
                commit_by_deltalake(self._loaded_at(base), entry)
        except StorageError:
            self._table = None
            # Another writer was first; or it is our entry and its answer was lost; or the log was cleaned meanwhile.
            if self.has(base + 1) or self.stamp(base) != stamp:
                return None
            raise
        found = self.stamp(base + 1)
        return None if found == GONE else found

    def _sum_up(self, version: int) -> bool:
        """Whether a checkpoint could be made of what is known of the log on an object store."""
        from deltalake.exceptions import DeltaError

        try:
            content = sum_up(self._root, self._dataset, version, self._entries, self._summed)
        except (DeltaError, OSError):  # the checkpoint before is damaged, or there is no room for a local folder
            content = None
        self._summed = (version, content) if content and len(content) <= _KEPT_BYTES else None
        self._entries = {}
        return content is not None

    def _checkpoint(self, version: int) -> None:
        """The commit stands, whatever becomes of the checkpoint."""
        try:
            with self._root.guard(self._dataset, "the log cannot be summed up in a checkpoint"):
                if not self._root.is_local and self._sum_up(version):
                    return
                table = self.load()
                table.create_checkpoint()
                self._seal_hint()
                self._root.flush(f"{self._dataset}/{path}" for path in (checkpoint_path(table.version()), f"{LOG}/{HINT}"))
        except StorageError as error:
            _log.warning("%s", error)

    def _seal_hint(self) -> None:
        """Have the hint that names the last checkpoint say what is in it."""
        path = f"{self._dataset}/{LOG}/{HINT}"
        hint = self._root.read(path)
        version = None if hint is None else hinted_file(hint)
        checkpoint = None if version is None else self._root.read(f"{self._dataset}/{checkpoint_path(version)}")
        if hint and checkpoint:
            self._root.write(path, hint_with_digest(hint, checkpoint))

    def _file(self, version: int) -> str:
        return f"{self._dataset}/{entry_path(version)}"

    def clean(self, before: int, older_than: float) -> None:
        """Delete entries and checkpoints of versions before the last checkpoint and ``before``, written before ``older_than``.

        One by one from the oldest on, so that a version that is there has all between it and the last in the log, also if this
        ends halfway: ``append`` relies on it, and so does the search for missing entries. One request would delete in any order.
        """
        names = self._root.written(f"{self._dataset}/{LOG}")
        checkpoints = [version for name in names if ".checkpoint." in name and (version := _version(name)) is not None]
        limit = min(before, max(checkpoints, default=0))
        for name in names:
            path, version = f"{self._dataset}/{LOG}/{name}", _version(name)
            is_temporary = name.startswith(".") and name.endswith(".tmp")
            if is_temporary or (version is not None and version < limit):
                if names[name] < older_than:
                    self._root.delete_file(path)
                elif not is_temporary:
                    return


def _moment() -> tuple[float, float]:
    """Now, by a clock that may be set and by one that may stand still while a machine sleeps."""
    return time.time(), time.monotonic()


def is_plain(table: DeltaTable) -> bool:
    """Whether an entry that only adds and removes files, with no more than we write, is all that the table's protocol asks for.

    Ours are, until somebody else upgrades them (in-commit timestamps, row tracking, column mapping).
    """
    protocol = table.protocol()
    features = set(protocol.writer_features or ())
    if protocol.min_writer_version not in _PLAIN_WRITERS or not features <= _PLAIN_FEATURES:
        return False
    if unkept_settings(table):
        return False
    return protocol.min_writer_version != FEED_WRITER or _GENERATED not in table.schema().to_json()


def unkept_settings(table: DeltaTable) -> tuple[str, ...]:
    """Settings of others that commits of ours do not keep to: they take files out of a table, and look at no row."""
    settings = table.metadata().configuration
    append_only = [_APPEND_ONLY] if (settings.get(_APPEND_ONLY) or "").lower() == "true" else []
    return (*append_only, *sorted(name for name in settings if name.startswith(_CONSTRAINTS)))


def _version(name: str) -> int | None:
    """The version an entry or checkpoint in the log's folder belongs to.

    >>> _version("00000000000000000010.json"), _version("_last_checkpoint")
    (10, None)
    """
    number = name.partition(".")[0]
    return int(number) if number.isdigit() else None
