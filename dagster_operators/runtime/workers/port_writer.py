"""Writing a port's rows to Parquet from within a worker, in row groups of bounded size, with statistics for Delta's log."""

from __future__ import annotations

import uuid
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from dagster_operators.storage.parquet_stats import delta_stats
from dagster_operators.transactions.manifest import FileEntry

_ROWS: Final = 128 * 1024
_BYTES: Final = 64 * 1024 * 1024


class PortWriter:
    """One file of a subtask; it is there once :meth:`close` has returned, and nobody reads it before the commit.

    Args:
        base: The dataset's folder, as the file system has it.
        directory: The attempt's folder in it.
        subtask: Becomes part of the file's name.
        schema: The rows' schema.
        files: The file system.
    """

    def __init__(self, base: str, directory: str, subtask: int, schema: pa.Schema, files: fs.FileSystem) -> None:
        self._base = base
        self._directory = directory
        self._path = f"{directory}/part-{subtask:05d}-{uuid.uuid4().hex}.parquet"
        self._schema = schema
        self._files = files
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []
        self._rows = self._bytes = 0

    def write(self, rows: pa.Table) -> None:
        """Add rows."""
        self._waiting.append(rows)
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        if self._rows >= _ROWS or self._bytes >= _BYTES:
            self._flush()

    def close(self) -> FileEntry | None:
        """Finish the file; None when there was no row."""
        self._flush()
        if self._writer is None:
            return None
        self._writer.close()
        path = f"{self._base}/{self._path}"
        size: int = self._files.get_file_info(path).size
        footer = pq.read_metadata(path, filesystem=self._files)
        return FileEntry(self._path, size, footer.num_rows, delta_stats(footer))

    def _flush(self) -> None:
        if not self._waiting:
            return
        if self._writer is None:
            self._files.create_dir(f"{self._base}/{self._directory}", recursive=True)
            self._writer = pq.ParquetWriter(
                f"{self._base}/{self._path}", self._schema, filesystem=self._files, compression="zstd", use_dictionary=True,
                coerce_timestamps="us", store_schema=False,
            )  # fmt: skip
        self._writer.write_table(pa.concat_tables(self._waiting))
        self._waiting, self._rows, self._bytes = [], 0, 0
