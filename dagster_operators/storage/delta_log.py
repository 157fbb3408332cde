"""A Delta table's log, version by version: what each commit added, and whether it did anything else to the rows.

Commits are read one file each, so looking for new versions costs what is new, not what the table holds. The format is the one of
the Delta transaction log protocol.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from dagster_operators.errors import BadInputError, MissingInputError, PipelineError
from dagster_operators.storage.digests import is_altered
from dagster_operators.storage.forked import require_own_process
from dagster_operators.storage.location import FileLocation, SourceFile, spelled_out
from dagster_operators.storage.uri import ambiguous_sign, is_local, split_uri
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from deltalake import DeltaTable

LOG: Final = "_delta_log"
"""The folder of the log in the table's."""

HINT: Final = "_last_checkpoint"
"""The file of a log that names its last checkpoint."""

_ELSEWHERE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
"""How a path that is a URI begins; Spark writes one slash behind ``file:``."""

CHECKPOINT: Final = ".checkpoint.parquet"
"""How the name of a checkpoint that is one file ends."""


_NUMBERS: Final = 1 << 53
"""Sizes, versions and milliseconds are less, also where a reader has doubles alone."""


@dataclass(frozen=True)
class DataFile:
    """A data file of a table.

    Args:
        file: The file, relative to the table; its time is the one the log has.
        partition: Values of the partition columns, by physical name, as the log writes them.
        stats: What the log tells of the rows, if it does.
    """

    file: SourceFile
    partition: tuple[tuple[str, str | None], ...] = ()
    stats: FileStats | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class FileStats:
    """What the log tells of the rows of a file, by column.

    Args:
        rows: How many there are.
        low: The least values, or values below; of nested columns objects.
        high: The greatest values, or values above.
        nulls: How many rows have no value.
        physical: Whether the columns have their physical names.
    """

    rows: int | None
    low: Mapping[str, Any]
    high: Mapping[str, Any]
    nulls: Mapping[str, Any]
    physical: bool


@dataclass(frozen=True)
class Commit:
    """One version of a table.

    Args:
        version: Its number.
        operation: What the writer calls it, such as WRITE or OPTIMIZE.
        digest: A hash of the commit; a table that was replaced has another one.
        added: Files with new rows; empty if the commit only moved rows about.
        seconds: When it was written, in seconds since 1970.
        removes_rows: It deleted, updated or overwrote rows.
        has_deletion_vectors: An added file has some of its rows marked as deleted.
        removed: The paths of files whose rows are gone.
        applications: Whose application transactions it carries.
        feed: Files that say what it did to rows, of a table with a change data feed.
    """

    version: int
    operation: str
    digest: str
    seconds: float
    added: tuple[DataFile, ...] = ()
    removes_rows: bool = False
    has_deletion_vectors: bool = False
    removed: tuple[str, ...] = ()
    applications: tuple[str, ...] = ()
    feed: tuple[DataFile, ...] = ()

    @property
    def changes_data(self) -> bool:
        """Whether a reader has anything to see."""
        return bool(self.added) or self.removes_rows


