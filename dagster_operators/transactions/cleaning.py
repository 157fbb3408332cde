"""Deleting files that no epoch still to be read needs: what VACUUM is to one table, for a whole pipeline.

A file is kept that is active in the table's version as of the *horizon*'s completion, or in any version since: a RESTORE that was
accepted, or our content put back, brings files of earlier epochs back. Of all others in the folders of epochs up to the horizon
nobody needs any. The horizon is recorded before anything is deleted: older epochs are refused to readers from then on.
"""

from __future__ import annotations

import re
import time
from typing import Final

from dagster_operators.storage.delta_commit import TableLog
from dagster_operators.storage.root import Root
from dagster_operators.transactions.deciding import settle
from dagster_operators.transactions.effects import DeleteOutdated
from dagster_operators.transactions.records import Clean, Complete
from dagster_operators.transactions.steps import RunContext, Steps, append, unless_fenced
from dagster_operators.transactions.tables import Tables

_SCRAP_SECONDS: Final = 3600.0
"""What a run that died has left of an entry it was about to write is gone after this."""

_EPOCH: Final = re.compile(r"e(\d+)(?:-|$)")


def clean_up(run: RunContext, horizon: Complete) -> Steps[int]:
    """Make ``horizon`` the oldest epoch that can be read, and delete what only older ones needed; how many files that was.

    An epoch that is decided is carried out first: it may bring back files that no version of a table has so far.
    """
    view = yield from unless_fenced(run, settle(run))
    record = Clean(horizon.epoch, run.generation)
    yield from append(view, run, lambda now: record if now.horizon < horizon.epoch else None)
    deleted: int = yield DeleteOutdated(horizon.epoch, horizon.versions)
    return deleted


def delete_outdated(root: Root, tables: Tables, effect: DeleteOutdated) -> int:
    """Delete the files of epochs up to the horizon that are not active as of it, with those epochs' manifests and streams."""
    deleted = 0
    for dataset, version in effect.versions.items():
        folders = [name for name in root.children(dataset) if _is_old(name, effect.epoch)]
        active = tables.active_since(dataset, version) if folders else set()
        for folder in folders:
            deleted += _delete_inactive(root, dataset, folder, active)
        TableLog(root, dataset).clean(0, time.time() - _SCRAP_SECONDS)
    for kind in ("manifests", *(f"streams/{name}" for name in root.children("streams"))):
        for name in root.children(kind):
            if _is_old(name, effect.epoch):
                root.delete_folder(f"{kind}/{name}")
    return deleted


def _is_old(name: str, epoch: int) -> bool:
    found = _EPOCH.match(name)
    return found is not None and int(found[1]) <= epoch


def _delete_inactive(root: Root, dataset: str, folder: str, active: set[str]) -> int:
    files = [path.removeprefix(f"{dataset}/") for path in root.entries_below(f"{dataset}/{folder}")]
    gone = [path for path in files if path not in active]
    if len(gone) == len(files):
        root.delete_folder(f"{dataset}/{folder}")
    else:
        for path in gone:
            root.delete_file(f"{dataset}/{path}")
    return sum(path.endswith(".parquet") for path in gone)
