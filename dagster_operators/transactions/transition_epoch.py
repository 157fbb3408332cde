"""An epoch that computes nothing: it puts tables, positions and times of a pipeline elsewhere, in the commit of every epoch.

It has one stage, whose manifest says which files go and which come. So it is decided once, and carried out whatever dies; a run
that finds it undecided forgets it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from dagster_operators.errors import LedgerError
from dagster_operators.transactions.codec import to_json
from dagster_operators.transactions.commit import roll_forward
from dagster_operators.transactions.effects import Append, CallParticipant, Conflict, MakeId, ReadLedger, ReadTables, StageAttempt
from dagster_operators.transactions.manifest import Change, FileEntry, Manifest
from dagster_operators.transactions.plan import DatasetRecord, EpochHandle, PlanRecord, Slices, StageRecord
from dagster_operators.transactions.protocol import discard, ready, tidy_streams
from dagster_operators.transactions.records import Begin, Complete, Generation
from dagster_operators.transactions.recovery import check_plan, check_tables
from dagster_operators.transactions.steps import RunContext, Steps, fence, sure, unless_fenced
from dagster_operators.transactions.transition import Transition
from dagster_operators.transactions.view import LedgerView


def plan_of_transition(plan: PlanRecord, transition: Transition) -> PlanRecord:
    """The plan with the one stage of a transition; no other transition's manifest is taken for its own."""
    digest = hashlib.sha256(to_json(transition).encode()).hexdigest()[:16]
    return replace(plan, stages=(StageRecord(transition.kind, f"{transition.kind} {digest}"),))


def as_completed(
    plan: PlanRecord, complete: Complete, view: LedgerView, known: Mapping[str, DatasetRecord] | None = None
) -> PlanRecord:
    """The plan as the completion of its epoch has it, with the datasets that there are.

    Args:
        plan: What the epoch began with.
        complete: Its completion.
        view: The ledger as it is now.
        known: What datasets were that the plan does not have, and that are still there.
    """
    records = {**(known or {}), **plan.datasets}
    datasets = {
        name: replace(records[name], fingerprint=complete.fingerprints.get(name, records[name].fingerprint))
        for name in view.versions
        if name in records
    }
    return replace(
        plan, datasets=datasets, sources=complete.sources, schemas=complete.schemas, identities=complete.identities,
        parts=complete.parts, logical=complete.logical_plan, origins={}, emptied=(), deleted=(),
    )  # fmt: skip


def begin_transition(
    run: RunContext, plan: PlanRecord, transition: Transition, last_epoch: int, replaced: Collection[str] = ()
) -> Steps[EpochHandle]:
    """Begin the epoch behind ``last_epoch``; one that is begun and not decided is forgotten, and its rows come with the next.

    Args:
        run: The run.
        plan: With the one stage.
        transition: What the epoch makes of the pipeline.
        last_epoch: The last completed epoch, as it was when the transition was worked out.
        replaced: The datasets of which nothing stays that there is.

    Raises:
        LedgerError: Another epoch was completed meanwhile.
    """
    while True:
        view: LedgerView = yield ReadLedger()
        fence(view, run)
        if view.decision:
            view = yield from roll_forward(run, view)
        if view.last_epoch != last_epoch:
            raise LedgerError(
                f"epoch {view.last_epoch} was completed meanwhile",
                pipeline=run.pipeline,
                epoch=view.last_epoch,
                remedy="try again",
            )
        yield from unless_fenced(run, _check(view, plan, transition, replaced))
        before = view.open_begin
        if before and before.generation == run.generation and view.owner:  # another process of the same run may be at it
            taken = Append(Generation(run.generation + 1, view.owner), view.version)
            if isinstance((yield from sure(taken)), LedgerView):
                run = replace(run, generation=run.generation + 1)
            continue
        begin_id = yield MakeId()
        versions = {**dict.fromkeys(plan.datasets, 0), **view.versions}
        waiting = view.decisions if transition.kind in ("rename", "widen") else ()  # the others carry it out, or are refused
        begin = Begin(
            last_epoch + 1, run.generation, begin_id, Slices(), {}, versions, plan, transition=transition, decided=waiting
        )
        begun: LedgerView | Conflict = yield from sure(Append(begin, view.version))
        if isinstance(begun, LedgerView):
            return (yield from unless_fenced(run, _taken(run, begun, plan, before)))


def _check(view: LedgerView, plan: PlanRecord, transition: Transition, replaced: Collection[str]) -> Steps[None]:
    tables = yield ReadTables(tuple(sorted(view.versions.keys() | plan.datasets.keys())))
    check_tables(view, tables, plan)
    if transition.kind in ("rebuild", "rename", "widen"):  # the others have the plan of an epoch that was completed
        check_plan(view, tables, plan, replaced)


def _taken(run: RunContext, view: LedgerView, plan: PlanRecord, before: Begin | None) -> Steps[EpochHandle]:
    """Clean up what was begun before under the same number, and what the last epoch left, then hand the epoch out."""
    if view.last_complete and view.last_complete.generation < run.generation:
        yield from tidy_streams(view.last_epoch, run)
    if before is not None:
        for index, name in enumerate(run.participants, start=1):
            yield CallParticipant(name, "abort", before.epoch, run.generation, None, index)
        yield from discard(before.epoch, frozenset(), run)
    return (yield from ready(run, view, plan))


def exchanged(dataset: str, now: Iterable[FileEntry], then: Iterable[FileEntry]) -> Change:
    """What makes a table have other files than it has now.

    >>> a, b, c = (FileEntry(path, 9, 1) for path in "abc")
    >>> change = exchanged("tables/x", [a, b], [b, c])
    >>> [entry.path for entry in change.adds], change.removes
    (['c'], ('a',))
    """
    here, there = {entry.path for entry in now}, {entry.path: entry for entry in then}
    adds = tuple(entry for path, entry in there.items() if path not in here)
    return Change(dataset, adds, tuple(sorted(here - there.keys())))


def manifest_of(
    pipeline: str, attempt: StageAttempt, changes: Iterable[Change], to: Transition, seconds: float = 0.0
) -> Manifest:
    """The manifest of a transition's one stage; of a rebuild, tables that it did not compute are rejects of sources.

    Args:
        pipeline: The pipeline's name.
        attempt: The attempt at the stage.
        changes: What becomes of each table.
        to: What the epoch makes of the pipeline.
        seconds: How long it was computed before, in epochs of its own.
    """
    made = tuple(change for change in changes if change.adds or change.removes)
    tables = [change for change in made if change.dataset.startswith("tables/") and attempt.stage == "rebuild"]
    rows = {change.dataset.removeprefix("tables/"): sum(entry.rows for entry in change.rows_of_epoch) for change in tables}
    rejected = {name.removesuffix("_rejects"): count for name, count in rows.items() if name not in to.tables}
    return Manifest(
        pipeline, attempt.epoch, attempt.stage, attempt.attempt, attempt.fingerprint, attempt.reads, made, rows,
        rejected_rows=rejected, seconds=seconds,
    )  # fmt: skip
