"""A run: rows of a state table sorted by the hash of their key, which is what its files, spills and merges are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dagster_operators.graph.state_tables import DELETED, HASH
from dagster_operators.state.columns import same_rows
from dagster_operators.state.key_hash import fixed_values


@dataclass(frozen=True)
class Run:
    """Rows sorted by hash.

    Attributes:
        hashes: The hash of each row, ascending.
        table: The other stored columns, as a record batch.
        deleted: Which rows only say that something is gone; None when no row does.
        epochs: The first and the last epoch whose changes it holds.
        subtask: The subtask that wrote it.
        round: The last round of the last epoch, for an operator in a loop.
    """

    hashes: np.ndarray
    table: Any
    deleted: np.ndarray | None = None
    epochs: tuple[int, int] = (0, 0)
    subtask: int = 0
    round: int = 0

    @classmethod
    def of(cls, stored: Any, epochs: tuple[int, int] = (0, 0), subtask: int = 0, number: int = 0) -> Run:
        """The run of a record batch with all stored columns, of a round with this number."""
        hashes = fixed_values(stored.column(HASH), np.dtype(np.int64))
        return cls(hashes, stored.drop_columns([HASH]), deleted_rows(stored.column(DELETED)), epochs, subtask, number)

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def is_sorted(self) -> bool:
        """Whether the rows are sorted by hash, as they are except while they are being collected."""
        return bool((self.hashes[1:] >= self.hashes[:-1]).all())

    def at(self, epochs: tuple[int, int], subtask: int) -> Run:
        """The same rows as those of other epochs and another subtask."""
        return replace(self, epochs=epochs, subtask=subtask)

    def between(self, low: int, high: int) -> Run:
        """The part of the run with hashes from ``low`` to ``high``, both included."""
        if not len(self) or (self.hashes[0] >= low and self.hashes[-1] <= high):
            return self
        start, end = np.searchsorted(self.hashes, low, "left"), np.searchsorted(self.hashes, high, "right")
        return self.part(int(start), int(end))

    def part(self, start: int, end: int) -> Run:
        """Rows from one number up to another, without a copy."""
        deleted = None if self.deleted is None else self.deleted[start:end]
        return Run(self.hashes[start:end], self.table.slice(start, end - start), deleted, self.epochs, self.subtask, self.round)

    def take(self, rows: np.ndarray) -> Run:
        """A copy of some rows, given in ascending order."""
        deleted = None if self.deleted is None else self.deleted[rows]
        return Run(self.hashes[rows], self.table.take(pa.array(rows)), deleted, self.epochs, self.subtask, self.round)

    def columns(self, names: Sequence[str]) -> list[Any]:
        """Some of the columns, as arrays."""
        return [self.table.column(name) for name in names]

    def find(self, hashes: np.ndarray, keys: list[Any], names: Sequence[str], places: np.ndarray | None = None) -> np.ndarray:
        """The first row of each key, -1 for those that are not here.

        Args:
            hashes: The keys' hashes, ascending.
            keys: The keys' columns.
            names: What the columns are called here.
            places: Where in the columns the key of each hash is; in the same order if None.
        """
        found = np.full(len(hashes), -1, np.int64)
        if not len(self):
            return found
        start, end = np.searchsorted(hashes, self.hashes[0]), np.searchsorted(hashes, self.hashes[-1], "right")
        looking = np.arange(start, end)
        rows = np.zeros(len(hashes), np.int64)
        rows[start:end] = np.searchsorted(self.hashes, hashes[start:end])
        while True:
            at = rows[looking]
            inside = at < len(self.hashes)
            looking, at = looking[inside], at[inside]
            same = self.hashes[at] == hashes[looking]
            looking, at = looking[same], at[same]
            if not looking.size:
                return found
            here, there = pa.array(at), pa.array(looking if places is None else places[looking])
            equal = same_rows([column.take(here) for column in self.columns(names)], [key.take(there) for key in keys])
            found[looking[equal]] = at[equal]
            looking = looking[~equal]  # another key with the same hash: look at the next row
            rows[looking] += 1


def deleted_rows(column: Any) -> np.ndarray | None:
    """Which rows are deleted, None when none is."""
    if not pc.any(column, min_count=0).as_py():
        return None
    deleted: np.ndarray = column.fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003
    return deleted


def joined(runs: Sequence[Run]) -> Run:
    """The rows of several runs, sorted by hash; of equal hashes those of the earlier run in the sequence come first."""
    if len(runs) == 1:
        return runs[0]
    hashes = np.concatenate([run.hashes for run in runs])
    order = np.argsort(hashes, kind="stable")
    table = pa.concat_batches([run.table for run in runs]).take(pa.array(order))
    deleted = None
    if any(run.deleted is not None for run in runs):
        marks = [np.zeros(len(run), bool) if run.deleted is None else run.deleted for run in runs]
        deleted = np.concatenate(marks)[order]
    epochs = min(run.epochs[0] for run in runs), max(run.epochs[1] for run in runs)
    return Run(hashes[order], table, deleted, epochs, min(run.subtask for run in runs))


def rows_of_keys(run: Run, wanted: Run, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The rows of a run that have one of some keys, and which of the keys each has.

    Args:
        run: The rows, sorted by hash or not.
        wanted: The keys, sorted by hash.
        names: The key's columns.
    """
    if run.is_sorted:
        hashes = np.unique(wanted.hashes)
        starts, ends = np.searchsorted(run.hashes, hashes, "left"), np.searchsorted(run.hashes, hashes, "right")
        counts = ends - starts
        rows = np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    else:
        rows = np.flatnonzero(np.isin(run.hashes, wanted.hashes))
        rows = rows[np.argsort(run.hashes[rows], kind="stable")]
    indices = pa.array(rows)
    which = wanted.find(run.hashes[rows], [column.take(indices) for column in run.columns(names)], names)
    return rows[which >= 0], which[which >= 0]


