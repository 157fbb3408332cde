"""The ledger's rows as small Parquet files: written one by one, read from the end, folded into larger ones now and then."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dagster_operators.errors import DamagedLedgerError, LedgerError, StorageError
from dagster_operators.storage.digests import digest_of
from dagster_operators.storage.log_damage import damage
from dagster_operators.storage.log_entry import LoggedFile
from dagster_operators.storage.log_sense import refusals
from dagster_operators.storage.parquet_writer import as_parquet
from dagster_operators.storage.tiers import tier
from dagster_operators.transactions.codec import MADE_WHOLE
from dagster_operators.transactions.records import Entry, body, from_body

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

    from dagster_operators.storage.delta_commit import TableLog
    from dagster_operators.storage.root import Root

COLUMNS: Final = (
    ("seq", "long"),
    ("kind", "string"),
    ("epoch", "long"),
    ("generation", "long"),
    ("at", "timestamp"),
    ("body", "string"),
)
"""The ledger's columns as Spark names their types: ``at`` is when the record was written, ``body`` its fields as JSON."""

SCHEMA_JSON: Final = json.dumps(
    {"type": "struct", "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in COLUMNS]}
)

FOLD_COUNT: Final = 16
"""So many neighbouring files of one size class become one."""

_DIGEST: Final = re.compile(r"^r\d+-[0-9a-f]{12}-([0-9a-f]{32})\.parquet$")
"""How a file of records is called; those of earlier versions have no digest in their names."""

LARGEST_FOLD: Final = 8 << 20
"""Files that together would be larger than this many bytes stay as they are: folding stays cheap, however long the history."""


@dataclass(frozen=True)
class LedgerFile:
    """An active file: its path within the ledger, the range of its rows and its size in bytes."""

    path: str
    first: int
    last: int
    size: int

    @property
    def logged(self) -> LoggedFile:
        """As the Delta log has it."""
        bounds = {"minValues": {"seq": self.first}, "maxValues": {"seq": self.last}, "nullCount": {"seq": 0}}
        return LoggedFile(self.path, self.size, json.dumps({"numRecords": self.last - self.first + 1, **bounds}))

    @property
    def size_class(self) -> int:
        """0 for up to 15 rows, 1 for up to 255, and so on."""
        return tier(self.last - self.first + 1, FOLD_COUNT)


@contextmanager
def loaded(root: Root, log: TableLog) -> Iterator[DeltaTable | None]:
    """The newest version of the ledger's table, to be looked at; None if there is none.

    Raises:
        DamagedLedgerError: Its log is not whole.
        StorageError: It cannot be reached.
    """
    with ExitStack() as opened:
        try:
            with root.guard("ledger", "the ledger cannot be read"), refusals("ledger", root.uri):
                table = opened.enter_context(log.reading())
        except StorageError:
            if problem := damage(root, "ledger"):
                raise damaged_ledger(root, problem) from None
            raise
        yield table


def active_files(root: Root, table: DeltaTable) -> list[LedgerFile]:
    """The files of the loaded version in the order of their rows, by their statistics alone.

    Raises:
        DamagedLedgerError: They have none.
    """
    actions = table.get_add_actions(flatten=True)
    try:
        columns = [actions.column(name).to_pylist() for name in ("path", "min.seq", "max.seq", "size_bytes")]
        files = sorted((LedgerFile(*values) for values in zip(*columns, strict=True)), key=lambda file: file.first)
        if all(0 < file.first <= file.last for file in files):
            return files
    except (KeyError, TypeError):  # some statistics are missing, or all
        pass
    raise damaged_ledger(root, "its log does not say which records are in its files")


def write_rows(root: Root, rows: pa.Table) -> LedgerFile:
    """Write rows of the ledger as one file, which nobody sees until it is committed."""
    import pyarrow.compute as pc

    limits = pc.min_max(rows["seq"]).as_py()
    content = as_parquet(rows, write_statistics=False)
    path = f"r{limits['min']:012d}-{uuid.uuid4().hex[:12]}-{digest_of(content)}.parquet"
    root.write(f"ledger/{path}", content, in_place=True)
    root.flush([f"ledger/{path}"])
    return LedgerFile(path, limits["min"], limits["max"], len(content))


def read_rows(root: Root, file: LedgerFile) -> pa.Table:
    """The rows of one file.

    Raises:
        DamagedLedgerError: It cannot be read, or has other rows than it should.
        FileNotFoundError: It is not there.
    """
    rows = rows_of(root, file.path)
    if sorted(rows["seq"].to_pylist()) != [*range(file.first, file.last + 1)]:
        raise damaged_ledger(root, f"records {file.first} to {file.last} are not whole", file.path)
    return rows


def rows_of(root: Root, path: str) -> pa.Table:
    """The rows of a file, by its path within the ledger."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = root.read(f"ledger/{path}")
    if content is None:
        raise FileNotFoundError(path)
    named = _DIGEST.search(path)
    if named and digest_of(content) != named[1]:
        raise _changed(root, path)
    try:
        rows = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True).read()
        is_whole = rows.schema == _schema() and not any(column.null_count for column in rows.columns)
    except (pa.ArrowException, OSError, ValueError):
        raise _changed(root, path) from None
    if not is_whole:
        raise _changed(root, path)
    return rows


def _changed(root: Root, path: str) -> DamagedLedgerError:
    return damaged_ledger(root, "a file of records is empty, cut short or was changed", path)


def _schema() -> pa.Schema:
    import pyarrow as pa

    types = {"long": pa.int64(), "string": pa.string(), "timestamp": pa.timestamp("us", "UTC")}
    return pa.schema([(name, types[kind]) for name, kind in COLUMNS])


def require_whole(root: Root, files: Sequence[LedgerFile]) -> None:
    """Records are numbered without gaps: all must be there.

    Raises:
        DamagedLedgerError: Some are not.
    """
    last = 0
    for file in files:
        if file.first != last + 1:
            lost = f"record {last + 1} is" if file.first == last + 2 else f"records {last + 1} to {file.first - 1} are"
            raise damaged_ledger(
                root, f"{lost} missing" if file.first > last else f"record {file.first} is there twice", file.path
            )
        last = file.last


def no_ledger(root: Root) -> LedgerError:
    """The error for a root without a ledger."""
    return LedgerError("there is no pipeline in the storage root", file=root.uri, remedy="name the root of one that has run")


def damaged_ledger(root: Root, problem: str, path: str = "") -> DamagedLedgerError:
    """The error for a ledger that is not whole."""
    return DamagedLedgerError(
        f"the ledger is damaged: {problem}",
        file=root.join("ledger", path) if path else root.join("ledger"),
        remedy=MADE_WHOLE,
    )


def to_row(entry: Entry) -> pa.Table:
    """A record as a table of one row."""
    import pyarrow as pa

    record = entry.record
    values = (entry.seq, record.kind, record.epoch, record.generation, round(entry.at * 1_000_000), body(record))
    schema = _schema()
    # pa.array would do as well, but it imports pandas, which takes longer than the whole epoch's commit
    columns = [pa.repeat(pa.scalar(value, field.type), 1) for value, field in zip(values, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def to_entries(rows: pa.Table, after: int = 0, kinds: Collection[str] | None = None) -> tuple[Entry, ...]:
    """The rows behind ``after`` (and of the given kinds) as records."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = rows.filter(pc.greater(rows["seq"], after)).sort_by("seq")
    moments = rows["at"].cast(pa.int64()).to_pylist()
    seqs, names, bodies = (rows[name].to_pylist() for name in ("seq", "kind", "body"))
    return tuple(
        Entry(seq, at / 1_000_000, from_body(kind, text))
        for seq, at, kind, text in zip(seqs, moments, names, bodies, strict=True)
        if kinds is None or kind in kinds
    )


def foldable(files: Sequence[LedgerFile]) -> list[LedgerFile]:
    """The next group of neighbouring files to be folded into one; none when there is none. The first file always stays.

    >>> foldable([LedgerFile(f"f{n}", n, n, 100) for n in range(1, 17)])
    []
    >>> [file.path for file in foldable([LedgerFile(f"f{n}", n, n, 100) for n in range(1, 18)])][::15]
    ['f2', 'f17']
    """
    group: list[LedgerFile] = []
    for file in reversed(files[1:]):
        if group and file.size_class != group[-1].size_class:
            if len(group) >= FOLD_COUNT:
                break
            group = []
        group.append(file)
    fits = len(group) >= FOLD_COUNT and sum(file.size for file in group) <= LARGEST_FOLD
    return group[::-1] if fits else []


def last_rows(tables: Iterable[pa.Table]) -> pa.Table:
    """The rows from the begin of the last completed epoch on (all rows when none is complete), of files from the last on."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows: pa.Table = None
    for read in tables:
        rows = read if rows is None else pa.concat_tables([read, rows])
        complete = rows.filter(pc.equal(rows["kind"], "complete"))
        if complete.num_rows:
            epoch = pc.max(complete["epoch"]).as_py()
            begins = rows.filter(pc.and_(pc.equal(rows["kind"], "begin"), pc.equal(rows["epoch"], epoch)))
            if begins.num_rows:
                return rows.filter(pc.greater_equal(rows["seq"], pc.min(begins["seq"])))
    return rows
