"""The steps of a pipeline's epochs: begin, one per stage, commit. Dagster's ops and ``run_epoch`` both call these.

Each step finds what it needs in the ledger, so that steps may run in different processes; within one process the plan, the
session and the ledger's view are kept.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from dagster_operators.connectors.connector import Connector, SliceChoice
from dagster_operators.connectors.rejects import REJECTS_SCHEMA
from dagster_operators.errors import FencedError, PipelineError, SourceError, StageFailedError, located
from dagster_operators.functions.failures import explained
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.slice import SourceSlice
from dagster_operators.graph.user_functions import contents_of
from dagster_operators.operators.arrow.apply import BatchOperator
from dagster_operators.operators.relational.source import SourceOperator
from dagster_operators.planner.plan import Plan, empty, plan, without_marks
from dagster_operators.planner.stages import cut_stages
from dagster_operators.runtime.engine import Engine
from dagster_operators.runtime.event_time import input_watermark
from dagster_operators.runtime.stages.sinks import join_sinks
from dagster_operators.runtime.stages.stage_run import StageRun
from dagster_operators.runtime.stages.stage_work import StageWork, cache_folder, connector_of
from dagster_operators.runtime.stages.staged_files import StagedFiles
from dagster_operators.runtime.workers.committing import join_operators
from dagster_operators.runtime.workers.state_reader import StateReader
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.effects import StageAttempt
from dagster_operators.transactions.manifest import Manifest
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.plan import STATE_OF, DatasetRecord, EpochHandle, PlanRecord, Slices, StageRecord
from dagster_operators.transactions.records import Complete
from dagster_operators.transactions.view import LedgerView

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_REJECTS = json.dumps({"type": "struct", "fields": [
    {"name": part.split()[0], "type": part.split()[1], "nullable": True, "metadata": {}} for part in REJECTS_SCHEMA.split(", ")
]})  # fmt: skip

MOST_SUBTASKS: Final = 128
"""Of one operator: each has at least one key group."""


class Epochs:
    """Runs a pipeline's epochs step by step.

    Args:
        dataflow: The pipeline's graph; may still grow until the first step.
        coordinator: The two-phase commit over the pipeline's storage root.
        engine: Where stages run.
        parallelism: How many subtasks a keyed batch operator has.
    """

    def __init__(self, dataflow: Dataflow, coordinator: Coordinator, engine: Engine, parallelism: int | None = None) -> None:
        self._dataflow = dataflow
        self._engine = engine
        self._plan: tuple[tuple[str, ...], Plan] | None = None
        self._schemas: dict[str, str] = {}
        self._parallelism = parallelism
        self.coordinator = coordinator
        self._join()

    def _join(self) -> None:
        join_sinks(self._dataflow, self.coordinator)
        join_operators(self._dataflow, self.coordinator)

    @property
    def session(self) -> SparkSession:
        """The engine's session."""
        return self._engine.session()

    @property
    def parallelism(self) -> int:
        """How many subtasks a keyed batch operator has: as given, else the engine's number of shuffle partitions."""
        if self._parallelism is None:
            engine = self._engine.name
            told = None if engine == "sail" else self.session.conf.get("spark.sql.shuffle.partitions")
            self._parallelism = min(int(told), MOST_SUBTASKS) if told else os.cpu_count() or 1
        return self._parallelism

    # --- planning ----------------------------------------------------------------------------------------------------

    def plan(self) -> Plan:
        """The plan, made anew if the pipeline has grown.

        Raises:
            SchemaError: An operator does not fit its input.
        """
        shape = (*self._dataflow.nodes, *self._dataflow.tables, *self._dataflow.sinks)
        if self._plan is None or self._plan[0] != shape:
            with located(pipeline=self._dataflow.name):
                self._plan = (shape, plan(self.session, self._dataflow, self.input_schemas()))
        return self._plan[1]

    def input_schemas(self) -> Mapping[str, str]:
        """The schema of every source and lookup table in use: as pinned in the ledger, else as declared or found now."""
        pinned = self._pinned_schemas()
        used = {name for stage in cut_stages(self._dataflow) for name in stage.operators}
        for name in used - self._schemas.keys():
            connector = self._connector(name)
            if connector is not None:
                kept = pinned.get(name) if connector.declared_schema is None else None
                with located(pipeline=self._dataflow.name, source=name):
                    self._schemas[name] = kept or connector.infer_schema(self.session)
        return self._schemas

    def _pinned_schemas(self) -> Mapping[str, str]:
        last = self.coordinator.last_complete()
        return last.schemas if last else {}

    def _connector(self, operator: str) -> Connector | None:
        return connector_of(self._dataflow, operator)

    def record(self) -> PlanRecord:
        """What the ledger keeps of the plan."""
        made = self.plan()
        stages = tuple(StageRecord(stage.name, stage.fingerprint, stage.upstream) for stage in made.stages)
        # A lookup counts as a source: an epoch that was begun without it has not pinned it.
        read = (*made.sources, *made.lookups)
        sources = {name: connector.fingerprint() for name in read if (connector := self._connector(name))}
        return PlanRecord(
            made.fingerprint, stages, sources, dict(self._datasets(made)),
            schemas=dict(self.input_schemas()), operators=tuple(name for stage in made.stages for name in stage.operators),
        )  # fmt: skip

    def _datasets(self, made: Plan) -> Iterator[tuple[str, DatasetRecord]]:
        for stage in made.stages:
            for name in stage.operators:
                yield from self._states(made, name)
            for output in stage.outputs:
                if output.table is None:
                    continue
                node = self._dataflow.nodes[output.node]
                schema = without_marks(made.schemas[output.node])
                kind: Literal["append", "updating"] = "updating" if node.type.updating else "append"
                meaning: dict[str, Any] = {"table": kind, "keys": list(node.type.keys or ())}
                if output.node in made.kept_in:
                    meaning |= {STATE_OF: output.node, "state": self._meaning(output.node)}
                yield output.dataset, DatasetRecord(schema, kind, output.table.description, json.dumps(meaning))
        for name in made.sources:
            connector = self._connector(name)
            if connector is not None and connector.on_corrupt == "reject":
                if f"{name}_rejects".lower() in (table.lower() for table in self._dataflow.tables):
                    raise PipelineError(
                        f"the source's rejects go to the table '{name}_rejects', and there is a table of that name",
                        pipeline=self._dataflow.name,
                        source=name,
                        table=f"{name}_rejects",
                        remedy="give the table or the source another name",
                    )
                yield (
                    f"tables/{name}_rejects",
                    DatasetRecord(_REJECTS, "append", f"Records of {name} that could not be parsed"),
                )

    def _states(self, made: Plan, name: str) -> Iterator[tuple[str, DatasetRecord]]:
        physical, operator = made.physical.get(name), self._dataflow.nodes[name].operator
        for state in physical.states if physical and name not in made.kept_in else ():
            meaning = self._meaning(name)
            if evolves := isinstance(physical, BatchOperator):  # its code may change; its state knows what fits
                declared = physical.declared[state.name]
                keys = list(physical.logical.keys[0])  # rows lie where the stream's key puts them
                meaning = {"operator": operator.kind, "state": declared.kind, "key": list(declared.key), "stream_key": keys}
            schema = without_marks(made.states[f"{name}.{state.name}"])
            fingerprint = json.dumps(meaning, sort_keys=True)
            yield f"state/{name}.{state.name}", DatasetRecord(schema, "state", f"State of {name}", fingerprint, evolves)

    def _meaning(self, name: str) -> dict[str, Any]:
        """What an operator's state depends on."""
        operator = self._dataflow.nodes[name].operator
        functions = contents_of(operator.config())
        return {"operator": operator.kind, **operator.config(), **({"functions": functions} if functions else {})}

    # --- the steps ---------------------------------------------------------------------------------------------------

    def begin(self, owner: Owner, *, wait_seconds: float = 0) -> EpochHandle | None:
        """Recover what an earlier run left, then begin the next epoch; None when the sources hold nothing new.

        Raises:
            PipelineBusyError: Another run is at work.
            ForeignWriteError: Someone else wrote one of the pipeline's tables.
        """
        started = time.monotonic()
        self._join()
        with located(pipeline=self._dataflow.name):
            while True:
                self.coordinator.open(owner, wait_seconds=max(0.0, started + wait_seconds - time.monotonic()))
                try:
                    handle = self.coordinator.begin(self.record(), self.choose)
                except FencedError:  # between two epochs anyone may take over: nothing of ours is lost, so we queue again
                    continue
                self.begin_seconds = time.monotonic() - started
                return handle

    def choose(self, view: LedgerView) -> Slices | None:
        """The slices of the open epoch, as long as they can be read; else the next ones, None when there is nothing new."""
        begin = view.open_begin
        if begin is not None and begin.plan.sources == self.record().sources and self._readable(begin.slices):
            return begin.slices
        last = view.last_complete
        positions, watermarks = (last.offsets, last.watermarks) if last else ({}, {})
        offsets: dict[str, SourceSlice] = {}
        finished: set[str] = set()
        idle: set[str] = set()
        news = False
        for name in self.plan().sources:
            source, start = self._dataflow.nodes[name].operator, positions.get(name)
            if not isinstance(source, SourceOperator):
                continue
            choice = self._offer(name, start)
            offsets[name] = choice.slice if choice else SourceSlice(start, start, None)
            news = news or (choice is not None and choice.news)
            if choice is not None and choice.idle:
                idle.add(name)
            if (choice is not None and choice.final) or (source.finished and not (choice and choice.more)):
                finished.add(name)
                news = news or (source.event_time is not None and watermarks.get(name) != MAX_WATERMARK)
        if not news:
            return None
        for name in self.plan().lookups:
            connector = self._connector(name)
            if connector is not None:
                with located(operator=name):
                    pin = connector.pin()
                    connector.verify(pin, self._schemas[name])
                offsets[name] = SourceSlice(None, None, pin)
        return Slices(offsets, frozenset(finished), frozenset(idle))

    def _offer(self, name: str, start: Any) -> SliceChoice | None:
        """What a source offers after a position, looked over."""
        connector = self._connector(name)
        if connector is None:
            return None
        with located(source=name):
            choice = connector.choose(start, lambda: (piece.items for _, piece in self.coordinator.slices(name)))
            if choice is not None and choice.slice.items is not None:
                connector.verify(choice.slice.items, self._schemas[name])
        return choice

    def _readable(self, slices: Slices) -> bool:
        """Whether all that an epoch was to read is still there as it was: a file may have been corrected or a lookup replaced."""
        for name in (*self.plan().sources, *self.plan().lookups):
            connector, piece = self._connector(name), slices.offsets.get(name)
            if connector is None or piece is None or piece.items is None:
                continue
            try:
                connector.verify(piece.items, self._schemas[name])
            except SourceError:
                return False
        return True

    def run_stage(self, handle: EpochHandle, stage: str) -> Manifest:
        """Run a stage unless a valid manifest of it is there already."""
        made = self.plan()

        def work(attempt: StageAttempt) -> Manifest:
            given = StageWork(
                self.session,
                self._engine.name,
                self._dataflow,
                made,
                made.stage(stage),
                attempt,
                self.coordinator,
                self.input_schemas(),
                self.parallelism,
            )
            try:
                return StageRun(given).run()
            except StageFailedError as error:
                raise (explained(error) or error) from error.__cause__

        with located(pipeline=self._dataflow.name, epoch=handle.epoch):
            return self.coordinator.prepare(handle, stage, work)

    def commit(self, handle: EpochHandle) -> Complete:
        """Move all tables forward together."""
        with located(pipeline=self._dataflow.name, epoch=handle.epoch):
            return self.coordinator.commit(handle)

    def has_news(self) -> dict[str, Any]:
        """Whether a source offers rows, without an engine: for sensors. Maps sources with news to what they offer."""
        view = self.coordinator.view()
        positions = view.last_complete.offsets if view.last_complete else {}
        found: dict[str, Any] = {}
        for stage in cut_stages(self._dataflow):
            for name in stage.operators:
                node = self._dataflow.nodes[name].operator
                if isinstance(node, SourceOperator) and (connector := self._connector(name)):
                    with located(pipeline=self._dataflow.name, source=name):
                        told = connector.news(
                            positions.get(name),
                            lambda name=name: (piece.items for _, piece in self.coordinator.slices(name)),  # type: ignore[misc]
                        )
                    if told is not None:
                        found[name] = told
        return found

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(self, dataset: str, version: int) -> DataFrame:
        """The rows of one of the pipeline's own tables at a version."""
        schema = self.coordinator.schema(dataset, version)
        rows = StagedFiles(self.coordinator.root, self.session).read(dataset, self.coordinator.files(dataset, version), schema)
        return empty(self.session, schema) if rows is None else rows

    def read_state(self, operator: str, table: str, complete: Complete) -> DataFrame:
        """The rows of one of an operator's state tables as of a completed epoch."""
        made, dataset = self.plan(), f"state/{operator}.{table}"
        if f"{operator}.{table}" not in made.states:
            kept = made.kept_in.get(operator)
            raise PipelineError(
                f"there is no state table {table!r}",
                pipeline=self._dataflow.name,
                operator=operator,
                remedy=f"its state is {kept}: read that" if kept else f"there are: {', '.join(made.states)}",
            )
        physical = made.physical[operator]
        version = complete.versions.get(dataset, 0)
        if not isinstance(physical, BatchOperator):
            return self.read(dataset, version)
        files = self.coordinator.files(dataset, version)
        mark = complete.watermarks
        end = input_watermark(self._dataflow, operator, lambda name: mark.get(name, MIN_WATERMARK))
        root, cache = self.coordinator.root, cache_folder(self.coordinator.view().pipeline)
        reader = StateReader(operator, table, physical, files, root.path("").rstrip("/"), root.files, complete.epoch, end, cache)
        return reader.rows(self.session, self.parallelism)
