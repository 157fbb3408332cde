"""Whose a storage root is, for those who have no program at hand."""

from __future__ import annotations

from dagster_operators.errors import DamagedLedgerError
from dagster_operators.storage.delta_commit import TableLog
from dagster_operators.storage.log_entries import never_added
from dagster_operators.storage.root import Root
from dagster_operators.transactions.ledger_files import (
    LedgerFile,
    active_files,
    damaged_ledger,
    loaded,
    no_ledger,
    read_rows,
    to_entries,
)
from dagster_operators.transactions.ledger_repair import LEDGER, readable
from dagster_operators.transactions.records import Decision, Format


def pipeline_of(root: Root) -> str:
    """The name of the pipeline that a storage root belongs to, also where its ledger is damaged; changes nothing.

    Raises:
        LedgerError: There is no ledger, or it has no record yet.
    """
    try:
        name = pipeline_in(root)
    except DamagedLedgerError:
        name = _named_in_files(root)
        if name is None:
            raise
    if name is None:
        raise no_ledger(root)
    return name


def _named_in_files(root: Root) -> str | None:
    """The pipeline's name by the records that can be read, whatever the ledger's log says of them."""
    for path in root.children(LEDGER):
        for entry in readable(root, path) if path.endswith(".parquet") else ():
            if isinstance(entry.record, Format):
                return entry.record.name
            if isinstance(entry.record, Decision) and entry.record.manifests:
                return entry.record.manifests[0].pipeline
    return None


def pipeline_in(root: Root) -> str | None:
    """The same, or None where there is no ledger, or it has no record yet.

    Raises:
        DamagedLedgerError: There is one, and it cannot be read.
        StorageError: Nobody knows, since the root cannot be reached.
    """
    files = _files_of_records(root)
    if files is None:
        return None
    try:
        first = to_entries(read_rows(root, files[0]))[0].record if files else None
    except FileNotFoundError:
        raise damaged_ledger(root, "a file of records is missing", files[0].path) from None
    if not isinstance(first, Format):
        raise damaged_ledger(root, "it does not start with its format")
    return first.name


def _files_of_records(root: Root) -> list[LedgerFile] | None:
    """The files of a ledger's records; None where there is no ledger, or it has no record yet."""
    log, version = TableLog(root, "ledger"), -1
    while True:
        before = version
        with loaded(root, log) as table:
            files, version = (active_files(root, table), table.version()) if table else (None, -1)
        if files is None:
            if any(name.endswith(".parquet") for name in root.children("ledger")):
                raise damaged_ledger(root, "its log is missing")
            return None
        if not files and never_added(root, "ledger"):
            return None
        if files or version == before or not log.has(version + 1):
            return files
        # A first run wrote the first records since the table was loaded: read it again.