def first_of_each_key(run: Run, names: Sequence[str]) -> np.ndarray:
    """The rows of a run that are the first of their key."""
    keep = np.ones(len(run), bool)
    again = np.flatnonzero(run.hashes[1:] == run.hashes[:-1]) + 1
    if not again.size:
        return np.arange(len(run))
    keys = run.columns(names)
    one, other = pa.array(again), pa.array(again - 1)
    same = same_rows([key.take(one) for key in keys], [key.take(other) for key in keys])
    if same.all():
        keep[again] = False
        return np.flatnonzero(keep)
    # Different keys share a hash: within each stretch of one hash, compare every row with the first ones kept before it.
    edges = again[np.flatnonzero(np.diff(again, prepend=-1) > 1)] - 1
    for start in edges.tolist():
        end = int(np.searchsorted(run.hashes, run.hashes[start], "right"))
        firsts: list[int] = []
        for row in range(start, end):
            against = pa.array([row] * len(firsts), pa.int64())
            if firsts and same_rows([key.take(pa.array(firsts)) for key in keys], [key.take(against) for key in keys]).any():
                keep[row] = False
            else:
                firsts.append(row)
    return np.flatnonzero(keep)


def slices(runs: Sequence[Run], limit: int) -> list[tuple[int, int]]:
    """Ranges of the hash, ascending, that hold all rows of sorted runs and at most ``limit`` of them each.

    A range that is too large is cut at the middle of its longest run; one that is a single hash is kept whole.

    >>> run = Run(np.array([-4, 1, 2, 3, 3, 3]), None)
    >>> slices([run], 2)
    [(-4, 0), (1, 2), (3, 3)]
    """
    runs = [run for run in runs if len(run)]
    if not runs:
        return []
    everything = min(int(run.hashes[0]) for run in runs), max(int(run.hashes[-1]) for run in runs)
    waiting = [(*everything, [(0, len(run)) for run in runs])]
    done = []
    while waiting:
        first, last, parts = waiting.pop()
        if sum(end - start for start, end in parts) <= limit or first == last:
            done.append((first, last))
            continue
        start, end, longest = max(((start, end, run) for run, (start, end) in zip(runs, parts, strict=True)), key=_length)
        middle = max(int(longest.hashes[(start + end) // 2]), first + 1)
        cuts = [
            start + int(np.searchsorted(run.hashes[start:end], middle)) for run, (start, end) in zip(runs, parts, strict=True)
        ]
        waiting.append((middle, last, [(cut, end) for cut, (_, end) in zip(cuts, parts, strict=True)]))
        waiting.append((first, middle - 1, [(start, cut) for cut, (start, _) in zip(cuts, parts, strict=True)]))
    return done


def _length(part: tuple[int, int, Run]) -> int:
    return part[1] - part[0]
