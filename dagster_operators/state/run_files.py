"""The files of one state table: runs written as Parquet, and read back through the local copies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dagster_operators.errors import StorageError
from dagster_operators.graph.state_tables import HASH
from dagster_operators.state.evolution import evolved
from dagster_operators.state.local_copies import LocalCopies
from dagster_operators.state.ranges import column_times
from dagster_operators.state.run import Run
from dagster_operators.state.state_file import StateFile, new_file
from dagster_operators.state.table_part import TablePart
from dagster_operators.storage.parquet_writer import ROW_GROUP, write_table
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK

_ANEW: Final = (
    "run again; if the file is damaged, put it back from a backup, or pipeline.rebuild() computes anew, from what the sources "
    "gave, what is in it"
)

_ROOM: Final = "see that the storage root has room and may be written to; then run again"


class RunFiles:
    """Reads and writes the files of one table.

    Args:
        part: Whose table it is.
        folder: The table's folder, as the file system takes it; None when there is none to write to.
        filesystem: A pyarrow file system.
        directory: The folder of this attempt, relative to the table's.
        copies: The local copies, if there are any.
    """

    def __init__(self, part: TablePart, folder: str | None, filesystem: Any, directory: str, copies: LocalCopies | None) -> None:
        self._part = part
        self._folder = folder
        self._filesystem = filesystem
        self._directory = directory
        self._copies = copies

    def read(self, file: StateFile) -> Run:
        """The part of a file's rows that belongs to this subtask.

        Raises:
            ChangedPipelineError: The file was written for another declaration and cannot be migrated.
            StorageError: The file cannot be read.
        """
        stored = self._copies.read(file.name) if self._copies else None
        if stored is None:
            stored = self._decode(file)
            if self._copies:
                self._copies.write(file.name, stored)
                stored = self._copies.read(file.name) or stored
        run = Run.of(evolved(stored, self._part, file.version), file.epochs, file.subtask, file.round)
        return run.between(self._part.low, self._part.high)

    def _decode(self, file: StateFile) -> Any:
        path = f"{self._folder}/{file.path}"
        try:
            with self._filesystem.open_input_file(path) as source:
                table = pq.ParquetFile(source, pre_buffer=True, page_checksum_verification=True).read(use_threads=False)
        except (OSError, pa.ArrowInvalid) as error:
            where = {"operator": self._part.owner.operator, "table": self._part.name, "file": path}
            raise StorageError(f"a file of the operator's state cannot be read: {error}", remedy=_ANEW, **where) from error
        batches = table.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)

    def write(self, runs: Iterable[Run], epochs: tuple[int, int], level: int, number: int = 0) -> list[StateFile]:
        """Write runs of ascending hashes, each to a file of its own; those without rows to none.

        Args:
            runs: The runs.
            epochs: The first and the last epoch whose changes they hold.
            level: How often they were merged.
            number: The round of the last epoch, for an operator in a loop.

        Raises:
            StorageError: A file cannot be written.
        """
        return [self._write(run, epochs, level, number) for run in runs if len(run)]

    def _write(self, run: Run, epochs: tuple[int, int], level: int, number: int) -> StateFile:
        batch = stored_batch(run, self._part.declaration.stored_schema)
        file = new_file(
            self._directory, len(run), epochs=epochs, level=level, subtask=self._part.owner.subtask,
            version=self._part.declaration.version, deletes=run.deleted is not None and bool(run.deleted.any()),
            hashes=(int(run.hashes[0]), int(run.hashes[-1])), times=self._times(run), round=number,
        )  # fmt: skip
        path = f"{self._folder}/{file.path}"
        try:
            size = write_table(self._filesystem, path, pa.Table.from_batches([batch]), row_group_size=ROW_GROUP)
        except OSError as error:
            where = {"operator": self._part.owner.operator, "table": self._part.name, "file": path}
            raise StorageError(f"a file of the operator's state cannot be written: {error}", remedy=_ROOM, **where) from error
        if self._copies:
            self._copies.write(file.name, batch)
        return StateFile.of(file.path, file.rows, size)

    def _times(self, run: Run) -> tuple[int, int] | None:
        """The bounds of the rows' times; those that say that something is gone count in a TimeState only, where they have one."""
        declaration = self._part.declaration
        if declaration.time is None:
            return None
        times = column_times(run.table.column(declaration.time))
        if run.deleted is not None and declaration.kind != "time":
            times = times[~run.deleted]
        if not len(times):
            return MAX_WATERMARK, MIN_WATERMARK
        return int(times.min()), int(times.max())


def stored_batch(run: Run, schema: pa.Schema) -> Any:
    """A run with all stored columns as a record batch, as it is written."""
    columns = {
        HASH: pa.array(np.ascontiguousarray(run.hashes)),
        **dict(zip(run.table.schema.names, run.table.columns, strict=True)),
    }
    return pa.record_batch([columns[name] for name in schema.names], schema=schema)
