"""Putting a whole pipeline back to one of its epochs, as a new epoch: tables, states, positions and times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from dagster_operators.errors import LedgerError
from dagster_operators.storage.presence import lost_files
from dagster_operators.transactions.lost import PUT_BACK, lost_error, sizes_of
from dagster_operators.transactions.manifest import Change, FileEntry
from dagster_operators.transactions.plan import DatasetRecord, PlanRecord
from dagster_operators.transactions.records import Begin, Complete, Decision, Drop, Record
from dagster_operators.transactions.transition import Transition
from dagster_operators.transactions.transition_epoch import as_completed, exchanged

if TYPE_CHECKING:
    from dagster_operators.transactions.coordinator import Coordinator
    from dagster_operators.transactions.view import LedgerView

_KINDS: Final = (Begin, Decision, Drop)


def roll_back(run: Coordinator, epoch: int, *, keep_sinks: bool = False) -> Complete:
    """Make a new epoch that is equal to an earlier one; the versions in between stay in the tables' histories.

    Args:
        run: Has the pipeline.
        epoch: The epoch to go back to.
        keep_sinks: Whether sinks outside may keep what they took since; they get it again.

    Raises:
        UnknownEpochError: The epoch was never completed, or its files were cleaned away.
        LedgerError: It is the last one; or a table of it was dropped since; or a sink has taken rows since.
        LostFileError: A file of it is gone.
    """
    view = run.settle()
    target = run.versions(epoch)
    _check_sinks(run, target, keep_sinks=keep_sinks)
    found = _Found.of(run.records(*_KINDS), target)
    place = {"pipeline": run.pipeline, "epoch": epoch}
    if view.last_complete is not None and target.begin_id == view.last_complete.begin_id:
        raise LedgerError("it is the last epoch", **place, remedy="name an earlier one")
    if gone := sorted(found.dropped | (target.versions.keys() - view.versions.keys())):
        raise LedgerError(
            f"{gone[0]} was deleted since (pipeline.drop, or a restart)", **place, table=gone[0],
            remedy="go back to an epoch after that",
        )  # fmt: skip
    changes = list(_changes(run, view, target, found))
    if lost := lost_files(run.root, sizes_of(changes)):
        raise lost_error(lost, f"epoch {epoch} cannot be gone back to", PUT_BACK, pipeline=run.pipeline)
    to = Transition(
        "rollback", f"to epoch {epoch}", target.offsets, target.watermarks, target.finished, target.held, target.epoch
    )  # fmt: skip
    return run.transit(found.plan(view, target), to, lambda _: changes)


def _check_sinks(run: Coordinator, target: Complete, *, keep_sinks: bool) -> None:
    later = (complete for complete in run.history() if complete.epoch > target.epoch)
    sinks = sorted({name for complete in later for name in complete.external})
    if sinks and not keep_sinks:
        raise LedgerError(
            f"{', '.join(sinks)} has taken rows since, which cannot be taken back", pipeline=run.pipeline, epoch=target.epoch,
            sink=sinks[0],
            remedy="if it may keep them and get them again: pipeline.rollback(..., keep_sinks=True)",
        )  # fmt: skip


class _Found:
    """What the ledger says of an epoch and of all that was ever in the tables.

    Attributes:
        begin: The begin of the epoch.
        dropped: The datasets of the epoch that were deleted since.
        files: The files as they were decided, with all their statistics.
        datasets: What the pipeline's datasets were when they were last part of it.
    """

    def __init__(self) -> None:
        self.begin: Begin | None = None
        self.dropped: set[str] = set()
        self.files: dict[tuple[str, str], FileEntry] = {}
        self.datasets: dict[str, DatasetRecord] = {}

    @classmethod
    def of(cls, records: Iterator[Record], target: Complete) -> _Found:
        found = cls()
        for record in records:
            if isinstance(record, Drop):
                found.dropped |= {one for one in record.datasets if one in target.versions and record.epoch >= target.epoch}
            elif isinstance(record, Decision):
                changes = (change for manifest in record.manifests for change in manifest.changes if not change.is_stream)
                found.files |= {(change.dataset, entry.path): entry for change in changes for entry in change.adds}
            elif isinstance(record, Begin):
                found.datasets |= record.plan.datasets
                found.begin = record if record.begin_id == target.begin_id else found.begin
        return found

    def plan(self, view: LedgerView, target: Complete) -> PlanRecord:
        """The plan of the epoch, with all datasets that there are now."""
        if self.begin is None:
            raise LedgerError("the epoch has no begin", pipeline=view.name, epoch=target.epoch)
        return as_completed(self.begin.plan, target, view, self.datasets)


def _changes(run: Coordinator, view: LedgerView, target: Complete, found: _Found) -> Iterator[Change]:
    for dataset, version in view.versions.items():
        now = run.files(dataset, version)
        then = run.files(dataset, target.versions[dataset]) if dataset in target.versions else []
        yield exchanged(dataset, now, [found.files.get((dataset, entry.path), entry) for entry in then])
