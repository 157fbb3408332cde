"""One row per key: what an operator does with a ``KeyedState`` (and with a ``GlobalState``, which differs in who sees what)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dagster_operators.state.columns import to_numpy
from dagster_operators.state.declarations import DELETED, HASH
from dagster_operators.state.key_table import KeyTable
from dagster_operators.state.layers import Layers
from dagster_operators.state.ranges import Range, in_range, times_of
from dagster_operators.state.run import Run, first_of_each_key, joined, slices

SLICE_ROWS = 1_000_000
"""How many rows are in memory at most while state is scanned or merged."""


class KeyedHandle:
    """The rows of one :class:`~dagster_operators.KeyedState` that belong to this subtask.

    Args:
        layers: What is stored, and what this epoch adds.

    >>> from dagster_operators import KeyedState
    >>> from dagster_operators.state.store import StateStore
    >>> totals = StateStore({"totals": KeyedState("k string, total long", key="k")})["totals"]
    >>> totals.put(pa.table({"k": ["a", "b", "a"], "total": [1, 2, 3]}))
    >>> totals.get(pa.table({"k": ["c", "a"]})).to_pylist()
    [{'k': 'c', 'total': None}, {'k': 'a', 'total': 3}]
    >>> totals.delete(pa.table({"k": ["a"]}))
    >>> totals.scan().to_pylist()
    [{'k': 'b', 'total': 2}]
    """

    def __init__(self, layers: Layers) -> None:
        self._layers = layers
        self._place = layers.place
        self._table = KeyTable(self._place.schema, self._place.declaration.key)

    def get(self, keys: Any) -> pa.Table:
        """The row of each key, in the order of the keys given; where there is none, all but the key is null.

        Args:
            keys: A record batch or table with the key's columns; others are ignored. Keys may repeat.

        Raises:
            SchemaError: A key column is missing, has another type, or a key belongs to another subtask.
        """
        columns = self._place.columns(keys, self._place.key)
        found, _ = self._lookup(columns, self._place.values)
        values = dict(zip(self._place.key, columns, strict=True)) | found
        names = self._place.schema.names
        return pa.table([values[name] for name in names], names=names)

    def contains(self, keys: Any) -> np.ndarray:
        """Which of the keys have a row, as a numpy array of booleans."""
        _, there = self._lookup(self._place.columns(keys, self._place.key), ())
        return there

    def put(self, rows: Any) -> None:
        """Store rows, each in place of what its key had; of equal keys the last row counts.

        Args:
            rows: A record batch or table with all columns of the state; others are ignored.

        Raises:
            SchemaError: A column is missing or does not fit.
        """
        columns = self._place.columns(rows, self._place.schema.names)
        if len(columns[0]):
            self._table.put(self._place.hash(self._keys_of(columns)), columns)
            self._spill_if_large()

    def delete(self, keys: Any) -> None:
        """Remove the rows of keys; those that have none are no matter."""
        given = dict(zip(self._place.key, self._place.columns(keys, self._place.key), strict=True))
        rows = len(next(iter(given.values())))
        if rows:
            columns = [given.get(field.name, None) for field in self._place.schema]
            filled = [pa.nulls(rows, f.type) if c is None else c for f, c in zip(self._place.schema, columns, strict=True)]
            self._table.delete(self._place.hash(list(given.values())), filled)
            self._spill_if_large()

    def scan(self, range: tuple[Any, Any] | None = None, *, column: str | None = None) -> pa.Table:  # noqa: A002
        """All rows, or those with a value from ``range[0]`` up to but not including ``range[1]``, in the order of their hashes.

        Args:
            range: The bounds; None is no bound.
            column: What they are of: the state's time if it has one, otherwise the first column of its key.
        """
        return pa.Table.from_batches(list(self.scan_batches(range, column=column)), self._place.schema)

    def scan_batches(self, range: tuple[Any, Any] | None = None, *, column: str | None = None) -> Iterator[Any]:  # noqa: A002
        """The rows of ``scan`` piece by piece, each of at most a million rows, so that memory stays bounded."""
        names = self._place.schema.names
        wanted = Range.of(self._place, range, column)
        for run in self.live(self._sources()):
            yield in_range(run.table.select(names), wanted)

    def live(self, runs: Sequence[Run]) -> Iterator[Run]:
        """The rows that count of runs given newest first: no replaced, deleted or expired ones."""
        for run in self.merged(runs):
            rows = np.ones(len(run), bool) if run.deleted is None else ~run.deleted
            if (times := times_of(self._place, run.table)) is not None:
                rows &= times >= self._place.cutoff
            yield run if rows.all() else run.take(np.flatnonzero(rows))

    def merged(self, runs: Sequence[Run]) -> Iterator[Run]:
        """Each key's newest row of runs given newest first, in slices that are ascending by hash."""
        runs = [run for run in runs if len(run)]
        if not runs:
            return
        low, high = min(int(run.hashes[0]) for run in runs), max(int(run.hashes[-1]) for run in runs)
        for first, last in slices(runs, low, high, SLICE_ROWS):
            parts = [part for run in runs if len(part := run.between(first, last))]
            if parts:
                together = joined(parts)
                kept = first_of_each_key(together, self._place.key)
                yield together if len(kept) == len(together) else together.take(kept)

    def written(self) -> Run:
        """What this epoch wrote since the last spill, as a run."""
        order = np.argsort(self._table.hashes, kind="stable")
        deleted = self._table.deleted[order]
        columns = {name: self._table.take(order, name) for name in self._place.schema.names}
        table = pa.record_batch({DELETED: pa.array(deleted), **columns})
        epoch = self._place.owner.epoch
        return Run(
            self._table.hashes[order], table, deleted if deleted.any() else None, (epoch, epoch), self._place.owner.subtask
        )

    def forget_written(self) -> None:
        """Begin anew, because what was written is stored elsewhere."""
        self._table = KeyTable(self._place.schema, self._place.declaration.key)

    def _sources(self) -> list[Run]:
        return ([self.written()] if len(self._table) else []) + self._layers.runs

    def _spill_if_large(self) -> None:
        if self._table.nbytes > self._layers.memory_limit:
            self._layers.spill(self.written())
            self.forget_written()

    def _keys_of(self, columns: list[Any]) -> list[Any]:
        return [column for name, column in zip(self._place.schema.names, columns, strict=True) if name in self._place.key]

    def _lookup(self, keys: list[Any], names: Sequence[str]) -> tuple[dict[str, Any], np.ndarray]:
        """The values of keys in some columns, null where there is no row, and which keys have a row."""
        hashes = self._place.hash(keys)
        finds = self._find(hashes, keys)
        at = np.full(len(hashes), -1, np.int64)  # the place of each key's row in the pieces found, one after the other
        total = 0
        for find in finds:
            at[find.wanted] = np.arange(total, total + len(find.wanted))
            total += len(find.wanted)
        self._drop_expired(at, finds)
        there = at >= 0
        indices = pa.array(at, mask=~there)
        in_order = np.array_equal(at, np.arange(total))
        values = {}
        for name in names:
            pieces = [find.column(name) for find in finds]
            if not pieces:
                values[name] = pa.nulls(len(hashes), self._place.schema.field(name).type)
            else:
                together = pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)
                values[name] = together if in_order else together.take(indices)
        return values, there

    def _drop_expired(self, at: np.ndarray, finds: list[_Find]) -> None:
        time = self._place.declaration.time
        if time is None or not finds:
            return
        column = pa.concat_arrays([find.column(time) for find in finds])
        expired = (to_numpy(column) < self._place.cutoff) & pc.is_valid(column).to_numpy(zero_copy_only=False)
        at[(at >= 0) & expired[at]] = -1

    def _find(self, hashes: np.ndarray, keys: list[Any]) -> list[_Find]:
        """Where each key's newest row is, for those that have one that is not deleted."""
        finds = []
        rows = self._table.find(hashes, keys)
        here = rows >= 0
        live = np.flatnonzero(here & ~self._table.deleted[rows]) if len(self._table) else np.zeros(0, np.int64)
        if live.size:
            finds.append(_Find(live, rows[live], self._table))
        left = np.flatnonzero(~here)
        runs = self._layers.runs
        if not left.size or not runs:
            return finds
        left = left[np.argsort(hashes[left])]
        for run in runs:
            indices = pa.array(left)
            rows = run.find(hashes[left], [key.take(indices) for key in keys], self._place.key)
            here = rows >= 0
            found, rows = left[here], rows[here]
            if run.deleted is not None:
                live = ~run.deleted[rows]
                found, rows = found[live], rows[live]
            if found.size:
                finds.append(_Find(found, rows, run))
            left = left[~here]
            if not left.size:
                break
        return finds


class _Find:
    """Rows that a lookup found in one place."""

    def __init__(self, wanted: np.ndarray, rows: np.ndarray, source: KeyTable | Run) -> None:
        self.wanted = wanted
        self._rows = rows
        self._source = source

    def column(self, name: str) -> Any:
        """The values of the rows found."""
        if isinstance(self._source, Run):
            return self._source.table.column(name).take(pa.array(self._rows))
        return self._source.take(self._rows, name)


def stored_batch(run: Run, schema: pa.Schema) -> Any:
    """A run with all stored columns as a record batch, as it is written."""
    columns = {HASH: pa.array(run.hashes), **dict(zip(run.table.schema.names, run.table.columns, strict=True))}
    return pa.record_batch([columns[name] for name in schema.names], schema=schema)
