"""Settling a table that is not as the ledger says."""

from __future__ import annotations

from typing import Literal

from dagster_operators.errors import LedgerError, RestoredTableError
from dagster_operators.transactions.commit import RunContext, Steps, append, fence
from dagster_operators.transactions.effects import Conflict, FindMissing, ReadLedger, ReadTables, RestoreTable, TableStatus
from dagster_operators.transactions.epoch_changes import changes_by_dataset
from dagster_operators.transactions.records import Repair
from dagster_operators.transactions.recovery import version_after_commit
from dagster_operators.transactions.view import LedgerView


def repair_table(run: RunContext, dataset: str, keep: Literal["ours", "theirs"]) -> Steps[Repair | None]:
    """Put our content back (``ours``) or accept what is there (``theirs``); None when the table is as it should be.

    Restoring comes before the record: after a crash in between, the table is still not as the ledger says, and is repaired again.
    """
    view: LedgerView = yield ReadLedger()
    fence(view, run)
    place = {"pipeline": run.pipeline, "table": dataset}
    if dataset not in view.versions:
        raise LedgerError("there is no such table", remedy=f"use one of {', '.join(sorted(view.versions))}", **place)
    status: TableStatus = (yield ReadTables((dataset,)))[dataset]
    expected = _expected(view, dataset, status)
    if not status.exists or status.pipeline != view.pipeline:
        raise RestoredTableError(
            "the table was deleted or replaced; it cannot be repaired from its own log", remedy="restore a backup", **place
        )
    if status.version == expected and status.applied_epoch >= view.last_epochs.get(dataset, 0):
        return None
    found = status.version
    if keep == "ours":
        status = yield from _restore(view, dataset, status, expected, run)
    else:
        yield from _check_acceptable(view, dataset, status, run)
    record = Repair(view.last_epoch, run.generation, dataset, keep, found, status.version, status.applied_epoch)
    yield from append(view, run, lambda now: None if record in now.records else record)
    return record


def _expected(view: LedgerView, dataset: str, status: TableStatus) -> int:
    """The version that holds our last content: with the decided epoch's change if that has been committed."""
    if view.decision and status.applied_epoch >= view.decision.epoch:
        return version_after_commit(view, dataset)
    return view.versions[dataset]


def _restore(view: LedgerView, dataset: str, status: TableStatus, expected: int, run: RunContext) -> Steps[TableStatus]:
    if status.version < expected:
        raise RestoredTableError(
            f"the table is at version {status.version}, our content of version {expected} is gone",
            pipeline=run.pipeline,
            table=dataset,
            remedy="restore a backup, or accept the older content with keep='theirs'",
        )
    result: TableStatus | Conflict = yield RestoreTable(dataset, status.version, expected, view.pipeline)
    if isinstance(result, Conflict):
        raise LedgerError(
            "the table is being written right now", pipeline=run.pipeline, table=dataset, remedy="stop the writer, then repair"
        )
    return result


def _check_acceptable(view: LedgerView, dataset: str, status: TableStatus, run: RunContext) -> Steps[None]:
    """A decided epoch must still be able to remove what it replaces."""
    if view.decision is None or status.applied_epoch >= view.decision.epoch:
        return
    change = changes_by_dataset(view.decision.manifests).get(dataset)
    if change and change.removes and (yield FindMissing(dataset, status.version, change.removes)):
        raise LedgerError(
            f"epoch {view.decision.epoch} is decided and replaces files that are gone from the table",
            pipeline=run.pipeline,
            table=dataset,
            remedy="repair with keep='ours'",
        )
