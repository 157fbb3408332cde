"""The first half of the two-phase commit, as generators: taking over the pipeline, beginning an epoch, preparing its stages.

Generators yield effects, are sent their results, and return what the caller wanted; ``commit.py`` has the second half.
"""

from __future__ import annotations

from dataclasses import replace

from dagster_operators.errors import LedgerError, OperatorsError, PipelineBusyError
from dagster_operators.time.watermark import MIN_WATERMARK, format_timestamp
from dagster_operators.transactions.carrying import carried
from dagster_operators.transactions.commit import read_manifests, require_begin, roll_forward
from dagster_operators.transactions.counts import check_counts
from dagster_operators.transactions.deleting import delete
from dagster_operators.transactions.effects import (
    Append,
    CallParticipant,
    CheckOwner,
    Choose,
    Conflict,
    CreateTable,
    DeleteAttempts,
    FindLost,
    ListAttempts,
    Liveness,
    MakeId,
    ReadLedger,
    ReadManifest,
    ReadTables,
    RunStage,
    StageAttempt,
    WriteManifest,
)
from dagster_operators.transactions.epoch_changes import changes_by_dataset
from dagster_operators.transactions.lost import files_of
from dagster_operators.transactions.manifest import Change, Manifest
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.plan import EpochHandle, PlanRecord, Slices, StageRecord
from dagster_operators.transactions.records import Begin, Generation, Prepared
from dagster_operators.transactions.recovery import (
    AbortParticipants,
    Action,
    BeginEpoch,
    DiscardAttempts,
    NewGeneration,
    RollForward,
    TakeUp,
    TidyUp,
    check_table,
    generation_of,
    recover,
)
from dagster_operators.transactions.stage_keys import StageKey, reads
from dagster_operators.transactions.steps import RunContext, Steps, append, fence, sure, tell_who_wrote, unless_fenced
from dagster_operators.transactions.view import LedgerView


def open_generation(owner: Owner, pipeline: str, participants: tuple[str, ...] = ()) -> Steps[int]:
    """Take over the pipeline unless its owner is at work. An owner that has it already keeps its generation.

    Raises:
        PipelineBusyError: Another owner is alive.
    """
    view: LedgerView = yield ReadLedger()
    while True:
        if owner.is_same(view.owner):
            return view.generation
        if view.owner is not None:
            liveness: Liveness = yield CheckOwner(view)
            if liveness.alive:
                raise PipelineBusyError(
                    f"another run is working on the pipeline: {view.owner}; "
                    f"its lease ends {_moment(liveness.lease_ends)} unless renewed"
                    f"{liveness.reason and f' ({liveness.reason})'}",
                    pipeline=pipeline,
                    owner=str(view.owner),
                    host=view.owner.host,
                    pid=view.owner.pid,
                    run_id=view.owner.run_id,
                    since=_moment(view.owned_since),
                    lease_ends=_moment(liveness.lease_ends),
                    remedy="wait for it to end (wait_seconds), or end it",
                )
        generation = view.generation + 1
        result = yield from sure(Append(Generation(generation, owner), view.version))
        if isinstance(result, LedgerView):
            view = result
            break
        view = result.view
    decided = view.decision.epoch if view.decision else view.last_epoch
    for index, name in enumerate(participants, start=1):
        yield CallParticipant(name, "recover", decided, generation, None, index)
    return generation  # and not the view's: if the answer came late, another run may have taken over since


def _moment(seconds: float) -> str:
    return format_timestamp(int(seconds) * 1_000_000)


def begin_epoch(run: RunContext, plan: PlanRecord) -> Steps[EpochHandle | None]:
    """Recover what earlier runs left, then take up the open epoch or begin the next. None when there is nothing new."""
    while True:
        view: LedgerView = yield ReadLedger()
        fence(view, run)
        decided = set(changes_by_dataset(view.decision.manifests)) if view.decision else set()
        tables = yield ReadTables(tuple(sorted(view.versions.keys() | plan.datasets.keys() | decided)))
        try:
            actions = recover(view, tables, plan)
        except OperatorsError as error:
            now: LedgerView = yield ReadLedger()
            fence(now, run)
            if now.version != view.version:  # the tables were read after the ledger had moved on
                continue
            yield from tell_who_wrote(error)
            raise
        if isinstance(actions[0], RollForward):
            yield from roll_forward(run, view)
        elif isinstance(actions[0], NewGeneration) and view.owner:
            taken = Append(Generation(run.generation + 1, view.owner), view.version)
            if isinstance((yield from sure(taken)), LedgerView):
                run = replace(run, generation=run.generation + 1)
        else:
            begun = yield from _carry_out(actions, run, view, plan)
            if begun is None:
                return None
            if isinstance(begun, LedgerView):
                return (yield from unless_fenced(run, ready(run, begun, plan)))


