"""What a table holds as far as the ledger knows, whatever its own log says: what decisions added, and did not remove since.

So our content is known by what was decided, never by the number of a version: a table that was put back and written to again has
the same numbers with other content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from dagster_operators.errors import RestoredTableError, StorageError
from dagster_operators.transactions.epoch_changes import changes_by_dataset
from dagster_operators.transactions.manifest import FileEntry
from dagster_operators.transactions.records import Complete, Decide, Decision, Drop, Record, Repair

if TYPE_CHECKING:
    from dagster_operators.transactions.ledger import DeltaLedger
    from dagster_operators.transactions.tables import Tables

KINDS: Final = frozenset({Decision.kind, Complete.kind, Repair.kind, Drop.kind, Decide.kind})
"""The records that say what is in a table."""


def content_of(ledger: DeltaLedger, tables: Tables, dataset: str, *, replaced: bool = False) -> dict[str, FileEntry]:
    """The files of a table after the last completed epoch, by path. Reads the whole ledger.

    Args:
        ledger: The ledger.
        tables: The tables.
        dataset: The table.
        replaced: Whether all of it is replaced next: then accepted files that are lost with the log need not be known.

    Raises:
        RestoredTableError: What was accepted of somebody else is not in the table's log any more.
    """
    scanned = (entry.record for entry in ledger.scan(KINDS))
    if not replaced:
        return _content_by(scanned, tables, dataset)
    accepted, changes = followed(scanned, dataset)
    try:
        return _followed_by(changes, _accepted_files(tables, accepted) if accepted else {})
    except RestoredTableError:
        return _followed_by(changes, {})


def contents_of(ledger: DeltaLedger, tables: Tables, datasets: Iterable[str]) -> Iterator[tuple[str, dict[str, FileEntry]]]:
    """Tables with their files after the last completed epoch, by path. Reads the whole ledger, once.

    Raises:
        RestoredTableError: What was accepted of somebody else is not in a table's log any more.
    """
    records = [entry.record for entry in ledger.scan(KINDS)]
    for dataset in datasets:
        yield dataset, _content_by(records, tables, dataset)


def others(ledger: DeltaLedger, tables: Tables, versions: Mapping[str, int]) -> set[str]:
    """The datasets whose files at these versions are not their content. Reads the whole ledger, once."""
    records = [entry.record for entry in ledger.scan(KINDS)]
    return {dataset for dataset, version in versions.items() if not _is_content(records, tables, dataset, version)}


def _is_content(records: Iterable[Record], tables: Tables, dataset: str, version: int) -> bool:
    try:
        return {file.path for file in tables.files(dataset, version)} == _content_by(records, tables, dataset).keys()
    except (StorageError, RestoredTableError):
        return False


def _content_by(records: Iterable[Record], tables: Tables, dataset: str) -> dict[str, FileEntry]:
    accepted, changes = followed(records, dataset)
    return _followed_by(changes, _accepted_files(tables, accepted) if accepted else {})


def _followed_by(
    changes: Iterable[tuple[tuple[FileEntry, ...], frozenset[str]]], files: dict[str, FileEntry]
) -> dict[str, FileEntry]:
    """The files behind some changes."""
    for adds, removes in changes:
        files = {path: file for path, file in files.items() if path not in removes} | {file.path: file for file in adds}
    return files


def followed(records: Iterable[Record], dataset: str) -> tuple[Repair | None, list[tuple[tuple[FileEntry, ...], frozenset[str]]]]:
    """What was last accepted of others in a table, and what completed epochs added and removed since."""
    accepted: Repair | None = None
    changes: list[tuple[tuple[FileEntry, ...], frozenset[str]]] = []
    decided: dict[str, Decision] = {}
    for record in records:
        if isinstance(record, Decision):
            decided[record.begin_id] = record
        elif isinstance(record, Repair) and record.dataset == dataset and record.keep == "theirs":
            accepted, changes = record, []
        elif (isinstance(record, Drop) and dataset in record.datasets) or (
            isinstance(record, Decide) and dataset in record.emptied
        ):
            accepted, changes = None, []
        elif isinstance(record, Complete):
            decision = decided.pop(record.begin_id, None)
            decided.clear()
            change = changes_by_dataset(decision.manifests).get(dataset) if decision else None
            if change and not (accepted and accepted.applied_epoch >= record.epoch):
                changes.append((change.adds, frozenset(change.removes)))
    return accepted, changes


def _accepted_files(tables: Tables, repair: Repair) -> dict[str, FileEntry]:
    gone = RestoredTableError(
        f"what was accepted in version {repair.version} of the table is not in its log any more",
        table=repair.dataset,
        remedy="put the table's folder back from a backup, or accept the table as it is now with keep='theirs'",
    )
    if repair.commit and tables.digest(repair.dataset, repair.version) != repair.commit:
        raise gone
    try:
        return {file.path: file for file in tables.files(repair.dataset, repair.version)}
    except (StorageError, RestoredTableError):
        raise gone from None
