"""Files of a table as its Delta log has them, made of what an attempt said of them, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dagster_operators.storage.delta_log import partition_text
from dagster_operators.storage.log_entry import LoggedFile
from dagster_operators.types.data_type import WHOLE_NUMBERS_IN_JSON

if TYPE_CHECKING:
    from dagster_operators.storage.partitions import Values
    from dagster_operators.transactions.effects import TableStatus
    from dagster_operators.transactions.manifest import FileEntry


def stats_of(file: FileEntry) -> str:
    """The statistics of a file as the log has them."""
    return file.stats or json.dumps({"numRecords": file.rows})


def logged(file: FileEntry) -> LoggedFile:
    """A file as it is added."""
    return LoggedFile(file.path, file.size, stats_of(file), file.partition, file.changed_at)


def unlogged(file: FileEntry) -> LoggedFile:
    """A file without its statistics, as it is removed."""
    return LoggedFile(file.path, file.size, partition=file.partition)


def partition_of(row: Mapping[str, Any], by: Iterable[str]) -> Values:
    """The values of the partition columns of a file that was read from the log."""
    return tuple((name, partition_text(row.get(f"partition.{name}"))) for name in by)


def as_read(file: FileEntry, status: TableStatus) -> FileEntry:
    """A file as it was staged, as it would be read back from the log."""
    stats = json.loads(stats_of(file))
    whole = {name for name, kind in status.columns if kind in WHOLE_NUMBERS_IN_JSON}
    bounds = {
        kind: {name: value for name, value in (stats.get(f"{kind}Values") or {}).items() if name in whole and value is not None}
        for kind in ("min", "max")
    }
    return replace(file, stats=_to_stats(file.rows, bounds), digest="")


def is_misread(file: FileEntry, written: FileEntry, status: TableStatus) -> bool:
    """Whether a file is another one by the log than it was staged as; when it was changed, earlier versions did not say."""
    return replace(as_read(written, status), changed_at=file.changed_at) != file


def bounds_of(row: Mapping[str, Any]) -> str:
    """The statistics of a file as far as pruning uses them: the bounds of its whole-number columns."""
    bounds: dict[str, dict[str, int]] = {"min": {}, "max": {}}
    for name, value in row.items():
        kind, _, column = name.partition(".")
        if kind in bounds and type(value) is int:
            bounds[kind][column] = value
    return _to_stats(row["num_records"] or 0, bounds)


def _to_stats(rows: int, bounds: Mapping[str, Mapping[str, int]]) -> str:
    least, most = (dict(sorted(bounds[kind].items())) for kind in ("min", "max"))  # whatever the order of the columns
    return json.dumps({"numRecords": rows, "minValues": least, "maxValues": most})
