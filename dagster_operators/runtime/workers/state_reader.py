"""Reading an operator's state from outside: the engine's workers open it as the operator's subtasks would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dagster_operators.functions.shipping import pickled
from dagster_operators.graph.state_tables import StateTable
from dagster_operators.state.state_file import StateFile
from dagster_operators.transactions.manifest import FileEntry

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class StateReader:
    """One state table as of an epoch.

    Attributes:
        operator: The operator's name.
        identity: What its state is addressed by.
        table: The state table.
        declared: What was declared of it.
        keys: What the operator's first input is distributed by.
        module: The user's module that the operator comes from.
        entries: The table's files.
        root: The storage root's path, as ``files`` takes it.
        files: The file system.
        epoch: The epoch.
        watermark: The operator's input watermark at its end, by which rows are expired.
        cache: Folder for local copies of the pipeline's state files.
    """

    operator: str
    identity: str
    table: str
    declared: StateTable
    keys: tuple[str, ...]
    module: str | None
    entries: Sequence[FileEntry]
    root: str
    files: Any
    epoch: int
    watermark: int
    cache: str | None

    def rows(self, session: SparkSession, parallelism: int) -> DataFrame:
        """The rows as a DataFrame of the declared columns."""
        declared = self.declared
        task = {
            "tables": {self.table: declared},
            "files": {self.table: [StateFile.of(entry.path, entry.rows, entry.size) for entry in self.entries]},
            "root": f"{self.root}/state",
            "filesystem": self.files,
            "directory": {self.table: "reading"},
            "epoch": self.epoch + 1,
            "parallelism": 1 if declared.kind == "global" else parallelism,
            "watermark": self.watermark,
            "operator": self.operator,
            "identity": self.identity,
            "cache": self.cache,
            "stream_key": self.keys,
        }
        payload = pickled(task, self.module, self.operator)
        table = self.table

        def scan(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pickle

            from dagster_operators.state.store import StateStore

            task = pickle.loads(payload)  # noqa: S301 - it came with the query
            for batch in batches:
                for subtask in batch.column(0).to_pylist():
                    yield from StateStore(**task, subtask=subtask)[table].scan_batches()

        return session.range(0, task["parallelism"], 1, task["parallelism"]).mapInArrow(scan, declared.ddl)