def _carry_out(
    actions: tuple[Action, ...], run: RunContext, view: LedgerView, plan: PlanRecord
) -> Steps[LedgerView | Conflict | None]:
    """The ledger with the begun epoch; None when there is nothing to begin, Conflict when the ledger had moved on.

    The begin comes first: from then on nobody else can decide the epoch, so that participants and files may be cleaned up.
    """
    begun: LedgerView | Conflict | None = view
    for action in actions:
        match action:
            case TidyUp(epoch):
                yield from tidy_streams(epoch, run)
                if view.plan is not None and view.plan.deleted:
                    yield from delete(run, view, view.plan.deleted)
            case BeginEpoch(epoch, slices):
                begun = yield from _begin(run, view, plan, epoch, slices)
            case TakeUp(begin):
                begun = yield from _take_up(run, view, plan, begin)
            case AbortParticipants(epoch):
                for index, name in enumerate(run.participants, start=1):
                    yield CallParticipant(name, "abort", epoch, run.generation, None, index)
            case DiscardAttempts(epoch, keep):
                yield from discard(epoch, keep, run)
        if not isinstance(begun, LedgerView):
            break
    return begun


def _begin(
    run: RunContext, view: LedgerView, plan: PlanRecord, epoch: int, slices: Slices | None
) -> Steps[LedgerView | Conflict | None]:
    """Append the begin of an epoch; None when its sources hold nothing new."""
    if slices is None:
        slices = yield Choose(view)
    if slices is None:
        return None
    begin_id = yield MakeId()
    last = view.last_complete
    known, held = (carried(last.watermarks, plan.origins), carried(last.held, plan.origins)) if last else ({}, {})
    watermarks = {**known, **{source: known.get(source, MIN_WATERMARK) for source in plan.sources}}
    versions = {**dict.fromkeys(plan.datasets, 0), **view.versions}
    begin = Begin(epoch, run.generation, begin_id, slices, watermarks, versions, plan, held)
    result: LedgerView | Conflict = yield from sure(Append(begin, view.version))
    return result


def _take_up(run: RunContext, view: LedgerView, plan: PlanRecord, begin: Begin) -> Steps[LedgerView | Conflict | None]:
    """Go on with the epoch's slices, or begin it anew if what they name, or what was prepared, is no longer there as it was."""
    slices: Slices | None = yield Choose(view)
    if slices is None:
        return None
    if slices != begin.slices or not (yield from _is_whole(view)):
        return (yield from _begin(run, view, plan, begin.epoch, slices))
    versions = {**dict.fromkeys(plan.datasets, 0), **begin.base_versions}  # the plan may have gained datasets since
    taken = replace(begin, plan=plan, generation=run.generation, base_versions=versions)
    result: LedgerView | Conflict = yield from sure(Append(taken, view.version))
    return result


def _is_whole(view: LedgerView) -> Steps[bool]:
    """Whether the manifests and files of all prepared stages are there as they were written."""
    changes: list[Change] = []
    for record in view.prepared.values():
        try:
            manifest: Manifest = yield _read(record)
        except LedgerError:
            return False
        changes += manifest.changes
    return not (yield FindLost(files_of(changes)))


def ready(run: RunContext, view: LedgerView, plan: PlanRecord) -> Steps[EpochHandle]:
    """Create the tables that are new, then hand the epoch out."""
    begin = view.open_begin
    if begin is None:
        raise LedgerError("no epoch has begun", pipeline=run.pipeline, remedy="start a new run")
    new = [dataset for dataset in plan.datasets if dataset not in view.versions]
    if new:
        tables = yield ReadTables(tuple(new))
        for index, dataset in enumerate(new, start=1):
            status = tables[dataset]
            if not status.exists:
                status = yield CreateTable(dataset, plan.datasets[dataset], view.pipeline, index)
            check_table(view, dataset, status, 0, 0)
    return handle_of(run, begin)


