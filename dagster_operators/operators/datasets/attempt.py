"""An attempt at the work of a program of data sets in an epoch; it goes on behind the last superstep of an earlier one."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dagster_operators.errors import located
from dagster_operators.operators.datasets.running.engine_jobs import EngineJobs
from dagster_operators.operators.datasets.running.exchange_files import ExchangeFolder
from dagster_operators.operators.datasets.running.execution import Execution
from dagster_operators.operators.datasets.running.files_of_streams import RowsAtHand, StreamRows, TableRows
from dagster_operators.operators.datasets.running.fragment_runs import Results
from dagster_operators.operators.datasets.running.fragment_task import Source
from dagster_operators.operators.datasets.running.packed_rows import remember_records
from dagster_operators.operators.datasets.running.superstep import Superstep
from dagster_operators.operators.datasets.running.supersteps import Supersteps
from dagster_operators.operators.physical import Rows, StageContext
from dagster_operators.optimizer.estimates import Estimate
from dagster_operators.optimizer.planning import OptimizedPlan
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from dagster_operators.operators.datasets.data_sets import DataSetProgram

_log = logging.getLogger(__name__)


class Attempt:
    """An attempt at a program's work in an epoch.

    Args:
        program: The program.
        name: The operator.
        context: What the stage offers.
        columns: The columns of each data set, by the name of its sink.
        streams: The columns of each stream.
    """

    def __init__(
        self, program: DataSetProgram, name: str, context: StageContext, columns: Mapping[str, str], streams: Sequence[str]
    ) -> None:
        self._program = program
        self._name = name
        self._context = context
        self._columns = columns
        self._streams = list(map(Schema.from_json, streams))
        self._exchanges = context.exchanges(self._name)
        self._folder = ExchangeFolder(self._exchanges.files, self._exchanges.path, self._exchanges.shipped)
        self._jobs = EngineJobs(context.session, self._program.modules, self._name, self._program.records)
        self._supersteps = Supersteps(self._exchanges, self._folder, self._name)

    def run(self, inputs: Sequence[Rows]) -> tuple[OptimizedPlan, Results]:
        """The plan, and the results of its run.

        Args:
            inputs: The rows of each stream.
        """
        self._exchanges.make()
        try:
            plan, results = self._run(inputs)
        except Exception:
            self._supersteps.forget_the_rest()
            raise
        self._report(results)
        return plan, results

    def rows(self, results: Results, sink: str) -> Rows:
        """The rows of a data set.

        Args:
            results: The results.
            sink: The name of the data set's sink.
        """
        chunks = results.sinks.get(sink, [])
        return self._exchanges.read([(chunk.file, chunk.size, chunk.rows) for chunk in chunks], self._columns[sink])

    def _run(self, inputs: Sequence[Rows]) -> tuple[OptimizedPlan, Results]:
        remember_records(self._program.records)
        taken = self._supersteps.last()
        spilled = [
            () if frame is None else tuple(self._jobs.spill(frame, self._folder, f"stream-{number}"))
            for number, frame in enumerate(inputs)
        ]
        if taken is not None and not self._supersteps.has_inputs(taken, spilled):
            self._begin_anew(taken.files, "other rows came in")
            taken = None
        if taken is not None:  # its files, so that parts have the same rows in the same order
            self._folder.delete(chunk.file for chunks in spilled for chunk in chunks)
            spilled = list(taken.inputs)
        self._supersteps.inputs = tuple(spilled)
        with located(operator=self._name):
            plan, execution = self._execution(list(map(StreamRows, spilled)))
            if taken is not None and taken.plan != execution.digest:
                self._begin_anew(taken.files - {chunk.file for chunks in spilled for chunk in chunks}, "the plan is another one")
                taken = None
            if taken is None:
                self._supersteps.forget_earlier()
            else:
                self._report_going_on(taken)
            return plan, execution.run(taken)

    def _begin_anew(self, files: Collection[str], reason: str) -> None:
        """Have nothing to do with files that were taken over."""
        self._supersteps.begins_anew(reason)
        self._folder.delete(files)

    def _report_going_on(self, taken: Superstep) -> None:
        iteration = list(taken.supersteps)[-1]
        _log.info("%s goes on behind superstep %s of %s", self._name, taken.number, iteration)
        for name, supersteps in taken.supersteps.items():
            self._context.figure(self._name, f"supersteps of {name} taken over", supersteps)

    def _execution(self, streams: Sequence[StreamRows]) -> tuple[OptimizedPlan, Execution]:
        estimates = [
            Estimate(sum(chunk.size for chunk in stream.chunks), sum(chunk.rows for chunk in stream.chunks)) for stream in streams
        ]
        plan, given = self._program.plan(self._exchanges.parallelism, estimates, self._streams)
        sources: dict[str, Source] = {
            source: streams[rows] if isinstance(rows, int) else RowsAtHand(rows) for source, rows in given.items()
        }
        sinks = {sink: TableRows(Schema.from_json(text).to_arrow(), self._name) for sink, text in self._columns.items()}
        keep, reached = self._supersteps.keep, self._exchanges.reached
        return plan, Execution(plan, self._folder, self._jobs.run, sources, sinks, keep=keep, reached=reached)

    def _report(self, results: Results) -> None:
        self._context.figure(self._name, "jobs", results.jobs)
        for iteration, supersteps in results.supersteps.items():
            self._context.figure(self._name, f"supersteps of {iteration}", supersteps)
        for use, times in results.prepared.items():
            self._context.figure(self._name, use, times)
        for name, accumulator in results.accumulators.items():
            for shown, value in figures_of(f"accumulator {name}", accumulator.value):
                self._context.figure(self._name, shown, value)


def figures_of(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """The figures of an accumulator: its number, or those of a mapping by their keys. Another value goes into the log.

    Args:
        name: Its name.
        value: Its value.

    >>> list(figures_of("rows", 3)), list(figures_of("rows", {"late": 1, "all": 3})), list(figures_of("rows", [3]))
    ([('rows', 3)], [('rows late', 1), ('rows all', 3)], [])
    """
    if isinstance(value, int | float):
        yield name, value
    elif isinstance(value, Mapping) and all(isinstance(part, int | float) for part in value.values()):
        yield from ((f"{name} {key}", part) for key, part in value.items())
    else:
        _log.warning("%s is no figure of the epoch, since it is a %s and no number: %.1000r", name, type(value).__name__, value)
