"""One Delta table of the pipeline: what it says of itself, and its commit, once per epoch."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import StorageError
from dagster_operators.transactions.effects import CommitTable, Conflict, CreateTable, RestoreTable, TableStatus
from dagster_operators.transactions.manifest import FileEntry, key_groups

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from dagster_operators.transactions.storage import Root

PIPELINE_PROPERTY: Final = "dagster_operators.pipeline"
"""The table property that says which pipeline's a table is."""

_CHECKPOINT_INTERVAL: Final = "20"


@dataclass
class _Loaded:
    """A table as last seen. ``table`` may be one commit of our own behind ``status``."""

    table: DeltaTable
    status: TableStatus
    stamp: tuple[int, int]


class Tables:
    """The tables of one pipeline, with their handles kept between epochs."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._loaded: dict[str, _Loaded] = {}
        self._snapshots: dict[str, tuple[int, list[FileEntry]]] = {}

    def status(self, dataset: str, pipeline: str) -> TableStatus:
        """What the table says now. Cheap when nobody wrote since we last looked."""
        loaded = self._loaded.get(dataset)
        if (
            loaded
            and self._stamp(dataset, loaded.status.version) == loaded.stamp
            and not self._has(dataset, loaded.status.version + 1)
        ):
            return loaded.status
        return self._load(dataset, pipeline).status if self._is_table(dataset) else self._forget(dataset)

    def create(self, effect: CreateTable) -> TableStatus:
        """Create the table, empty, unless there is one."""
        from deltalake import DeltaTable, Schema
        from deltalake.exceptions import DeltaError

        status = self.status(effect.dataset, effect.pipeline)
        if status.exists:
            return status
        try:
            with self._root.guard(effect.dataset, "a table's folder cannot be created"):
                if self._root.is_local:
                    self._root.files.create_dir(self._root.path(effect.dataset))
            DeltaTable.create(
                self._root.join(effect.dataset),
                Schema.from_json(_nullable(effect.record.schema_json)),
                mode="error",
                name=effect.dataset.rpartition("/")[2],
                description=effect.record.description or None,
                configuration={PIPELINE_PROPERTY: effect.pipeline, "delta.checkpointInterval": _CHECKPOINT_INTERVAL},
                storage_options=self._root.storage_options,
                raise_if_key_not_exists=False,
            )
        except (DeltaError, OSError) as error:
            if not self._is_table(effect.dataset):  # else another run of ours, or someone else, was first: the caller looks at it
                raise self._failed(effect.dataset, "a table cannot be created", error) from None
        return self._load(effect.dataset, effect.pipeline).status

    def commit(self, effect: CommitTable) -> Conflict | None:
        """Commit the change if the table is exactly at ``effect.base``."""
        from deltalake import CommitProperties, PostCommitHookProperties, Transaction
        from deltalake.exceptions import CommitFailedError, DeltaError
        from deltalake.transaction import AddAction, RemoveAction

        loaded = self._at(effect.dataset, effect.base, effect.pipeline)
        if loaded is None:
            return Conflict()
        now = int(time.time() * 1000)
        adds = [AddAction(file.path, file.size, {}, now, True, _stats(file)) for file in effect.change.adds]  # noqa: FBT003
        sizes = {file.path: file.size for file in self.files(effect.dataset, effect.base)} if effect.change.removes else {}
        removes = [RemoveAction(path, True, now, sizes.get(path), {}) for path in effect.change.removes]  # noqa: FBT003
        try:
            loaded.table.create_write_transaction(
                [*adds, *removes],
                "append",
                loaded.table.schema(),
                commit_properties=CommitProperties(
                    custom_metadata={"dagster_operators.epoch": str(effect.epoch)},
                    max_commit_retries=0,
                    app_transactions=[Transaction(effect.pipeline, effect.epoch)],
                ),
                post_commithook_properties=PostCommitHookProperties(cleanup_expired_logs=False),
            )
        except (CommitFailedError, DeltaError, OSError) as error:
            if self._has(effect.dataset, effect.base + 1):
                return Conflict()
            raise self._failed(effect.dataset, "a table cannot be committed to", error) from None
        version = effect.base + 1
        loaded.status = replace(loaded.status, version=version, applied_epoch=effect.epoch)
        loaded.stamp = self._stamp(effect.dataset, version)
        return None

    def restore(self, effect: RestoreTable) -> TableStatus | Conflict:
        """Put the table at version ``effect.found`` back to the content of ``effect.version`` by a new commit."""
        from deltalake import CommitProperties
        from deltalake.exceptions import CommitFailedError, DeltaError

        loaded = self._at(effect.dataset, effect.found, effect.pipeline)
        if loaded is None:
            return Conflict()
        try:
            loaded.table.restore(effect.version, commit_properties=CommitProperties(max_commit_retries=0))
        except (CommitFailedError, DeltaError, OSError) as error:
            if self._has(effect.dataset, effect.found + 1):
                return Conflict()
            raise self._failed(effect.dataset, f"a table cannot be restored to version {effect.version}", error) from None
        return self._load(effect.dataset, effect.pipeline).status

    def files(self, dataset: str, version: int) -> list[FileEntry]:
        """The active files at a version, by path, with the bounds of their whole-number columns."""
        known = self._snapshots.get(dataset)
        if known is None or known[0] != version:
            known = (version, self._read_files(dataset, version))
            self._snapshots[dataset] = known
        return list(known[1])

    def schema(self, dataset: str, version: int) -> str:
        """The columns at a version, as the JSON of a Spark ``StructType``."""
        with self._root.guard(dataset, f"version {version} of a table cannot be read"):
            schema: str = self._table_at(dataset, version).schema().to_json()
            return schema

    def _table_at(self, dataset: str, version: int) -> DeltaTable:
        from deltalake import DeltaTable

        loaded = self._loaded.get(dataset)
        if loaded and loaded.status.version == version and loaded.table.version() < version:
            loaded.table.update_incremental()
        if loaded and loaded.table.version() == version:
            return loaded.table
        return DeltaTable(self._root.join(dataset), version=version, storage_options=self._root.storage_options)

    def _read_files(self, dataset: str, version: int) -> list[FileEntry]:
        with self._root.guard(dataset, f"version {version} of a table cannot be read"):
            actions = self._table_at(dataset, version).get_add_actions(flatten=True)
        files = [
            FileEntry(row["path"], row["size_bytes"], row["num_records"] or 0, _bounds(row), key_groups(row["path"]))
            for row in actions.to_struct_array().to_pylist()
        ]
        return sorted(files, key=lambda file: file.path)

    def _at(self, dataset: str, version: int, pipeline: str) -> _Loaded | None:
        """The table loaded at exactly ``version``, which must be its latest; None when it is not."""
        if self.status(dataset, pipeline).version != version:
            return None
        loaded = self._loaded[dataset]
        with self._root.guard(dataset, "a table cannot be read"):
            if loaded.table.version() < version:  # our own last commit
                loaded.table.update_incremental()
        return loaded if loaded.table.version() == version else None

    def _load(self, dataset: str, pipeline: str) -> _Loaded:
        from deltalake import DeltaTable

        with self._root.guard(dataset, "a table cannot be read"):
            table = DeltaTable(self._root.join(dataset), storage_options=self._root.storage_options)
            status = TableStatus(
                table.version(),
                table.metadata().configuration.get(PIPELINE_PROPERTY) or "",
                table.transaction_version(pipeline) or 0,
                columns_of(table.schema().to_json()),
            )
        loaded = self._loaded[dataset] = _Loaded(table, status, self._stamp(dataset, status.version))
        self._snapshots.pop(dataset, None)
        return loaded

    def _forget(self, dataset: str) -> TableStatus:
        self._loaded.pop(dataset, None)
        self._snapshots.pop(dataset, None)
        return TableStatus()

    def _is_table(self, dataset: str) -> bool:
        from deltalake import DeltaTable

        with self._root.guard(dataset, "a table cannot be looked up"):
            return DeltaTable.is_deltatable(self._root.join(dataset), self._root.storage_options)

    def _has(self, dataset: str, version: int) -> bool:
        return self._root.exists(_log_file(dataset, version))

    def _stamp(self, dataset: str, version: int) -> tuple[int, int]:
        """When the version's log file was written and its size: another table of the same version has another stamp."""
        with self._root.guard(dataset, "a table cannot be looked up"):
            info = self._root.files.get_file_info(self._root.path(_log_file(dataset, version)))
            return info.mtime_ns or 0, info.size or 0

    def _failed(self, dataset: str, problem: str, error: Exception) -> StorageError:
        return StorageError(
            f"{problem}: {self._root.redact(str(error))}",
            table=dataset,
            file=self._root.join(dataset),
            remedy="check that the storage root can be written and has free space, then run again",
        )


