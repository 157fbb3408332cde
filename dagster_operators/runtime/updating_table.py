"""Bringing an updating table up to date: only the files that hold changed keys are written anew.

Files are clustered by key group (the top seven bits of Spark's ``xxhash64`` of the key), so that the keys of one file are never
in another. A changed file is replaced as a whole (copy-on-write), which keeps the table plain: every Delta reader sees one row
per key.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from functools import cache
from typing import TYPE_CHECKING

from dagster_operators.graph.key_group import KEY_GROUPS, key_group
from dagster_operators.operators.physical import quoted
from dagster_operators.operators.projection import DELETED
from dagster_operators.runtime.stage_work import StageWork
from dagster_operators.runtime.staged_files import StagedFiles
from dagster_operators.transactions.manifest import KEY_GROUPS_FOLDER, Change, FileEntry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_PER_FILE = 500_000
"""A file that would hold more rows than this is split into two key-group ranges."""

_SURELY = 16
"""With so many changed keys for each range, hardly a file is left without one, and looking for it costs a query."""

_AT_ONCE = 16
"""So many queries for ranges are given to the engine at a time."""


class UpdatingTable:
    """One updating table during an attempt at its stage.

    Args:
        files: Reads and writes below the root.
        work: The attempt.
        dataset: For example ``tables/routes``.
        schema_json: The table's schema.
        keys: The key columns.
    """

    def __init__(self, files: StagedFiles, work: StageWork, dataset: str, schema_json: str, keys: Sequence[str]) -> None:
        self._files = files
        self._dataset = dataset
        self._directory = work.directory(dataset)
        self._schema = schema_json
        self._keys = list(map(quoted, keys))
        self._before = work.before(dataset)

    def apply(self, changes: DataFrame, entries: Sequence[FileEntry]) -> Change | None:
        """Stage the table with the changed rows in place of their keys' old rows.

        Args:
            changes: The changed rows, one per key, with the mark of deleted rows if any may be.
            entries: The files that hold these rows, for their number.

        Returns:
            The files to add and remove; None if no row changed.
        """
        changed = sum(entry.rows for entry in entries)
        if not changed:
            return None
        ranges = self._ranges(changed)
        touched = self._touched(changes, changed, ranges)
        # A query for each range reads its own files only; one query for all would shuffle and sort the whole table.
        written = [self._write(changes, touched[0])] if len(touched) == 1 else self._write_at_once(changes, touched)
        adds = [entry for entries in written for entry in entries]
        removes = {file.path for file in self._before for groups in touched if _overlaps(file, groups)}
        return Change(self._dataset, tuple(adds), tuple(sorted(removes)))

    def _write_at_once(self, changes: DataFrame, touched: Sequence[tuple[int, int]]) -> list[tuple[FileEntry, ...]]:
        running = [_threads().submit(self._write, changes, groups) for groups in touched]
        wait(running, return_when=FIRST_EXCEPTION)
        for future in running:
            future.cancel()
        wait(running)  # nothing is written any more when the attempt is given up
        return [future.result() for future in running if not future.cancelled()]

    def _current_ranges(self) -> int:
        """How many ranges the files are divided into; 0 if a file does not say (someone else has written the table since)."""
        found = {file.key_groups for file in self._before}
        widths = {groups[1] - groups[0] + 1 if groups else 0 for groups in found}
        if not widths:
            return 1
        width = widths.pop()
        return 0 if widths or width == 0 else KEY_GROUPS // width

    def _ranges(self, changed: int) -> int:
        rows = changed + sum(file.rows for file in self._before)
        ranges = max(self._current_ranges(), 1)
        while ranges < KEY_GROUPS and rows > ranges * ROWS_PER_FILE:
            ranges *= 2
        return ranges

    def _touched(self, changes: DataFrame, changed: int, ranges: int) -> list[tuple[int, int]]:
        """The ranges of key groups to be written anew: the first and last group of each."""
        width = KEY_GROUPS // ranges
        every = [(low, low + width - 1) for low in range(0, KEY_GROUPS, width)]
        if ranges == 1 or self._current_ranges() != ranges or changed >= ranges * _SURELY:
            return every
        found = {
            row[0]
            for row in changes.selectExpr(f"CAST({key_group(self._keys)} div {width} AS INT) AS number").distinct().collect()
        }
        return [every[number] for number in sorted(found)]

    def _write(self, changes: DataFrame, groups: tuple[int, int]) -> tuple[FileEntry, ...]:
        """The rows of a range of key groups, in one file."""
        rows = self._within(changes, groups, KEY_GROUPS)
        kept = rows.filter(f"NOT {DELETED}").drop(DELETED) if DELETED in rows.columns else rows
        before = [file for file in self._before if _overlaps(file, groups)]
        old = self._files.read(self._dataset, before, self._schema)
        if old is not None:
            widest = max(_width(file.key_groups) for file in before)
            kept = kept.unionByName(self._without(self._within(old, groups, widest), rows))
        low, high = groups
        return self._files.write(
            kept.coalesce(1), self._dataset, f"{self._directory}/table/{KEY_GROUPS_FOLDER}={low:03d}-{high:03d}"
        )

    def _within(self, rows: DataFrame, groups: tuple[int, int], width: int) -> DataFrame:
        """The rows of a range, out of those of a range that is ``width`` wide."""
        return rows if width <= _width(groups) else rows.filter(f"{key_group(self._keys)} BETWEEN {groups[0]} AND {groups[1]}")

    def _without(self, old: DataFrame, changes: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        if not self._keys:
            return old.filter("false")
        keys = changes.selectExpr(*self._keys).alias("new")
        same = " AND ".join(f"old.{key} <=> new.{key}" for key in self._keys)
        return old.alias("old").join(keys, F.expr(same), "left_anti")


@cache
def _threads() -> ThreadPoolExecutor:
    """Kept, because each thread has a connection to the Java process."""
    return ThreadPoolExecutor(_AT_ONCE, "updating-table")


def _width(groups: tuple[int, int] | None) -> int:
    """How many key groups a file may have rows of."""
    return groups[1] - groups[0] + 1 if groups else KEY_GROUPS


def _overlaps(file: FileEntry, groups: tuple[int, int]) -> bool:
    return file.key_groups is None or (file.key_groups[0] <= groups[1] and groups[0] <= file.key_groups[1])
