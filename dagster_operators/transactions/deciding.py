"""Recording what was decided about a pipeline that changed: tables are emptied, what left the pipeline is deleted."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from dagster_operators.errors import LedgerError
from dagster_operators.transactions.commit import roll_forward
from dagster_operators.transactions.effects import (
    Conflict,
    DropDataset,
    EmptyTable,
    ReadDigest,
    ReadLedger,
    ReadTables,
    TableStatus,
)
from dagster_operators.transactions.records import Decide, Drop, Repair
from dagster_operators.transactions.recovery import check_table
from dagster_operators.transactions.steps import RunContext, Steps, append, fence, unless_fenced
from dagster_operators.transactions.view import LedgerView


def settle(run: RunContext) -> Steps[LedgerView]:
    """Carry out the epoch that is decided, if one is, so that the ledger says what there is."""
    view: LedgerView = yield ReadLedger()
    fence(view, run)
    return (yield from roll_forward(run, view))


def decide(run: RunContext, decision: Decide, left: Collection[str] = ()) -> Steps[Decide]:
    """Record a decision, after the datasets that it empties have been emptied, and before those that it leaves are deleted.

    After a crash before the record the decision is still to be made, and a table that was emptied for it by then is taken over;
    after a crash behind it nobody uses what is left.

    Args:
        run: Who decides.
        decision: What was decided.
        left: The datasets that nobody uses from then on.
    """
    return (yield from unless_fenced(run, _decide(run, decision, left)))


def _decide(run: RunContext, decision: Decide, left: Collection[str]) -> Steps[Decide]:
    view = yield from settle(run)
    for dataset in decision.emptied:
        if dataset in view.versions:  # else it was dropped since the question was asked
            view = yield from _empty(run, view, dataset)
    made = replace(decision, generation=run.generation, epoch=view.last_epoch)
    yield from append(view, run, lambda now: None if made in now.decisions else made)
    if left:
        yield from drop(run, tuple(left))
    return made


def _empty(run: RunContext, view: LedgerView, dataset: str) -> Steps[LedgerView]:
    """Take all rows out of a table, by a commit of its own; its earlier versions can still be read."""
    status: TableStatus = (yield ReadTables((dataset,)))[dataset]
    found, epoch = view.versions[dataset], view.last_epochs.get(dataset, 0)
    may_be_done = (status.pipeline, status.version, status.applied_epoch) == (view.pipeline, found + 1, epoch)
    if found == 0 or not may_be_done:
        check_table(view, dataset, status, found, epoch)
    if found == 0:
        return view
    result: TableStatus | Conflict = yield EmptyTable(dataset, found, epoch, view.pipeline)
    if isinstance(result, Conflict):
        check_table(view, dataset, (yield ReadTables((dataset,)))[dataset], found, epoch)
        raise LedgerError(
            "the table is being written right now",
            pipeline=run.pipeline,
            table=dataset,
            remedy="stop the writer, then decide again",
        )
    digest: str = yield ReadDigest(dataset, result.version)
    record = Repair(view.last_epoch, run.generation, dataset, "theirs", found, result.version, result.applied_epoch, digest)
    return (yield from append(view, run, lambda now: None if record in now.records else record))


def drop(run: RunContext, datasets: tuple[str, ...]) -> Steps[None]:
    """Forget datasets, then delete them; what is forgotten already is deleted again, should a run have ended in between."""
    view = yield from unless_fenced(run, settle(run))
    known = tuple(dataset for dataset in datasets if dataset in view.versions)
    if known:
        record = Drop(view.last_epoch, run.generation, known)
        yield from append(view, run, lambda now: None if record in now.records else record)
    for index, dataset in enumerate(datasets, start=1):
        yield DropDataset(dataset, view.pipeline, index)
