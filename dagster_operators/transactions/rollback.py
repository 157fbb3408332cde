"""Putting a whole pipeline back to one of its epochs, as a new epoch: tables, states, positions and times."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import LedgerError, call_of
from dagster_operators.storage.presence import lost_files
from dagster_operators.transactions.codec import MADE_WHOLE
from dagster_operators.transactions.deciding import require_none_waiting
from dagster_operators.transactions.lost import PUT_BACK, files_of, lost_error
from dagster_operators.transactions.manifest import Change, FileEntry
from dagster_operators.transactions.plan import DatasetRecord, PlanRecord
from dagster_operators.transactions.records import Begin, Complete, Decision, Drop, Record
from dagster_operators.transactions.transition import Transition, unfinished_in
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
        LedgerError: It is the last one; or a table of it was dropped since; or a sink has taken rows since; or something is
            decided that waits for the next epoch.
        LostFileError: A file of it is gone.
        ForeignWriteError: Somebody wrote over what it had committed.
    """
    view = run.settle()
    require_none_waiting(view)
    target = run.past.at(epoch)
    _check_sinks(run, view, target, keep_sinks=keep_sinks)
    found = _Found.of(run.records(*_KINDS), target)
    place = {"pipeline": run.pipeline, "epoch": epoch}
    if view.last_complete is not None and target.begin_id == view.last_complete.begin_id:
        raise LedgerError("it is the last epoch", **place, remedy="name an earlier one")
    then = found.versions(target)
    if gone := sorted(then.keys() & found.dropped | then.keys() - view.versions.keys()):
        raise _deleted(gone[0], found, place)
    changes = list(_changes(run, view, target, then, found))
    if lost := lost_files(run.root, files_of(changes)):
        remedy = f"{PUT_BACK}; or go back to an epoch without it: an earlier one, or one behind which a rebuild took its place"
        raise lost_error(lost, f"epoch {epoch} cannot be gone back to", remedy, pipeline=run.pipeline)
    to = Transition(
        "rollback", f"to epoch {epoch}", target.offsets, target.watermarks, target.finished, target.held, target.epoch,
        unfinished=unfinished_in(target.metrics), sinks=target.sinks, times=target.times,
    )  # fmt: skip
    return run.transit(found.plan(view, target), to, lambda _: changes)


def _deleted(dataset: str, found: _Found, place: Mapping[str, Any]) -> LedgerError:
    rebuilt = found.replaced.get(dataset)
    if rebuilt is None:
        cause, remedy = f"{dataset} was deleted since (pipeline.drop, or a restart)", "go back to an epoch after that"
    else:
        cause = f"the rebuild of epoch {rebuilt} computed the tables anew by a changed program, and deleted {dataset}"
        remedy = (
            f"go back to epoch {max(found.replaced.values())} or a later one; "
            "or put the program back to what it was and call pipeline.rebuild(); "
            f"pipeline.read takes epoch={place['epoch']}, and reads the tables as they were"
        )
    return LedgerError(cause, **place, table=dataset, remedy=remedy)


def _check_sinks(run: Coordinator, view: LedgerView, target: Complete, *, keep_sinks: bool) -> None:
    later = (complete for complete in run.history() if complete.epoch > target.epoch)
    sinks = sorted({name for complete in later for name in complete.external})
    if sinks and not keep_sinks:
        anew = call_of("reset", sorted((view.last_complete or target).sources), 0, tables="restart", keep_sinks=True)
        raise LedgerError(
            f"{', '.join(sinks)} has taken rows since, which cannot be taken back", pipeline=run.pipeline, epoch=target.epoch,
            sink=sinks[0],
            remedy=f"if it may keep them and get them again: {call_of('rollback', target.epoch, keep_sinks=True)}; a sink of "
            f"changes is not told which of them are gone: to have it right begin anew: {anew}, "
            "and before the next epoch put a sink of another name and place where it is in the program (its decision: keep)",
        )  # fmt: skip


class _Found:
    """What the ledger says of an epoch and of all that was ever in the tables.

    Attributes:
        begin: The begin of the epoch.
        dropped: The datasets of the epoch that were deleted since.
        replaced: The states that rebuilds since have taken the place of, with the last such rebuild's epoch.
        files: The files as they were decided, with all their statistics.
        datasets: What the pipeline's datasets were when they were last part of it.
    """

    def __init__(self) -> None:
        self.begin: Begin | None = None
        self.dropped: set[str] = set()
        self.replaced: dict[str, int] = {}
        self.files: dict[tuple[str, str], FileEntry] = {}
        self.datasets: dict[str, DatasetRecord] = {}

    @classmethod
    def of(cls, records: Iterator[Record], target: Complete) -> _Found:
        found = cls()
        before: Collection[str] = ()
        for record in records:
            if isinstance(record, Drop):
                found.dropped |= {one for one in record.datasets if one in target.versions and record.epoch >= target.epoch}
            elif isinstance(record, Decision):
                changes = (change for manifest in record.manifests for change in manifest.changes if not change.is_stream)
                found.files |= {(change.dataset, entry.path): entry for change in changes for entry in change.adds}
            elif isinstance(record, Begin):
                found.datasets |= record.plan.datasets
                found.begin = record if record.begin_id == target.begin_id else found.begin
                if record.transition and record.transition.kind == "rebuild" and record.epoch > target.epoch:
                    gone = set(before) - record.plan.datasets.keys()
                    found.replaced |= {name: record.epoch for name in gone if name.startswith("state/")}
                before = record.plan.datasets
        return found

    def versions(self, target: Complete) -> dict[str, int]:
        """What the epoch consists of.

        A rebuild deletes the states that it took the place of when its epoch is complete: that completion still has them.
        """
        own = self.begin.plan.datasets if self.begin else target.versions
        return {name: version for name, version in target.versions.items() if name in own or name not in self.dropped}

    def plan(self, view: LedgerView, target: Complete) -> PlanRecord:
        """The plan of the epoch, with all datasets that there are now."""
        if self.begin is None:
            raise LedgerError("the epoch has no begin", pipeline=view.name, epoch=target.epoch, remedy=MADE_WHOLE)
        return as_completed(self.begin.plan, target, view, self.datasets)


def _changes(
    run: Coordinator, view: LedgerView, target: Complete, versions: Mapping[str, int], found: _Found
) -> Iterator[Change]:
    for dataset, version in view.versions.items():
        now = run.files(dataset, version)
        then = run.content(target, dataset)[1] if dataset in versions else []
        yield exchanged(dataset, now, [found.files.get((dataset, entry.path), entry) for entry in then])
