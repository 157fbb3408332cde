"""Rows found by key in memory: a hash table of whole Arrow columns, probed for all keys of a batch at once.

Open addressing with linear probing over numpy arrays (the vectorised probe of MonetDB/X100: every step is done for all keys that
are still looking). Two keys with one hash are told apart by comparing the keys themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from dagster_operators.state.columns import Column, grown, new_column, same_rows

_EMPTY = -1


class KeyTable:
    """The rows of the running epoch, each key once. A row number, once given, stays.

    Args:
        schema: All columns, the key's among them, as Arrow.
        key: The names of the key's columns.

    >>> import pyarrow as pa
    >>> table = KeyTable(pa.schema({"k": pa.string(), "v": pa.int64()}), ("k",))
    >>> batch = pa.table({"k": ["a", "b", "a"], "v": [1, 2, 3]})
    >>> table.put(np.array([5, 6, 5]), [batch[name].combine_chunks() for name in ("k", "v")])
    >>> rows = table.find(np.array([6, 5, 7]), [pa.array(["b", "a", "c"])])
    >>> rows[2], table.take(rows[:2], "v").to_pylist()
    (np.int64(-1), [2, 3])
    """

    def __init__(self, schema: Any, key: tuple[str, ...]) -> None:
        self._names = list(schema.names)
        self._key = tuple(name for name in schema.names if name in key)
        self._columns: dict[str, Column] = {name: new_column(schema.field(name).type) for name in self._names}
        self._count = 0
        self._hashes = np.zeros(0, np.int64)
        self._deleted = np.zeros(0, bool)
        self._slot_rows = np.full(64, _EMPTY, np.int32)
        self._mask = 63

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """About the bytes in use."""
        return sum(column.nbytes for column in self._columns.values()) + self._count * 9 + self._slot_rows.nbytes

    @property
    def hashes(self) -> np.ndarray:
        """The hash of each row."""
        return self._hashes[: self._count]

    @property
    def deleted(self) -> np.ndarray:
        """Whether each row only says that its key is gone."""
        return self._deleted[: self._count]

    def take(self, rows: np.ndarray, name: str) -> Any:
        """The values of rows in one column, as Arrow."""
        return self._columns[name].take(rows)

    def find(self, hashes: np.ndarray, keys: list[Any]) -> np.ndarray:
        """The row of each key, -1 for those that are not here."""
        if not self._count:
            return np.full(len(hashes), _EMPTY, np.int64)
        rows, _ = self._probe(hashes, keys)
        return rows

    def put(self, hashes: np.ndarray, columns: list[Any], known: np.ndarray | None = None) -> None:
        """Store rows, given as one array for each column; of equal keys the last row stays.

        Args:
            hashes: The keys' hashes.
            columns: All columns.
            known: What ``find`` gave for these keys, if they were looked for before.
        """
        rows = self._rows_for(hashes, columns, known)
        for name, column in zip(self._names, columns, strict=True):
            if name not in self._key:
                self._columns[name].replace(rows, column)
        self._deleted[rows] = False

    def delete(self, hashes: np.ndarray, columns: list[Any]) -> None:
        """Note that keys are gone; ``columns`` as for put, with nulls for all but the key."""
        self.put(hashes, columns)
        rows = self.find(hashes, self._keys_of(columns))
        self._deleted[rows] = True

    def _keys_of(self, columns: list[Any]) -> list[Any]:
        return [column for name, column in zip(self._names, columns, strict=True) if name in self._key]

    def _rows_for(self, hashes: np.ndarray, columns: list[Any], known: np.ndarray | None) -> np.ndarray:
        """The row of each key; new keys get one, whose values are still to be set."""
        self._make_room(len(hashes))
        keys = self._keys_of(columns)
        if known is None:
            rows, slots = self._probe(hashes, keys)
            missing = np.flatnonzero(rows == _EMPTY)
        else:
            rows, slots = known.copy(), np.zeros(len(known), np.int64)
            missing = self._probe_again(hashes, keys, rows, slots)
        while missing.size:
            # All of them write their number into the slot they found empty; those who read it back have won it.
            self._slot_rows[slots[missing]] = missing
            winners = missing[self._slot_rows[slots[missing]] == missing]
            added = np.arange(self._count, self._count + winners.size)
            self._slot_rows[slots[winners]] = added
            indices = None if winners.size == len(hashes) else pa.array(winners)
            for name, column in zip(self._names, columns, strict=True):
                if name in self._key:
                    self._columns[name].append(column if indices is None else column.take(indices))
                else:
                    self._columns[name].reserve(winners.size)
            self._count += winners.size
            self._hashes = grown(self._hashes, self._count)
            self._deleted = grown(self._deleted, self._count)
            self._hashes[added] = hashes[winners]
            self._deleted[added] = False
            rows[winners] = added
            missing = self._probe_again(hashes, keys, rows, slots)
        return rows

    def _probe_again(self, hashes: np.ndarray, keys: list[Any], rows: np.ndarray, slots: np.ndarray) -> np.ndarray:
        """Look for the keys that have no row yet; which of them still have none."""
        missing = np.flatnonzero(rows == _EMPTY)
        if missing.size:
            rows[missing], slots[missing] = self._probe(hashes[missing], _take(keys, missing))
        still: np.ndarray = missing[rows[missing] == _EMPTY]
        return still

    def _make_room(self, more: int) -> None:
        """Keep at least half of the slots empty."""
        needed = 2 * (self._count + more)
        if needed <= len(self._slot_rows):
            return
        size = 1 << max(6, int(needed - 1).bit_length() + 1)
        self._mask = size - 1
        self._slot_rows = np.full(size, _EMPTY, np.int32)
        rows = np.arange(self._count)
        slots = self.hashes & self._mask
        while rows.size:
            free = self._slot_rows[slots] == _EMPTY
            self._slot_rows[slots[free]] = rows[free]
            left = self._slot_rows[slots] != rows
            rows, slots = rows[left], (slots[left] + 1) & self._mask

    def _probe(self, hashes: np.ndarray, keys: list[Any]) -> tuple[np.ndarray, np.ndarray]:
        """For each key its row, or -1 and the empty slot where its row would go."""
        rows = np.full(len(hashes), _EMPTY, np.int64)
        slots = hashes & self._mask
        looking: np.ndarray = np.arange(len(hashes))
        while looking.size:
            self._probe_hashes(hashes, rows, slots, looking)
            found = looking[rows[looking] != _EMPTY]
            if not found.size:
                break
            here = [self._columns[name].take(rows[found]) for name in self._key]
            same = same_rows(here, keys if found.size == len(hashes) else _take(keys, found))
            looking = found[~same]  # another key with the same hash: look on from the next slot
            rows[looking] = _EMPTY
            slots[looking] = (slots[looking] + 1) & self._mask
        return rows, slots

    def _probe_hashes(self, hashes: np.ndarray, rows: np.ndarray, slots: np.ndarray, looking: np.ndarray) -> None:
        """Move each key to the next slot that is empty or has a row of its hash, and note that row."""
        if not self._count:
            return
        while looking.size:
            everyone = looking.size == slots.size
            at = slots if everyone else slots.take(looking)
            there = self._slot_rows.take(at)
            taken = there != _EMPTY
            same = self._hashes.take(there) == (hashes if everyone else hashes.take(looking))
            same &= taken
            if everyone:
                np.copyto(rows, there, where=same)
            else:
                rows[looking[same]] = there[same]
            on = np.flatnonzero(taken & ~same)
            looking = looking.take(on)
            slots[looking] = (at.take(on) + 1) & self._mask


def _take(columns: list[Any], rows: np.ndarray) -> list[Any]:
    indices = pa.array(rows)
    return [column.take(indices) for column in columns]
