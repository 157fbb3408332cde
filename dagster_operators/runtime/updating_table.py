"""Bringing an updating table up to date: only the files that hold changed keys are written anew.

Files are clustered by key group (the top seven bits of Spark's ``xxhash64`` of the key), so that the keys of one file are never
in another. A changed file is replaced as a whole (copy-on-write), which keeps the table plain: every Delta reader sees one row
per key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dagster_operators.operators.physical import quoted
from dagster_operators.operators.projection import DELETED
from dagster_operators.runtime.stage_work import StageWork
from dagster_operators.runtime.staged_files import StagedFiles
from dagster_operators.transactions.manifest import KEY_GROUPS, Change, FileEntry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GROUPS = 128
"""The number of key groups."""

ROWS_PER_FILE = 500_000
"""A file that would hold more rows than this is split into two key-group ranges."""


_SURELY = 16
"""With so many changed keys for each range, hardly a file is left without one, and looking for it costs a query."""


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
        kept = [changes.filter(f"NOT {DELETED}").drop(DELETED) if DELETED in changes.columns else changes]
        old = self._files.read(self._dataset, touched, self._schema)
        if old is not None:
            kept.append(self._without(old, changes))
        rows = kept[0] if len(kept) == 1 else kept[0].unionByName(kept[1])
        adds = self._write(rows, ranges)
        return Change(self._dataset, adds, tuple(file.path for file in touched))

    def _current_ranges(self) -> int:
        """How many ranges the files are divided into; 0 if a file does not say (someone else has written the table since)."""
        found = {file.key_groups for file in self._before}
        widths = {groups[1] - groups[0] + 1 if groups else 0 for groups in found}
        if not widths:
            return 1
        width = widths.pop()
        return 0 if widths or width == 0 else GROUPS // width

    def _ranges(self, changed: int) -> int:
        rows = changed + sum(file.rows for file in self._before)
        ranges = max(self._current_ranges(), 1)
        while ranges < GROUPS and rows > ranges * ROWS_PER_FILE:
            ranges *= 2
        return ranges

    def _touched(self, changes: DataFrame, changed: int, ranges: int) -> list[FileEntry]:
        if ranges == 1 or self._current_ranges() != ranges or changed >= ranges * _SURELY:
            return list(self._before)
        labels = {row[0] for row in changes.selectExpr(f"{self._label(ranges)} AS label").distinct().collect()}
        return [
            file for file in self._before if file.key_groups and f"{file.key_groups[0]:03d}-{file.key_groups[1]:03d}" in labels
        ]

    def _without(self, old: DataFrame, changes: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        if not self._keys:
            return old.filter("false")
        keys = changes.selectExpr(*self._keys).alias("new")
        same = " AND ".join(f"old.{key} <=> new.{key}" for key in self._keys)
        return old.alias("old").join(keys, F.expr(same), "left_anti")

    def _label(self, ranges: int) -> str:
        width = GROUPS // ranges
        labels = ", ".join(f"'{low:03d}-{low + width - 1:03d}'" for low in range(0, GROUPS, width))
        group = f"CAST((shiftright(xxhash64({', '.join(self._keys)}), 57) + 64) div {width} AS INT)" if self._keys else "0"
        return f"element_at(array({labels}), {group} + 1)"

    def _write(self, rows: DataFrame, ranges: int) -> tuple[FileEntry, ...]:
        labelled = rows.selectExpr("*", f"{self._label(ranges)} AS `{KEY_GROUPS}`")
        spread = labelled.coalesce(1) if ranges == 1 else labelled.repartition(ranges, f"`{KEY_GROUPS}`")
        return self._files.write(spread, self._dataset, f"{self._directory}/table", by=[KEY_GROUPS])
