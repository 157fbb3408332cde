"""One attempt at a stage: its operators run on the engine, its files are staged, and the manifest says what came of it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import OperatorsError, StageFailedError, StorageError
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.batch_operator import BatchOperator
from dagster_operators.operators.physical import RelationalOperator, Rows, TableOperator, constant
from dagster_operators.operators.relational.weighted_rows import NOT_THERE
from dagster_operators.planner.inner_loops import leaves, only_hands_on
from dagster_operators.planner.physical_plan import Edge
from dagster_operators.runtime.stages.as_analysed import check_as_analysed
from dagster_operators.runtime.stages.at_work import at_work
from dagster_operators.runtime.stages.current_rows import CurrentRows
from dagster_operators.runtime.stages.failed_values import FAILED
from dagster_operators.runtime.stages.job_description import described
from dagster_operators.runtime.stages.observed import Observed
from dagster_operators.runtime.stages.reasons import reason_of
from dagster_operators.runtime.stages.refused_rows import refused_rows
from dagster_operators.runtime.stages.sinks import write_to_sinks
from dagster_operators.runtime.stages.stage_exchanges import StageExchanges
from dagster_operators.runtime.stages.stage_inputs import StageInputs
from dagster_operators.runtime.stages.stage_outputs import StageOutputs
from dagster_operators.runtime.stages.stage_work import StageWork
from dagster_operators.runtime.stages.staged_files import StagedFiles
from dagster_operators.runtime.stages.state_runs import StagedState
from dagster_operators.runtime.stages.unreadable import unreadable_file
from dagster_operators.runtime.stages.whole_reads import read_what_filters_hide
from dagster_operators.runtime.workers.batch_result import BatchResult
from dagster_operators.runtime.workers.committing import commit_data_of
from dagster_operators.runtime.workers.driver import ProgramTimes, run_programs
from dagster_operators.transactions.epoch_changes import combined
from dagster_operators.transactions.failpoints import reach
from dagster_operators.transactions.manifest import Change, Manifest, TableTime

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


_FIGURE: Final = "figure "

_KEEP_ROWS: Final = (
    "correct the changes; or, where rows have a key and an order, have the current row of each kept, and what is not there "
    "passed over, in place of as_changes('op'): to_changes('id', order_by='version', deleted=\"op = 'delete'\"), and "
    "rebuild(...) what is behind it"
)
"""What helps where a change takes a row back that is not there."""

_BY_MESSAGE = (
    "correct the expression or the rows that the message is about, or the engine, if it is about its memory or workers; then run "
    "again: nothing of the epoch was committed"
)

_STORAGE = re.compile(
    r"^(?:Caused by: )?(?:[\w.$]+: )*"
    r"(.*(?:No space left on device|Disk quota exceeded|Read-only file system|Permission denied).*)$",
    re.MULTILINE,
)
"""What an engine's error says when it could not write, without the names of Java's exceptions."""


class StageRun:
    """Runs a stage once; the :class:`~dagster_operators.operators.physical.StageContext` of its operators.

    Args:
        work: What to run, and where.
    """

    def __init__(self, work: StageWork) -> None:
        self._work = work
        self._observed = Observed(work.engine)
        self._files = StagedFiles(work.coordinator.root, work.session, self._wrote, work.partitions)
        self._states: dict[str, StagedState] = {}
        self._current: dict[str, CurrentRows] = {}
        self._sides: dict[StreamRef, Rows] = {}
        self._profile: dict[str, float] = {}
        self._told: dict[str, float] = {}
        self._plans: dict[str, str] = {}
        self._outputs = StageOutputs(work, self._files, self._observed)
        self._batch = [name for name in work.stage.nodes if work.plan.physical.nodes[name].operator.in_workers]
        inputs = StageInputs(work, self._files, self._observed)
        self._inputs = inputs
        self.source = inputs.source
        self.pinned = inputs.pinned
        self.whole_table = inputs.whole_table
        self.fed_back = inputs.fed_back
        self.watermark_begin = inputs.watermark_begin
        self.watermark_end = inputs.watermark_end

    @property
    def epoch(self) -> int:
        """The number of the epoch."""
        return self._work.attempt.epoch

    @property
    def round(self) -> int:
        """Which round of its loop the stage runs in, from 0."""
        return self._work.key.iteration[-1] if self._work.key.iteration else 0

    @property
    def session(self) -> SparkSession:
        """The engine's session."""
        return self._work.session

    def varying(self, number: int, column: str) -> str:
        """A number that differs from epoch to epoch.

        Spark writes a number into the Java code that it makes for a query, so that a watermark would cost a run of the Java
        compiler and a cold start in every epoch; an element of a constant array it hands to the code instead. Sail compiles no
        Java.
        """
        return constant(number) if self._work.engine == "sail" else f"array({number}L)[{column} & 0L]"

    def count_late(self, operator: str, frame: DataFrame, late: str) -> DataFrame:
        """The same rows, those for which the condition holds being counted as late on the way."""
        return self._observed.watch(f"late {operator}", frame, {"late": f"count_if({late})"})

    def report(self, operator: str, figure: str, frame: DataFrame, value: str) -> DataFrame:
        """The same rows, an aggregate of which is a figure of the epoch."""
        return self._observed.watch(f"{_FIGURE}{operator}.{figure}", frame, {"figure": value})

    def put_out(self, operator: str, port: str, rows: Callable[[], Rows]) -> None:
        """Give the rows of a port other than the main one, if somebody reads them."""
        stream = StreamRef(operator, port)
        if self._work.stage.output(stream):
            self._sides[stream] = rows()

    def exchanges(self, operator: str) -> StageExchanges:
        """The folder in which the operator's workers hand rows to each other."""
        return StageExchanges(self._work, self._files, operator)

    def edges(self, operator: str) -> Sequence[Edge]:
        """The inputs of a physical operator as the planner chose to bring rows there."""
        return self._work.plan.physical.nodes[operator].inputs

    def figure(self, operator: str, name: str, value: float) -> None:
        """Take down a figure that the epoch reports of the operator."""
        self._told[f"{operator}.{name}"] = value

    def plan_ran(self, operator: str, plan: str) -> None:
        """Take down the plan by which the operator worked, as JSON, to be drawn."""
        self._plans[operator] = plan

    def state(self, operator: str, table: str) -> StagedState:
        """One of the operator's state tables."""
        name = f"{operator}.{table}"
        if name not in self._states:
            node = self._work.plan.physical.nodes[operator]
            declared = next(state for state in node.operator.states if state.name == table)
            dataset, schema = self._work.state_dataset(operator, table), self._work.plan.states[name]
            self._states[name] = StagedState(
                self._files, self._work, dataset, schema, declared.range_column, operator=node.logical
            )
        return self._states[name]

    def run(self) -> Manifest:
        """Run the stage and describe what it staged.

        Raises:
            BadInputError: A row has no event time, or the input's content is wrong.
            StageFailedError: The engine failed.
        """
        started, work = time.monotonic(), self._work
        try:
            name = f"{work.dataflow.name}, epoch {work.attempt.epoch}: {work.attempt.stage}"
            with at_work(work), described(work.session, name):
                return self._run(started)
        except StorageError as error:
            told = unreadable_file(self._work) or error
            raise told.at(**self._work.where()) from error
        except OperatorsError as error:
            raise error.at(**self._work.where()) from error
        except Exception as error:
            raise self._explained(error) from error

    def _run(self, started: float) -> Manifest:
        work, outputs = self._work, self._outputs
        with self._step("operators"):
            computed = self._compute()
            nodes = {name: work.plan.physical.nodes[name] for name in work.stage.nodes}
            read_what_filters_hide(nodes, self._inputs.to_parse, computed)
        batch = self._run_batch(computed)
        for output in work.stage.outputs:
            rows = computed.get(output.ref)
            if rows is not None:
                with self._step("write" if output is work.stage.main else f"write {output.name}"):
                    outputs.write(output, rows, self._current.get(output.ref.operator) if output.ref.is_main else None)
        with self._step("rejects"):
            rejected = {source: outputs.write_rejects(source, records) for source, records in self._inputs.rejected.items()}
        outputs.empty()
        with self._step("verify inputs"):
            self._inputs.verify_again()
        with self._step("checks"):
            checks = tuple(outputs.checks())
        states = [change for state in self._states.values() if (change := state.change())]
        reach("stage:files_written", stage=work.attempt.stage)
        with self._step("sinks"):
            commit_data = write_to_sinks(work, outputs, checks)
        return Manifest(
            pipeline=work.coordinator.pipeline,
            epoch=work.attempt.epoch,
            stage=work.attempt.stage,
            attempt=work.attempt.attempt,
            fingerprint=work.attempt.fingerprint,
            reads=work.attempt.reads,
            changes=(*outputs.changes, *self._with_earlier_rounds([*states, *batch.states])),
            rows=outputs.rows,
            late_rows={**self._late_rows(), **batch.late},
            rejected_rows={**rejected, **batch.rejected},
            watermarks={**self._inputs.watermarks(), **batch.watermarks},
            metrics={**self._figures(), **batch.metrics},
            checks=checks,
            seconds=round(time.monotonic() - started, 4),
            profile=self._profile,
            commit_data={**commit_data, **commit_data_of(batch.commit_data)},
            held={**self._inputs.held(), **batch.held},
            holders=batch.holders,
            goes_round=self._going_round(),
            times=dict(self._times(batch)),
            plans=self._plans,
        )

    def _times(self, batch: BatchResult) -> Iterator[tuple[str, TableTime]]:
        """How far time has come in the tables that the stage writes: for pipelines that read them."""
        for output in () if self._work.stage.goes_round else self._work.stage.outputs:
            if output.table is not None and output.ref.is_main:
                column = self._work.dataflow.type_of(output.ref).event_time
                if column is not None:
                    end = self._inputs.frontier_of_result(output.ref, batch.watermarks, batch.held)
                    yield output.table.name, TableTime(column, end.to_watermark())

    def _going_round(self) -> int:
        """How many rows the next round of the loop gets."""
        stage, fed = self._work.stage, self._work.plan.physical.feedback.values()
        return sum(self._outputs.rows[output.name] for output in stage.outputs if output.ref in fed) if stage.goes_round else 0

    def _with_earlier_rounds(self, states: Sequence[Change]) -> Iterator[Change]:
        """What the stage does to its state in the epoch: in a loop, in this round and those before."""
        now = {change.dataset: change for change in states}
        before = self._work.earlier_round.changes if self._work.earlier_round else ()
        for change in before:
            if change.dataset.startswith("state/"):
                yield combined(change, now.pop(change.dataset, Change(change.dataset)))
        yield from now.values()

    def _compute(self) -> dict[StreamRef, Any]:
        """The rows of every stream of the stage's relational operators, as plans that have not run yet."""
        work = self._work
        numbered = dict(self._numbered())
        rows: dict[StreamRef, Any] = {
            stream: self._inputs.numbered(stream, *numbered[stream]) if stream in numbered else self._inputs.upstream(stream)
            for stream in work.stage.inputs
        }
        for node in (work.plan.physical.nodes[name] for name in work.stage.nodes):
            operator, analysed = node.operator, work.plan.analysed[node.name]
            if only_hands_on(work.plan.physical, node):
                continue
            if isinstance(operator, RelationalOperator):
                rows[StreamRef(node.name)] = operator.run(self, [rows[edge.stream] for edge in node.inputs], analysed)
            elif isinstance(operator, TableOperator):
                table = self._current[node.name] = CurrentRows(self._files, work, node.name, operator.replaces_by)
                rows[StreamRef(node.name)] = operator.run(self, [rows[edge.stream] for edge in node.inputs], analysed, table)
            check_as_analysed(node, rows.get(StreamRef(node.name)), analysed)
        return {**rows, **self._sides}

    def _numbered(self) -> Iterator[tuple[StreamRef, tuple[pa.Schema, bool]]]:
        """The streams whose rows come with their numbers: their schemas, and whether with their places in the source, too."""
        plan = self._work.plan
        for node in (plan.physical.nodes[name] for name in self._batch):
            if isinstance(node.operator, BatchOperator) and node.operator.is_numbered:
                for edge, schema in zip(node.inputs, plan.analysed[node.name].facts.inputs, strict=True):
                    yield edge.stream, (schema, node.operator.is_placed)

    def _run_batch(self, rows: Mapping[StreamRef, Rows]) -> BatchResult:
        """Run the batch operators that the stage ends with; their files are its output."""
        work, names = self._work, self._batch
        if not names:
            return BatchResult()
        begin = {name: self._inputs.frontier_begin(name) for name in names}
        watermarks = {name: self.watermark_begin(name) for name in names}
        origins = {name: self._inputs.origins(name) for name in names}
        times = ProgramTimes(begin, watermarks, self._inputs.frontier_end, origins)
        with self._step("batch operators"):
            result = run_programs(work, names, rows, times, {name: self._places(name) for name in names})
        self._wrote()
        for output in work.stage.outputs:
            if output.ref.operator in names:
                files = result.files.get((output.ref.operator, output.ref.port), ())
                self._outputs.adopt(output, tuple(sorted(files, key=lambda entry: entry.path)))
        return result

    def _places(self, operator: str) -> dict[str, tuple[str, str]]:
        """Where the ports of a batch operator go that somebody reads."""
        work = self._work
        own = [output for output in work.stage.outputs if output.ref.operator == operator]
        read = (output for output in own if leaves(work.plan.physical, work.stage.nodes, output.ref))
        return {output.ref.port: (output.dataset, work.directory(output.dataset)) for output in read}

    def _late_rows(self) -> dict[str, int]:
        watched = [name.removeprefix("late ") for name in self._observed.names() if name.startswith("late ")]
        return {name: int(self._observed.values(f"late {name}")["late"] or 0) for name in watched}

    def _figures(self) -> dict[str, float]:
        watched = [name for name in self._observed.names() if name.startswith(_FIGURE)]
        observed = {name.removeprefix(_FIGURE): float(self._observed.values(name)["figure"] or 0) for name in watched}
        return {**observed, **self._told}

    def _wrote(self) -> None:
        self._observed.ran()
        reach("stage:half_files", stage=self._work.attempt.stage)

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self._profile[name] = round(time.monotonic() - started, 4)

    def _explained(self, error: Exception) -> OperatorsError:
        work = self._work
        for name in work.stage.operators:
            connector, items = work.connector(name), work.items(name)
            if connector is None or items is None:
                continue
            told = connector.explain_failure(work.session, error, items, work.schemas[name])
            if told is not None:
                return told.at(source=name, **work.where())
        if storage := _STORAGE.search(str(error)):
            return StorageError(
                "the engine cannot store what the stage makes",
                reason=storage[1].strip(),
                file=work.coordinator.root.uri,
                remedy="give space or rights, as it says, in the storage root and in the engine's temporary folder; run again",
                **work.where(),
            )
        if lost := unreadable_file(work):
            return lost.at(**work.where())
        if refused := refused_rows(work, str(error)):
            return refused
        remedy = _KEEP_ROWS if NOT_THERE in str(error) else _BY_MESSAGE
        return StageFailedError(f"{FAILED}{reason_of(error)}", remedy=remedy, **work.where())
