"""Whether what stands in a table's log at the version of an epoch is what that epoch committed.

A writer without conditional put may write over an entry of the log behind us: the table then has the version that the ledger
names, with other rows. Our commits tell themselves by their application transaction, so one look at the entry decides; what all
files sum up to tells of an earlier entry, or of a checkpoint (``content_sums.py``).
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from dagster_operators.errors import ForeignWriteError, StorageError
from dagster_operators.storage.delta_commit import GONE, PIPELINE_PROPERTY, Stamp, TableLog
from dagster_operators.storage.delta_log import entry_path
from dagster_operators.storage.log_damage import damage
from dagster_operators.storage.log_entries import actions_of, has_checkpoint, versions_of
from dagster_operators.storage.log_history import tell_version
from dagster_operators.storage.uri import public_uri
from dagster_operators.transactions.content_sums import sum_of
from dagster_operators.transactions.contents import KINDS, followed
from dagster_operators.transactions.lost import repair_command
from dagster_operators.transactions.records import Complete, Repair

if TYPE_CHECKING:
    from dagster_operators.storage.root import Root
    from dagster_operators.transactions.ledger import DeltaLedger
    from dagster_operators.transactions.records import Record

_MOST: Final = 3
"""So many versions of others are told."""


class OwnCommits:
    """Looks at the entries of the versions that are read, each once as long as it stays the same file.

    Args:
        root: The pipeline's storage root.
        ledger: The pipeline's ledger.
    """

    def __init__(self, root: Root, ledger: DeltaLedger) -> None:
        self._root = root
        self._ledger = ledger
        self._seen: dict[tuple[str, int, int], Stamp] = {}
        self._sums: dict[str, tuple[list[str], str]] = {}
        """The files of each dataset that were looked at last, and their sum, which takes long."""

    def require(self, complete: Complete, dataset: str) -> None:
        """See that the version of a dataset as of an epoch is the pipeline's own, or was accepted; so is what was read before.

        An entry that was folded into a checkpoint, which readers begin with, says nothing: then what the checkpoint knows counts,
        the last of our epochs that is in the table.

        Raises:
            ForeignWriteError: It is not.
        """
        version, epoch = complete.versions[dataset], complete.last_epochs.get(dataset, 0)
        log = TableLog(self._root, dataset)
        stamp = log.stamp(version)
        if stamp != GONE and self._seen.get((dataset, version, epoch)) == stamp:
            return
        if not (self._is_committed(dataset, version, epoch) or self._is_known(log, dataset, version, epoch)):
            raise self._of(complete, self.written_over(dataset, version, epoch))
        self._seen[dataset, version, epoch] = stamp

    def _is_committed(self, dataset: str, version: int, epoch: int) -> bool:
        """Whether the entry is that of our commit."""
        ours = self._ledger.pipeline()
        for action in actions_of(self._root, f"{dataset}/{entry_path(version)}", ("txn", "metaData")):
            if action.get("txn", {}).get("appId") == ours:
                return bool(action["txn"]["version"] == epoch)
            if not version and action.get("metaData", {}).get("configuration", {}).get(PIPELINE_PROPERTY) == ours:
                return epoch == 0
        return False

    def _is_known(self, log: TableLog, dataset: str, version: int, epoch: int) -> bool:
        """Whether the table knows the epoch as our last, where the entry is not what tells of the version, or was accepted."""
        told = has_checkpoint(self._root, dataset, version) or log.stamp(version) == GONE or self._is_accepted(dataset, version)
        return told and self._last_epoch(log, dataset, version) == epoch

    def _last_epoch(self, log: TableLog, dataset: str, version: int) -> int | None:
        """The last of our epochs that a version knows; None where there is no such version, or the log is damaged."""
        for again in (True, False):
            try:
                with self._root.guard(dataset, "a table cannot be read"):
                    return log.load(version).transaction_version(self._ledger.pipeline()) or 0
            except StorageError:
                if again:
                    damage(self._root, dataset)  # raises where a store does not give the log now
        return None

    def _is_accepted(self, dataset: str, version: int) -> bool:
        digest = hashlib.sha256(self._root.read(f"{dataset}/{entry_path(version)}") or b"").hexdigest()
        records = (entry.record for entry in self._ledger.scan({Repair.kind}))
        return any(
            isinstance(one, Repair) and (one.dataset, one.version) == (dataset, version) and one.commit in ("", digest)
            for one in records
        )

    def require_files(self, complete: Complete, dataset: str, paths: Collection[str]) -> None:
        """See that the files of a version of a dataset, as its log lists them, are those that epochs committed up to one.

        Nothing is read for it, unless they are not.

        Raises:
            ForeignWriteError: They are not.
        """
        known = complete.contents.get(dataset)
        if known is None or known == self._sum(dataset, [*paths]):
            return
        view, version = self._ledger.known or self._ledger.view(), complete.versions[dataset]
        # Of the current version repair judges by all that is recorded, so that it settles whatever is refused here.
        until = None if view.versions.get(dataset) == version else complete.epoch
        there = self._content_at(until, dataset)
        if there is None or there == {*paths}:
            return
        lost, others = len(there.difference(paths)), len({*paths} - there)
        told = f"{lost} of its {len(there)} files are not in it, and {others} others are"
        who = self.strangers(dataset, version)
        error = self._refused(
            f"version {version} of a table has other rows than the epochs up to {complete.epoch} committed ({told}): "
            f"an entry of its log was cut short, or somebody wrote over it{who and f': {who}'}", dataset, version,
        )  # fmt: skip
        raise self._of(complete, error)

    def _sum(self, dataset: str, paths: list[str]) -> str:
        kept = self._sums.get(dataset)
        if kept is None or kept[0] != paths:
            kept = self._sums[dataset] = (paths, sum_of(paths))
        return kept[1]

    def _of(self, complete: Complete, error: ForeignWriteError) -> ForeignWriteError:
        """The error with what helps where the epoch is not the last one, which alone is put back."""
        if complete.epoch < self._ledger.view().last_epoch:
            command = shlex.join(["dagster-operators", "doctor", public_uri(self._root.uri)])
            error.remedy = f"read a later epoch, as nothing puts this one back; `{command}` says whether the last one is in order"
        return error

    def strangers(self, dataset: str, version: int) -> str:
        """The versions of a dataset, up to one, that are not the pipeline's and that nobody has settled, by whom and when."""
        ours, settled = self._ledger.pipeline(), max(self._repaired(dataset), default=0)
        behind = (one for one in versions_of(self._root, dataset) if settled < one <= version)
        others = [one for one in behind if not self._carries(dataset, one, ours)]
        return ", ".join(tell_version(self._root, dataset, one) for one in others[:_MOST])

    def _content_at(self, epoch: int | None, dataset: str) -> set[str] | None:
        """The files of a dataset as decided, behind an epoch or now; None where others' were accepted. Reads the whole ledger."""
        records = (entry.record for entry in self._ledger.scan(KINDS))
        accepted, changes = followed(records if epoch is None else _until(epoch, records), dataset)
        paths = set[str]()
        for adds, removes in changes:
            paths = (paths - removes) | {file.path for file in adds}
        return None if accepted else paths

    def is_settled(self, dataset: str, version: int) -> bool:
        """Whether a repair of the dataset settled what stood at a version, or behind it. Reads the whole ledger."""
        return any(at >= version for at in self._repaired(dataset))

    def _repaired(self, dataset: str) -> Iterator[int]:
        records = (entry.record for entry in self._ledger.scan({Repair.kind}))
        return (one.version for one in records if isinstance(one, Repair) and one.dataset == dataset)

    def _carries(self, dataset: str, version: int, application: str) -> bool:
        """Whether an entry of the log has an application transaction of somebody."""
        told = actions_of(self._root, f"{dataset}/{entry_path(version)}", ("txn",))
        return any(action["txn"].get("appId") == application for action in told)

    def written_over(self, dataset: str, version: int, epoch: int) -> ForeignWriteError:
        """The error about a version of a dataset that an epoch committed, and that is another one now."""
        told = tell_version(self._root, dataset, version)
        over = "somebody wrote over its entry in the log: " * told.startswith(f"version {version} is ")
        return self._refused(f"version {version} of a table is not what epoch {epoch} committed: {over}{told}", dataset, version)

    def _refused(self, problem: str, dataset: str, version: int) -> ForeignWriteError:
        command = repair_command(self._root.uri, dataset)
        return ForeignWriteError(
            problem,
            pipeline=self._ledger.view().name, table=dataset, version=version,
            remedy=f"see that its writer writes elsewhere, or conditionally; then put the last epoch's content back: `{command}`",
        )  # fmt: skip


def _until(epoch: int, records: Iterable[Record]) -> Iterator[Record]:
    """The records up to the completion of an epoch."""
    for record in records:
        yield record
        if isinstance(record, Complete) and record.epoch == epoch:
            return
