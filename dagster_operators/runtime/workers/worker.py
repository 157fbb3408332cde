"""The worker's side of a batch stage: rows in by batches, files of outputs and state out, and a report to the driver.

An exception never leaves through the engine, which would turn it into text: it goes into the report with its fields.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from dagster_operators.errors import OperatorsError, StorageError
from dagster_operators.operators.worker_program import WorkerProgram
from dagster_operators.runtime.workers.cutter import Cutter, Part
from dagster_operators.runtime.workers.port_writer import PortWriter
from dagster_operators.runtime.workers.progress_note import ProgressNote
from dagster_operators.runtime.workers.staged_order import staged_rows
from dagster_operators.runtime.workers.subtask import Member, Subtask, SubtaskId
from dagster_operators.runtime.workers.task import MARKER, GraphTask, ProgramTask
from dagster_operators.state.store import StateStore
from dagster_operators.transactions.codec import encode
from dagster_operators.transactions.manifest import FileEntry


def run_partition(task: GraphTask, partition: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run the subtasks whose rows are in a partition; yields their reports."""
    subtasks: dict[int, _Worker] = {}
    cutter = Cutter(task, partition)
    try:
        if task.routing == "by partition":
            subtasks[partition] = _Worker(task, partition)
            subtasks[partition].open()
        for batch in batches:
            for subtask, entry, rows in _read(task, batch) if task.routing == "from files" else cutter.parts(batch):
                if subtask not in subtasks:
                    subtasks[subtask] = _Worker(task, subtask)
                    subtasks[subtask].open()
                if entry != MARKER:
                    subtasks[subtask].process(entry, rows)
        reports = [worker.finish() for worker in subtasks.values()]
    except OperatorsError as error:
        reports = [{"error": type(error).__name__, "problem": error.problem, "remedy": error.remedy, "where": error.where}]
    except OSError as error:
        reports = [
            {"error": StorageError.__name__, "problem": f"a worker cannot read or write: {error}", "remedy": "", "where": {}}
        ]
    finally:
        for worker in subtasks.values():
            worker.abandon()
    if reports:
        yield pa.RecordBatch.from_pydict({"report": [json.dumps(report, default=str) for report in reports]})


def _read(task: GraphTask, batch: pa.RecordBatch) -> Iterator[Part]:
    """The rows of the only subtask, which it reads itself; the engine's row makes sure that it runs."""
    if batch.num_rows:
        yield 0, MARKER, batch
        for entry, rows in staged_rows([entry.files for entry in task.entries], task.order, task.files):
            yield 0, entry, rows


class _Worker:
    """A subtask with its files."""

    def __init__(self, task: GraphTask, subtask: int) -> None:
        self._task = task
        self._number = subtask
        self._files, self._root = task.files, task.root
        self._writers: dict[tuple[str, str], PortWriter] = {}
        self._shared: dict[str, dict[str, Any]] = defaultdict(dict)
        self._stores = {member.name: self._store(member) for member in task.members}
        members = [self._member(told, program) for told, program in zip(task.members, task.programs(), strict=True)]
        self._ends = task.ends()
        own = SubtaskId(task.epoch, subtask, task.parallelism)
        self._subtask = Subtask(own, task.graph(), members, self._write, ends=self._ends)
        self._note = ProgressNote(task.files, task.notes and f"{task.root}/{task.notes}", subtask)

    def open(self) -> None:
        self._subtask.open()

    def abandon(self) -> None:
        """Give back what is held outside of this process, if that was not done yet."""
        self._note.over()
        self._subtask.abandon()

    def _member(self, told: ProgramTask, program: WorkerProgram) -> Member:
        store, leaving = self._stores[told.name], frozenset(told.places)
        return Member(
            told.name,
            program,
            told.ports,
            leaving,
            told.keys,
            store,
            told.begin,
            told.held,
            self._shared[told.logical],
            told.origins,
            told.staying,
        )

    def _store(self, told: ProgramTask) -> StateStore:
        task = self._task
        return StateStore(
            told.tables,
            told.state_files,
            operator=told.name,
            identity=told.identity,
            root=f"{self._root}/state",
            filesystem=self._files,
            directory=told.state_directories,
            epoch=task.epoch,
            round=task.round,
            subtask=self._number,
            parallelism=task.parallelism,
            watermark=told.watermark,
            stream_key=told.keys,
            cache=task.cache,
        )

    def process(self, entry: int, rows: pa.RecordBatch) -> None:
        for target in self._task.entries[entry].targets:
            self._subtask.process(target, rows)
        self._note.passed(rows.num_rows)

    def _write(self, program: str, port: str, rows: pa.Table) -> None:
        writer = self._writers.get((program, port))
        if writer is None:
            told = next(told for told in self._task.members if told.name == program)
            dataset, directory = told.places[port]
            base, by = f"{self._root}/{dataset}", told.partitions[port]
            writer = PortWriter(base, directory, self._number, told.ports[port], self._files, partition_by=by)
            self._writers[program, port] = writer
        writer.write(rows)

    def finish(self) -> dict[str, Any]:
        """Close everything; what there is to tell."""
        reports = self._subtask.finish(self._ends)
        self._subtask.close()
        self._note.over()
        state = {told.name: self._flushed(told) for told in self._task.members if told.tables}
        files = [(program, port, encode(entry)) for (program, port), writer in self._writers.items() for entry in writer.close()]
        programs = {name: report.to_json() for name, report in reports.items()}
        return {"subtask": self._number, "files": files, "state": state, "programs": programs}

    def _flushed(self, told: ProgramTask) -> dict[str, list[Any]]:
        """The state files that a program's epoch and the compaction it has to do made, by table."""
        store = self._stores[told.name]
        written = {table: list(files) for table, files in store.flush().items()}
        for table, merges in told.merges.items():
            for merge in merges:
                written.setdefault(table, []).extend(store.merge(table, merge))
        return {
            table: [encode(FileEntry(file.path, file.size, file.rows, file.stats)) for file in files]
            for table, files in written.items()
        }


def partition_number() -> int:
    """Which partition this task works on; 0 where the engine does not say."""
    try:
        from pyspark import TaskContext
    except ImportError:
        return 0
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
