"""The commit protocol on real storage: what the runtime calls to take an epoch from begin to completion."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

from dagster_operators.errors import (
    ChangedColumnsError,
    ChangedPipelineError,
    DamagedTableError,
    ForeignWriteError,
    LedgerError,
    OperatorsError,
    PipelineBusyError,
    located,
)
from dagster_operators.graph.slice import SourceSlice
from dagster_operators.storage.log_damage import damage
from dagster_operators.storage.log_entries import versions_of
from dagster_operators.storage.log_history import tell_versions
from dagster_operators.storage.presence import lost_files
from dagster_operators.storage.root import Root
from dagster_operators.transactions.cleaning import clean_up
from dagster_operators.transactions.commit import commit_epoch
from dagster_operators.transactions.contents import contents_of, others
from dagster_operators.transactions.deciding import decide, drop, settle
from dagster_operators.transactions.digests import LedgerDigests, with_digests
from dagster_operators.transactions.dropping import Dropping
from dagster_operators.transactions.effects import StageAttempt
from dagster_operators.transactions.history import History, as_repaired, first_readable
from dagster_operators.transactions.lease import IsRunAlive, Lease
from dagster_operators.transactions.ledger import DeltaLedger
from dagster_operators.transactions.ledger_repair import LedgerRepair, repair_ledger
from dagster_operators.transactions.logged import is_misread
from dagster_operators.transactions.lost import PUT_BACK, lost_error, written_files
from dagster_operators.transactions.manifest import Change, FileEntry, Manifest
from dagster_operators.transactions.own_commits import OwnCommits
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.participants import Participant
from dagster_operators.transactions.plan import EpochHandle, PlanRecord, Slices
from dagster_operators.transactions.protocol import begin_epoch, open_generation, prepare_stage, resume_epoch, valid_manifest
from dagster_operators.transactions.records import Complete, Decide, Record, Repair
from dagster_operators.transactions.recovery import check_plan, dataset_of, decided_datasets
from dagster_operators.transactions.repair import Keep, is_wrong, repair_table
from dagster_operators.transactions.steps import RunContext, Steps
from dagster_operators.transactions.tables import Tables
from dagster_operators.transactions.transition import Transition
from dagster_operators.transactions.transition_epoch import begin_transition, manifest_of, plan_of_transition
from dagster_operators.transactions.view import LedgerView
from dagster_operators.transactions.world import World

T = TypeVar("T")
Changes: TypeAlias = Callable[[StageAttempt], Iterable[Change]]


class Coordinator:
    """One run's access to the pipeline's ledger and tables.

    Args:
        pipeline: The pipeline's name.
        root: Its storage root, a local path or an object-store URI.
        storage_options: As deltalake takes them; never written anywhere.
        lease_seconds: How long an owner without heartbeat is believed to be alive.
        participants: External participants of the commit, by name.
        is_run_alive: Asked about owners that are Dagster runs, before their heartbeat counts.
        durable: Whether what is written is flushed to the disk, in the order in which recovery needs it.
        program: What the program calls the pipeline, if that is another name.

    Example:
        ``open`` once per run, then ``begin``, ``prepare`` for every stage in order, and ``commit``; ``close`` at the end.

    >>> import tempfile
    >>> from dagster_operators.transactions.plan import StageRecord
    >>> plan = PlanRecord("p", (StageRecord("clean", "f"),), {"numbers": "n"})
    >>> def work(attempt):
    ...     rows = {"clean": 3}
    ...     return Manifest("demo", attempt.epoch, attempt.stage, attempt.attempt, attempt.fingerprint, attempt.reads, rows=rows)
    >>> with tempfile.TemporaryDirectory() as root, Coordinator("demo", root) as run:
    ...     generation = run.open(Owner.of_process())
    ...     handle = run.begin(plan, lambda view: Slices({"numbers": SourceSlice(None, 3, [1, 2, 3])}))
    ...     manifest = run.prepare(handle, "clean", work)
    ...     complete = run.commit(handle)
    >>> complete.epoch, complete.rows, complete.offsets
    (1, {'clean': 3}, {'numbers': 3})
    """

    def __init__(
        self,
        pipeline: str,
        root: str,
        *,
        storage_options: Mapping[str, str] | None = None,
        lease_seconds: float = 30.0,
        participants: Mapping[str, Participant] | None = None,
        is_run_alive: IsRunAlive | None = None,
        durable: bool = False,
        program: str | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.root = Root(root, storage_options, durable=durable)
        self.seconds: dict[str, float] = {}
        self._participants = dict(participants or {})
        self._ledger = DeltaLedger(self.root, pipeline, program=program)
        self.root.known_digests = LedgerDigests(self._ledger)
        self._tables = Tables(self.root)
        self._lease = Lease(self.root, lease_seconds)
        self.past = History(self._ledger)
        self._own = OwnCommits(self.root, self._ledger)
        self._world = World(
            self.root, self._ledger, self._tables, self._lease, participants=self._participants, is_run_alive=is_run_alive
        )
        self._dropping = Dropping(self._participants, self.view)
        self._timing = threading.Lock()
        self._lease_seconds = lease_seconds
        self._is_run_alive = is_run_alive
        self._generation = 0
        self._owner: Owner | None = None

    def open(self, owner: Owner, *, wait_seconds: float = 0) -> int:
        """Take over the pipeline and return the generation; one's own generation is kept.

        Raises:
            PipelineBusyError: Another owner is at work, and still is after ``wait_seconds``.
        """
        deadline, before = time.monotonic() + wait_seconds, self._generation
        while True:
            try:
                self._generation = self._run(open_generation(owner, self.pipeline, tuple(self._participants)))
            except PipelineBusyError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(min(0.2, self._lease_seconds / 10))
                continue
            except Exception:
                with contextlib.suppress(OperatorsError):
                    view = self.view()
                    if owner.is_same(view.owner):  # ours since this call, but a participant cannot go on: close() sets it free
                        self._generation, self._owner = view.generation, owner
                raise
            self._owner = owner
            self._lease.hold(self._generation, taken_over=self._generation > before)
            return self._generation

    def begin(self, plan: PlanRecord, choose: Callable[[LedgerView], Slices | None]) -> EpochHandle | None:
        """Recover what earlier runs left, then take up the open epoch or begin the next one with the slices ``choose`` gives.

        Returns:
            None when there is nothing new; the pipeline is then free for other runs.
        """
        if not self._generation:
            raise LedgerError("the pipeline is not open", pipeline=self.pipeline, remedy="call open first")
        self.seconds.clear()
        self._lease.hold(self._generation)
        handle = self._run(begin_epoch(self._context(self._generation), plan), choose=choose)
        if handle is None:
            self._lease.release(self._generation)
        elif handle.generation != self._generation:  # it had begun the epoch before and fenced itself
            self._generation = handle.generation
            self._lease.hold(self._generation)
        return handle

    def resume(self, begin_id: str, owner: Owner, *, wait_seconds: float = 0) -> EpochHandle:
        """Join an epoch that another process or an earlier run began: all there is to know of it is in the ledger.

        Args:
            begin_id: Of the handle that its begin gave.
            owner: The run that goes on with it.
            wait_seconds: As of :meth:`open`.

        Raises:
            PipelineBusyError: The run that began it is at work, and it is another one.
            LedgerError: The epoch was begun anew or another one was completed since.
        """
        self.open(owner, wait_seconds=wait_seconds)
        return self._run(resume_epoch(self._context(self._generation), begin_id))

    def prepare(self, handle: EpochHandle, stage: str, work: Callable[[StageAttempt], Manifest]) -> Manifest:
        """The stage's manifest: the valid one that is there, or the one ``work`` gives, which is then recorded.

        Several threads may prepare stages at once, and so may several processes of one run.

        Raises:
            FencedError: Another run took over.
        """
        with self._lease.during_step(handle.generation), self._dropping.if_it_fails(handle.generation):
            return self._run(
                prepare_stage(self._context(handle.generation), handle, stage),
                work=lambda attempt: with_digests(self.root, work(attempt)),
            )

    def valid_manifest(self, handle: EpochHandle, stage: str) -> Manifest | None:
        """The stage's manifest if a valid attempt has been recorded."""
        return self._run(valid_manifest(self._context(handle.generation), handle, stage))

    def commit(self, handle: EpochHandle) -> Complete:
        """Commit the epoch: decide it, move all tables, complete it. Calling it again gives the same result.

        Raises:
            CheckFailedError: A blocking check failed; nothing was committed.
            ForeignWriteError: Someone else wrote a table; the epoch waits.
            FencedError: Another run took over.
        """
        self._lease.hold(handle.generation)
        with self._dropping.if_it_fails(handle.generation):
            complete = self._run(commit_epoch(self._context(handle.generation), handle))
        started = time.perf_counter()
        self._world.fold()
        self._took("fold_ledger", started)
        self._lease.release(handle.generation)
        return complete

    @property
    def participants(self) -> Mapping[str, Participant]:
        """The external participants of the commit, by name."""
        return self._participants

    def join(self, participants: Mapping[str, Participant]) -> None:
        """Let further participants take part from the next step on."""
        self._participants.update(participants)

    def view(self) -> LedgerView:
        """The ledger as it is now."""
        with located(pipeline=self.pipeline):
            return self._ledger.view()

    def look(self) -> LedgerView:
        """The ledger as it is now, looked at anew: for what is not recorded in it, as files that are deleted."""
        with located(pipeline=self.pipeline):
            return self._ledger.look()

    def steady(self) -> AbstractContextManager[None]:
        """While this is open, :meth:`view` gives what it gave last in this thread, if a look at the storage is a request."""
        return self._ledger.steady()

    def owner_at_work(self) -> Owner | None:
        """Who is working on the pipeline right now; None when it is free."""
        view = self.view()
        return view.owner if self._lease.check(view, self._is_run_alive).alive else None

    def wrong_tables(self, *, by_content: bool = False) -> list[str]:
        """The datasets that are not as the ledger says: somebody else wrote, damaged, restored or deleted them.

        Args:
            by_content: Whether their files are compared with what the ledger says, too, which reads all of it.
        """
        view = self.view()
        wrong = {name for name in view.versions if self._is_wrong(view, name)}
        sound = {name: version for name, version in view.versions.items() if name not in wrong}
        return sorted(wrong | others(self._ledger, self._tables, sound) if by_content and sound else wrong)

    def tell(self, dataset: str) -> str:
        """What is wrong with the log of a dataset, or what it says of versions that are not ours; else of the last one."""
        if found := damage(self.root, dataset):
            return found
        view, last = self.view(), max(versions_of(self.root, dataset), default=0)
        return self._own.strangers(dataset, last) or tell_versions(self.root, dataset, view.versions.get(dataset, 0) - 1)

    def misfit(self, view: LedgerView, plan: PlanRecord, names: Mapping[str, str]) -> ChangedPipelineError | None:
        """Why a plan does not fit what is stored; None if it does.

        Args:
            view: The ledger, with its tables renamed.
            plan: The plan.
            names: What tables are called that are to be renamed, by their new names.
        """
        was = {f"tables/{name}": f"tables/{old}" for name, old in names.items()}
        wanted = view.versions.keys() | plan.datasets.keys()
        tables = {dataset: self._tables.status(was.get(dataset, dataset), view.pipeline) for dataset in wanted}
        try:
            check_plan(view, tables, plan)
        except ChangedPipelineError as error:
            return error
        return None

    def history(self) -> list[Complete]:
        """All completed epochs, oldest first."""
        return self.past.completed()

    def last_complete(self) -> Complete | None:
        """The last completed epoch."""
        return self.view().last_complete

    def versions(self, epoch: int | None = None) -> Complete:
        """The completion of an epoch (the last one when None), which has the version of every dataset.

        Raises:
            UnknownEpochError: There is no such completed epoch.
        """
        return self.past.readable(epoch)

    def slices(self, source: str) -> Iterator[tuple[int, SourceSlice]]:
        """The slices of a source in all completed epochs, in order."""
        return self.past.slices(source)

    def files(self, dataset: str, version: int) -> list[FileEntry]:
        """The active files of a dataset at a version; their paths are relative to ``<root>/<dataset>``.

        Raises:
            ForeignWriteError: It is that of the last epoch, and they are not what epochs committed.
        """
        found, view = self._tables.files(dataset, version), self._ledger.known
        last = as_repaired(view.last_complete, view) if view and view.last_complete else None
        if last and last.versions.get(dataset) == version:
            self._own.require_files(last, dataset, [file.path for file in found])
        return found

    def content(self, complete: Complete, dataset: str) -> tuple[str, list[FileEntry]]:
        """The columns of a dataset as of an epoch, and its files, for whoever reads its rows.

        Raises:
            ForeignWriteError: What stands at the version of the epoch is not what it committed.
        """
        version = complete.versions[dataset]
        schema, files = self.schema(dataset, version), self._tables.files(dataset, version)
        self._own.require(complete, dataset)  # behind it: what has been written over since is right here
        self._own.require_files(complete, dataset, [file.path for file in files])
        return schema, files

    def require_as_written(self, dataset: str, files: Iterable[FileEntry]) -> None:
        """See that files are there as they were written; on a local root, as a store would be asked for each.

        Raises:
            LostFileError: One is not.
        """
        if self.root.is_local and (lost := lost_files(self.root, written_files(dataset, files))):
            raise lost_error(lost, "rows cannot be read", PUT_BACK, view=self.view(), pipeline=self.pipeline)

    def misread(self, datasets: Collection[str]) -> dict[str, str]:
        """The files of datasets of which a log says something else than the epochs that wrote them; reads the whole ledger, once.

        Statistics decide which files are read: of changed ones rows would be missing.
        """
        pipeline, problem = self.view().pipeline, "has other statistics in the table's log than it was written with"
        found: dict[str, str] = {}
        for dataset, written in contents_of(self._ledger, self._tables, datasets):
            status = self._tables.status(dataset, pipeline)
            told = {file.path: file for file in self._tables.files(dataset, status.version) if file.is_ours}
            others = (path for path, file in told.items() if path in written and is_misread(file, written[path], status))
            found |= {f"{dataset}/{path}": problem for path in others}
        return found

    def has_rows(self, dataset: str) -> bool:
        """Whether a dataset has any."""
        return bool(self.files(dataset, self.view().versions.get(dataset, 0)))

    def without_rows(self, error: ChangedColumnsError, plan: PlanRecord, emptied: Collection[str]) -> str:
        """The table or state whose columns a plan changes, which may have others than before as it has no row.

        Args:
            error: What refuses them.
            plan: The plan.
            emptied: What has been taken for empty already, and does not fit all the same.

        Raises:
            ChangedColumnsError: The same: it has rows.
        """
        dataset = dataset_of(error, plan)
        if dataset in emptied or self.has_rows(dataset):
            raise error
        return dataset

    def schema(self, dataset: str, version: int) -> str:
        """The columns of a dataset at a version, as the JSON of a Spark ``StructType``."""
        return self._tables.schema(dataset, version)

    def repair(self, table: str, keep: Keep) -> Repair | None:
        """Settle a table (``tables/clean``) that someone else wrote or restored; ``ours`` puts the last epoch's content back.

        Returns:
            What was recorded; None when nothing was wrong.
        """
        return self._opened(lambda context: self._run(repair_table(context, table, keep)))

    def repair_all(self, keep: Keep) -> list[Repair]:
        """Settle every table that is not as the ledger says, also behind one where that fails; what was recorded."""

        def repair(context: RunContext) -> list[Repair]:
            view = self.view()
            names = {*view.versions, *(view.plan.datasets if view.plan else ()), *self._datasets_there()}
            wrong = [dataset for dataset in sorted(names) if self._is_wrong(view, dataset)]
            done, failed = list[Repair | None](), list[OperatorsError]()
            for dataset in wrong:
                try:
                    done.append(self._run(repair_table(context, dataset, keep)))
                except OperatorsError as error:
                    failed.append(error)
            if failed:
                failed[0].problem += f" (and {len(failed) - 1} more tables cannot be settled)" if failed[1:] else ""
                raise failed[0]
            return [record for record in done if record]

        return self._opened(repair)

    def _is_wrong(self, view: LedgerView, dataset: str) -> bool:
        try:
            if is_wrong(view, dataset, self._tables.status(dataset, view.pipeline)):
                return True
            if view.last_complete and dataset in view.versions and dataset in view.last_complete.contents:
                self.files(dataset, view.versions.get(dataset, 0))
        except (DamagedTableError, ForeignWriteError):
            return True
        return False

    def repair_ledger(self, last_epoch: int | None = None) -> LedgerRepair:
        """Make a damaged ledger whole, or end it behind an epoch, and put the tables back to what it says then.

        Raises:
            PipelineBusyError: A run is at work, or was until just now.
        """
        owner = Owner.of_process()
        self._lease.require_silence(self.pipeline)
        done, self._generation = repair_ledger(self.root, self.pipeline, owner, last_epoch)
        self._owner = owner
        self._ledger.forget()
        self.past = History(self._ledger)
        try:
            return replace(done, tables=tuple(record.dataset for record in self.repair_all("ours")))
        finally:
            self.close()

    def _datasets_there(self) -> list[str]:
        return [f"{kind}/{name}" for kind in ("tables", "state") for name in self.root.children(kind)]

    def _opened(self, repair: Callable[[RunContext], T]) -> T:
        """Repair under the run's generation, or under one that is taken for it."""
        if self._generation:
            return repair(self._context(self._generation))
        generation = self.open(Owner.of_process())
        try:
            return repair(self._context(generation))
        finally:
            self.close()

    def settle(self, replaced: Collection[str] = ()) -> LedgerView:
        """The ledger once a decided epoch, should there be one, is complete.

        Args:
            replaced: Datasets that are replaced as a whole next, of which logs may be damaged and files lost.
        """
        context = self._context(self._generation)
        view = self.view() if replaced else None
        for dataset in sorted(replaced) if view else ():
            if view and (dataset in view.versions or dataset in decided_datasets(view)) and self._is_wrong(view, dataset):
                self._run(repair_table(context, dataset, "ours", replaced=True))
        return self._run(settle(context, replaced))

    def decide(self, decision: Decide) -> Decide:
        """Record what was decided about a change of the pipeline, which the next epoch carries out."""
        return self._run(decide(self._context(self._generation), decision))

    def drop(self, datasets: Collection[str]) -> None:
        """Forget datasets that the pipeline no longer has, and delete them with their files."""
        self._run(drop(self._context(self._generation), tuple(datasets)))

    def transit(
        self, plan: PlanRecord, to: Transition, changes: Changes, replaced: Collection[str] = (), *, seconds: float = 0.0
    ) -> Complete:
        """Put tables, positions and times elsewhere, in an epoch of its own; an undecided one is forgotten.

        Args:
            plan: What the pipeline is behind it.
            to: Where its sources and its time stand then.
            changes: Gives what becomes of each table.
            replaced: The datasets of which nothing stays that there is.
            seconds: How long what is put there was computed before.
        """
        made, view, gone = plan_of_transition(plan, to), self.view(), {*replaced}
        while True:
            try:
                handle = self._run(begin_transition(self._context(self._generation), made, to, view.last_epoch, gone))
                break
            except ChangedColumnsError as error:
                gone.add(self.without_rows(error, plan, gone))
        self._generation = handle.generation
        self._lease.hold(self._generation)
        self.prepare(handle, to.kind, lambda attempt: manifest_of(self.pipeline, attempt, changes(attempt), to, seconds))
        return self.commit(handle)

    def records(self, *kinds: type[Record]) -> Iterator[Record]:
        """All records of these kinds, oldest first; reads the whole ledger."""
        return (entry.record for entry in self._ledger.scan({kind.kind for kind in kinds}))

    def clean(self, epoch: int) -> int:
        """Make ``epoch`` the oldest one that can be read and delete the files that only older ones needed; how many.

        If older ones were cleaned away already, only what is left of them is deleted.
        """
        oldest = max(epoch, first_readable(self.view()))
        return self._run(clean_up(self._context(self._generation), self.past.at(oldest)))

    def close(self) -> None:
        """Stop the heartbeat. The pipeline becomes free, unless the owner is a Dagster run, whose next step goes on."""
        self._lease.pause()
        if self._generation and self._owner and self._owner.kind == "process":
            self._lease.release(self._generation)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _context(self, generation: int) -> RunContext:
        return RunContext(self.pipeline, self.root.uri, generation, tuple(self._participants))

    def _run(
        self,
        steps: Steps[T],
        *,
        choose: Callable[[LedgerView], Slices | None] | None = None,
        work: Callable[[StageAttempt], Manifest] | None = None,
    ) -> T:
        """Perform a part of the protocol: each effect in turn, errors thrown back into it."""
        try:
            effect = next(steps)
            while True:
                started = time.perf_counter()
                try:
                    result: Any = self._world.perform(effect, choose, work)
                except Exception as error:  # noqa: BLE001
                    effect = steps.throw(error)
                    continue
                finally:
                    self._took(effect.name, started)
                effect = steps.send(result)
        except StopIteration as done:
            value: T = done.value
            return value
        except Exception:
            self._world.settle()
            raise

    def _took(self, step: str, started: float) -> None:
        with self._timing:
            self.seconds[step] = self.seconds.get(step, 0.0) + time.perf_counter() - started
