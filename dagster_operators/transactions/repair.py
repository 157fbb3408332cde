"""Settling a table that is not as the ledger says.

What is ours is what was decided (``contents.py``). A table that is put back gets a commit whose application transaction is the
last epoch that is in its content, so that epochs that were in it before, and are no more, are committed to it again.
"""

from __future__ import annotations

from typing import Literal

from dagster_operators.errors import DamagedTableError, ForeignWriteError, LedgerError, RestoredTableError
from dagster_operators.transactions.effects import (
    CompareTable,
    Conflict,
    CreateTable,
    FindLostContent,
    FindMarked,
    FindMissing,
    FindWithoutColumns,
    MendLog,
    ReadDigest,
    ReadLedger,
    ReadTables,
    RestoreTable,
    TableStatus,
)
from dagster_operators.transactions.epoch_changes import changes_by_dataset
from dagster_operators.transactions.lost import PUT_BACK, how_to_repair, lost_error
from dagster_operators.transactions.records import Clean, Repair
from dagster_operators.transactions.recovery import base_for_commit, check_table, decided_datasets, difference, newest_epoch
from dagster_operators.transactions.steps import RunContext, Steps, append, fence
from dagster_operators.transactions.tables import columns_of
from dagster_operators.transactions.view import LedgerView

Keep = Literal["ours", "theirs"]


def repair_table(run: RunContext, dataset: str, keep: Keep, *, replaced: bool = False) -> Steps[Repair | None]:
    """Put our content back (``ours``) or accept what is there (``theirs``); None when the table is as it should be.

    Restoring comes before the record: after a crash in between, the table is still not as the ledger says, and is repaired again.
    Of a table that is ``replaced`` as a whole next only the log has to be as the ledger says: its files may be lost.
    """
    view: LedgerView = yield ReadLedger()
    fence(view, run)
    place = {"pipeline": run.pipeline, "table": dataset}
    status = yield from _status(view, dataset, keep, replaced=replaced)
    if dataset not in view.versions and not (status and status.exists and status.pipeline == view.pipeline):
        if status is None:
            return None
        known = ", ".join(sorted(view.versions))
        raise LedgerError("there is no such table", remedy=f"use one of {known}" if known else "run an epoch first", **place)
    status = status or TableStatus()
    if not status.exists or status.pipeline != view.pipeline:
        raise RestoredTableError(
            "the table was deleted, or another one is in its place; it cannot be repaired from its own log",
            remedy=_where_it_is_not(dataset, keep, is_other=status.exists), **place,
        )  # fmt: skip
    expected = view.versions.get(dataset, 0)
    same = status.version >= expected and (yield CompareTable(dataset, expected))
    if _is_as_expected(view, dataset, status) and same:
        if not replaced and (lost := (yield FindLostContent(dataset))):
            raise lost_error(
                lost, "the table is as the ledger says, and not all of its files are", PUT_BACK, view=view, pipeline=view.name
            )
        return None
    if not replaced and (marked := (yield FindMarked(dataset))):
        raise _has_marked_rows(run, dataset, len(marked))
    found = status.version
    if keep == "ours":
        status = yield from _restore(view, dataset, status, run, replaced=replaced)
    else:
        yield from _check_acceptable(view, dataset, status, run)
    digest: str = yield ReadDigest(dataset, status.version)
    record = Repair(view.last_epoch, run.generation, dataset, keep, found, status.version, status.applied_epoch, digest)
    view = yield from append(view, run, lambda now: None if record in now.records else record)
    if not same and dataset in view.versions:
        yield from _forget_epochs(view, run)
    return record


def _has_marked_rows(run: RunContext, dataset: str, files: int) -> LedgerError:
    """We read and rewrite tables by their files: rows that are only marked as deleted would come back, or be there twice."""
    uri = f"{run.root}/{dataset}"
    return LedgerError(
        f"rows of {files} files are marked as deleted (deletion vectors), which the pipeline's own reading of files does not see",
        pipeline=run.pipeline,
        table=dataset,
        remedy=f"on Spark: ALTER TABLE delta.`{uri}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false'), then "
        f"REORG TABLE delta.`{uri}` APPLY (PURGE), which writes these files anew without the rows; then repair again",
    )


def _where_it_is_not(dataset: str, keep: Keep, *, is_other: bool) -> str:
    """A way on where a table is not there, or another one is."""
    backup = "put its folder back from a backup"
    if is_other:
        return f"move that one away, then {backup}; or {how_to_repair(dataset, 'ours')}, as far as its files are there"
    return f"{backup}; or {how_to_repair(dataset, 'ours')}" if keep == "theirs" else backup


