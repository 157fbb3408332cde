"""A list of rows per key: what an operator does with a ``ListState``.

Every row has an ordinal, the epoch and a number in it, which orders the rows of a key for ever. A deletion is a row, too, and
hides the rows of its key that have a smaller ordinal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dagster_operators.graph.state_tables import DELETED, ORDINAL
from dagster_operators.state.handle import Handle
from dagster_operators.state.key_hash import fixed_values
from dagster_operators.state.layers import Layers
from dagster_operators.state.ranges import times_of
from dagster_operators.state.run import Run, first_of_each_key, joined, rows_of_keys, slices

_BITS = 32
"""The lower bits of an ordinal are the number in the epoch."""


class ListHandle(Handle):
    """The lists of one :class:`~dagster_operators.ListState` that belong to this subtask.

    >>> from dagster_operators import ListState
    >>> from dagster_operators.state.store import StateStore
    >>> lists = StateStore({"lists": ListState("k string, v long", key="k")})["lists"]
    >>> lists.append(pa.table({"k": ["a", "b", "a"], "v": [1, 2, 3]}))
    >>> lists.get(pa.table({"k": ["a"]})).to_pylist()
    [{'k': 'a', 'v': 1}, {'k': 'a', 'v': 3}]
    >>> lists.delete(pa.table({"k": ["a"]}))
    >>> lists.scan().to_pylist()
    [{'k': 'b', 'v': 2}]
    """

    def __init__(self, layers: Layers) -> None:
        super().__init__(layers)
        self._runs: list[Run] = []
        self._count: int | None = None

    def append(self, rows: Any) -> None:
        """Add rows at the end of their keys' lists.

        Args:
            rows: A record batch or table with all columns of the state; others are ignored.

        Raises:
            SchemaError: A column is missing or does not fit.
        """
        columns = dict(zip(self._part.schema.names, self._part.columns(rows, self._part.schema.names), strict=True))
        self._add(columns, deleted=False)

    def delete(self, keys: Any) -> None:
        """Empty the lists of keys.

        Args:
            keys: A record batch or table with the key's columns; others are ignored.
        """
        given = dict(zip(self._part.key, self._part.columns(keys, self._part.key), strict=True))
        count = len(next(iter(given.values())))
        nothing = {name: pa.nulls(count, self._part.schema.field(name).type) for name in self._part.values}
        columns = given | nothing
        self._add({name: columns[name] for name in self._part.schema.names}, deleted=True)

    def _add(self, columns: dict[str, Any], *, deleted: bool) -> None:
        keys = [columns[name] for name in self._part.key]
        count = len(keys[0])
        if not count:
            return
        if self._count is None:
            self._count = self._first_number()
        ordinals = (self._part.owner.epoch << _BITS) + np.arange(self._count, self._count + count)
        self._count += count
        hashes = self._part.hash(keys)
        order = np.argsort(hashes, kind="stable")
        everything = {DELETED: pa.repeat(deleted, count), ORDINAL: pa.array(ordinals), **columns}
        self._runs.append(Run(hashes, pa.record_batch(everything), np.ones(count, bool) if deleted else None).take(order))
        while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            last = self._runs.pop()
            self._runs[-1] = joined([self._runs[-1], last])
        self.spill_if_large(sum(run.table.nbytes for run in self._runs))

    def _first_number(self) -> int:
        """The number of the first row: in a loop, behind those of the epoch's earlier rounds."""
        epoch, earlier = self._part.owner.epoch, list[int]()
        for file in self._layers.files if self._part.owner.round else ():
            if file.last_epoch == epoch and len(run := self._layers.open(file)):
                earlier.append(int(_ordinals(run).max()))
        return max(0, max(earlier, default=-1) + 1 - (epoch << _BITS))

    def get(self, keys: Any) -> pa.Table:
        """All rows of some keys, in the order in which they were appended.

        Args:
            keys: A record batch or table with the key's columns; others are ignored, and a key may repeat.

        Raises:
            SchemaError: A key column is missing, has another type, or a key belongs to another subtask.
        """
        wanted = self._keys(self._part.columns(keys, self._part.key))
        found = [self._found(run, wanted) for run in self._newest_first()]
        found = [part for part in found if len(part)]
        if not found:
            return self._part.schema.empty_table()
        rows = joined(found[::-1])
        rows = rows.take(self._live(rows))
        order = pa.array(np.lexsort((rows.hashes, _ordinals(rows))))
        return pa.table([column.take(order) for column in rows.columns(self._part.schema.names)], schema=self._part.schema)

    def _keys(self, columns: list[Any]) -> Run:
        """Keys, each once, sorted by hash."""
        run = Run(self._part.hash(columns), pa.record_batch(columns, names=list(self._part.key)))
        run = run.take(np.argsort(run.hashes, kind="stable"))
        return run.take(first_of_each_key(run, self._part.key))

    def _found(self, run: Run, wanted: Run) -> Run:
        rows, _ = rows_of_keys(run, wanted, self._part.key)
        return run.take(rows)

    def _live(self, run: Run) -> np.ndarray:
        """The rows of a run that are neither deleted nor expired."""
        times = times_of(self._part, run.table)
        live = np.ones(len(run), bool) if times is None else times >= self._part.cutoff
        if run.deleted is not None and run.deleted.any():
            live &= ~self._hidden(run)
        return np.flatnonzero(live)

    def _hidden(self, run: Run) -> np.ndarray:
        """Deletions, and the rows that come before a deletion of their key."""
        deletions = _deletions(run)
        gone = run.take(deletions)
        keys = gone.take(first_of_each_key(gone, self._part.key))
        latest = np.full(len(keys), -1, np.int64)
        _, which = rows_of_keys(gone, keys, self._part.key)
        np.maximum.at(latest, which, _ordinals(gone))
        rows, which = rows_of_keys(run, keys, self._part.key)
        hidden = np.zeros(len(run), bool)
        hidden[rows] = _ordinals(run)[rows] <= latest[which]
        return hidden

    def _newest_first(self) -> list[Run]:
        return [*self._runs[::-1], *self._layers.runs]

    def written(self) -> Run:
        """What this epoch appended and deleted since the last spill."""
        own = self._part.owner
        if not self._runs:
            columns = {DELETED: pa.array([], pa.bool_()), ORDINAL: pa.array([], pa.int64())}
            empty = {field.name: pa.array([], field.type) for field in self._part.schema}
            return Run(np.zeros(0, np.int64), pa.record_batch(columns | empty))
        return joined(self._runs).at((own.epoch, own.epoch), own.subtask)

    def forget_written(self) -> None:
        """Begin anew, because what was written is kept elsewhere."""
        self._runs = []

    def merged(self, runs: Sequence[Run], *, oldest: bool) -> Iterator[Run]:
        """The rows of runs that count, and each key's last deletion unless nothing is older."""
        for first, last in slices(runs, self.slice_rows):
            parts = [part for run in runs[::-1] if len(part := run.between(first, last))]
            if parts:
                together = joined(parts)
                kept = self._live(together)
                if not oldest and together.deleted is not None:
                    kept = np.sort(np.concatenate([kept, self._last_deletions(together)]))
                yield together if len(kept) == len(together) else together.take(kept)

    def _last_deletions(self, run: Run) -> np.ndarray:
        """The last deletion of each key, as rows."""
        deletions = _deletions(run)[::-1]
        backwards = run.take(deletions)
        order = np.argsort(backwards.hashes, kind="stable")
        last: np.ndarray = deletions[order[first_of_each_key(backwards.take(order), self._part.key)]]
        return last

    def load_order(self, stored: pa.Table, hashes: np.ndarray) -> np.ndarray:
        """By hash, then as appended."""
        return np.lexsort((stored.column(ORDINAL).to_numpy(), hashes))


def _deletions(run: Run) -> np.ndarray:
    return np.zeros(0, np.int64) if run.deleted is None else np.flatnonzero(run.deleted)


def _ordinals(run: Run) -> np.ndarray:
    return fixed_values(run.table.column(ORDINAL), np.dtype(np.int64))
