"""Rows between tasks, in files: a task writes one file for each data set that others read, with a chunk for each reading part.

The index of a file (where the chunks of each part are) is in the report of the task that wrote it, not in the file.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import LostFileError, StorageError
from dagster_operators.operators.datasets.columns.column_rows import (
    ColumnRows,
    batches_within,
    content_of,
    holds_batches,
    rows_within,
)
from dagster_operators.operators.datasets.rows import Row
from dagster_operators.operators.datasets.running.packed_rows import packed, unpacked

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.fs import FileSystem

_ROWS_OF_CHUNK: Final = 4096
_AGAIN: Final = "run again: the stage writes them anew"


@dataclass(frozen=True)
class Chunk:
    """Rows in a file.

    Attributes:
        file: The file's name in the folder of the exchanges.
        offset: The place of the first byte.
        size: The number of bytes.
        rows: The number of rows.
        checksum: Of the bytes.
        layout: What tells the fields of rows apart whose columns were written; empty where rows were pickled.
    """

    file: str
    offset: int
    size: int
    rows: int
    checksum: int
    layout: str = ""


@dataclass
class Stored:
    """A data set in files, by parts.

    Attributes:
        parts: The chunks of each part; a part without rows has none.
    """

    parts: dict[int, list[Chunk]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of all rows."""
        return sum(chunk.rows for chunks in self.parts.values() for chunk in chunks)

    @property
    def size(self) -> int:
        """The number of all bytes."""
        return sum(chunk.size for chunks in self.parts.values() for chunk in chunks)

    @property
    def chunks(self) -> list[Chunk]:
        """The chunks of all parts, in the order of the parts."""
        return [chunk for part in sorted(self.parts) for chunk in self.parts[part]]

    def add(self, parts: Mapping[int, Sequence[Chunk]]) -> None:
        """Add the chunks of a task."""
        for part, chunks in parts.items():
            self.parts.setdefault(part, []).extend(chunks)


@dataclass(frozen=True)
class ExchangeFolder:
    """The folder of a run's exchanges.

    Attributes:
        files: The file system.
        path: The folder.
        shipped: The same file system for other processes, which pickles without keys; None where it is given as it is.
    """

    files: FileSystem
    path: str
    shipped: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        """The folder as another process has it."""
        return ExchangeFolder, (self.files if self.shipped is None else self.shipped, self.path)

    def read(self, chunks: Iterable[Chunk]) -> Iterator[Row]:
        """The rows of some chunks.

        Raises:
            LostFileError: A file is missing.
            StorageError: The bytes are not those that were written.
        """
        for content in self.contents(chunks):
            yield from rows_within(content) if holds_batches(content) else unpacked(content)

    def columns(self, chunks: Sequence[Chunk]) -> ColumnRows | None:
        """The rows of some chunks by their columns; None where rows were pickled, or have different fields.

        Raises:
            LostFileError: A file is missing.
            StorageError: The bytes are not those that were written.
        """
        if len({chunk.layout for chunk in chunks}) != 1 or not chunks[0].layout:
            return None
        layout, _ = batches_within(next(self.contents(chunks[:1])))

        def batches() -> Iterator[pa.RecordBatch]:
            for content in self.contents(chunks):
                yield from batches_within(content)[1]

        return ColumnRows(layout, batches, sum(chunk.rows for chunk in chunks))

    def contents(self, chunks: Iterable[Chunk]) -> Iterator[bytes]:
        """The bytes of some chunks.

        Raises:
            LostFileError: A file is missing.
            StorageError: The bytes are not those that were written.
        """
        opened: dict[str, Any] = {}
        try:
            for chunk in chunks:
                if chunk.file not in opened:
                    while opened:
                        opened.popitem()[1].close()
                    opened[chunk.file] = self._open(chunk.file)
                source = opened[chunk.file]
                source.seek(chunk.offset)
                content = source.read(chunk.size)
                if zlib.crc32(content) != chunk.checksum:
                    raise StorageError("rows of an exchange are not as they were written", file=chunk.file, remedy=_AGAIN)
                yield content
        finally:
            for source in opened.values():
                source.close()

    def _open(self, name: str) -> Any:
        try:
            return self.files.open_input_file(f"{self.path}/{name}")
        except FileNotFoundError as error:
            raise LostFileError("rows of an exchange are missing", file=name, remedy=_AGAIN) from error

    def writer(self, stem: str) -> ChunkWriter:
        """A writer of a new file, which has a name that no other attempt gives."""
        return ChunkWriter(self, f"{stem}-{uuid.uuid4().hex[:12]}.rows")

    def delete(self, names: Iterable[str]) -> None:
        """Delete files, as far as they are there."""
        for name in set(names):
            try:
                self.files.delete_file(f"{self.path}/{name}")
            except FileNotFoundError:
                continue


class ChunkWriter:
    """Writes chunks of parts into a file, which begins with the first of them.

    Args:
        folder: The folder.
        name: The file's name.
    """

    def __init__(self, folder: ExchangeFolder, name: str) -> None:
        self._folder = folder
        self._name = name
        self._stream: Any = None
        self._offset = 0
        self._waiting: dict[int, list[Row]] = {}
        self.parts: dict[int, list[Chunk]] = {}
        """The chunks that were written, by part."""

    def add(self, part: int, row: Row) -> None:
        """Add a row of a part."""
        waiting = self._waiting.get(part)
        if waiting is None:
            waiting = self._waiting[part] = []
        waiting.append(row)
        if len(waiting) >= _ROWS_OF_CHUNK:
            self._flush(part)

    def add_batch(self, part: int, batch: pa.RecordBatch, layout: str) -> None:
        """Write a batch of a part's rows, behind those that wait.

        Args:
            part: The part.
            batch: The batch.
            layout: What tells the fields of its rows apart.
        """
        if part in self._waiting:
            self._flush(part)
        self.write(part, content_of(batch), batch.num_rows, layout)

    def write(self, part: int, content: bytes | pa.Buffer, rows: int, layout: str = "") -> None:
        """Write a chunk of a part.

        Args:
            part: The part.
            content: The bytes.
            rows: The number of rows.
            layout: What tells the fields of rows apart whose columns these are.
        """
        if self._stream is None:
            self._stream = self._folder.files.open_output_stream(f"{self._folder.path}/{self._name}")
        self._stream.write(content)
        chunk = Chunk(self._name, self._offset, len(content), rows, zlib.crc32(content), layout)
        self.parts.setdefault(part, []).append(chunk)
        self._offset += len(content)

    def close(self) -> None:
        """Write the rows that wait, and close the file."""
        for part in list(self._waiting):
            self._flush(part)
        if self._stream is not None:
            self._stream.close()

    def _flush(self, part: int) -> None:
        rows = self._waiting.pop(part)
        self.write(part, packed(rows), len(rows))
