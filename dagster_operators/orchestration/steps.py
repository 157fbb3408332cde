"""A pipeline's epochs as Dagster's ops run them: on the run's engine, owned by the run, with our errors as failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from typing import TYPE_CHECKING, Final, TypeVar

import dagster as dg

from dagster_operators.api.pipeline import Pipeline
from dagster_operators.api.rebuilding import AT_ONCE
from dagster_operators.errors import LedgerError, OperatorsError, PipelineError
from dagster_operators.orchestration.backfills import Backfill, backfill_of, backfill_tag
from dagster_operators.orchestration.epoch_of_run import begin_id_of, remember, remember_none
from dagster_operators.orchestration.failures import as_failures, is_final, is_last_try, terminated
from dagster_operators.orchestration.keys import PIPELINE_TAG, ROOT_TAG, AssetKeys, op_name, pipeline_tag, root_name
from dagster_operators.orchestration.options import Options
from dagster_operators.orchestration.progress import told_meanwhile
from dagster_operators.orchestration.sinks import sink_assets
from dagster_operators.orchestration.tables import table_assets
from dagster_operators.orchestration.waiting import waiting
from dagster_operators.planner.recut import with_all_before, work_of
from dagster_operators.planner.stages import cut_stages
from dagster_operators.runtime.engine import Engine, default_engine
from dagster_operators.runtime.reading_ranges import time_columns
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.unlocking import let_go

T = TypeVar("T")

if TYPE_CHECKING:
    from dagster_operators.graph.restricted import Part
    from dagster_operators.planner.stages import Stage
    from dagster_operators.runtime.epochs import Epochs
    from dagster_operators.runtime.results import EpochResult
    from dagster_operators.runtime.side_by_side import SideBySide
    from dagster_operators.transactions.manifest import Manifest
    from dagster_operators.transactions.plan import EpochHandle

_IN_PROCESS: Final = frozenset({"in_process", "execute_in_process_executor", "multi_or_in_process_executor"})
"""Executors that (may) run all ops of a run in one process, one after another."""


class PipelineSteps:
    """One pipeline in a deployment: its assets, and its epochs' steps for whichever run is at work in this process.

    Args:
        pipeline: The pipeline.
        keys: Its asset keys.
        options: The user's choices.
        engine: What kind of engine its stages run on.
    """

    def __init__(self, pipeline: Pipeline, keys: AssetKeys, options: Options, engine: str = "spark") -> None:
        self.pipeline = pipeline
        self.engine = engine
        self.keys = keys
        self.options = options
        self.tables = table_assets(pipeline, keys)
        self.sinks = sink_assets(pipeline, keys)
        self.stages = cut_stages(pipeline.dataflow)
        """Those that its ops are of; an epoch may have others, where its ways are recorded."""
        self._epochs: tuple[Engine, Epochs] | None = None
        self._observer: Epochs | None = None
        self._instance: dg.DagsterInstance | None = None
        self._interrupted: str | None = None
        """A run that was interrupted in this process; other branches of its graph must not go on."""
        self._at_work: str | None = None
        """A run of which an op has run in this process."""
        self._beside: tuple[EpochHandle, SideBySide[Manifest]] | None = None

    @property
    def name(self) -> str:
        """The name that the pipeline's root has: a pipeline that was renamed keeps its assets, runs, jobs and sensors."""
        return self.pipeline.stored_name

    @property
    def run_tags(self) -> dict[str, str]:
        """The tags that say of a run whose it is."""
        root = root_name(self.pipeline)
        return {PIPELINE_TAG: self.name, ROOT_TAG: root, pipeline_tag(self.name): root}

    @property
    def asset_keys(self) -> set[dg.AssetKey]:
        """The keys of all that an epoch makes."""
        return {*(table.key for table in self.tables.values()), *self.sink_keys}

    @property
    def sink_keys(self) -> set[dg.AssetKey]:
        """The keys of its sinks."""
        return {sink.key for sink in self.sinks.values()}

    @property
    def engine_key(self) -> str:
        """The key of the resource that says where its stages run; no other pipeline, and nothing of the user's, has it."""
        return f"{self.name}_engine"

    def beside(self, epochs: Epochs) -> Callable[[Part, str], Epochs]:
        """Makes the epochs of a part of the pipeline in another storage root, on the same engine."""
        return self.pipeline.epochs_beside(epochs, is_run_alive=self._is_run_alive)

    @contextmanager
    def epochs(self, context: dg.OpExecutionContext) -> Iterator[Epochs]:
        """The epochs on the run's engine. The heartbeat stops when the step does.

        The run stays the owner between its steps, unless one fails for good or is terminated: whoever is to settle that need not
        wait. A step that fails only after this, as one that first reports its checks, says so by :meth:`let_go`.
        """
        self._instance = context.instance
        engine: Engine = getattr(context.resources, self.engine_key)
        if self._epochs is None or self._epochs[0] != engine:
            self._epochs = (engine, self.pipeline.epochs_on(engine, is_run_alive=self._is_run_alive))
        epochs = self._epochs[1]
        if context.run_id == self._interrupted:
            raise terminated()
        last_try = is_last_try(context)
        with as_failures(self.pipeline.root, last_try=last_try, mask=bool(self.options.masked_columns)):
            try:
                with told_meanwhile(context.log.info, epochs.planning.engine.name, pipeline=self.pipeline.name):
                    yield epochs
            except (KeyboardInterrupt, dg.DagsterExecutionInterruptedError):
                self._interrupted = context.run_id
                if self._beside is not None:
                    self._beside[1].stop()
                self.let_go(context, epochs)
                raise
            except Exception as error:
                if last_try or is_final(error):
                    self.let_go(context, epochs)
                raise
            finally:
                self._at_work = context.run_id
                epochs.coordinator.close()

    @staticmethod
    def let_go(context: dg.OpExecutionContext, epochs: Epochs) -> None:
        """Say that the run is not at work on the pipeline any more: its step fails for good."""
        with suppress(OperatorsError):  # the error at hand is the one to tell
            epochs.coordinator.close()
            let_go(epochs.coordinator, owner_of(context))

    def side_by_side(self, context: dg.OpExecutionContext, epochs: Epochs, handle: EpochHandle) -> SideBySide[Manifest] | None:
        """The run's stages, to be asked for by their ops; None where ops may run in processes of their own, side by side anyway.

        In one process Dagster runs one op at a time. So while one op runs its stage, other threads run those of the ops to come,
        as soon as what they read is there; each of these ops then finds its stage done or waits for the rest of it.
        """
        in_process = self._at_work == context.run_id and context.job_def.executor_def.name in _IN_PROCESS
        if not in_process or epochs.concurrent_stages == 1:
            return None
        if self._beside is None or self._beside[0] != handle:
            wanted = context.run.step_keys_to_execute
            ops = None if wanted is None else {key.rpartition(".")[2] for key in wanted}
            stages = [stage.name for stage in epochs.plan().stages if ops is None or op_name(stage.name) in ops]
            self._beside = (handle, epochs.side_by_side(handle, stages, go_on=True))
        return self._beside[1]

    def run_cut_otherwise(self, epochs: Epochs, handle: EpochHandle, stage: Stage) -> Sequence[Manifest] | None:
        """Run the work of a stage's op in an epoch that was begun with other stages than ops are of.

        Args:
            epochs: The epochs.
            handle: The epoch.
            stage: One of the stages that ops are of.

        Returns:
            The manifests of the epoch's stages that are its work; None if the epoch has the stages that ops are of.
        """
        begin = epochs.coordinator.view().open_begin
        if begin is None or not begin.plan.choices:
            return None
        if {one.name for one in begin.plan.stages} == {one.name for one in self.stages}:
            return None
        planned = epochs.planning.plan_of(begin.plan).stages
        own = work_of(self.stages, planned)[stage.name]
        made = {name: epochs.run_stage(handle, name) for name in with_all_before(own, planned)}
        return [made[name] for name in own]

    def tag(self, context: dg.OpExecutionContext) -> None:
        """Say that a run is of this pipeline, which sensors look for: one that is launched from the asset graph does not."""
        if context.run.tags.get(pipeline_tag(self.name)) == root_name(self.pipeline):
            return
        run = context.instance.get_run_by_id(context.run_id)  # as it is now: another pipeline's op may have tagged it
        others = run is not None and PIPELINE_TAG in run.tags
        told = self.run_tags
        context.instance.add_run_tags(
            context.run_id, {name: value for name, value in told.items() if not others or name == pipeline_tag(self.name)}
        )

    def backfill(self, context: dg.OpExecutionContext, epochs: Epochs) -> tuple[Backfill, EpochResult] | None:
        """Compute the time range anew that a run is a backfill of; None for other runs.

        Raises:
            PipelineError: Rows of the range depend on rows of other times.
        """
        wanted = self.backfill_asked_for(context)
        if wanted is None:
            return None
        context.instance.add_run_tags(context.run_id, {backfill_tag(self.name): wanted.told})
        if wanted.between is None:
            raise wanted.refused(self.name, self.tables, None)
        try:
            time_columns(epochs.planning.plan().dataflow, list(self.tables))
        except PipelineError as error:
            raise wanted.refused(self.name, self.tables, error) from None
        made = self.waiting(context, lambda seconds: self.pipeline.rebuild_on(
            epochs, self.beside(epochs), owner_of(context), tables=list(self.tables), operators=(), since=0,
            between=wanted.between, epochs_at_once=AT_ONCE, wait_seconds=seconds,
        ))  # fmt: skip
        return wanted, made

    def waiting(self, context: dg.OpExecutionContext, work: Callable[[float], T]) -> T:
        """Do what needs the pipeline for itself; for another run that is at work a run waits as long as the deployment says."""
        return waiting(context, self.name, self.options.wait_seconds, work)

    def backfill_asked_for(self, context: dg.OpExecutionContext) -> Backfill | None:
        """The time range that a run is a backfill of; None for other runs."""
        keys = [table.key for table in self.tables.values()]
        return backfill_of(context, keys, beside=self.others_go_on(context))

    def begin(self, context: dg.OpExecutionContext, epochs: Epochs) -> EpochHandle | None:
        """Begin the run's next epoch; None, and a line in the run's log, when there is nothing new."""
        owner = owner_of(context)

        def begun(seconds: float) -> EpochHandle | None:
            self.pipeline.fill(epochs, self.beside(epochs), owner, seconds)
            return epochs.begin(owner, wait_seconds=seconds)

        handle = self.waiting(context, begun)
        if handle is None:
            last = epochs.coordinator.last_complete()
            after, sources = last.epoch if last else 0, ", ".join(epochs.plan().sources)
            context.log.info("Nothing new after epoch %d in %s: nothing to do.", after, sources)
            remember_none(context, self.name, after)
        else:
            remember(context, self.name, handle)
        return handle

    def resume(self, context: dg.OpExecutionContext, epochs: Epochs) -> EpochHandle | None:
        """Go on with the epoch that the run, or one that it re-executes, has begun; None when there was nothing new."""
        begin_id = begin_id_of(context, self.name)
        if begin_id is None:
            return None
        return self.waiting(context, lambda seconds: epochs.coordinator.resume(begin_id, owner_of(context), wait_seconds=seconds))

    def begun(self, context: dg.OpExecutionContext, epochs: Epochs) -> EpochHandle:
        """The epoch that the run has begun.

        Raises:
            LedgerError: There was nothing new.
        """
        handle = self.resume(context, epochs)
        if handle is None:
            raise LedgerError("the run has begun no epoch: nothing was new", pipeline=self.name, remedy="start a new run")
        return handle

    def others_go_on(self, context: dg.OpExecutionContext) -> bool:
        """Whether the run is also of assets that are not this pipeline's: they are not to wait for news of ours."""
        return bool(set(context.job_def.asset_layer.executable_asset_keys) - self.asset_keys)

    def observer(self, instance: dg.DagsterInstance, *, anew: bool = False) -> Epochs:
        """The epochs for sensors and schedules, which look and run nothing; its engine is never started."""
        self._instance = instance
        if self._observer is None or anew:
            self._observer = self.pipeline.epochs_on(default_engine(), is_run_alive=self._is_run_alive)
        return self._observer

    def between_epochs(self, instance: dg.DagsterInstance) -> Pipeline:
        """The pipeline for what is done to its storage between epochs: a run that Dagster knows to be over is in nobody's way."""
        return self.pipeline_on(self.observer(instance))

    def pipeline_on(self, epochs: Epochs) -> Pipeline:
        """The pipeline with these epochs, for its methods."""
        made = copy(self.pipeline)
        made.epochs = epochs
        return made

    def _is_run_alive(self, owner: Owner) -> bool | None:
        """A run that Dagster knows to be over is dead at once. Of others the heartbeat tells, as a killed run stays 'started'."""
        run = self._instance.get_run_by_id(owner.run_id) if self._instance else None
        return False if run is not None and run.is_finished else None


def owner_of(context: dg.OpExecutionContext) -> Owner:
    """The Dagster run as the owner of its epochs."""
    return Owner.of_dagster_run(context.run_id)
