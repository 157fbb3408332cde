"""The records that a rebuild rejects: those that the pipeline does not have among its rejects come to them.

What is there stays: tables that are not computed anew were made without those records. What is told twice of a record, once
for each time that it was read, would look like two of them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from dagster_operators.connectors.rejects import REJECTS_SCHEMA
from dagster_operators.runtime.stages.staged_rows import described, read_batches, write_batches
from dagster_operators.transactions.manifest import Change
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.storage.root import Root

_ROWS: Final = 8_192
_SCHEMA: Final = Schema.from_ddl(REJECTS_SCHEMA).with_nulls()


def rejects_of(source: str) -> str:
    """The dataset with the records of a source that could not be parsed.

    >>> rejects_of("rows")
    'tables/rows_rejects'
    """
    return f"tables/{source}_rejects"


def new_rejects(
    root: Root, dataset: str, there: Iterable[str], found: Iterable[str], directory: str, *, lost: Collection[str] = ()
) -> Change | None:
    """What brings records into a table of rejects that it does not have; None if it has them all.

    Args:
        root: The storage root.
        dataset: The table.
        there: Its files, below it.
        found: The files with what was rejected now, below the root.
        directory: Where it may write, below the table.
        lost: Those of its files that are lost, which leave the table.
    """
    found = list(found)
    if not found and not lost:
        return None
    there = [path for path in there if path not in lost]
    known = Counter(key for batch in _read(root, dataset, there) for key in _keys(batch))
    path = f"{directory}/rejects.parquet"
    batches = _others(_read(root, "", found), known)
    first = next(batches, None)
    if first is None:
        return Change(dataset, (), tuple(lost)) if lost else None

    def written() -> Iterator[pa.RecordBatch]:
        yield first
        yield from batches

    write_batches(root, f"{dataset}/{path}", written(), _SCHEMA.to_arrow())
    size = root.files.get_file_info(root.path(dataset, path)).size
    return Change(dataset, (described(root, dataset, path, size),), tuple(lost))


def _read(root: Root, dataset: str, paths: Iterable[str]) -> Iterator[pa.RecordBatch]:
    return read_batches(root, dataset, list(paths), _SCHEMA.to_arrow(), _ROWS)


def _others(batches: Iterable[pa.RecordBatch], known: Counter[bytes]) -> Iterator[pa.RecordBatch]:
    """The rows that are not known, each known one as often as it is."""
    for batch in batches:
        new = []
        for number, key in enumerate(_keys(batch)):
            if known[key]:
                known[key] -= 1
            else:
                new.append(number)
        if new:
            yield batch.take(new)


def _keys(batch: pa.RecordBatch) -> Iterator[bytes]:
    """What tells records apart; why they were rejected may be told otherwise now."""
    for file, record in zip(batch.column("file").to_pylist(), batch.column("record").to_pylist(), strict=True):
        yield hashlib.blake2b(repr((file, record)).encode(), digest_size=16).digest()
