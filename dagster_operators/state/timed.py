"""Rows by event time: what an operator does with a ``TimeState``.

Ranges of time are read without opening the files whose times lie outside. ``delete_before`` is stored as one row for each key
group of the subtask, marked as deleted and with the time, so that it keeps its meaning at any parallelism.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from dagster_operators.graph.key_group import KEY_GROUPS
from dagster_operators.graph.state_tables import DELETED
from dagster_operators.state.handle import Handle
from dagster_operators.state.key_hash import group_bounds, key_groups, lowest_hash
from dagster_operators.state.layers import Layers
from dagster_operators.state.ranges import column_times, micros
from dagster_operators.state.run import Run, joined, rows_of_keys, slices
from dagster_operators.time.watermark import MIN_WATERMARK

_BLOCK = 4096
"""So many rows without a key go to one key group before the next one gets some."""


class TimeHandle(Handle):
    """The rows of one :class:`~dagster_operators.TimeState` that belong to this subtask.

    >>> from dagster_operators import TimeState
    >>> from dagster_operators.state.store import StateStore
    >>> rows = StateStore({"rows": TimeState("v long, t bigint", time="t")}, watermark=10)["rows"]
    >>> rows.append(pa.table({"v": [1, 2, 3], "t": [30, 9, 10]}))
    >>> rows.scan().to_pylist()
    [{'v': 3, 't': 10}, {'v': 1, 't': 30}]
    >>> rows.delete_before(20)
    >>> rows.range(0, 100).to_pylist()
    [{'v': 1, 't': 30}]
    """

    def __init__(self, layers: Layers) -> None:
        super().__init__(layers)
        self._time = str(self._part.declaration.time)
        self._appended: list[Run] = []  # not sorted, in the order of appending
        self._count = 0
        self._floor = MIN_WATERMARK
        self._spill_floors: list[int] = []
        by = self._part.placed_by
        self._by = self._part.key or (by if by and set(by) <= set(self._part.schema.names) else ())

    def append(self, rows: Any) -> None:
        """Add rows.

        Args:
            rows: A record batch or table with all columns of the state; others are ignored.

        Raises:
            SchemaError: A column is missing or does not fit, or a row has no time.
        """
        columns = dict(zip(self._part.schema.names, self._part.columns(rows, self._part.schema.names), strict=True))
        time = columns[self._time]
        if time.null_count:
            raise self._part.error("a row without a time cannot be added", self._time, "give it one, or leave the row out")
        if not len(time):
            return
        hashes = self._hash(columns, len(time))
        table = pa.record_batch({DELETED: pa.repeat(False, len(time)), **columns})  # noqa: FBT003
        self._appended.append(Run(hashes, table))
        while len(self._appended) > 1 and len(self._appended[-2]) <= 2 * len(self._appended[-1]):
            last = self._appended.pop()
            self._appended[-1] = _after(self._appended[-1], last)
        self.spill_if_large(sum(run.table.nbytes for run in self._appended))

    def _hash(self, columns: dict[str, Any], count: int) -> np.ndarray:
        """By the key, or by what the stream is distributed by; rows without either stay with the subtask, in their order."""
        if self._by:
            return self._part.hash([columns[name] for name in self._by], self._by)
        numbers = np.arange(self._count, self._count + count)
        self._count += count
        own = self._part.owner
        # What all rows come to one subtask for belongs to the first one, whatever the number of subtasks is.
        low, high = (0, 1) if self._part.declaration.placed_by == () else group_bounds(own.subtask, own.parallelism)
        groups = low + (numbers // _BLOCK) % (high - low)
        return ((groups - KEY_GROUPS // 2) << 57) + ((own.epoch & 0xFFFFFF) << 32) + numbers

    def range(self, start: int | datetime | None, end: int | datetime | None, keys: Any = None) -> pa.Table:
        """The rows with a time from ``start`` up to but not including ``end``, by time, of one time by hash, then as appended.

        Args:
            start: As a datetime or in microseconds since 1970; None for no bound.
            end: The same.
            keys: A record batch or table with the key's columns, to get the rows of these keys only.
        """
        low = MIN_WATERMARK if start is None else micros(start)
        high = None if end is None else micros(end)
        wanted = self._wanted(keys)
        found = [part for run, floors in self._relevant(low, high) if len(part := self._selected(run, floors, low, high, wanted))]
        if not found:
            return self._part.schema.empty_table()
        rows = found[0]
        for run in found[1:]:
            rows = _after(rows, run)
        order = np.lexsort((rows.hashes, column_times(rows.table.column(self._time))))
        columns = [column.take(pa.array(order)) for column in rows.columns(self._part.schema.names)]
        return pa.table(columns, schema=self._part.schema)

    def scan(self, range: tuple[Any, Any] | None = None, *, column: str | None = None) -> pa.Table:  # noqa: A002
        """All rows by time, or those of a range of time (or of the values of another column, then in no order)."""
        if column not in (None, self._time):
            return super().scan(range, column=column)
        return self.range(*(range or (None, None)))

    def delete_before(self, time: int | datetime) -> None:
        """Remove all rows there are with a time before this one.

        Args:
            time: As a datetime or in microseconds since 1970.
        """
        before = micros(time)
        self._floor = max(self._floor, before)
        self._spill_floors = [max(floor, before) for floor in self._spill_floors]
        kept = (run.take(np.flatnonzero(column_times(run.table.column(self._time)) >= before)) for run in self._appended)
        self._appended = [run for run in kept if len(run)]

    def written(self) -> Run:
        """What this epoch appended and deleted since the last spill."""
        own = self._part.owner
        rows = [_sorted(run) for run in self._appended]
        markers = (
            [self._markers(range(*group_bounds(own.subtask, own.parallelism)), self._floor)]
            if self._floor > MIN_WATERMARK
            else []
        )
        if not rows and not markers:
            return self._markers(range(0), 0)
        return joined([*markers, *rows]).at((own.epoch, own.epoch), own.subtask)

    def forget_written(self) -> None:
        """Begin anew, because what was written is kept elsewhere."""
        self._spill_floors.insert(0, MIN_WATERMARK)
        self._appended = []

    def _markers(self, groups: Sequence[int], floors: int | np.ndarray) -> Run:
        """Rows that say that what is older and before a time is gone, one for each key group."""
        hashes = np.array([lowest_hash(group) for group in groups], np.int64)
        count = len(hashes)
        kind = self._part.schema.field(self._time).type
        times = pa.array(np.full(count, floors, np.int64)).cast(kind)
        columns = {field.name: times if field.name == self._time else pa.nulls(count, field.type) for field in self._part.schema}
        return Run(hashes, pa.record_batch({DELETED: pa.repeat(True, count), **columns}), np.ones(count, bool))  # noqa: FBT003

    def changes(self) -> Iterator[Run]:
        """What this epoch wrote, in slices that ascend by hash."""
        spilled = [
            self._selected(run, np.full(KEY_GROUPS, floor), MIN_WATERMARK, None, None)
            for run, floor in zip(self._layers.spilled, self._spill_floors, strict=True)
        ]
        return self.merged([self.written(), *spilled], oldest=False)

    def live(self) -> Iterator[Run]:
        """The rows that count, in slices that ascend by hash."""
        return self._merged([(_sorted(run), floors) for run, floors in self._relevant(MIN_WATERMARK, None)], None)

    def merged(self, runs: Sequence[Run], *, oldest: bool) -> Iterator[Run]:
        """The rows of runs that count; the markers stay unless nothing is older."""
        left = np.full(KEY_GROUPS, MIN_WATERMARK)
        for run in runs:
            self._raise(left, run)
        groups = np.flatnonzero(left > MIN_WATERMARK)
        markers = None if oldest else self._markers(groups.tolist(), left[groups])
        return self._merged(self._with_floors(runs)[::-1], markers)

    def _merged(self, runs: list[tuple[Run, np.ndarray]], markers: Run | None) -> Iterator[Run]:
        """The rows that count of sorted runs, oldest first, and the markers."""
        for first, last in slices([run for run, _ in runs], self.slice_rows):
            parts = [self._selected(run.between(first, last), floors, MIN_WATERMARK, None, None) for run, floors in runs]
            if markers is not None:
                parts.append(markers.between(first, last))
            parts = [part for part in parts if len(part)]
            if parts:
                yield joined(parts)

    def _with_floors(self, runs: Sequence[Run]) -> list[tuple[Run, np.ndarray]]:
        """Runs, newest first, each with the time for each key group before which newer runs have deleted its rows."""
        found = []
        newer = np.full(KEY_GROUPS, MIN_WATERMARK)
        pending: list[Run] = []
        written: object = None
        for run in runs:
            at = (run.epochs, run.round)
            if at != written:  # what is of the same epochs and round was written by other subtasks, for other key groups
                for other in pending:
                    self._raise(newer, other)
                pending, written = [], at
            found.append((run, newer.copy()))
            pending.append(run)
        return found

    def _raise(self, floors: np.ndarray, run: Run) -> None:
        """Take the markers of a run into account."""
        if run.deleted is not None:
            markers = np.flatnonzero(run.deleted)
            times = column_times(run.table.column(self._time).take(pa.array(markers)))
            np.maximum.at(floors, key_groups(run.hashes[markers]), times)

    def _relevant(self, low: int, high: int | None) -> list[tuple[Run, np.ndarray]]:
        """The runs that may hold rows of a range of time, oldest first, with the deletions that apply to them."""
        nothing = np.full(KEY_GROUPS, MIN_WATERMARK)
        own = np.full(KEY_GROUPS, self._floor)
        cutoff = self._part.cutoff
        newest = [(run, nothing) for run in reversed(self._appended)]
        newest += [(run, np.full(KEY_GROUPS, floor)) for run, floor in zip(self._layers.spilled, self._spill_floors, strict=True)]
        files = [
            file
            for file in self._layers.files
            if file.deletes or _overlaps(file.low_time, file.high_time, max(low, cutoff), high)
        ]
        older = [*self._layers.loaded, *(self._layers.open(file) for file in files)]
        newest += [(run, np.maximum(floors, own)) for run, floors in self._with_floors(older)]
        return newest[::-1]

    def _selected(self, run: Run, floors: np.ndarray, low: int, high: int | None, wanted: Run | None) -> Run:
        """The rows of a run that count and lie in a range of time and among the keys wanted."""
        if not len(run):
            return run
        times = column_times(run.table.column(self._time))
        rows = times >= max(low, self._part.cutoff)
        if (floors > MIN_WATERMARK).any():
            rows &= times >= floors[key_groups(run.hashes)]
        if high is not None:
            rows &= times < high
        if run.deleted is not None:
            rows &= ~run.deleted
        if wanted is None and rows.all():
            return run
        kept = np.flatnonzero(rows)
        if wanted is not None:
            among, _ = rows_of_keys(run, wanted, self._part.key)
            kept = np.sort(among[rows[among]])
        return replace(run.take(kept), deleted=None)

    def _wanted(self, keys: Any) -> Run | None:
        """The keys that a range is narrowed to, sorted by their hash."""
        if keys is None:
            return None
        if not self._part.key:
            raise self._part.error("the state has no key to narrow a range to", None, "declare one by key= of TimeState")
        columns = self._part.columns(keys, self._part.key)
        return _sorted(Run(self._part.hash(columns), pa.record_batch(columns, names=list(self._part.key))))


def _sorted(run: Run) -> Run:
    """A run whose rows are sorted by hash, those of one hash as they were."""
    return run if run.is_sorted else run.take(np.argsort(run.hashes, kind="stable"))


def _after(first: Run, second: Run) -> Run:
    """The rows of one run after those of another, not sorted."""
    return Run(np.concatenate([first.hashes, second.hashes]), pa.concat_batches([first.table, second.table]))


def _overlaps(low: int | None, high: int | None, start: int, end: int | None) -> bool:
    """Whether times from ``low`` to ``high`` may lie in a range."""
    return low is None or high is None or (high >= start and (end is None or low < end))
