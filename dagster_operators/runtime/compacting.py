"""Joining small files of tables into larger ones, as OPTIMIZE does, in an epoch of the pipeline that computes nothing.

The rows stay as they are, and the log says so (``dataChange`` is false): who reads what each version changed sees nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from dagster_operators.errors import EpochUnderWayError, PipelineError
from dagster_operators.runtime.clustering import cuts, in_order
from dagster_operators.runtime.results import table_names
from dagster_operators.runtime.stages.staged_rows import described, read_batches, write_batches
from dagster_operators.runtime.stored_changes import StoredChanges
from dagster_operators.storage.presence import lost_files
from dagster_operators.transactions.lost import PUT_BACK, files_of, lost_error
from dagster_operators.transactions.manifest import KEPT_FOLDER, Change, FileEntry, by_partition
from dagster_operators.transactions.transition import Transition, unfinished_in
from dagster_operators.transactions.transition_epoch import as_completed
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.transactions.coordinator import Coordinator
    from dagster_operators.transactions.effects import StageAttempt
    from dagster_operators.transactions.plan import DatasetRecord
    from dagster_operators.transactions.records import Complete
    from dagster_operators.transactions.view import LedgerView

TARGET_SIZE: Final = 128 * 1024 * 1024
"""About so many bytes a joined file has."""

CLUSTERED_SIZE: Final = 16 * 1024 * 1024
"""The same of a table that is clustered: the smaller files are, the fewer of their rows a reader reads in vain."""

SORTED_SIZE: Final = 128 * 1024 * 1024
"""Files of about so many bytes, or of one joined file if that is larger, are put into order with each other, in memory."""

_ROWS: Final = 8_192
_EPOCH: Final = re.compile(r"e(\d+)-")

Group: TypeAlias = tuple[FileEntry, ...]


@dataclass(frozen=True)
class Joined:
    """What became of small files of a table.

    Attributes:
        files: How many were joined.
        into: Into how many.
        bytes: How many bytes they had.

    >>> str(Joined(40, 2, 80_000))
    '40 files joined into 2'
    """

    files: int
    into: int
    bytes: int

    def __str__(self) -> str:
        return f"{self.files} files joined into {self.into}"


@dataclass(frozen=True)
class Compaction:
    """What a compaction did.

    Attributes:
        epoch: The epoch that did it; the last one if there was nothing to join.
        tables: By table what became of its files.

    >>> print(Compaction(7, {"clean": Joined(40, 2, 80_000)}))
    epoch 7: clean: 40 files joined into 2
    """

    epoch: int
    tables: Mapping[str, Joined] = field(default_factory=dict)

    def __str__(self) -> str:
        told = "; ".join(f"{table}: {joined}" for table, joined in self.tables.items())
        return f"epoch {self.epoch}: {told}" if told else "no table has small files to be joined"


@dataclass(frozen=True)
class Work:
    """What is to be done to a table: groups of files, the columns by which their rows are ordered, and the size of files."""

    dataset: str
    schema_json: str
    groups: list[Group]
    by: tuple[str, ...]
    target_size: int

    def files_of(self, group: Group) -> int:
        """Into how many files the rows of a group go."""
        wanted = round(sum(file.size for file in group) / self.target_size) if self.by else 1
        return max(1, min(wanted, sum(file.rows for file in group)))


def compact(run: Coordinator, table: str | None = None, target_size: int | None = None) -> Compaction:
    """Join the small files of a table, or of all tables, in an epoch of its own.

    Args:
        run: Has the pipeline.
        table: The table; None for all.
        target_size: About so many bytes a joined file has; files of half of it are not joined any more. By default what the table
            says, else :data:`TARGET_SIZE`, of tables that are clustered :data:`CLUSTERED_SIZE`.

    Raises:
        EpochUnderWayError: An epoch is begun, or something was decided that waits for the next one.
        PipelineError: There is no such table.
        LostFileError: A file is gone, or has not the rows that it was written with.
    """
    view = run.settle()
    last, plan = view.last_complete, view.last_plan
    if last is None or plan is None:
        return Compaction(0)
    _require_between_epochs(view)
    plan = as_completed(plan, last, view)
    names = [name for name in table_names(view.versions) if f"tables/{name}" in plan.datasets]
    if table is not None and table not in names:
        raise PipelineError("there is no such table", pipeline=run.pipeline, table=table, remedy=f"there are: {', '.join(names)}")
    asked = {name: plan.datasets[f"tables/{name}"] for name in names if table in {None, name}}
    found = {name: work for name, record in asked.items() if (work := _work(run, view, name, record, target_size)).groups}
    if not found:
        return Compaction(last.epoch)
    to = _behind(view, last, found)
    StoredChanges(run).carry(plan, to)
    made = run.transit(plan, to, lambda attempt: _changes(run, attempt, found.values()))
    return Compaction(made.epoch, {name: _told(work) for name, work in found.items()})


def groups_of(files: Iterable[FileEntry], target_size: int, group_size: int | None = None) -> Iterator[tuple[FileEntry, ...]]:
    """The small files of a partition that are joined with each other, those of neighbouring epochs: bounds of times stay close.

    Files of less than half the target size are small; a group has at most the group size, by default the target size.

    >>> files = [FileEntry(f"e{epoch}-g1-0a/a", size, 1) for epoch, size in ((10, 3), (2, 3), (1, 9), (11, 3), (12, 4))]
    >>> [[file.path[:3] for file in group] for group in groups_of(files, 10)]
    [['e2-', 'e10', 'e11']]
    """
    for part in by_partition(files):
        group, size = list[FileEntry](), 0
        for file in sorted(part, key=_age):
            if not file.is_ours or file.size >= target_size / 2:
                continue
            if size + file.size > (group_size or target_size):
                if len(group) > 1:
                    yield tuple(group)
                group, size = [], 0
            group.append(file)
            size += file.size
        if len(group) > 1:
            yield tuple(group)


def _age(file: FileEntry) -> tuple[int, str]:
    found = _EPOCH.match(file.path)
    return int(found[1]) if found else 0, file.path


def _require_between_epochs(view: LedgerView) -> None:
    waiting, remedy = "", "run an epoch first"
    for subject in sorted({subject for subject, _ in view.decided})[:1]:
        waiting = f"what was decided about {subject} takes effect with the next epoch"
        remedy = f"run an epoch of the program that it is about first; or take it back: pipeline.withdraw({subject!r})"
    if view.open_begin is not None and view.open_begin.transition is None:  # one that computes nothing is made again anyway
        waiting, remedy = f"epoch {view.open_begin.epoch} is begun and not complete, and would begin anew", "run an epoch first"
    if waiting:
        raise EpochUnderWayError(waiting, pipeline=view.name, epoch=view.last_epoch, remedy=remedy)


def _work(run: Coordinator, view: LedgerView, table: str, record: DatasetRecord, target_size: int | None) -> Work:
    by = record.cluster_by
    size = target_size or record.target_file_size or (CLUSTERED_SIZE if by else TARGET_SIZE)
    dataset = f"tables/{table}"
    version = view.versions[dataset]
    told = run.schema(dataset, version)
    if not all(one.type.is_rewritable for one in Schema.from_json(told)):
        return Work(dataset, told, [], by, size)
    groups = groups_of(run.files(dataset, version), size, max(size, SORTED_SIZE) if by else None)
    return Work(dataset, told, list(groups), by, size)


def _behind(view: LedgerView, last: Complete, found: Mapping[str, Work]) -> Transition:
    return Transition(
        "compact", ", ".join(found), last.offsets, last.watermarks, last.finished, last.held,
        unfinished=unfinished_in(last.metrics), times=last.times, emptied=view.emptied,
    )  # fmt: skip


def _told(work: Work) -> Joined:
    files = [file for group in work.groups for file in group]
    return Joined(len(files), sum(map(work.files_of, work.groups)), sum(file.size for file in files))


def _changes(run: Coordinator, attempt: StageAttempt, found: Iterable[Work]) -> Iterator[Change]:
    for work in found:
        folder = f"{attempt.directory(work.dataset)}/{KEPT_FOLDER}"
        joined = [
            file for number, group in enumerate(work.groups) for file in written_anew(run, work, group, f"{folder}/{number}")
        ]
        gone = tuple(file.path for group in work.groups for file in group)
        yield Change(work.dataset, tuple(joined), gone, data_change=False)


def written_anew(run: Coordinator, work: Work, group: Group, folder: str) -> Iterator[FileEntry]:
    """The rows of a group of files, with the columns of now."""
    dataset = work.dataset
    if lost := lost_files(run.root, files_of([Change(dataset, group)])):
        raise lost_error(lost, "files cannot be joined", PUT_BACK, view=run.view(), pipeline=run.pipeline)
    schema = Schema.from_json(work.schema_json).with_nulls().to_arrow()
    rows = read_batches(run.root, dataset, [file.path for file in group], schema, _ROWS)
    parts = _ordered(rows, schema, work.by, work.files_of(group)) if work.by else [rows]
    by, found = [name for name, _ in group[0].partition], 0
    for number, part in enumerate(parts):
        path = f"{folder}/part-{number}.parquet"
        write_batches(run.root, f"{dataset}/{path}", part, schema)
        size = run.root.files.get_file_info(run.root.path(dataset, path)).size
        made = described(run.root, dataset, path, size, by)
        found += made.rows
        yield made
    expected = sum(file.rows for file in group)
    if found < expected or (found > expected and all(file.rows for file in group)):
        wrong = {f"{dataset}/{file.path}": f"or one of {len(group)} has not its rows" for file in group}
        so = f"files cannot be joined, {found} rows instead of {expected}"
        raise lost_error(wrong, so, PUT_BACK, view=run.view(), pipeline=run.pipeline)


def _ordered(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, by: Sequence[str], files: int
) -> Iterator[Iterable[pa.RecordBatch]]:
    """The rows of each file."""
    import pyarrow as pa

    rows = in_order(pa.Table.from_batches(batches, schema), by)
    for first, count in cuts(rows.num_rows, files):
        yield rows.slice(first, count).to_batches(_ROWS)
