"""Jobs as queries of an engine: a row for each task, and a function of Arrow batches that runs it in a worker."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import OperatorsError, StageFailedError
from dagster_operators.functions.shipping import can_be_sent, pickled_with
from dagster_operators.operators.datasets.running.exchange_files import Chunk, ExchangeFolder
from dagster_operators.operators.datasets.running.files_of_streams import spilled
from dagster_operators.operators.datasets.running.fragment_task import Job, Report, run_part

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_REPORT: Final = "report binary"


class EngineJobs:
    """Runs jobs on an engine.

    Args:
        session: The engine's session.
        modules: The user's modules that functions come from; they are sent along.
        name: The operator, for errors.
        records: The types of the user's own records.
    """

    def __init__(self, session: SparkSession, modules: Sequence[str], name: str, records: Sequence[type] = ()) -> None:
        self._session = session
        # Those of a function's module that cannot be sent are in no rows: a function that made them could not be sent, either.
        self._records = tuple(kind for kind in records if can_be_sent(kind, modules))
        self._modules = modules
        self._name = name

    def run(self, job: Job) -> list[Report]:
        """The reports of a job's tasks.

        Raises:
            StageFailedError: A task gave no report.
        """
        tasks = job.tasks
        job = replace(job, records=self._records).with_drivers()
        modules = dict.fromkeys([*self._modules, *(driver.__module__ for driver, _ in job.drivers.values())])
        payload = pickled_with(job, list(modules), self._name)

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from dagster_operators.operators.datasets.running.engine_jobs import reports_of

            return reports_of(payload, tasks, batches)

        numbers = self._session.range(0, len(tasks), 1, len(tasks))
        reports = [pickle.loads(row.report) for row in numbers.mapInArrow(work, _REPORT).collect()]  # noqa: S301 - of our workers
        if len(reports) != len(tasks):
            raise StageFailedError(
                f"{len(tasks)} tasks gave {len(reports)} reports", operator=self._name, remedy="see the log of the engine"
            )
        return reports

    def spill(self, frame: DataFrame, folder: ExchangeFolder, stem: str) -> list[Chunk]:
        """The rows of a frame, written into the folder by the engine's workers.

        Args:
            frame: The rows.
            folder: The folder.
            stem: The beginning of the files' names.
        """

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from dagster_operators.operators.datasets.running.engine_jobs import spilled_report

            return spilled_report(batches, folder, stem)

        reports = [pickle.loads(row.report) for row in frame.mapInArrow(work, _REPORT).collect()]  # noqa: S301 - of our workers
        for report in reports:
            if isinstance(report, OperatorsError):
                raise report
        return [chunk for report in reports for chunk in report]


def reports_of(payload: bytes, tasks: Sequence[tuple[int, int]], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The reports of the tasks whose numbers come, in a worker.

    Args:
        payload: The job.
        tasks: The fragment and the part of each task.
        batches: The numbers of tasks.
    """
    job: Job | None = None
    for batch in batches:
        for number in batch.column(0).to_pylist():
            job = job or pickle.loads(payload)  # noqa: S301 - it came with the query, as functions do
            yield _batch(run_part(job, *tasks[number]))


def spilled_report(batches: Iterable[pa.RecordBatch], folder: ExchangeFolder, stem: str) -> Iterator[pa.RecordBatch]:
    """The chunks that batches were written as, in a worker.

    Args:
        batches: The batches.
        folder: The folder.
        stem: The beginning of the file's name.
    """
    result: list[Chunk] | OperatorsError
    try:
        result = spilled(batches, folder, stem)
    except OperatorsError as error:
        result = error
    yield _batch(result)


def _batch(report: Any) -> pa.RecordBatch:
    import pyarrow as pa

    dumps: Callable[[Any], bytes] = import_module("pyspark.cloudpickle").dumps
    return pa.RecordBatch.from_pydict({"report": pa.array([dumps(report)], pa.binary())})
