"""The files that one write left, taken together: the engine decides how many they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from dagster_operators.transactions.manifest import FileEntry


@dataclass(frozen=True)
class StoredRun:
    """The files of one folder."""

    entries: tuple[FileEntry, ...]

    @property
    def rows(self) -> int:
        """How many rows they have."""
        return sum(entry.rows for entry in self.entries)


def runs_of(files: Iterable[FileEntry]) -> list[StoredRun]:
    """Files by the write that left them.

    >>> [len(run.entries) for run in runs_of([FileEntry("e1/a/1", 9, 1), FileEntry("e1/a/2", 9, 1), FileEntry("e1/b/1", 9, 1)])]
    [2, 1]
    """
    runs: dict[str, list[FileEntry]] = defaultdict(list)
    for file in files:
        runs[file.path.rpartition("/")[0]].append(file)
    return [StoredRun(tuple(entries)) for entries in runs.values()]
