"""Deleting datasets: they are forgotten first, so that a crash between the two leaves files that nobody reads."""

from __future__ import annotations

from collections.abc import Sequence

from dagster_operators.transactions.effects import DropDataset, ReadLedger
from dagster_operators.transactions.records import Drop
from dagster_operators.transactions.steps import RunContext, Steps, append, fence
from dagster_operators.transactions.view import LedgerView


def delete(run: RunContext, view: LedgerView, datasets: Sequence[str]) -> Steps[bool]:
    """Have the ledger forget datasets, then delete them with their files; it may be called again.

    A run that stood still may come to it when a later epoch has made such a dataset anew, so that each is looked at again.

    Args:
        run: Who deletes.
        view: The ledger, with no epoch that is decided and not complete.
        datasets: The datasets, which nobody writes any more.

    Returns:
        Whether they are gone; not if the pipeline went on meanwhile, or they have epochs that the ledger does not know.
    """
    known = tuple(dataset for dataset in datasets if dataset in view.versions)
    if known:
        record = Drop(view.last_epoch, run.generation, known)
        yield from append(view, run, lambda now: None if record in now.records or now.last_epoch != view.last_epoch else record)
    until, gone = view.open_begin.epoch if view.open_begin else view.last_epoch, True
    for index, dataset in enumerate(datasets, start=1):
        now: LedgerView = yield ReadLedger()
        fence(now, run)
        begun = now.open_begin if now.open_begin != view.open_begin else None
        if dataset in now.versions or (begun and dataset in begun.plan.datasets):
            gone = False
        else:
            gone = (yield DropDataset(dataset, view.pipeline, until, index)) and gone
    return gone
