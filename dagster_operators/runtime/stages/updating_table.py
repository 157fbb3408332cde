"""Bringing an updating table up to date: the changed rows come in files of their own, and leave the files that had their keys.

Each key is in one file only, so the table is plain: every Delta reader sees one row per key. A file that holds a changed key is
replaced as a whole (copy-on-write); one that holds nothing else goes without a query. Small files are joined on the way, and a
tier of them that has grown long is joined for its own sake, as the state's runs are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Literal, TypeAlias

from dagster_operators.graph.changes import DELETED
from dagster_operators.operators.aggregates.partial_results import one_zero_one_nan
from dagster_operators.operators.key_join import join_by_keys
from dagster_operators.operators.one_task import are_few, part_of
from dagster_operators.runtime.stages.change_images import images_of
from dagster_operators.runtime.stages.changed_keys import AT_ONCE, ChangedKeys, Held
from dagster_operators.runtime.stages.runs import runs_of
from dagster_operators.runtime.stages.stage_work import StageWork
from dagster_operators.runtime.stages.staged_files import StagedFiles
from dagster_operators.runtime.stages.staged_rows import arrow_schema, read_batches
from dagster_operators.state.compaction import choose_fold
from dagster_operators.transactions.counts import check_kept, counted
from dagster_operators.transactions.lost import PUT_BACK
from dagster_operators.transactions.manifest import FEED_FOLDER, KEPT_FOLDER, FileEntry, by_partition
from dagster_operators.types.names import quoted
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

ROWS_PER_FILE = 500_000
"""Files are not joined to one of more rows than this."""

HERE = 64 * 1024 * 1024
"""Files of no more bytes than this, all together, are written anew by this process: the engine would take longer to begin."""

_BROADCAST = 1_000_000
"""So many changed keys every task of the engine holds in memory, instead of sending all old rows to where their keys are."""

_AT_ONCE, _HERE_AT_ONCE = 8, 2
"""So many queries are given to the engine at a time, and so many files written by this process."""


_Group: TypeAlias = "list[FileEntry]"


class UpdatingTable:
    """The files of one updating table during an attempt at its stage.

    Args:
        files: Reads and writes below the root.
        work: The attempt.
        dataset: For example ``tables/routes``.
        schema_json: The table's schema.
    """

    def __init__(self, files: StagedFiles, work: StageWork, dataset: str, schema_json: str) -> None:
        self._files = files
        self._dataset = dataset
        self._directory = work.directory(dataset)
        self._schema = schema_json
        self._root = work.coordinator.root
        self._before = work.before(dataset)

    def write(self, rows: DataFrame) -> tuple[FileEntry, ...]:
        """Stage changed rows, as they are to be in the table."""
        return self._files.write(rows, self._dataset, f"{self._directory}/changed", self._schema, longest=ROWS_PER_FILE)

    def holding(self, changed: ChangedKeys) -> Mapping[str, Held]:
        """What each file of the table, by its path, holds of changed keys."""
        return changed.held_by(self._dataset, self._before)

    def feed(self, held: Mapping[str, Held], changed: ChangedKeys, rows: DataFrame, keys: Sequence[str]) -> tuple[FileEntry, ...]:
        """Stage what becomes of the rows with changed keys, for the table's change data feed.

        Args:
            held: What the files hold of the keys.
            changed: The keys.
            rows: The rows with these keys; those that are marked as deleted leave the table.
            keys: Of which the table has one row each; the changed ones, or more columns.
        """
        old = self._files.read(self._dataset, [file for file in self._before if held[file.path] is not Held.NONE], self._schema)
        if old is not None and changed.names:
            old = with_keys(old, rows, changed, "left_semi")
        new = part_of(rows.filter(f"NOT {DELETED}").drop(DELETED), rows) if DELETED in rows.columns else rows
        images = images_of(old, new, keys)
        return self._files.write(images, self._dataset, f"{self._directory}/{FEED_FOLDER}", self._schema)

    def without(
        self, held: Mapping[str, Held], changed: ChangedKeys, rows: DataFrame
    ) -> tuple[tuple[FileEntry, ...], tuple[str, ...]]:
        """Stage what stays of the files that hold changed keys.

        Args:
            held: What the files hold of the keys.
            changed: The keys.
            rows: The rows with these keys.

        Returns:
            The new files, and the paths of those they replace.
        """
        replaced = [file for file in self._before if held[file.path] is not Held.NONE]
        partly = [file for file in replaced if held[file.path] is Held.SOME]
        small = [file for file in self._before if held[file.path] is Held.NONE and file.rows < ROWS_PER_FILE // 2]
        joined = [file for part in by_partition(small) for run in choose_fold(runs_of(part)) for file in run.entries]
        kept = self._write_at_once(list(_grouped(partly)), list(_grouped(joined)), changed, rows)
        removes = tuple(sorted(file.path for file in (*replaced, *joined)))
        return tuple(entry for entries in kept for entry in entries), removes

    def _write_at_once(
        self, partly: Sequence[_Group], joined: Sequence[_Group], changed: ChangedKeys, rows: DataFrame
    ) -> list[tuple[FileEntry, ...]]:
        """What stays of each group of files: of the first ones the rows of other keys, of the others all."""
        few = sum(file.size for group in (*partly, *joined) for file in group) <= HERE
        writes: list[Callable[[], tuple[FileEntry, ...]]] = []
        for number, group in enumerate([*partly, *joined]):
            without = changed if number < len(partly) else None
            if few and self._is_plain(group) and (without is None or without.are_exact):
                writes.append(partial(self._write_here, number, group, without))
            else:
                writes.append(partial(self._write, number, group, without, rows))
        if len(writes) <= 1:
            return [write() for write in writes]
        running = [_threads(_HERE_AT_ONCE if few else _AT_ONCE).submit(write) for write in writes]
        wait(running, return_when=FIRST_EXCEPTION)
        for future in running:
            future.cancel()
        wait(running)  # nothing is written any more when the attempt is given up
        return [future.result() for future in running if not future.cancelled()]

    @cached_property
    def _columns(self) -> pa.Schema:
        return arrow_schema(self._schema)

    def _is_plain(self, group: _Group) -> bool:
        """Whether this process writes them as any engine does."""
        simple = all(field.type.is_simple for field in Schema.from_json(self._schema))
        return simple and all(file.is_ours for file in group)

    def _folder(self, number: int) -> str:
        return f"{self._directory}/{KEPT_FOLDER}/{number}"

    def _write_here(self, number: int, group: _Group, without: ChangedKeys | None) -> tuple[FileEntry, ...]:
        """The rows of small files, but for those of some keys, in one file, without a query."""
        paths = [file.path for file in group]
        batches: Iterable[pa.RecordBatch] = read_batches(self._root, self._dataset, paths, self._columns, AT_ONCE)
        if all(file.rows for file in group):
            batches = counted(batches, sum(file.rows for file in group), self._dataset, paths, PUT_BACK)
        kept = batches if without is None else (batch.filter(~without.among(batch)) for batch in batches)
        return self._files.write_here(kept, self._columns, self._dataset, self._folder(number), self._schema)

    def _write(self, number: int, group: _Group, without: ChangedKeys | None, rows: DataFrame) -> tuple[FileEntry, ...]:
        """The same by the engine: in one file, or several if they are larger than that."""
        kept = self._files.read(self._dataset, group, self._schema)
        if kept is None:
            return ()
        if without is not None:
            kept = with_keys(kept, rows, without, "left_anti")
        if sum(file.rows for file in group) <= ROWS_PER_FILE:
            kept = kept.coalesce(1)
        entries = self._files.write(kept, self._dataset, self._folder(number), self._schema, longest=ROWS_PER_FILE)
        check_kept(sum(entry.rows for entry in entries), group, self._dataset, all_stay=without is None)
        return entries


def with_keys(old: DataFrame, new: DataFrame, keys: ChangedKeys, how: Literal["left_semi", "left_anti"]) -> DataFrame:
    """The old rows that have a key of the new ones, or those that have none."""
    from pyspark.sql import functions as F

    wanted = part_of(new.select(*map(quoted, keys.names)), new)
    in_one_task = are_few(old) and are_few(wanted)
    if not in_one_task and keys.are_known and keys.rows <= _BROADCAST:  # else they may be long: the engine knows best
        wanted = F.broadcast(wanted)
    return join_by_keys(old, wanted, keys.names, how, value=lambda column, key: one_zero_one_nan(column, str(keys.kinds[key])))


def _grouped(files: Iterable[FileEntry]) -> Iterator[_Group]:
    """Files that are written anew together, small ones of a partition with each other."""
    for part in by_partition(files):
        group: list[FileEntry] = []
        rows = 0
        for file in sorted(part, key=lambda file: (file.rows, file.path)):
            if group and rows + file.rows > ROWS_PER_FILE:
                yield group
                group, rows = [], 0
            group.append(file)
            rows += file.rows
        if group:
            yield group


@cache
def _threads(count: int) -> ThreadPoolExecutor:
    """Kept, because each thread has a connection to the Java process."""
    return ThreadPoolExecutor(count, "updating-table")