@dataclass(frozen=True)
class DeltaLog:
    """The log of one table.

    Args:
        location: The table's folder.
    """

    location: FileLocation

    def __post_init__(self) -> None:
        if sign := ambiguous_sign(self.location.path):
            raise PipelineError(
                f"the path of a Delta table, or of the folder that it links to, has {sign} in it: libraries differ about that",
                table=self.location.path.encode(errors="backslashreplace").decode(), remedy="give that folder another name",
            )  # fmt: skip

    @property
    def _address(self) -> str:
        """The table's folder as deltalake takes it."""
        path = self.location.path
        return spelled_out(split_uri(path)[2]) if is_local(path) else path

    def commit(self, version: int) -> Commit | None:
        """A version's commit, or None if it is not there: not written yet, or cleaned up.

        Raises:
            MissingInputError: Its entry of the log is there, and is damaged or may not be read.
        """
        content = self._content(entry_path(version))
        if content is None:
            return None
        try:
            return _commit(version, content, self.location)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
            raise self._damaged(version) from None

    def is_cleaned_out(self, version: int) -> bool:
        """Whether a version whose commit is not there was one of the table: its commit was cleaned out of the log.

        Raises:
            MissingInputError: The log cannot be read.
        """
        content = self._content(f"{LOG}/{HINT}")
        if content is None:
            return False
        hinted = version_of_hint(content)  # readers pass over one that cannot be read
        may_be = hinted is None or hinted >= version
        return may_be and self.table().version() >= version and self._content(entry_path(version)) is None

    def _content(self, path: str) -> bytes | None:
        try:
            with self.location.opened(SourceFile(0, path, 0)) as stream:
                return bytes(stream.read())
        except MissingInputError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise

    def _damaged(self, version: int) -> MissingInputError:
        return MissingInputError(
            f"the entry of version {version} in the log of the Delta table is empty, cut short or no entry",
            table=self.location.path,
            file=entry_path(version),
            remedy="wait if it is being copied; else put it back from a copy, or, if there is none and it is the last one, "
            "remove it and have its rows written again",
        )

    def commits(self, first: int, last: int) -> Iterator[Commit]:
        """The commits of versions that were there before.

        Raises:
            MissingInputError: One was cleaned up since.
        """
        for version in range(first, last + 1):
            commit = self.commit(version)
            if commit is None:
                raise MissingInputError(
                    f"version {version} of the Delta table is not in its log any more", table=self.location.path,
                    remedy="run again; if the log was cleaned or lost for good: pipeline.reset(source, 0, tables='restart') "
                    "reads the table as it is now",
                )  # fmt: skip
            yield commit

    def fields(self, version: int | None = None) -> list[dict[str, Any]]:
        """The columns at a version, or now, as the table's schema in JSON describes them."""
        columns: list[dict[str, Any]] = json.loads(self.table(version).schema().to_json())["fields"]
        return columns

    def schema(self, version: int | None = None) -> Schema:
        """The columns at a version, or now."""
        return Schema.from_json(json.dumps({"type": "struct", "fields": self.fields(version)}))

    def table(self, version: int | None = None) -> DeltaTable:
        """The table at a version, or as it is now.

        Raises:
            MissingInputError: There is no such table or version, or its log is damaged.
        """
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        require_own_process()
        path, access = self._address, self.location.access
        try:
            table = DeltaTable(path, version=version, storage_options=access.for_deltalake())
        except TableNotFoundError as error:
            raise MissingInputError(
                "there is no Delta table", table=self.location.path,
                remedy="correct the path, that of the folder with _delta_log in it; or write the table first, then run again",
            ) from error  # fmt: skip
        except (DeltaError, OSError) as error:
            at = "" if version is None else f" at version {version}"
            told = access.redact(str(error)).partition("\n")[0]
            raise MissingInputError(
                f"the Delta table{at} cannot be read ({told})",
                table=self.location.path,
                remedy="see what is wrong with its log, which no reader may be able to read, and run again",
            ) from None
        if (empty := self._empty_entry(table.version())) is not None:
            raise self._damaged(empty)
        return table

    def _empty_entry(self, version: int) -> int | None:
        """An entry of a version, or of one before, that is empty: readers take it for a commit that did nothing.

        On local disks only: an object store shows no file before it is whole.
        """
        folder = Path(self._address, LOG)
        if not is_local(self.location.path) or not folder.is_dir():
            return None
        sizes: dict[str, int] = {}
        for entry in os.scandir(folder):
            with suppress(FileNotFoundError):  # a log is cleaned while it is read
                sizes |= {entry.name: entry.stat().st_size} if entry.name[:20].isdigit() else {}
        summed = max((int(name[:20]) for name in sizes if ".checkpoint." in name and int(name[:20]) <= version), default=-1)
        entries = (number for number in range(summed + 1, version + 1) if sizes.get(entry_path(number).rpartition("/")[2]) == 0)
        return next(entries, None)

    def may_have_deletion_vectors(self, version: int) -> bool:
        """Whether the table allows rows to be marked as deleted without rewriting their file."""
        return "deletionVectors" in (self.table(version).protocol().reader_features or ())

    def extent(self, table: DeltaTable) -> dict[str, int]:
        """How many files a table has, and the bytes and rows in them; not the rows where some may be marked as deleted."""
        import pyarrow as pa
        import pyarrow.compute as pc

        listed = pa.table(table.get_add_actions(flatten=True))
        told = {"files": listed.num_rows, "bytes": pc.sum(listed["size_bytes"], min_count=0).as_py()}
        rows = listed["num_records"] if "num_records" in listed.column_names else None
        if rows is None or rows.null_count or "deletionVectors" in (table.protocol().reader_features or ()):
            return told
        return told | {"rows": pc.sum(rows, min_count=0).as_py()}

    def files(self, version: int) -> list[DataFile]:
        """All files of the table at a version."""
        import pyarrow as pa

        listed = pa.table(self.table(version).get_add_actions(flatten=False)).to_pylist()
        return [self._listed_file(entry) for entry in listed]

    def _listed_file(self, entry: Mapping[str, Any]) -> DataFile:
        partition = {name: partition_text(value) for name, value in (entry.get("partition") or {}).items()}
        low, high, nulls = (entry.get(name) or {} for name in ("min", "max", "null_count"))
        stats = FileStats(entry.get("num_records"), low, high, nulls, physical=False)
        file = _data_file(entry["path"], entry["size_bytes"], entry["modification_time"], partition, self.location)
        return replace(file, stats=stats)


