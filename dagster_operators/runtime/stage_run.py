"""One attempt at a stage: its operators run on the engine, its files are staged, and the manifest says what came of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dagster_operators.connectors.connector import UNKNOWN, Connector
from dagster_operators.connectors.rejects import split_rejects
from dagster_operators.errors import BadInputError, OperatorsError, StageFailedError
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.operators.lookup import Lookup
from dagster_operators.operators.physical import Rows
from dagster_operators.operators.projection import DELETED
from dagster_operators.operators.source import SourceOperator
from dagster_operators.planner.plan import Plan, without_marks
from dagster_operators.planner.stages import Stage
from dagster_operators.runtime.event_time import at_beginning, input_watermark
from dagster_operators.runtime.observed import Observed
from dagster_operators.runtime.staged_files import StagedFiles
from dagster_operators.runtime.state_runs import StagedState
from dagster_operators.runtime.updating_table import UpdatingTable
from dagster_operators.time.watermark import MAX_WATERMARK, advance
from dagster_operators.transactions.failpoints import reach
from dagster_operators.transactions.manifest import Change, CheckOutcome, FileEntry, Manifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dagster_operators.transactions.coordinator import Coordinator
    from dagster_operators.transactions.effects import StageAttempt


class StageRun:
    """Runs a stage once; the :class:`~dagster_operators.operators.physical.StageContext` of its operators.

    Args:
        session: The engine's session.
        engine: The kind of engine.
        dataflow: The pipeline's graph.
        plan: The pipeline's plan.
        stage: The stage to run.
        attempt: The attempt's epoch, folder and upstream manifests.
        coordinator: For the files of tables as of the previous epoch.
        sources: The schema of each source and lookup table.
    """

    def __init__(
        self,
        session: SparkSession,
        engine: str,
        dataflow: Dataflow,
        plan: Plan,
        stage: Stage,
        attempt: StageAttempt,
        coordinator: Coordinator,
        sources: Mapping[str, str],
    ) -> None:
        self._session = session
        self._dataflow = dataflow
        self._plan = plan
        self._stage = stage
        self._attempt = attempt
        self._handle = attempt.handle
        self._coordinator = coordinator
        self._sources = sources
        self._observed = Observed(engine)
        self._files = StagedFiles(coordinator.root, session)
        self._states: dict[str, StagedState] = {}
        self._ends: dict[str, int] = {}
        self._rejected: dict[str, DataFrame] = {}
        self._profile: dict[str, float] = {}
        self._in_source: str | None = None

    # --- what operators ask for -------------------------------------------------------------------------------------

    @property
    def session(self) -> SparkSession:
        return self._session

    def source(self, operator: str) -> Rows:
        piece = self._handle.slices.offsets.get(operator)
        if piece is None or piece.items is None:
            return None
        connector = self._connector(operator)
        frame = connector.read(self._session, piece.items, self._sources[operator], corrupt=connector.on_corrupt)
        if connector.on_corrupt == "reject":
            frame, self._rejected[operator] = split_rejects(frame)
        return self._timed(operator, connector, piece.items, frame)

    def _timed(self, operator: str, connector: Connector, items: Any, frame: DataFrame) -> DataFrame:
        source = self._dataflow.nodes[operator].operator
        assert isinstance(source, SourceOperator)
        column = self._dataflow.nodes[operator].type.event_time or source.event_time
        if column is None:
            return frame
        largest, nulls = connector.largest_event_time(items, column), connector.null_count(items, column)
        if largest is not UNKNOWN and nulls is not UNKNOWN:
            self._check_nulls(operator, column, int(nulls))
            self._ends[operator] = self._advanced(operator, largest)
            return frame
        micros = f"unix_micros(CAST(`{column}` AS TIMESTAMP))"
        return self._observed.watch(
            f"source {operator}", frame, {"largest": f"max({micros})", "nulls": f"count_if(`{column}` IS NULL)"}
        )

    def pinned(self, operator: str) -> DataFrame:
        return self._connector(operator).read_pinned(
            self._session, self._handle.slices.offsets[operator].items, self._sources[operator]
        )

    def watermark_begin(self, operator: str) -> int:
        return input_watermark(self._dataflow, operator, at_beginning(self._handle.watermarks))

    def watermark_end(self, operator: str) -> int:
        return input_watermark(self._dataflow, operator, self._end_of_source)

    def count_late(self, operator: str, frame: DataFrame, late: str) -> DataFrame:
        return self._observed.watch(f"late {operator}", frame, {"late": f"count_if({late})"})

    def state(self, operator: str, table: str) -> StagedState:
        name = f"{operator}.{table}"
        if name not in self._states:
            dataset = f"state/{name}"
            declared = next(state for state in self._plan.physical[operator].states if state.name == table)
            self._states[name] = StagedState(
                self._files, dataset, self._attempt.directory(dataset), self._plan.states[name], declared.range_column,
                self._before(dataset), self._wrote,
            )  # fmt: skip
        return self._states[name]

    # --- the run -----------------------------------------------------------------------------------------------------

    def run(self) -> Manifest:
        """Run the stage and describe what it staged.

        Raises:
            BadInputError: A row has no event time, or the input's content is wrong.
            StageFailedError: The engine failed.
        """
        started = time.monotonic()
        try:
            rows = self._compute()
            changes = self._write(rows)
            checks = tuple(self._checks(changes))
            late = {name.split(" ", 1)[1]: int(self._observed.values(name)["late"] or 0)
                    for name in self._observed.names() if name.startswith("late ")}  # fmt: skip
            watermarks = self._watermarks()
        except OperatorsError as error:
            raise error.at(**self._where()) from error
        except Exception as error:
            raise self._explained(error) from error
        return Manifest(
            pipeline=self._dataflow.name, epoch=self._handle.epoch, stage=self._stage.name, attempt=self._attempt.attempt,
            fingerprint=self._stage.fingerprint, reads={name: read.attempt for name, read in self._attempt.upstream.items()},
            changes=tuple(changes), rows=self._counts, late_rows=late, rejected_rows=self._rejects, watermarks=watermarks,
            checks=checks, seconds=round(time.monotonic() - started, 4), profile=self._profile,
        )  # fmt: skip

    def _compute(self) -> Rows:
        frames: dict[str, Rows] = {name: self._upstream(name) for name in self._stage.inputs}
        with self._step("operators"):
            for name in self._stage.operators:
                inputs = [frames[before] for before in self._dataflow.nodes[name].inputs]
                frames[name] = self._plan.physical[name].run(self, inputs)
        return frames[self._stage.output]

    def _upstream(self, operator: str) -> Rows:
        stage = next(stage for stage in self._plan.stages if stage.output == operator)
        manifest = self._attempt.upstream[stage.name]
        dataset = f"streams/{stage.name}" if self._dataflow.nodes[operator].type.updating else stage.dataset
        change = manifest.change(dataset)
        return self._files.read(dataset, change.adds, self._plan.schemas[operator]) if change else None

    def _write(self, rows: Rows) -> list[Change]:
        self._counts: dict[str, int] = {}
        self._rejects: dict[str, int] = {}
        changes = []
        if rows is not None:
            with self._step("write"):
                changes += self._write_updating(rows) if self._updating else self._write_append(self._stage.dataset, rows)
        self._counts.setdefault(self._stage.name, 0)
        for source, rejected in self._rejected.items():
            with self._step("rejects"):
                staged = self._write_append(f"tables/{source}_rejects", rejected)
            self._rejects[source] = sum(entry.rows for change in staged for entry in change.adds)
            changes += staged
        changes += [change for state in self._states.values() if (change := state.change())]
        reach("stage:files_written")
        return changes

    def _write_append(self, dataset: str, rows: DataFrame) -> list[Change]:
        entries = self._files.write(rows, dataset, self._attempt.directory(dataset))
        self._wrote()
        self._counts[dataset.split("/", 1)[1]] = sum(entry.rows for entry in entries)
        return [Change(dataset, entries)] if entries else []

    def _write_updating(self, rows: DataFrame) -> list[Change]:
        """The changed rows as a stream first: they are read twice below, and by later stages."""
        stream, dataset = f"streams/{self._stage.name}", self._stage.dataset
        staged = self._write_append(stream, rows)
        if not staged or self._stage.table is None:
            return staged
        entries = staged[0].adds
        changed = self._files.read(stream, entries, rows.schema.json())
        assert changed is not None
        keys = self._dataflow.nodes[self._stage.output].type.keys or ()
        schema = without_marks(self._plan.schemas[self._stage.output])
        table = UpdatingTable(self._files, dataset, self._attempt.directory(dataset), schema, keys, self._before(dataset))
        change = table.apply(changed, entries)
        return [*staged, change] if change else staged

    @property
    def _updating(self) -> bool:
        return self._dataflow.nodes[self._stage.output].type.updating

    def _checks(self, changes: list[Change]) -> Iterator[CheckOutcome]:
        table = self._stage.table
        if table is None or not table.checks:
            return
        dataset = f"streams/{self._stage.name}" if self._updating else self._stage.dataset
        adds: tuple[FileEntry, ...] = next((change.adds for change in changes if change.dataset == dataset), ())
        rows = self._files.read(dataset, adds, self._plan.schemas[self._stage.output])
        if rows is not None and DELETED in rows.columns:
            rows = rows.filter(f"NOT {DELETED}")
        total, failed = 0, dict.fromkeys(table.checks, 0)
        if rows is not None:
            with self._step("checks"):
                counted = [f"count_if(NOT coalesce(({check.expression}), false)) AS `{name}`" for name, check in table.checks.items()]
                *numbers, total = rows.selectExpr(*counted, "count(*)").collect()[0]
                failed = dict(zip(table.checks, numbers, strict=True))
        for name, check in table.checks.items():
            yield CheckOutcome(table.name, name, not failed[name], check.blocking, failed[name], total, check.expression)

    # --- event time --------------------------------------------------------------------------------------------------

    def _end_of_source(self, source: str) -> int:
        for manifest in self._attempt.upstream.values():
            if source in manifest.watermarks:
                return manifest.watermarks[source]
        if source not in self._ends:
            name, largest = f"source {source}", None
            if name in self._observed.names():
                figures = self._observed.values(name)
                self._check_nulls(source, self._dataflow.nodes[source].type.event_time or "", int(figures["nulls"] or 0))
                largest = figures["largest"]
            self._ends[source] = self._advanced(source, largest)
        return self._ends[source]

    def _advanced(self, source: str, largest: int | None) -> int:
        if source in self._handle.slices.finished:
            return MAX_WATERMARK
        operator = self._dataflow.nodes[source].operator
        assert isinstance(operator, SourceOperator)
        return advance(at_beginning(self._handle.watermarks)(source), largest, operator.lateness)

    def _check_nulls(self, source: str, column: str, nulls: int) -> None:
        if nulls:
            raise BadInputError(
                f"{nulls} rows have no event time", source=source, column=column,
                remedy="correct the input; or read it without event_time and filter such rows out in a pipeline before this one",
            )  # fmt: skip

    def _watermarks(self) -> dict[str, int]:
        found = {source: mark for manifest in self._attempt.upstream.values() for source, mark in manifest.watermarks.items()}
        for name in self._stage.operators:
            operator = self._dataflow.nodes[name].operator
            if isinstance(operator, SourceOperator) and operator.event_time:
                found[name] = self._end_of_source(name)
        return found

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _before(self, dataset: str) -> list[FileEntry]:
        return self._coordinator.files(dataset, self._handle.base_versions[dataset])

    def _connector(self, operator: str) -> Connector:
        node = self._dataflow.nodes[operator].operator
        assert isinstance(node, SourceOperator | Lookup)
        assert isinstance(node.connector, Connector)
        return node.connector

    def _wrote(self) -> None:
        self._observed.ran()
        reach("stage:half_files")

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self._profile[name] = round(self._profile.get(name, 0.0) + time.monotonic() - started, 4)

    def _where(self) -> dict[str, Any]:
        return {"pipeline": self._dataflow.name, "stage": self._stage.name, "epoch": self._handle.epoch}

    def _explained(self, error: Exception) -> OperatorsError:
        for name in self._stage.operators:
            piece = self._handle.slices.offsets.get(name)
            if piece is None or piece.items is None:
                continue
            told = self._connector(name).explain_failure(self._session, error, piece.items, self._sources[name])
            if told is not None:
                return told.at(source=name, **self._where())
        reason = str(error).strip().split("\n", 1)[0] or type(error).__name__
        return StageFailedError(f"the stage failed: {reason}", **self._where())
