"""Which files hold rows of keys that changed, found out by reading as little of them as possible.

Bounds leave out files of other keys unread. Of the others the key columns are read in this process, hashed, and looked up among
the hashes of the changed keys, until it is clear what the file holds; with keys in no order that is the first batch. So a file is
written anew only if it must be: what came with time (orders, sessions, auctions) changes in the newest files only. (Delta's MERGE
finds the files to rewrite by a join on the engine, which costs a query and reads all of them.)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dagster_operators.runtime.stages.staged_rows import arrow_schema, read_batches
from dagster_operators.storage.parquet_stats import bounds
from dagster_operators.types.data_type import DataType
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from dagster_operators.storage.root import Root
    from dagster_operators.transactions.manifest import FileEntry

MOST = 2_000_000
"""Of more changed rows the keys are not kept in memory, and every file within their bounds is taken to hold some of them."""

_MOST_BYTES = 48 * 1024 * 1024
"""Nor more bytes of keys: while they are sorted there are two copies of them, and keys may be long."""

AT_ONCE = 8_192
"""So many rows of a file are read at once."""

_READERS = 2
_COLLATION = "__COLLATIONS"


class Held(Enum):
    """What a file holds: no row of the keys, perhaps some, or rows of these keys only."""

    NONE = 0
    SOME = 1
    ALL = 2


class ChangedKeys:
    """The keys of the rows in some files.

    Args:
        root: The storage root.
        dataset: Where the rows are staged.
        entries: Their files.
        schema_json: Columns that have at least the keys, as the JSON of a Spark ``StructType``.
        keys: The key columns; without any all rows are of one key. Several rows may have the same key.

    Attributes:
        names: The key columns.
    """

    def __init__(self, root: Root, dataset: str, entries: Sequence[FileEntry], schema_json: str, keys: Sequence[str]) -> None:
        self._root = root
        self._dataset = dataset
        self._entries = entries
        self.names = tuple(keys)
        fields = {field.name: field for field in Schema.from_json(schema_json)}
        self._fields = [fields[key] for key in self.names]

    @property
    def rows(self) -> int:
        """How many rows have these keys."""
        return sum(entry.rows for entry in self._entries)

    @property
    def kinds(self) -> Mapping[str, DataType]:
        """The types of the key columns."""
        return {field.name: field.type for field in self._fields}

    def held_by(self, dataset: str, files: Sequence[FileEntry]) -> dict[str, Held]:
        """What each file of a dataset, by its path, holds of these keys."""
        if not self._entries or not self.names:
            return {file.path: Held.ALL if self._entries else Held.NONE for file in files}
        within = [file for file in files if self._within(file)]
        found = dict.fromkeys((file.path for file in files), Held.NONE) | dict.fromkeys((file.path for file in within), Held.SOME)
        looked_up = [file.path for file in within if file.is_ours]  # what others wrote may be stored in other types
        if not looked_up or self._sorted is None:
            return found
        with ThreadPoolExecutor(_READERS) as pool:
            return found | dict(zip(looked_up, pool.map(lambda path: self._look_up(dataset, path), looked_up), strict=True))

    def covers(self, others: ChangedKeys) -> bool:
        """Whether these are all the others' keys too, as far as their hashes tell; both must be known."""
        import numpy as np

        if self._sorted is None or others._sorted is None:
            raise TypeError("the keys cannot be looked up")
        return bool(np.isin(others._sorted.hashes, self._sorted.hashes).all())

    def _within(self, file: FileEntry) -> bool:
        """Whether the bounds of the keys and those of the file have anything in common."""
        for key, (lowest, highest) in self._bounds.items():
            low, high = bounds(file.stats, key)
            if (low is not None and low > highest) or (high is not None and high < lowest):
                return False
        return True

    @cached_property
    def _bounds(self) -> Mapping[str, tuple[int, int]]:
        """The smallest and largest value of each whole-number key that is never null and is known everywhere."""
        stats = [json.loads(entry.stats or "{}") for entry in self._entries]
        found = {}
        for field in self._fields:
            name = field.name
            if not field.type.is_whole_number or any(one.get("nullCount", {}).get(name) != 0 for one in stats):
                continue
            ends = [(one.get("minValues", {}).get(name), one.get("maxValues", {}).get(name)) for one in stats]
            if ends and all(low is not None and high is not None for low, high in ends):
                found[name] = (min(low for low, _ in ends), max(high for _, high in ends))
        return found

    @cached_property
    def _schema(self) -> pa.Schema | None:
        """The key columns; None if a key cannot be hashed here as the engine compares it."""
        collated = any(_COLLATION in field.metadata for field in self._fields)
        if collated or any("." in key for key in self.names) or not all(field.type.is_simple for field in self._fields):
            return None
        return arrow_schema(Schema(tuple(self._fields)).to_json())

    @cached_property
    def _sorted(self) -> _Sorted | None:
        """The keys by their hash; None if they are too many or cannot be hashed."""
        if self._schema is None or self.rows > MOST:
            return None
        paths = [entry.path for entry in self._entries]
        batches, size = [], 0
        for batch in read_batches(self._root, self._dataset, paths, self._schema, AT_ONCE):
            batches.append(batch)
            size += batch.nbytes
            if size > _MOST_BYTES:
                return None
        return _Sorted.of(batches, self._schema)

    def _look_up(self, dataset: str, path: str) -> Held:
        """What a file holds, read until it is clear."""
        some = others = False
        for batch in read_batches(self._root, dataset, [path], self._schema, AT_ONCE):
            hit, same = self._find(batch)
            some = some or bool(hit.any())
            others = others or not same.all()
            if some and others:
                return Held.SOME
        return Held.ALL if some else Held.NONE

    @property
    def are_known(self) -> bool:
        """Whether they are few enough, and of types, to be looked up here."""
        return self._sorted is not None

    @property
    def are_exact(self) -> bool:
        """Whether :meth:`among` can tell rows with these keys from all others."""
        return self._sorted is not None and self._sorted.exact

    def among(self, batch: pa.RecordBatch) -> np.ndarray:
        """For each row whether it has one of these keys, if they are exact."""
        return self._find(batch.select(list(self.names)))[1]

    def _find(self, batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
        """For each row whether its key may be among the keys, and whether it is found there.

        As long as their hashes tell the keys apart, that is the same; else a key that has the hash of another may be missed.
        """
        import numpy as np

        if self._sorted is None:
            raise TypeError("the keys cannot be looked up")
        hashes = self._sorted.hashes
        rows = [_plain(column) for column in batch.columns]
        wanted = _hashes(rows)
        places = np.minimum(np.searchsorted(hashes, wanted), len(hashes) - 1)
        hit = hashes[places] == wanted
        # Equal hashes may be of different keys, and a row must not be lost for that.
        if not hit.any():
            return hit, hit
        same = hit & _equal(rows, self._sorted.columns, places)
        return (same if self._sorted.exact else hit), same


@dataclass(frozen=True)
class _Sorted:
    """Different keys in the order of their hashes; ``exact`` if the hashes are different too."""

    hashes: np.ndarray
    columns: Sequence[Any]
    exact: bool

    @classmethod
    def of(cls, batches: list[pa.RecordBatch], schema: pa.Schema) -> _Sorted:
        """The keys in some batches, whose rows may repeat them; each batch is freed once it is read."""
        import numpy as np
        import pyarrow as pa

        if not any(batch.num_rows for batch in batches):
            return cls(np.array([], np.int64), [_plain(pa.array([], field.type)) for field in schema], exact=True)
        columns = [_plain(pa.concat_arrays([batch.column(n) for batch in batches])) for n in range(len(schema))]
        batches.clear()
        hashes = _hashes(columns)
        order = np.argsort(hashes, kind="stable")
        hashes, columns = hashes[order], [column.take(pa.array(order)) for column in columns]
        again = np.flatnonzero(hashes[1:] == hashes[:-1]) + 1
        before = [column.take(pa.array(again - 1)) for column in columns]
        repeats = _equal(before, columns, again)
        kept = np.delete(np.arange(len(hashes)), again[repeats])
        return cls(hashes[kept], [column.take(pa.array(kept)) for column in columns], exact=bool(repeats.all()))


def _hashes(columns: Sequence[Any]) -> np.ndarray:
    from dagster_operators.state.key_hash import hash_columns

    return hash_columns(columns)


def _plain(column: Any) -> Any:
    """A key column of which equal values, and no others, have equal bits."""
    import pyarrow as pa
    import pyarrow.types as kinds

    from dagster_operators.state.key_hash import normal_key

    if not kinds.is_floating(column.type):
        return column
    return normal_key(column).view(pa.int64() if kinds.is_float64(column.type) else pa.int32())


def _equal(rows: Sequence[Any], columns: Sequence[Any], places: np.ndarray) -> np.ndarray:
    """Whether each row has the very key that is at its place."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    found = np.ones(len(places), bool)
    for row, column in zip(rows, columns, strict=True):
        other = column.take(pa.array(places))
        same = pc.or_(pc.fill_null(pc.equal(row, other), False), pc.and_(pc.is_null(row), pc.is_null(other)))  # noqa: FBT003
        found &= same.to_numpy(zero_copy_only=False)
    return found
