"""Deleting datasets: they are forgotten first, so that a crash between the two leaves files that nobody reads."""

from __future__ import annotations

from collections.abc import Sequence

from dagster_operators.transactions.effects import DropDataset
from dagster_operators.transactions.records import Drop
from dagster_operators.transactions.steps import RunContext, Steps, append
from dagster_operators.transactions.view import LedgerView


def delete(run: RunContext, view: LedgerView, datasets: Sequence[str]) -> Steps[None]:
    """Have the ledger forget datasets, then delete them with their files; it may be called again.

    Args:
        run: Who deletes.
        view: The ledger, with no epoch that is decided and not complete.
        datasets: The datasets, which nobody writes any more.
    """
    known = tuple(dataset for dataset in datasets if dataset in view.versions)
    if known:
        record = Drop(view.last_epoch, run.generation, known)
        yield from append(view, run, lambda now: None if record in now.records else record)
    for index, dataset in enumerate(datasets, start=1):
        yield DropDataset(dataset, view.pipeline, view.last_epoch, index)