@cache
def columns_of(schema_json: str) -> tuple[tuple[str, str], ...]:
    """Name and type of each column of a schema in JSON, whoever wrote it; whether nulls are allowed plays no part.

    >>> columns_of('{"type": "struct", "fields": [{"name": "k", "type": "long", "nullable": false, "metadata": {}}]}')
    (('k', 'long'),)
    """
    fields = json.loads(_nullable(schema_json))["fields"]
    return tuple((field["name"], _type_text(field["type"])) for field in fields)


def _type_text(kind: Any) -> str:
    if isinstance(kind, str):
        return kind
    plain = {name: value for name, value in kind.items() if name != "metadata"}
    if "fields" in plain:
        inner = ",".join(f"{field['name']}:{_type_text(field['type'])}" for field in plain["fields"])
        return f"struct<{inner}>"
    inner = ",".join(_type_text(plain[name]) for name in ("elementType", "keyType", "valueType") if name in plain)
    return f"{plain['type']}<{inner}>"


def _nullable(schema_json: str) -> str:
    """The schema with nulls allowed everywhere: Spark's idea of what may be null changes with the plan, the table's must not."""

    def loosen(value: Any) -> Any:
        if isinstance(value, Mapping):
            always = {"nullable": True, "containsNull": True, "valueContainsNull": True}
            return {name: always.get(name, loosen(item)) for name, item in value.items()}
        return [loosen(item) for item in value] if isinstance(value, list) else value

    return json.dumps(loosen(json.loads(schema_json)))


def _stats(file: FileEntry) -> str:
    return file.stats or json.dumps({"numRecords": file.rows})


def _bounds(row: Mapping[str, Any]) -> str:
    """The statistics of a file as far as pruning uses them: the bounds of its whole-number columns."""
    bounds: dict[str, dict[str, int]] = {"min": {}, "max": {}}
    for name, value in row.items():
        kind, _, column = name.partition(".")
        if kind in bounds and type(value) is int:
            bounds[kind][column] = value
    return json.dumps({"numRecords": row["num_records"] or 0, "minValues": bounds["min"], "maxValues": bounds["max"]})


def _log_file(dataset: str, version: int) -> str:
    return f"{dataset}/_delta_log/{version:020d}.json"
