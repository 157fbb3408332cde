"""One row per key: what an operator does with a ``KeyedState`` (and with a ``GlobalState``, which differs in who sees what)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from dagster_operators.graph.state_tables import DELETED
from dagster_operators.state.columns import to_numpy
from dagster_operators.state.handle import Handle
from dagster_operators.state.key_table import KeyTable
from dagster_operators.state.layers import Layers
from dagster_operators.state.ranges import times_of
from dagster_operators.state.run import Run, first_of_each_key, joined, slices
from dagster_operators.state.scalars import Scalars


class KeyedHandle(Scalars, Handle):
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
        super().__init__(layers)
        self._table = KeyTable(self._part.schema, self._part.declaration.key)
        self._sought: _Sought | None = None

    def get(self, keys: Any) -> pa.Table:
        """The row of each key, in the order of the keys given; where there is none, all but the key is null.

        Args:
            keys: A record batch or table with the key's columns; others are ignored. Keys may repeat.

        Raises:
            SchemaError: A key column is missing, has another type, or a key belongs to another subtask.
        """
        columns = self._part.columns(keys, self._part.key)
        found, _ = self._lookup(columns, self._part.values)
        values = dict(zip(self._part.key, columns, strict=True)) | found
        names = self._part.schema.names
        return pa.table([values[name] for name in names], names=names)

    def contains(self, keys: Any) -> np.ndarray:
        """Which of the keys have a row, as a numpy array of booleans."""
        _, there = self._lookup(self._part.columns(keys, self._part.key), ())
        return there

    def put(self, rows: Any) -> None:
        """Store rows, each in place of what its key had; of equal keys the last row counts.

        Args:
            rows: A record batch or table with all columns of the state; others are ignored.

        Raises:
            SchemaError: A column is missing or does not fit.
        """
        columns = self._part.columns(rows, self._part.schema.names)
        if len(columns[0]):
            hashes, known = self._hash(self._keys_of(columns))
            self._table.put(hashes, columns, known)
            self.spill_if_large(self._table.nbytes)

    def delete(self, keys: Any) -> None:
        """Remove the rows of keys; those that have none are no matter."""
        given = dict(zip(self._part.key, self._part.columns(keys, self._part.key), strict=True))
        rows = len(next(iter(given.values())))
        if rows:
            columns = [given.get(field.name) for field in self._part.schema]
            filled = [pa.nulls(rows, f.type) if c is None else c for f, c in zip(self._part.schema, columns, strict=True)]
            self._table.delete(self._part.hash(list(given.values())), filled)
            self.spill_if_large(self._table.nbytes)

    def merged(self, runs: Sequence[Run], *, oldest: bool) -> Iterator[Run]:
        """Each key's newest row of runs given newest first; without those that are deleted or expired if nothing is older."""
        for first, last in slices(runs, self.slice_rows):
            parts = [part for run in runs if len(part := run.between(first, last))]
            if parts:
                together = joined(parts)
                kept = first_of_each_key(together, self._part.key)
                if oldest:
                    kept = kept[self._live(together, kept)]
                yield together if len(kept) == len(together) else together.take(kept)

    def _live(self, run: Run, rows: np.ndarray) -> np.ndarray:
        live = np.ones(len(rows), bool) if run.deleted is None else ~run.deleted[rows]
        times = times_of(self._part, run.table)
        return live if times is None else live & (times[rows] >= self._part.cutoff)

    def written(self) -> Run:
        """What this epoch wrote since the last spill, as a run."""
        order = np.argsort(self._table.hashes, kind="stable")
        deleted = self._table.deleted[order]
        columns = {name: self._table.take(order, name) for name in self._part.schema.names}
        table = pa.record_batch({DELETED: pa.array(deleted), **columns})
        epoch = self._part.owner.epoch
        return Run(self._table.hashes[order], table, deleted if deleted.any() else None, (epoch, epoch), self._part.owner.subtask)

    def forget_written(self) -> None:
        """Begin anew, because what was written is stored elsewhere."""
        self._table = KeyTable(self._part.schema, self._part.declaration.key)
        self._sought = None

    def _hash(self, keys: list[Any]) -> tuple[np.ndarray, np.ndarray | None]:
        """The hashes of keys, and their rows in the table if these keys were the last ones looked for.

        Text cannot be changed in place, so its hash stands; numbers may lie in someone's numpy array, so theirs is compared.
        """
        sought = self._sought
        if sought is None or not sought.is_for(keys):
            return self._part.hash(keys), None
        hashes = sought.hashes if sought.is_text else self._part.hash(keys)
        return hashes, sought.rows if np.array_equal(hashes, sought.hashes) else None

    def _keys_of(self, columns: list[Any]) -> list[Any]:
        return [column for name, column in zip(self._part.schema.names, columns, strict=True) if name in self._part.key]

    def _lookup(self, keys: list[Any], names: Sequence[str]) -> tuple[dict[str, Any], np.ndarray]:
        """The values of keys in some columns, null where there is no row, and which keys have a row."""
        hashes, _ = self._hash(keys)
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
                values[name] = pa.nulls(len(hashes), self._part.schema.field(name).type)
            else:
                together = pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)
                values[name] = together if in_order else together.take(indices)
        return values, there

    def _drop_expired(self, at: np.ndarray, finds: list[_Find]) -> None:
        time = self._part.declaration.time
        if time is None or not finds:
            return
        column = pa.concat_arrays([find.column(time) for find in finds])
        expired = (to_numpy(column) < self._part.cutoff) & pc.is_valid(column).to_numpy(zero_copy_only=False)
        at[(at >= 0) & expired[at]] = -1

    def _find(self, hashes: np.ndarray, keys: list[Any]) -> list[_Find]:
        """Where each key's newest row is, for those that have one that is not deleted."""
        finds = []
        rows = self._table.find(hashes, keys)
        self._sought = _Sought(keys, hashes, rows)
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
            rows = run.find(hashes[left], keys, self._part.key, left)
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


class _Sought:
    """Keys that were looked for, and where they were in the table of the epoch's rows. Rows there stay where they are."""

    def __init__(self, keys: list[Any], hashes: np.ndarray, rows: np.ndarray) -> None:
        self._keys = keys  # kept, so that nothing else can be at the same addresses
        self._addresses = [_addresses(key) for key in keys]
        self.hashes = hashes
        self.rows = rows
        self.is_text = all(kinds.is_string(key.type) for key in keys)

    def is_for(self, keys: list[Any]) -> bool:
        """Whether these are the same arrays."""
        return [_addresses(key) for key in keys] == self._addresses


def _addresses(array: Any) -> list[int | None]:
    return [len(array), array.offset, *(None if buffer is None else buffer.address for buffer in array.buffers())]


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
