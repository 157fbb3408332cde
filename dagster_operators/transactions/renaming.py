"""Tables that get other names: what there was under the old ones is under the new ones from then on, in an epoch of its own.

A table keeps the folder that its name says: the new one is given all files of the old one, by hard links or copies. The old one,
unless another table takes its name, is no longer written; its earlier epochs can be read, and gone back to, until it is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from dagster_operators.errors import LedgerError
from dagster_operators.storage.presence import lost_files
from dagster_operators.transactions.failpoints import reach
from dagster_operators.transactions.lost import PUT_BACK, files_of, lost_error
from dagster_operators.transactions.manifest import Change, FileEntry
from dagster_operators.transactions.records import Begin, Complete, Drop, Entry, Record, Repair
from dagster_operators.transactions.transition import Transition, unfinished_in
from dagster_operators.transactions.transition_epoch import as_completed
from dagster_operators.transactions.view import LedgerView

if TYPE_CHECKING:
    from dagster_operators.transactions.coordinator import Coordinator
    from dagster_operators.transactions.effects import StageAttempt

T = TypeVar("T")


def rename_tables(run: Coordinator, names: Mapping[str, str], logical: str) -> Complete:
    """Rename tables, all at once, so that they may swap their names.

    Args:
        run: Has the pipeline.
        names: What tables were called, by what they are called then.
        logical: What the logical plan of then is called.

    Raises:
        LostFileError: A file is gone.
        ChangedPipelineError: A table cannot have the columns of the one whose name it takes.
    """
    view = run.view()
    last, plan = view.last_complete, view.last_plan
    if last is None or plan is None:
        raise LedgerError("no epoch was completed yet", pipeline=run.pipeline, remedy="leave renamed_from out")
    plan = as_completed(plan, last, view)
    told = ", ".join(f"{old} to {new}" for new, old in sorted(names.items()))
    to = Transition(
        "rename", told, last.offsets, last.watermarks, last.finished, last.held,
        unfinished=unfinished_in(last.metrics), times=_moved(last.times, names), renamed=dict(names),
        emptied=view.emptied,
    )  # fmt: skip
    datasets = _datasets(names)
    plan = replace(plan, datasets=_moved(plan.datasets, datasets), logical=logical)
    return run.transit(plan, to, lambda attempt: _changes(run, view, attempt, datasets), {*datasets, *datasets.values()})


def _changes(run: Coordinator, view: LedgerView, attempt: StageAttempt, datasets: Mapping[str, str]) -> Iterator[Change]:
    """All files of each table under its new name, in the attempt's own folder, instead of all that there were."""
    for new, old in datasets.items():
        adds, there = list[FileEntry](), run.files(old, view.versions[old]) if old in view.versions else []
        if lost := lost_files(run.root, files_of([Change(old, tuple(there))])):
            raise lost_error(lost, "a table cannot be renamed", PUT_BACK, view=view, pipeline=run.pipeline)
        digests = run.root.known_digests([f"{old}/{entry.path}" for entry in there])
        for entry in there:
            path = f"{attempt.directory(new)}/{entry.path}"
            run.root.link(f"{old}/{entry.path}", f"{new}/{path}")
            adds.append(replace(entry, path=path, digest=digests.get(f"{old}/{entry.path}", "")))
            reach("rename:half_taken", stage=attempt.stage)
        gone = [entry.path for entry in run.files(new, view.versions[new])] if new in view.versions else []
        yield Change(new, tuple(adds), tuple(gone))


def as_renamed(view: LedgerView, names: Mapping[str, str]) -> LedgerView:
    """The ledger as it would be if tables had had other names in the last completed epoch.

    Args:
        view: The ledger.
        names: What they are called in it, by those other names.
    """
    datasets = _datasets(names)

    def renamed(record: Record) -> Record:
        former = {old: new for new, old in datasets.items()}
        if isinstance(record, Complete):
            return replace(
                record, versions=_moved(record.versions, datasets), fingerprints=_moved(record.fingerprints, datasets),
                last_epochs=_moved(record.last_epochs, datasets), times=_moved(record.times, names),
            )  # fmt: skip
        if isinstance(record, Begin):
            return replace(record, plan=replace(record.plan, datasets=_moved(record.plan.datasets, datasets)))
        if isinstance(record, Repair):
            return replace(record, dataset=former.get(record.dataset, record.dataset))
        if isinstance(record, Drop):
            return replace(record, datasets=tuple(former.get(one, one) for one in record.datasets))
        return record

    entries = tuple(Entry(entry.seq, entry.at, renamed(entry.record)) for entry in view.entries)
    return LedgerView(view.version, view.pipeline, view.name, entries)


def _datasets(names: Mapping[str, str]) -> dict[str, str]:
    return {f"tables/{new}": f"tables/{old}" for new, old in names.items()}


def _moved(values: Mapping[str, T], names: Mapping[str, str]) -> dict[str, T]:
    """What is kept by names, by those that some of them have then.

    >>> _moved({"x": 1, "y": 2, "w": 3}, {"z": "x", "x": "y"})
    {'w': 3, 'z': 1, 'x': 2}
    """
    kept = {name: value for name, value in values.items() if name not in names and name not in names.values()}
    return {**kept, **{new: values[old] for new, old in names.items() if old in values}}