def entry_path(version: int) -> str:
    """The log's entry of a version, below the table's folder.

    >>> entry_path(7)
    '_delta_log/00000000000000000007.json'
    """
    return f"{LOG}/{version:020d}.json"


def checkpoint_path(version: int) -> str:
    """Where the checkpoint of a version is in a table's folder, if it is one file.

    >>> checkpoint_path(20)
    '_delta_log/00000000000000000020.checkpoint.parquet'
    """
    return f"{LOG}/{version:020d}{CHECKPOINT}"


def version_of_hint(text: bytes) -> int | None:
    """The version of the checkpoint that a hint names; None when it cannot be read.

    >>> version_of_hint(b'{"version": 20, "size": 7}'), version_of_hint(b'{"vers'), version_of_hint(b"[]")
    (20, None, None)
    """
    try:
        version = json.loads(text)["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return version if isinstance(version, int) and 0 <= version < _NUMBERS else None


def _commit(version: int, content: bytes, location: FileLocation) -> Commit:
    """The commit that an entry of the log has; what it raises tells that there is none."""
    actions = [json.loads(line) for line in content.splitlines() if line.strip()]
    if not actions or is_altered(content):
        raise ValueError
    added = [action["add"] for action in actions if action.get("add", {}).get("dataChange")]
    removed = [action["remove"] for action in actions if action.get("remove", {}).get("dataChange")]
    info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    return Commit(
        version,
        str(info.get("operation", "a commit")),
        hashlib.sha256(content).hexdigest(),
        info.get("timestamp", 0) / 1000,
        tuple(
            replace(
                _data_file(add["path"], add["size"], add["modificationTime"], add["partitionValues"], location), stats=_stats(add)
            )
            for add in added
        ),
        removes_rows=bool(removed),
        has_deletion_vectors=any(add.get("deletionVector") for add in added),
        removed=tuple(unquote(remove["path"]) for remove in removed),
        applications=tuple(action["txn"]["appId"] for action in actions if "txn" in action),
        feed=tuple(
            _data_file(change["path"], change["size"], 0, {}, location)
            for change in (action["cdc"] for action in actions if "cdc" in action)
        ),
    )


def _stats(add: Mapping[str, Any]) -> FileStats | None:
    """The statistics of a commit's new file; none if they are missing or no JSON."""
    try:
        told: Any = json.loads(add.get("stats") or "null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict):
        return None
    low, high, nulls = (told.get(name) or {} for name in ("minValues", "maxValues", "nullCount"))
    return FileStats(told.get("numRecords"), low, high, nulls, physical=True)


def _data_file(path: str, size: Any, modified: Any, partition: Mapping[str, str | None], location: FileLocation) -> DataFile:
    if not all(isinstance(number, int) and -_NUMBERS <= number < _NUMBERS for number in (size, modified)):
        raise ValueError
    name = unquote(path)
    plain = PurePosixPath(name)
    if _ELSEWHERE.match(path) or plain.is_absolute() or ".." in plain.parts or "\0" in name:
        raise BadInputError(
            "a data file of the Delta table is outside of its folder, as those of a shallow clone are",
            table=location.path, file=name.replace("\0", "\\0"),
            remedy="read the table that it is a clone of; or have Spark write the clone out as a table of its own: "
            "CREATE TABLE delta.`<folder>` USING delta AS SELECT * FROM delta.`<clone>`",
        )  # fmt: skip
    return DataFile(SourceFile(modified * 1000, name, size), tuple(sorted(partition.items())))


def partition_text(value: object) -> str | None:
    """A partition value as the log writes it.

    >>> from datetime import UTC
    >>> partition_text(True), partition_text(datetime(2024, 1, 1, 12, tzinfo=UTC)), partition_text(None)
    ('true', '2024-01-01 12:00:00.000000', None)
    """
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")  # strftime writes short years
    return value.decode() if isinstance(value, bytes) else str(value)