def _status(view: LedgerView, dataset: str, keep: Keep, *, replaced: bool) -> Steps[TableStatus | None]:
    """What the table says; for our content to come back its log is ended before damage, or the table made anew if it is gone.

    None: there was nothing but damage, and the ledger knows no epoch in the table, which is created when the next one begins.
    """
    try:
        status: TableStatus = (yield ReadTables((dataset,)))[dataset]
        if keep == "ours":
            yield FindMarked(dataset, whole=True)  # deltalake reads entries of which no other reader makes anything
    except DamagedTableError:
        if keep == "theirs":
            raise
        yield MendLog(dataset)
        status = (yield ReadTables((dataset,)))[dataset]
    if status.exists or keep == "theirs":
        return status
    if dataset not in view.versions and dataset not in decided_datasets(view):
        return None if (yield MendLog(dataset)) else status
    record = view.plan.datasets.get(dataset) if view.plan else None
    if record is None:
        return status
    if not replaced and (lost := (yield FindLostContent(dataset))):
        raise lost_error(lost, "the table is gone and cannot be made anew", PUT_BACK, view=view, pipeline=view.name)
    made: TableStatus = yield CreateTable(dataset, record, view.pipeline, 1)
    return made


def _forget_epochs(view: LedgerView, run: RunContext) -> Steps[None]:
    """The table's version numbers mean something else now: earlier epochs cannot be read any more."""
    record = Clean(view.last_epoch + 1, run.generation)
    yield from append(view, run, lambda now: record if now.horizon < record.epoch else None)


def is_wrong(view: LedgerView, dataset: str, status: TableStatus) -> bool:
    """Whether a table is not as the ledger says; one of another pipeline is left alone."""
    if status.exists and status.pipeline != view.pipeline:
        return False
    return (status.exists or dataset in view.versions) and not _is_as_expected(view, dataset, status)


def _is_as_expected(view: LedgerView, dataset: str, status: TableStatus) -> bool:
    try:
        if dataset in decided_datasets(view):
            base_for_commit(view, dataset, status)
        else:
            check_table(view, dataset, status, view.versions.get(dataset, 0), view.last_epochs.get(dataset, 0))
    except (ForeignWriteError, RestoredTableError):
        return False
    return True


def _restore(view: LedgerView, dataset: str, status: TableStatus, run: RunContext, *, replaced: bool) -> Steps[TableStatus]:
    """Whether or not a decided epoch is in it: it is committed again afterwards."""
    epoch = view.last_epochs.get(dataset, 0)
    result: TableStatus | Conflict = yield RestoreTable(dataset, status.version, epoch, view.pipeline, replaced)
    if isinstance(result, Conflict):
        raise LedgerError(
            "the table is being written right now", pipeline=run.pipeline, table=dataset, remedy="stop the writer, then repair"
        )
    return result


def _check_acceptable(view: LedgerView, dataset: str, status: TableStatus, run: RunContext) -> Steps[None]:
    """The ledger must know all epochs that are in the table, and a decided one must still be able to remove what it replaces."""
    place = {"pipeline": run.pipeline, "table": dataset, "remedy": how_to_repair(dataset, "ours")}
    if dataset not in view.versions:
        raise LedgerError("the ledger does not know the table yet, so that what is in it cannot be accepted", **place)
    if status.applied_epoch > newest_epoch(view):
        raise LedgerError(
            f"epoch {status.applied_epoch} is in the table and not in the ledger, which ends with epoch {newest_epoch(view)}: "
            "accepted, its rows would be there twice",
            **place,
        )
    record = view.plan.datasets.get(dataset) if view.plan else None
    if record and not record.evolves and status.columns != (wanted := columns_of(record.schema_json)):
        raise LedgerError(
            f"what is in the table has other columns than the pipeline writes: {difference(wanted, status.columns)}", **place
        )
    if status.unkept:
        raise LedgerError(
            f"the table has settings that the pipeline does not keep to ({', '.join(status.unkept)}): its commits take files out "
            "of tables, and look at no row", pipeline=run.pipeline, table=dataset,
            remedy=f"{how_to_repair(dataset, 'ours')}, without them; what rows have to be says to_table(checks=...)",
        )  # fmt: skip
    by = status.partition_by
    if by and (files := (yield FindWithoutColumns(dataset, status.version, by))):
        raise LedgerError(
            f"{len(files)} files do not have the partition columns {', '.join(by)}, which the log alone has for them: the "
            "pipeline's own reading of files would find null", file=files[0], **place,
        )  # fmt: skip
    if view.decision is None or status.applied_epoch >= view.decision.epoch:
        return
    change = changes_by_dataset(view.decision.manifests).get(dataset)
    if change and change.removes and (yield FindMissing(dataset, status.version, change.removes)):
        raise LedgerError(f"epoch {view.decision.epoch} is decided and replaces files that are gone from the table", **place)
