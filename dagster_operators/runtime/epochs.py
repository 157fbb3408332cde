"""The steps of a pipeline's epochs: begin, one per stage, commit. Dagster's ops and ``run_epoch`` both call these.

Each step finds what it needs in the ledger, so that steps may run in different processes; within one process the plan, the
session and the ledger's view are kept.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from dagster_operators.errors import (
    ChangedColumnsError,
    ChangedPipelineError,
    EndlessLoopError,
    FencedError,
    OperatorsError,
    StageFailedError,
    UndecidedChangeError,
    WayOn,
    located,
)
from dagster_operators.functions.failures import explained
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.scope import loops_around
from dagster_operators.planner.plan import Plan
from dagster_operators.runtime.choosing import Choosing
from dagster_operators.runtime.commands import with_commands
from dagster_operators.runtime.comparing import Comparison
from dagster_operators.runtime.engine import PreparedEngine
from dagster_operators.runtime.engine_threads import EngineThreads
from dagster_operators.runtime.own_engine import in_use
from dagster_operators.runtime.planning import Planning
from dagster_operators.runtime.reading import Reading
from dagster_operators.runtime.rebuildable import only_in_program
from dagster_operators.runtime.rebuilt_part import together
from dagster_operators.runtime.side_by_side import SideBySide
from dagster_operators.runtime.stages.failed_values import failed_value
from dagster_operators.runtime.stages.sinks import join_sinks
from dagster_operators.runtime.stages.stage_run import StageRun
from dagster_operators.runtime.stages.stage_work import StageWork
from dagster_operators.runtime.workers.committing import join_operators
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.effects import StageAttempt
from dagster_operators.transactions.manifest import Manifest
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.plan import EpochHandle, PlanRecord, Slices
from dagster_operators.transactions.records import Complete, Decide
from dagster_operators.transactions.recovery import dataset_of
from dagster_operators.transactions.stage_keys import StageKey
from dagster_operators.transactions.view import LedgerView

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dagster_operators.plans.verdict import Verdict


class Epochs:
    """Runs a pipeline's epochs step by step.

    Args:
        dataflow: The pipeline's graph; may still grow until the first step.
        coordinator: The two-phase commit over the pipeline's storage root.
        engine: Where stages run.
        parallelism: How many subtasks a keyed batch operator has.
        concurrent_stages: How many stages run at the same time.
    """

    def __init__(
        self,
        dataflow: Dataflow,
        coordinator: Coordinator,
        engine: PreparedEngine,
        parallelism: int | None = None,
        concurrent_stages: int | None = None,
    ) -> None:
        self._dataflow = dataflow
        self._engine = engine
        self.planning = Planning(dataflow, coordinator, engine, parallelism)
        self._choosing = Choosing(self.planning, coordinator)
        self._reading = Reading(self.planning, coordinator)
        self._loops: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._threads = EngineThreads(engine, concurrent_stages)
        self.coordinator = coordinator
        self._join()

    def _join(self) -> None:
        join_sinks(self._dataflow, self.coordinator)
        join_operators(self._dataflow, self.coordinator)

    @property
    def session(self) -> SparkSession:
        """The engine's session."""
        return self.planning.session

    def plan(self) -> Plan:
        """The plan, made anew if the pipeline has grown.

        Raises:
            SchemaError: An operator does not fit its input.
        """
        return self.planning.plan()

    def begin(
        self,
        owner: Owner,
        *,
        wait_seconds: float = 0,
        watermarks: Mapping[str, int] | None = None,
        choose: Callable[[LedgerView], Slices | None] | None = None,
    ) -> EpochHandle | None:
        """Recover what an earlier run left, then begin the next epoch; None when the sources hold nothing new.

        Args:
            owner: Who runs it.
            wait_seconds: How long to wait for another run to end.
            watermarks: If given, the epoch reads nothing, and the watermarks of these sources are that far behind it.
            choose: Gives what the epoch reads, instead of the sources.

        Raises:
            PipelineBusyError: Another run is at work.
            ForeignWriteError: Someone else wrote one of the pipeline's tables.
        """
        started = time.monotonic()
        self._join()
        if choose is None:
            choose = partial(self._choosing.only_time, watermarks=watermarks) if watermarks else self._choosing.choose
        with located(pipeline=self._dataflow.name), in_use(self._engine, begins=True):
            while True:
                self.coordinator.open(owner, wait_seconds=max(0.0, started + wait_seconds - time.monotonic()))
                try:
                    self.coordinator.settle()
                    self.planning.comparing.rename_tables()
                    with self.coordinator.steady():
                        record = self.planning.record()
                    try:
                        handle = self._begin(record, choose)
                    except UndecidedChangeError:
                        raise
                    except ChangedPipelineError as error:
                        raise self._with_all_that_is_refused(error, record) from None
                except FencedError:  # between two epochs anyone may take over: nothing of ours is lost, so we queue again
                    continue
                self.begin_seconds = time.monotonic() - started
                return handle

    def stopping(self, view: LedgerView, ended: Collection[str]) -> Slices:
        """The slices of the open epoch; else those of one with which the pipeline is stopped."""
        return self._choosing.stopping(view, ended)

    def _begin(self, record: PlanRecord, choose: Callable[[LedgerView], Slices | None]) -> EpochHandle | None:
        """Begin the epoch; tables and state without any row may have other columns than before."""
        while True:
            try:
                return self.coordinator.begin(record, choose)
            except ChangedColumnsError as error:
                empty = self.coordinator.without_rows(error, record, record.emptied)
                record = replace(record, emptied=(*record.emptied, empty))

    def _with_all_that_is_refused(self, error: ChangedPipelineError, record: PlanRecord) -> ChangedPipelineError:
        """The error with what would be refused behind it, which is kept for those without the program."""
        comparing = self.planning.comparing
        first = comparing.refused(error)
        try:
            more = [one for one in self.refusals() if (one.subject, one.remedy) != (first.subject, first.remedy)]
            comparing.keep_refused([first, *more], self.coordinator.view(), record.logical)
            program = comparing.logical()
        except OperatorsError:  # it is the first one that is to be told
            return error
        told = (first, *more)
        error.remedy += "".join(f"; and for {verdict.subject} ({verdict.problem}): {verdict.remedy}" for verdict in more)
        in_shell = program is not None and not only_in_program(program)
        place = self.coordinator.root.uri
        at_once, past = "", ""
        if all(WayOn.REBUILD in verdict.ways for verdict in told):
            at_once, past = together(told, self.planning.plan())
        if at_once and more and not any(WayOn.WIDEN in verdict.ways for verdict in told):
            error.remedy += f"; all at once: {with_commands(at_once, place) if in_shell else at_once}"
        elif in_shell:
            error.remedy = with_commands(error.remedy, place)
        error.remedy += past
        return error

    def refusals(self) -> list[Verdict]:
        """What of the program does not fit what is stored, beside what has to be decided; plans on the engine if it changed."""
        view, comparing, run = self.coordinator.view(), self.planning.comparing, self.coordinator
        if not comparing.differs(view):
            return []
        found: list[Verdict] = []
        with located(pipeline=self._dataflow.name), in_use(self._engine):
            record = self.planning.previewed()
        names = comparing.renamed_tables(view)
        then, looked = comparing.as_of_now(view), set[str]()
        while error := run.misfit(then, record, names):
            dataset = dataset_of(error, record)
            if dataset in looked:  # told, and emptying it does not settle it
                break
            name = dataset.removeprefix("tables/")
            former = f"tables/{names[name]}" if name in names else dataset
            if not isinstance(error, ChangedColumnsError) or run.has_rows(former):
                refused = comparing.refused(error)
                told = any((one.subject, one.remedy) == (refused.subject, refused.remedy) for one in found)
                found += [] if told else [refused]  # another state table of the same operator
            if not dataset:
                break
            looked.add(dataset)
            record = replace(record, emptied=(*record.emptied, dataset))
        return found

    @property
    def concurrent_stages(self) -> int:
        """How many stages run at the same time."""
        return self._threads.at_once

    def run_stages(self, handle: EpochHandle) -> Mapping[str, Manifest]:
        """Run all stages of an epoch, those that do not depend on each other side by side."""
        return self.side_by_side(handle).run_all()

    def side_by_side(
        self, handle: EpochHandle, stages: Collection[str] | None = None, *, go_on: bool = False
    ) -> SideBySide[Manifest]:
        """The stages of an epoch (or some of them), to be run side by side.

        Args:
            handle: The epoch.
            stages: Names of stages; of others they depend on there is a valid manifest.
            go_on: Whether stages that do not depend on one that failed are still begun.
        """
        upstream = {stage.name: stage.upstream for stage in self.plan().stages if stages is None or stage.name in stages}
        return SideBySide(
            upstream, lambda stage: self.run_stage(handle, stage), self.concurrent_stages, self._threads, go_on=go_on
        )

    def run_stage(self, handle: EpochHandle, stage: str) -> Manifest:
        """Run a stage unless a valid manifest of it is there already; of a loop all stages run until it has come to rest.

        Returns:
            The stage's manifest, in a loop that of its last round.

        Raises:
            EndlessLoopError: The loop did not come to rest.
        """
        around = loops_around(self._dataflow.scopes, self.plan().stage(stage).loop)
        if not around:
            return self._run_piece(handle, StageKey(stage))
        with self._loops[around[0]]:  # its stages may be asked for in several threads
            return self._run_loop(handle, around[0], ())[stage]

    def _run_loop(self, handle: EpochHandle, loop: str, around: tuple[int, ...]) -> Mapping[str, Manifest]:
        """Run the stages of a loop round by round; what is prepared already is not run again.

        Args:
            handle: The epoch.
            loop: The loop.
            around: The rounds of the loops that it is in.

        Returns:
            The last manifest of each of its stages, those of loops within it among them.
        """
        limit, loop_ends = self._dataflow.scopes[loop].limit, self._dataflow.scopes[loop].ends
        for number in range(limit):
            made = self._run_round(handle, loop, (*around, number))
            fed = sum(made[stage.name].goes_round for stage in self.plan().stages if stage.loop == loop)
            if not fed or (loop_ends and number + 1 == limit):
                return made
        raise EndlessLoopError(
            f"after {limit} rounds {fed} rows still go round",
            pipeline=self._dataflow.name,
            loop=loop,
            epoch=handle.epoch,
            remedy="see that fewer and fewer rows are fed back; or allow more rounds by limit= of the loop",
        )

    def _run_round(self, handle: EpochHandle, loop: str, iteration: tuple[int, ...]) -> dict[str, Manifest]:
        made: dict[str, Manifest] = {}
        for stage in self.plan().stages:
            inner = loops_around(self._dataflow.scopes, stage.loop)[len(iteration) - 1 :]
            if inner[:1] != (loop,) or stage.name in made:
                continue
            if len(inner) > 1:
                made |= self._run_loop(handle, inner[1], iteration)
            else:
                made[stage.name] = self._run_piece(handle, StageKey(stage.name, iteration))
        return made

    def _run_piece(self, handle: EpochHandle, key: StageKey) -> Manifest:
        def work(attempt: StageAttempt) -> Manifest:
            made = self.planning.plan_of(attempt.begin.plan)
            given = StageWork(
                self.session, self._engine.name, made.dataflow, made, made.stage(key.stage), attempt, self.coordinator,
                self.planning.input_schemas(), self.planning.parallelism,
            )  # fmt: skip
            interruptions = self._threads.interruptions
            try:
                manifest = StageRun(given).run()
            except StageFailedError as error:
                left_out_by_rules = self._dataflow.nodes.keys() - made.dataflow.nodes.keys()
                names = {*given.stage.operators, *left_out_by_rules}
                raise (explained(error) or failed_value(error, self._dataflow, names) or error) from error.__cause__
            if not self._threads.were_left_alone(interruptions):
                raise StageFailedError(
                    "the run was interrupted while the stage was at work", stage=key.stage, remedy="run the epoch again"
                )
            return manifest

        with located(pipeline=self._dataflow.name, epoch=handle.epoch), in_use(self._engine):
            return self.coordinator.prepare(handle, str(key), work)

    def commit(self, handle: EpochHandle) -> Complete:
        """Move all tables forward together."""
        with located(pipeline=self._dataflow.name, epoch=handle.epoch):
            return self.coordinator.commit(handle)

    def comparison(self) -> Comparison:
        """What changed in the pipeline since the last completed epoch, and what follows from it; without an engine."""
        return self.planning.comparing.compare(self.coordinator.view())

    def answer(self, verdict: Verdict, choice: Literal["keep", "restart", "drop", "withdraw"]) -> Decide:
        """Record what was decided about a change, for the next epoch."""
        return self.planning.comparing.answer(verdict, choice)

    def drop(self, name: str) -> list[str]:
        """Forget and delete a table or the state of an operator that the pipeline no longer has; which datasets that were.

        Raises:
            PipelineError: The pipeline has it, or there is nothing of that name.
        """
        return self.planning.comparing.drop(name)

    def has_news(self) -> dict[str, Any]:
        """Whether a source offers rows, without an engine: for sensors. Maps sources with news to what they offer."""
        return self._choosing.has_news()

    def restore_times(self, source: str) -> list[str]:
        """Give files that a source has read, and that have another time of change now, that time again; their paths."""
        return self._choosing.restore_times(source)

    def backlog(self, source: str) -> Mapping[str, int]:
        """How much of a source is unread, by unit, as far as that is told without an engine: for sensors."""
        return self._choosing.backlog(source)

    def waiting(self) -> Mapping[str, str]:
        """What was decided, by subject, that begins an epoch without news, too; without an engine: for sensors."""
        return self.planning.comparing.waiting(self.coordinator.view())

    def read(self, dataset: str, complete: Complete) -> DataFrame:
        """The rows of one of the pipeline's own tables as of a completed epoch."""
        with in_use(self._engine):
            return self._reading.read(dataset, complete)

    def read_state(self, operator: str, table: str, complete: Complete) -> DataFrame:
        """The rows of one of an operator's state tables as of a completed epoch."""
        with in_use(self._engine):
            return self._reading.read_state(operator, table, complete)
