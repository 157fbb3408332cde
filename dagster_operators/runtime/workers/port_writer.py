"""Writing a port's rows to Parquet from within a worker, in row groups of bounded size, with statistics for Delta's log."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from dagster_operators.storage.parquet_stats import delta_stats
from dagster_operators.storage.parquet_writer import ParquetWriter
from dagster_operators.transactions.manifest import FileEntry


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
        self._path = f"{directory}/part-{subtask:05d}-{uuid.uuid4().hex}.parquet"
        self._full_path = f"{base}/{self._path}"
        self._files = files
        self._writer = ParquetWriter(files, self._full_path, schema)

    def write(self, rows: pa.Table) -> None:
        """Add rows."""
        self._writer.write(rows)

    def close(self) -> FileEntry | None:
        """Finish the file; None when there was no row."""
        self._writer.close()
        if not self._writer.rows:
            return None
        size: int = self._files.get_file_info(self._full_path).size
        footer = pq.read_metadata(self._full_path, filesystem=self._files)
        return FileEntry(self._path, size, footer.num_rows, delta_stats(footer))
