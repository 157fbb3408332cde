"""Writing rows as Parquet files that no reader sees yet, and reading tables by their file list.

The engine writes the files; what the log needs to know about each (rows, statistics) is read back from its footer. Files are
listed after the write instead of being predicted, because engines name them differently.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final

from dagster_operators.connectors.dialect import reader_paths, writer_path
from dagster_operators.errors import StageFailedError
from dagster_operators.operators.engine_schema import struct
from dagster_operators.operators.one_nan import with_one_nan
from dagster_operators.operators.one_task import FEW_BYTES, FEW_ROWS, in_one_task, of_size
from dagster_operators.runtime.stages.reach import check_reach
from dagster_operators.runtime.stages.staged_rows import described, write_batches
from dagster_operators.storage.presence import lost_files
from dagster_operators.transactions.counts import check_written
from dagster_operators.transactions.lost import PUT_BACK, RUN_AGAIN, lost_error, written_files
from dagster_operators.transactions.manifest import FileEntry
from dagster_operators.types.names import quoted
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

    from dagster_operators.storage.root import Root

_FEW = 4
_APART = "apart"
_UNFINISHED: Final = re.compile(r"\.parquet#\d+$")
"""What Sail calls a file that it is writing."""


class StagedFiles:
    """The files below a storage root, as the engine writes and reads them.

    Args:
        root: The storage root.
        session: The engine's session.
        wrote: Called after each query that wrote files.
        partitions: The partition columns of datasets that have some.
    """

    def __init__(
        self,
        root: Root,
        session: SparkSession,
        wrote: Callable[[], None] = lambda: None,
        partitions: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._root = root
        self._session = session
        self._wrote = wrote
        self._partitions = partitions or {}
        self._looked_at: set[str] = set()

    def write(
        self, frame: DataFrame, dataset: str, directory: str, schema_json: str, *, longest: int = 0
    ) -> tuple[FileEntry, ...]:
        """Write the rows to new files in a folder of the dataset that nothing else uses.

        Args:
            frame: The rows.
            dataset: For example ``tables/clean``.
            directory: The folder in it, relative to the dataset.
            schema_json: The columns that the plan says they have.
            longest: Of so many rows a file is to have no more; 0 for any number. Sail ignores it.

        Returns:
            The files that hold rows, their paths relative to the dataset.

        Raises:
            SchemaError: The engine wrote other columns or types.
        """
        writer = apart(frame, self._partitions.get(dataset, ())).mode("append").option("maxRecordsPerFile", longest)
        writer.parquet(writer_path(self._session, self._root.engine_uri(dataset, directory)))
        self._wrote()
        listed = self._root.sizes(f"{dataset}/{directory}")
        if not listed:  # Sail writes no file without rows, Spark at least a mark of success
            check_reach(self._session, self._root, f"{dataset}/{directory}/probe")
        return self._collected(listed, dataset, directory, schema_json)

    def write_here(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, dataset: str, directory: str, schema_json: str
    ) -> tuple[FileEntry, ...]:
        """The same for rows that are in this process: one file of them, in a folder that nothing else uses."""
        written = write_batches(self._root, f"{dataset}/{directory}/part-0.parquet", batches, schema)
        self._wrote()
        entries = self.collect(dataset, directory, schema_json)
        check_written(written, entries, dataset)
        return entries

    def collect(self, dataset: str, directory: str, schema_json: str) -> tuple[FileEntry, ...]:
        """The files that a write left in a folder, without those that hold no rows; their footers are read once.

        What lies in folders of Spark's own, such as ``_temporary``, may be of a task that was given up and goes on all the same.

        Raises:
            StageFailedError: A file has the name still that Sail gives it until it is whole: its rows would be missing.
        """
        return self._collected(self._root.sizes(f"{dataset}/{directory}"), dataset, directory, schema_json)

    def _collected(self, listed: Mapping[str, int], dataset: str, directory: str, schema_json: str) -> tuple[FileEntry, ...]:
        if unfinished := sorted(filter(_UNFINISHED.search, listed)):
            raise StageFailedError(
                "the engine said that rows are written, and a file of them is not finished",
                file=unfinished[0], remedy="run again: the stage writes them anew",
            )  # fmt: skip
        paths = {path.removeprefix(f"{dataset}/"): size for path, size in listed.items() if path.endswith(".parquet")}
        found = sorted(item for item in paths.items() if not _is_hidden(item[0].removeprefix(directory)))
        by = self._partitions.get(dataset, ())
        if by and self._root.is_local:
            found = [(self._renamed(dataset, path), size) for path, size in found]
        describe = partial(described, self._root, dataset, partition_by=by, planned=Schema.from_json(schema_json))
        if len(found) < _FEW:
            entries = [describe(path, size) for path, size in found]
        else:
            with ThreadPoolExecutor(8) as pool:
                entries = list(pool.map(lambda item: describe(*item), found))
        self._looked_at.update(f"{dataset}/{path}" for path, _ in found)
        return tuple(entry for entry in entries if entry.rows)

    def _renamed(self, dataset: str, path: str) -> str:
        """Where a file is once its folder is not called as if that told a column's value: Polars refuses a table with such.

        On an object store it would be a copy of each file, so there they stay.
        """
        folder, _, name = path.rpartition("/")
        above, _, last = folder.rpartition("/")
        if not last.startswith(_APART) or "=" not in last:
            return path
        to = f"{above}/{last.replace('=', '-')}/{name}"
        self._root.move(f"{dataset}/{path}", f"{dataset}/{to}")
        return to

    def read(self, dataset: str, files: Iterable[FileEntry], schema_json: str) -> DataFrame | None:
        """The rows of some files of a dataset, in one partition if they are few; None without files.

        Raises:
            LostFileError: A file is missing, which some engines would read as empty, or not as it was written.
        """
        wanted = list(files)
        if not wanted:
            return None
        self._require(dataset, wanted)
        paths = reader_paths(self._session, [self._root.engine_uri(dataset, file.path) for file in wanted])
        rows = self._session.read.schema(struct(schema_json)).parquet(*paths)
        rows = with_one_nan(rows, schema_json)
        size, count = sum(file.size for file in wanted), sum(file.rows for file in wanted)
        if size > FEW_BYTES:
            return of_size(rows, size, count if all(file.rows for file in wanted) else None)
        return in_one_task(rows, size, count if count <= FEW_ROWS else None)

    def _require(self, dataset: str, files: Iterable[FileEntry]) -> None:
        """Look whether files are there as they were written; a store is asked once for each."""
        wanted = written_files(dataset, files)
        new = {path: file for path, file in wanted.items() if self._root.is_local or path not in self._looked_at}
        if lost := lost_files(self._root, new):
            raise lost_error(lost, "rows cannot be read", RUN_AGAIN if dataset.startswith("streams/") else PUT_BACK)
        self._looked_at.update(new)


def apart(frame: DataFrame, by: Sequence[str]) -> DataFrameWriter:
    """A writer that leaves rows with different values in some columns in different files, and all columns in them.

    The folders are named by a digest: a value may be any text of any length.
    """
    if not by:
        return frame.write
    folder = _APART
    while folder in (name.lower() for name in frame.columns):
        folder += "_"
    texts = [f"CAST({quoted(name)} AS STRING)" for name in by]
    told = ", ".join(f"coalesce(concat(CAST(length({text}) AS STRING), ':', {text}), 'null')" for text in texts)
    return frame.selectExpr("*", f"md5(CAST(concat_ws(',', {told}) AS BINARY)) AS {folder}").write.partitionBy(folder)


def _is_hidden(path: str) -> bool:
    """Whether a file lies in a folder, or has a name, that readers of a folder leave out.

    >>> _is_hidden("part-0.parquet"), _is_hidden("/_temporary/0/part-0.parquet")
    (False, True)
    """
    return any(part.startswith(("_", ".")) for part in path.split("/"))