def handle_of(run: RunContext, begin: Begin) -> EpochHandle:
    """The handle on a begun epoch under the run's generation."""
    return EpochHandle(run.pipeline, run.root, begin.epoch, run.generation, begin.begin_id)


def discard(epoch: int, keep: frozenset[str], run: RunContext) -> Steps[None]:
    """Delete what earlier owners left of an epoch, except some attempts."""
    found = yield ListAttempts(epoch)
    dead = tuple(sorted(attempt for attempt in found - keep if generation_of(attempt) < run.generation))
    if dead:
        yield DeleteAttempts(epoch, dead)


def tidy_streams(epoch: int, run: RunContext) -> Steps[None]:
    """Delete what earlier owners left of a complete epoch's streams and manifests."""
    found = yield ListAttempts(epoch, streams_only=True)
    dead = tuple(sorted(attempt for attempt in found if generation_of(attempt) < run.generation))
    if dead:
        yield DeleteAttempts(epoch, dead, streams_only=True)


def resume_epoch(run: RunContext, begin_id: str) -> Steps[EpochHandle]:
    """Go on with an epoch that another process or run began; with a completed one, to hear its result."""
    view: LedgerView = yield ReadLedger()
    fence(view, run)
    begin = view.begun(begin_id)
    if begin is None:
        now = f"epoch {view.open_begin.epoch} is open" if view.open_begin else f"epoch {view.last_epoch} is complete"
        raise LedgerError(
            f"the run's epoch is no longer open, it was begun anew or completed by another run ({now})",
            pipeline=run.pipeline,
            remedy="start a new run",
        )
    return handle_of(run, begin)


def valid_manifest(run: RunContext, handle: EpochHandle, stage: str) -> Steps[Manifest | None]:
    """The manifest of the stage's valid attempt; None when there is none yet. Also known for the epoch completed last."""
    view: LedgerView = yield ReadLedger()
    return (yield from _known(run, view, handle, stage))


def _known(run: RunContext, view: LedgerView, handle: EpochHandle, stage: str) -> Steps[Manifest | None]:
    decision = view.last_decision
    if decision and decision.begin_id == handle.begin_id:
        return next((manifest for manifest in decision.manifests if manifest.stage == stage), None)
    fence(view, run)
    require_begin(view, handle)
    record = view.prepared.get(stage)
    if record is None:
        return None
    manifest: Manifest = yield _read(record)
    return manifest


def prepare_stage(run: RunContext, handle: EpochHandle, stage: str) -> Steps[Manifest]:
    """The manifest of the stage: the valid one if there is one, else that of a new attempt, recorded."""
    view: LedgerView = yield ReadLedger()
    known = yield from unless_fenced(run, _known(run, view, handle, stage))
    if known is not None:
        return known
    key = StageKey.parse(stage)
    record = _stage(view, handle, key)
    begin = require_begin(view, handle)
    wanted = reads(begin.plan, view.prepared, key)
    if wanted is None:
        raise LedgerError(
            "a loop before the stage has not come to rest", pipeline=run.pipeline, stage=stage, remedy="run its rounds first"
        )
    for name in wanted:
        if name not in view.prepared:
            raise LedgerError(
                f"the upstream stage {name!r} is not prepared", pipeline=run.pipeline, stage=stage, remedy="run it first"
            )
    # A run that takes over deletes manifests.
    manifests = yield from unless_fenced(run, read_manifests([view.prepared[name] for name in wanted]))
    upstream = dict(zip(wanted, manifests, strict=True))
    unique = yield MakeId()
    attempt = StageAttempt(handle.epoch, stage, f"g{run.generation}-{unique}", record.fingerprint, handle, begin, upstream)
    try:
        manifest, view = yield from unless_fenced(run, _work(run, handle, attempt, view))
    except Exception:
        # Nothing says yet that this attempt is there, and a newer run may have looked for what we leave before we wrote it.
        yield DeleteAttempts(handle.epoch, (attempt.attempt,))
        raise
    # What goes wrong here deletes nothing: it may be recorded all the same, and in the tables by now. Who takes the epoch up, or
    # `clean`, deletes what was not.
    valid = yield from unless_fenced(run, _record(run, handle, view, attempt, manifest))
    if valid.attempt == attempt.attempt:
        return manifest
    yield DeleteAttempts(handle.epoch, (attempt.attempt,))  # another process of this run was first
    adopted: Manifest = yield _read(valid)
    return adopted


