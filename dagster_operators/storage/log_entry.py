"""An entry of a Delta table's log: what one commit does, and the actions that say it in Delta's transaction log protocol."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from deltalake import DeltaTable

_ENGINE: Final = "dagster_operators"

_WROTE: Final = {"operation": "WRITE", "operationParameters": {"mode": "Append", "partitionBy": "[]"}}
_MOVED: Final = {"operation": "OPTIMIZE", "operationParameters": {"predicate": "[]"}}
"""What an entry is called that changes rows, and one that leaves them as they are."""

_UNQUOTED: Final = "/=:@!$&'()*+,;~"
"""What stands for itself in the path of a URI (RFC 3986), besides letters, digits and ``-._``."""


@dataclass(frozen=True)
class LoggedFile:
    """A data file as the log names it.

    Attributes:
        path: Within the table.
        size: In bytes.
        stats: Its statistics as JSON.
        partition: The values of the partition columns.
        changed_at: When the file was last changed, in milliseconds since 1970; 0 for when it is added.
    """

    path: str
    size: int
    stats: str = ""
    partition: tuple[tuple[str, str | None], ...] = ()
    changed_at: int = 0


@dataclass(frozen=True)
class LogEntry:
    """What one commit does.

    Attributes:
        adds: Files that become active.
        removes: Active files that no longer are.
        feed: Files with what the commit does to the rows, of a table with a change data feed.
        data_change: Whether the rows change, or only lie elsewhere.
        transaction: The application transaction: its id and version.
        metadata: What ``DESCRIBE HISTORY`` shows besides.
        schema_json: The columns from then on, as the JSON of a Spark ``StructType``; empty where they stay.
        starts_feed: Whether the table has a change data feed from then on.
        partition_by: The partition columns from then on; None where they stay.
    """

    adds: tuple[LoggedFile, ...] = ()
    removes: tuple[LoggedFile, ...] = ()
    feed: tuple[LoggedFile, ...] = ()
    data_change: bool = True
    transaction: tuple[str, int] | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    schema_json: str = ""
    starts_feed: bool = False
    partition_by: tuple[str, ...] | None = None

    @property
    def alters(self) -> bool:
        """Whether the table says something else of itself from then on."""
        return bool(self.schema_json) or self.starts_feed or self.partition_by is not None


def actions_of(entry: LogEntry) -> Iterator[dict[str, Any]]:
    """The entry's lines.

    >>> [next(iter(action)) for action in actions_of(LogEntry((LoggedFile("a.parquet", 1),), transaction=("p", 1)))]
    ['commitInfo', 'txn', 'add']
    """
    now = time.time_ns() // 1_000_000
    yield {
        "commitInfo": {
            "timestamp": now,
            **(_WROTE if entry.data_change else _MOVED),
            "isBlindAppend": not entry.removes,
            "engineInfo": _ENGINE,
            "txnId": uuid.uuid4().hex,  # so that no two runs write the same entry, also of the same decision
            **entry.metadata,
        }
    }
    if entry.transaction:
        yield {"txn": {"appId": entry.transaction[0], "version": entry.transaction[1], "lastUpdated": now}}
    for file in entry.removes:
        yield {
            "remove": {
                "path": quote(file.path, safe=_UNQUOTED),
                "deletionTimestamp": now,
                "dataChange": entry.data_change,
                "extendedFileMetadata": True,
                "partitionValues": dict(file.partition),
                "size": file.size,
            }
        }
    for file in entry.adds:
        yield {
            "add": {
                "path": quote(file.path, safe=_UNQUOTED),
                "partitionValues": dict(file.partition),
                "size": file.size,
                "modificationTime": file.changed_at or now,
                "dataChange": entry.data_change,
                **({"stats": file.stats} if file.stats else {}),
            }
        }
    for file in entry.feed:
        path = quote(file.path, safe=_UNQUOTED)
        yield {"cdc": {"path": path, "partitionValues": dict(file.partition), "size": file.size, "dataChange": False}}


def commit_by_deltalake(table: DeltaTable, entry: LogEntry) -> None:
    """Have deltalake write the entry as the next version, of a table whose protocol asks for more than our entries have."""
    from deltalake import CommitProperties, PostCommitHookProperties, Transaction
    from deltalake.transaction import AddAction, RemoveAction

    now, change = int(time.time() * 1000), entry.data_change
    table.create_write_transaction(
        [
            *(
                AddAction(file.path, file.size, dict(file.partition), file.changed_at or now, change, file.stats)
                for file in entry.adds
            ),
            *(RemoveAction(file.path, change, now, file.size, dict(file.partition)) for file in entry.removes),
        ],
        "append",
        table.schema(),
        commit_properties=CommitProperties(
            custom_metadata=dict(entry.metadata),
            max_commit_retries=0,
            app_transactions=[Transaction(*entry.transaction)] if entry.transaction else None,
        ),
        post_commithook_properties=PostCommitHookProperties(cleanup_expired_logs=False),
    )
