"""Staged rows with their numbers, read by a worker itself and in the order that a subtask wants.

What is read first is the columns that say the order: they give each row its rank. Then the files are read side by side, and of
each no further than the next rows in the order need. What has to wait is kept in memory while it is little; otherwise all is
written once to a temporary file that is mapped, of which the system keeps in memory what fits.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dagster_operators.graph.places import PLACES, UNPLACED
from dagster_operators.operators.batch_operator import NUMBERS, ORIGIN, SEQUENCE
from dagster_operators.runtime.workers.task import NumberedFiles, StagedFile

_ROWS: Final = 8 * 1024
_BYTES: Final = 16 * 2**20
"""How many rows, and about how many bytes of them, are handed on at once."""

_WAITING_BYTES: Final = 256 * 2**20
"""So many bytes of rows may wait in memory for their turn."""

_READ_BYTES: Final = 2**20
"""So many bytes at once are read of files that cannot be mapped."""

_TYPES: Final = (pa.types.is_integer, pa.types.is_timestamp, pa.types.is_date)

_Places: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


def can_be_ordered(by: Sequence[str], schemas: Sequence[pa.Schema]) -> bool:
    """Whether rows can be put in order here as engines do: by whole numbers, dates and timestamps, of one type each.

    >>> schema = pa.schema([("t", pa.timestamp("us")), ("x", pa.float64())])
    >>> can_be_ordered(["t"], [schema]), can_be_ordered(["x"], [schema])
    (True, False)
    """
    for name in _own(by):
        kinds = {schema.field(name).type for schema in schemas}
        if len(kinds) > 1 or not any(is_one(kind) for is_one in _TYPES for kind in kinds):
            return False
    return True


def rows_of(file: StagedFile, entry: NumberedFiles, files: Any, size: int) -> Iterator[pa.RecordBatch]:
    """The rows of a file with their numbers, at most so many at once."""
    wanted, number = entry.whole, file.first
    stored = pa.schema([field for field in wanted if field.name not in (ORIGIN, SEQUENCE)])  # these are not in the file
    for batch in _read(file, stored, files, size):
        numbers = pa.array(np.arange(number, number + batch.num_rows, dtype=np.int64))
        number += batch.num_rows
        origin = pa.array([entry.origin], pa.string()).take(pa.array(np.zeros(batch.num_rows, np.int8)))
        columns = {**dict(zip(stored.names, batch.columns, strict=True)), ORIGIN: origin, SEQUENCE: numbers}
        yield pa.RecordBatch.from_arrays([columns[name] for name in wanted.names], schema=wanted)


def staged_rows(entries: Sequence[NumberedFiles | None], by: Sequence[str], files: Any) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of some streams, each with the number of its stream.

    Args:
        entries: The streams; None for one without rows.
        by: The columns that say the order, nulls first; what is equal in them comes by its origin, then by its place in the
            source if it has one, then by its number. Empty if there is no order.
        files: The file system.
    """
    parts = sorted(
        (_Part(number, entry, file, files) for number, entry in enumerate(entries) if entry is not None for file in entry.files),
        key=lambda part: (part.entry.origin, part.number, part.file.first),
    )
    if parts:
        with ExitStack() as stack:
            yield from _Merge(parts, _own(by)).rows(stack)


def _own(by: Sequence[str]) -> list[str]:
    return [name for name in by if name not in NUMBERS]


def _read(file: StagedFile, schema: pa.Schema, files: Any, size: int) -> Iterator[pa.RecordBatch]:
    """Some columns of a file in the types of a schema."""
    is_here = files.type_name == "local"
    with (
        pa.memory_map(file.path) if is_here else files.open_input_file(file.path) as opened,
        # Without a size of its buffer all of a column's bytes in a row group would be read at once.
        pq.ParquetFile(opened, buffer_size=0 if is_here else _READ_BYTES, coerce_int96_timestamp_unit="us") as parquet,
    ):
        for batch in parquet.iter_batches(size, columns=schema.names, use_threads=False):
            yield pa.RecordBatch.from_arrays([_column(batch, field) for field in schema], schema=schema)


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    if field.name in PLACES and field.name not in batch.schema.names:
        # The source does not know its rows' places: they come as they were staged.
        return pa.array(np.full(batch.num_rows, UNPLACED, np.int64))
    return batch.column(field.name).cast(field.type)