def _record(run: RunContext, handle: EpochHandle, view: LedgerView, attempt: StageAttempt, manifest: Manifest) -> Steps[Prepared]:
    """Write the manifest and record the attempt as the stage's valid one, unless there is one; the record of the valid one."""
    digest = yield WriteManifest(manifest)
    prepared = Prepared(
        handle.epoch, run.generation, handle.begin_id, attempt.stage, attempt.attempt, attempt.fingerprint, attempt.reads, digest,
        manifest.goes_round,
    )  # fmt: skip
    view = yield from append(view, run, lambda now: _unless_known(now, handle, prepared))
    # Where the answer was lost the ledger may be seen much later, with another epoch open: what is valid there says nothing.
    return prepared if prepared in view.records else view.prepared[prepared.stage]


def _work(run: RunContext, handle: EpochHandle, attempt: StageAttempt, view: LedgerView) -> Steps[tuple[Manifest, LedgerView]]:
    """Do the stage's work, then see that it is still wanted, before anything of it is recorded."""
    manifest: Manifest = yield RunStage(attempt)
    check_manifest(manifest, attempt, run)
    view = yield ReadLedger(view)
    fence(view, run)
    require_begin(view, handle)
    return manifest, view


def _stage(view: LedgerView, handle: EpochHandle, key: StageKey) -> StageRecord:
    try:
        plan = require_begin(view, handle).plan
        record = plan.stage(key.stage)
    except KeyError:
        raise LedgerError(
            "the plan has no such stage", pipeline=view.name, stage=str(key), remedy="start a new run, which plans the epoch anew"
        ) from None
    if len(plan.loops_around(record)) != len(key.iteration):
        told = f"the stage runs in rounds of the loop {record.loop!r}" if record.loop else "the stage is in no loop"
        raise LedgerError(told, pipeline=view.name, stage=str(key), remedy="name the round with the stage, or leave it out")
    return record


def _unless_known(view: LedgerView, handle: EpochHandle, prepared: Prepared) -> Prepared | None:
    if prepared in view.records:  # a store that was asked twice may say that somebody was first, and mean us
        return None
    require_begin(view, handle)
    return None if prepared.stage in view.prepared else prepared


def _read(record: Prepared) -> ReadManifest:
    return ReadManifest(record.epoch, record.stage, record.attempt, record.digest)


def check_manifest(manifest: Manifest, attempt: StageAttempt, run: RunContext) -> None:
    """Refuse a manifest that is not the attempt's own, or whose counts differ."""
    found = (manifest.pipeline, manifest.epoch, manifest.stage, manifest.attempt, manifest.fingerprint, dict(manifest.reads))
    wanted = (run.pipeline, attempt.epoch, attempt.stage, attempt.attempt, attempt.fingerprint, attempt.reads)
    folder = attempt.directory("") + "/"
    # A round takes over what the rounds before it did to the state of its stage.
    known = {file.path for other in attempt.upstream.values() for change in other.changes for file in change.adds}
    added = (file.path for change in manifest.changes for file in (*change.adds, *change.feed))
    strays = [path for path in added if not path.startswith(folder) and path not in known and not attempt.begin.transition]
    if found != wanted or strays:
        raise LedgerError(
            f"the manifest is not this attempt's: {found} instead of {wanted}"
            if found != wanted
            else f"files outside {folder}: {strays[:3]}",
            pipeline=run.pipeline,
            stage=attempt.stage,
            epoch=attempt.epoch,
            remedy="run again; if it comes again, report it",
        )
    if not attempt.begin.transition:
        check_counts(manifest, attempt.begin.plan.datasets)
