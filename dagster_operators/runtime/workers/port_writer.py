"""Writing a port's rows to Parquet from within a worker, in row groups of bounded size, with statistics for Delta's log."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from dagster_operators.storage.parquet_stats import delta_stats
from dagster_operators.storage.parquet_writer import ROW_GROUP_BYTES, ParquetWriter
from dagster_operators.storage.partitions import Values, parts_of, without_empty
from dagster_operators.transactions.counts import check_written
from dagster_operators.transactions.manifest import FileEntry


class PortWriter:
    """The files of a subtask's port, one for each partition.

    They are there once :meth:`close` is through, and nobody reads them before the commit.

    Args:
        base: The dataset's folder, as the file system has it.
        directory: The attempt's folder in it.
        subtask: Becomes part of the file's name.
        schema: The rows' schema.
        files: The file system.
        partition_by: The partition columns; without any there is one file.
    """

    def __init__(
        self,
        base: str,
        directory: str,
        subtask: int,
        schema: pa.Schema,
        files: fs.FileSystem,
        *,
        partition_by: Sequence[str] = (),
    ) -> None:
        self._base, self._directory, self._subtask = base, directory, subtask
        self._schema = schema
        self._files = files
        self._by = partition_by
        self._writers: dict[Values, tuple[str, ParquetWriter]] = {}

    def write(self, rows: pa.Table) -> None:
        """Add rows."""
        for values, part in parts_of(rows, self._by):
            self._writer(values).write(part)

    def _writer(self, values: Values) -> ParquetWriter:
        if values not in self._writers:
            path = f"{self._directory}/part-{self._subtask:05d}-{uuid.uuid4().hex}.parquet"
            size = ROW_GROUP_BYTES // (8 if values else 1)
            writer = ParquetWriter(self._files, f"{self._base}/{path}", self._schema, group_bytes=size)
            self._writers[without_empty(values)] = path, writer
        return self._writers[values][1]

    def close(self) -> Iterator[FileEntry]:
        """Finish the files; those that have rows."""
        for values, (path, writer) in self._writers.items():
            writer.close()
            if writer.rows:
                size: int = self._files.get_file_info(f"{self._base}/{path}").size
                footer = pq.read_metadata(f"{self._base}/{path}", filesystem=self._files)
                entry = FileEntry(path, size, footer.num_rows, delta_stats(footer, self._by), values)
                check_written(writer.rows, (entry,), self._base)
                yield entry
