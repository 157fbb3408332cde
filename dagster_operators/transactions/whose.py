"""Whose a storage root is, for those who have no program at hand."""

from __future__ import annotations

from dagster_operators.errors import LedgerError
from dagster_operators.storage.delta_commit import TableLog
from dagster_operators.storage.root import Root
from dagster_operators.transactions.ledger_files import active_files, read_rows, to_entries
from dagster_operators.transactions.records import Format


def pipeline_of(root: Root) -> str:
    """The name of the pipeline that a storage root belongs to; changes nothing.

    Raises:
        LedgerError: There is no ledger, or it has no record yet.
    """
    log = TableLog(root, "ledger")
    files = active_files(log.load()) if log.is_table() else ()
    first = to_entries(read_rows(root, files[0]))[0].record if files else None
    if not isinstance(first, Format):
        raise LedgerError("there is no pipeline in the storage root", file=root.uri, remedy="name the root of one that has run")
    return first.name
