"""What an epoch does to each table, put together from the manifests of its stages."""

from __future__ import annotations

from collections.abc import Sequence

from dagster_operators.errors import LedgerError
from dagster_operators.transactions.manifest import Change, Manifest
from dagster_operators.transactions.plan import PlanRecord
from dagster_operators.transactions.stage_keys import StageKey


def changes_by_dataset(manifests: Sequence[Manifest], plan: PlanRecord | None = None) -> dict[str, Change]:
    """What the epoch does to each table, in the order of the stages; streams and empty changes left out.

    A round of a loop says all that its stage has done in the epoch so far, so of several rounds the last counts.
    """
    changes: dict[str, Change] = {}
    writers: dict[str, str] = {}
    for manifest in manifests:
        writer = StageKey.parse(manifest.stage).stage
        for change in manifest.changes:
            if change.is_stream or not (change.adds or change.removes or change.dataset in changes):
                continue
            other = writers.setdefault(change.dataset, writer)
            if other != writer or (plan and change.dataset not in plan.datasets):
                reason = "is written by two stages" if other != writer else "is not in the plan"
                raise LedgerError(
                    f"a dataset {reason}", pipeline=manifest.pipeline, stage=manifest.stage, table=change.dataset,
                    remedy="start a new run, which plans the epoch anew",
                )  # fmt: skip
            changes[change.dataset] = change
    return {dataset: change for dataset, change in changes.items() if change.adds or change.removes}


def combined(before: Change, after: Change) -> Change:
    """Two changes of a table, one after the other, as one.

    >>> from dagster_operators.transactions.manifest import FileEntry
    >>> a, b = FileEntry("a", 1, 1), FileEntry("b", 1, 1)
    >>> both = combined(Change("state/x", (a,), ("old",)), Change("state/x", (b,), ("a", "older")))
    >>> [entry.path for entry in both.adds], both.removes
    (['b'], ('old', 'older'))
    """
    gone, new = set(after.removes), {entry.path for entry in before.adds}
    adds = (*(entry for entry in before.adds if entry.path not in gone), *after.adds)
    return Change(before.dataset, adds, (*before.removes, *(path for path in after.removes if path not in new)))