def _ascend(keys: Sequence[_Places], *, strictly: bool = False) -> bool:
    """Whether rows are in the order of some keys, of which earlier ones count more; strictly, if no two rows are equal in all."""
    undecided = np.ones(max(len(keys[0]) - 1, 0), bool)
    for key in keys:
        before, after = key[:-1], key[1:]
        if bool((undecided & (after < before)).any()):
            return False
        undecided &= after == before
    return not (strictly and bool(undecided.any()))


@dataclass
class _Held:
    """Rows that were read: the first one's place in its file, the rows, and how many of them are still to come."""

    start: int
    rows: pa.RecordBatch
    left: int


@dataclass
class _Part:
    """A file that is being read."""

    number: int
    entry: NumberedFiles
    file: StagedFile
    files: Any
    batches: Iterator[pa.RecordBatch] = field(default_factory=lambda: iter(()))
    held: list[_Held] = field(default_factory=list)
    read: int = 0

    def open(self, size: int) -> None:
        self.batches = rows_of(self.file, self.entry, self.files, size)

    def key(self, name: str) -> pa.Array:
        """A column that says the order."""
        schema = pa.schema([self.entry.whole.field(name)])
        found = [batch.column(0) for batch in _read(self.file, schema, self.files, 2**17)]
        return pa.concat_arrays(found) if found else pa.array([], schema.field(0).type)

    def place(self, name: str) -> _Places:
        """A column of the rows' places in the source; they are all alike where it is not wanted."""
        return self.key(name).to_numpy() if self.entry.placed else np.zeros(self.file.rows, np.int64)

    @property
    def stream(self) -> tuple[str, int]:
        """What its rows come from, and which stream that is."""
        return self.entry.origin, self.number

    def bytes(self) -> int:
        """About how many bytes its rows have."""
        with self.files.open_input_file(self.file.path) as opened:
            footer = pq.read_metadata(opened)
        return sum(footer.row_group(number).total_byte_size for number in range(footer.num_row_groups))

    def put_by(self, folder: str, number: int) -> None:
        """Write all rows to a file that is mapped."""
        path = Path(folder, str(number))
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, self.entry.whole) as writer:
            for batch in self.batches:
                writer.write_batch(batch)
        mapped = pa.ipc.open_file(pa.memory_map(str(path)))
        path.unlink()
        self.batches = (mapped.get_batch(number) for number in range(mapped.num_record_batches))

    def take(self, places: _Places) -> Iterator[pa.RecordBatch]:
        """The rows at some places in the file, which ascend; each is taken once."""
        while self.read <= places[-1]:
            batch = next(self.batches)
            self.held.append(_Held(self.read, batch, batch.num_rows))
            self.read += batch.num_rows
        for held in self.held:
            own = places[np.searchsorted(places, held.start) : np.searchsorted(places, held.start + held.rows.num_rows)]
            if len(own):
                held.left -= len(own)
                first, last = int(own[0]) - held.start, int(own[-1]) - held.start
                is_stretch = last - first + 1 == len(own)
                yield held.rows.slice(first, len(own)) if is_stretch else held.rows.take(pa.array(own - held.start))
        self.held = [held for held in self.held if held.left]


