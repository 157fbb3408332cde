"""The worker's side of a batch stage: rows in by batches, files of outputs and state out, and a report to the driver.

An exception never leaves through the engine, which would turn it into text: it goes into the report with its fields.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from dagster_operators.errors import OperatorsError, StorageError
from dagster_operators.operators.arrow.arrow_operator import ArrowOperator
from dagster_operators.runtime.workers.port_writer import PortWriter
from dagster_operators.runtime.workers.subtask import Link, Place, Subtask
from dagster_operators.runtime.workers.task import MARKER, PORT, SUBTASK, BatchTask, LinkTask
from dagster_operators.state.store import StateStore
from dagster_operators.transactions.codec import encode
from dagster_operators.transactions.manifest import FileEntry


def run_partition(task: BatchTask, partition: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run the subtasks whose rows are in a partition; yields their reports."""
    subtasks: dict[int, _Worker] = {}
    try:
        if task.routing == "by partition":
            subtasks[partition] = _Worker(task, partition)
        for batch in batches:
            for subtask, port, rows in _parts(task, partition, batch):
                if subtask not in subtasks:
                    subtasks[subtask] = _Worker(task, subtask)
                if port != MARKER:
                    subtasks[subtask].process(port, rows)
        reports = [worker.finish() for worker in subtasks.values()]
    except OperatorsError as error:
        reports = [{"error": type(error).__name__, "problem": error.problem, "remedy": error.remedy, "where": error.where}]
    except OSError as error:
        reports = [
            {"error": StorageError.__name__, "problem": f"a worker cannot read or write: {error}", "remedy": "", "where": {}}
        ]
    if reports:
        yield pa.RecordBatch.from_pydict({"report": [json.dumps(report, default=str) for report in reports]})


def _parts(task: BatchTask, partition: int, batch: pa.RecordBatch) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """A batch cut by subtask and input; rows of one subtask and input stay in their order."""
    if not batch.num_rows:
        return
    if PORT not in batch.schema.names:
        yield partition, 0, _input(task, batch, 0)
        return
    ports = batch.column(PORT).to_numpy(zero_copy_only=False)
    placed = task.routing == "by partition"
    subtasks = np.full_like(ports, partition) if placed else batch.column(SUBTASK).to_numpy(zero_copy_only=False)
    if subtasks[0] == subtasks[-1] and ports[0] == ports[-1] and (subtasks == subtasks[0]).all() and (ports == ports[0]).all():
        yield int(subtasks[0]), int(ports[0]), _input(task, batch, int(ports[0]))
        return
    for subtask, port in dict.fromkeys(zip(subtasks.tolist(), ports.tolist(), strict=True)):
        rows = batch.filter(pa.array((subtasks == subtask) & (ports == port)))
        yield subtask, port, _input(task, rows, port)


def _input(task: BatchTask, batch: pa.RecordBatch, port: int) -> pa.RecordBatch:
    if port == MARKER:
        return batch
    if len(task.inputs) == 1:
        return _cast(batch.select(task.inputs[0].names), task.inputs[0])
    return _cast(pa.RecordBatch.from_struct_array(batch.column(f"_{port}")), task.inputs[port])


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The engine's batch in the declared types: engines differ in the zone of a timestamp and the width of a string."""
    columns = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class _Worker:
    """A subtask with its files."""

    def __init__(self, task: BatchTask, subtask: int) -> None:

        self._task = task
        self._subtask = subtask
        self._files, self._root = task.files, task.root
        self._writers: dict[tuple[str, str], PortWriter] = {}
        self._stores = {link.name: self._store(link) for link in task.links}
        place = Place(task.pipeline, task.epoch, subtask, task.parallelism, task.watermark_begin, task.watermark_end)
        operators = task.operators()
        links = [self._link(link, operator) for link, operator in zip(task.links, operators, strict=True)]
        self._chain = Subtask(place, links, self._write)
        self._chain.start()

    def _link(self, link: LinkTask, operator: ArrowOperator) -> Link:
        store, wanted = self._stores[link.name], frozenset(link.places)
        return Link(link.name, operator, link.ports, wanted, link.keys, store, link.held, link.watermark)

    def _store(self, link: LinkTask) -> StateStore:
        task = self._task
        return StateStore(
            link.tables,
            link.state_files,
            operator=link.name,
            root=f"{self._root}/state",
            filesystem=self._files,
            directory=link.state_directories,
            epoch=task.epoch,
            subtask=self._subtask,
            parallelism=task.parallelism,
            watermark=link.watermark,
            stream_key=link.keys,
            cache=task.cache,
        )

    def process(self, port: int, rows: pa.RecordBatch) -> None:
        self._chain.process(port, rows)

    def _write(self, operator: str, port: str, rows: pa.Table) -> None:
        writer = self._writers.get((operator, port))
        if writer is None:
            link = next(link for link in self._task.links if link.name == operator)
            dataset, directory = link.places[port]
            writer = PortWriter(f"{self._root}/{dataset}", directory, self._subtask, link.ports[port], self._files)
            self._writers[operator, port] = writer
        writer.write(rows)

    def finish(self) -> dict[str, Any]:
        """Close everything; what there is to tell."""
        reports = self._chain.finish()
        state: dict[str, dict[str, list[Any]]] = {}
        for link in self._task.links:
            if not link.tables:
                continue
            store = self._stores[link.name]
            written = {table: list(files) for table, files in store.flush().items()}
            for table, merges in link.merges.items():
                for merge in merges:
                    written.setdefault(table, []).extend(store.merge(table, merge))
            state[link.name] = {
                table: [encode(FileEntry(file.path, file.size, file.rows, file.stats)) for file in files]
                for table, files in written.items()
            }
        files = [
            (operator, port, encode(entry))
            for (operator, port), writer in self._writers.items()
            if (entry := writer.close()) is not None
        ]
        told = {name: dataclasses.asdict(report) for name, report in reports.items()}
        return {"subtask": self._subtask, "files": files, "state": state, "operators": told}


def partition_number() -> int:
    """Which partition this task works on; 0 where the engine does not say."""
    try:
        from pyspark import TaskContext
    except ImportError:
        return 0
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
