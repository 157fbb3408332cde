"""Whose a storage root is, for those who have no program at hand."""

from __future__ import annotations

from dagster_operators.storage.delta_commit import TableLog
from dagster_operators.storage.root import Root
from dagster_operators.transactions.ledger_files import active_files, damaged_ledger, loaded, no_ledger, read_rows, to_entries
from dagster_operators.transactions.records import Format


def pipeline_of(root: Root) -> str:
    """The name of the pipeline that a storage root belongs to; changes nothing.

    Raises:
        LedgerError: There is no ledger, or it has no record yet.
    """
    name = pipeline_in(root)
    if name is None:
        raise no_ledger(root)
    return name


def pipeline_in(root: Root) -> str | None:
    """The same, or None where there is no ledger, or it has no record yet.

    Raises:
        DamagedLedgerError: There is one, and it cannot be read.
        StorageError: Nobody knows, since the root cannot be reached.
    """
    log = TableLog(root, "ledger")
    with loaded(root, log) as table:
        files, version = (active_files(table), table.version()) if table else (None, -1)
    if files is None:
        if any(name.endswith(".parquet") for name in root.children("ledger")):
            raise damaged_ledger(root, "its log is missing")
        return None
    if not files and version == 0:
        return None
    try:
        first = to_entries(read_rows(root, files[0]))[0].record if files else None
    except FileNotFoundError:
        raise damaged_ledger(root, "a file of records is missing", files[0].path) from None
    if not isinstance(first, Format):
        raise damaged_ledger(root, "it does not start with its format")
    return first.name