class _Merge:
    """The rows of several files in one order.

    Args:
        parts: The files, in the order in which rows come that are equal in the columns that say it.
        by: These columns.
    """

    def __init__(self, parts: Sequence[_Part], by: Sequence[str]) -> None:
        self._parts = parts
        counts = np.array([part.file.rows for part in parts], np.int64)
        self._starts = np.cumsum(counts) - counts
        self._total = int(counts.sum())
        sizes = np.array([part.bytes() for part in parts], np.float64)
        self._weights = sizes / np.maximum(counts, 1)
        self._order = self._ranked(by) if by else None

    def rows(self, stack: ExitStack) -> Iterator[tuple[int, pa.RecordBatch]]:
        """All rows, with the numbers of their streams."""
        some = min(_BYTES, 4 * _BYTES // len(self._parts))
        for part, weight in zip(self._parts, self._weights, strict=True):
            part.open(max(1, min(_ROWS, int(some // max(weight, 1)))))
        if self._order is None:
            for part in self._parts:
                yield from ((part.number, batch) for batch in part.batches)
            return
        if self._most_waiting() > _WAITING_BYTES:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="dagster_operators"))
            for number, part in enumerate(self._parts):
                part.put_by(folder, number)
        step = max(1, min(_ROWS, int(_BYTES // max(self._weights.max(), 1))))
        numbers = np.array([part.number for part in self._parts])
        for begin in range(0, self._total, step):
            places = self._order[begin : begin + step]
            which = self._parts_of(places)
            changes = np.flatnonzero(np.diff(numbers[which])) + 1
            for start, stop in pairwise([0, *changes.tolist(), len(places)]):
                for batch in self._gathered(places[start:stop], which[start:stop]):
                    yield int(numbers[which[start]]), batch

    def _ranked(self, by: Sequence[str]) -> _Places | None:
        """The places of rows, from first to last, in the order that is wanted; None if they are in it."""
        keys: list[Any] = []
        for name in by:
            column = pa.concat_arrays([part.key(name) for part in self._parts])
            if not pa.types.is_integer(column.type):
                column = column.view(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
            if column.null_count:
                keys.append(column.is_valid().to_numpy(zero_copy_only=False))
            keys.append(column.fill_null(0).to_numpy(zero_copy_only=False))
        if any(part.entry.placed for part in self._parts) and not _ascend(keys, strictly=True):
            streams = {key: rank for rank, key in enumerate(dict.fromkeys(part.stream for part in self._parts))}
            keys.append(np.repeat([streams[part.stream] for part in self._parts], [part.file.rows for part in self._parts]))
            keys += (np.concatenate([part.place(name) for part in self._parts]) for name in PLACES)
        if _ascend(keys):
            return None
        return np.argsort(keys[0], kind="stable") if len(keys) == 1 else np.lexsort(keys[::-1])

    def _parts_of(self, places: _Places) -> _Places:
        return np.searchsorted(self._starts, places, side="right") - 1

    def _most_waiting(self) -> float:
        """About how many bytes of rows that were read have to wait for their turn, at most."""
        if self._order is None:
            return 0.0
        which = self._parts_of(self._order)
        weights = self._weights[which]
        read = np.zeros(self._total)
        grouped = np.argsort(which, kind="stable")
        bounds = np.searchsorted(which[grouped], np.arange(len(self._parts) + 1))
        for part, (start, stop) in enumerate(pairwise(bounds.tolist())):
            ranks = grouped[start:stop]
            furthest = np.maximum.accumulate(self._order[ranks] - self._starts[part] + 1)
            read[ranks] = np.diff(furthest, prepend=0)
        return float((np.cumsum(read * weights) - np.cumsum(weights)).max(initial=0))

    def _gathered(self, places: _Places, which: _Places) -> Iterator[pa.RecordBatch]:
        """The rows at some places, in the order of these."""
        order = np.argsort(places, kind="stable")
        ascending, owners = places[order], which[order]
        changes = np.flatnonzero(np.diff(owners)) + 1
        pieces: list[pa.RecordBatch] = []
        for start, stop in pairwise([0, *changes.tolist(), len(places)]):
            part = int(owners[start])
            pieces += self._parts[part].take(ascending[start:stop] - self._starts[part])
        if bool((order[1:] > order[:-1]).all()):
            yield from pieces
            return
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        yield pa.concat_batches(pieces).take(pa.array(back))
