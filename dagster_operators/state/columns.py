"""Columns that grow and whose rows can be replaced: what the rows of the running epoch are kept in.

Values of fixed width are replaced in place, in numpy arrays. Others (strings, lists, structs) are appended to Arrow chunks that
each row points into, and swept when more than half of them is no longer pointed to.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from dagster_operators.state.key_hash import fixed_values

_SMALLEST = 16


class Column(Protocol):
    """One column of rows that are numbered from 0."""

    @property
    def nbytes(self) -> int:
        """The bytes in use."""

    def append(self, array: Any) -> None:
        """Add rows at the end."""

    def reserve(self, count: int) -> None:
        """Add rows at the end that are replaced before they are read."""

    def replace(self, rows: np.ndarray, array: Any) -> None:
        """Give rows new values; of several for one row the last one stays."""

    def take(self, rows: np.ndarray) -> Any:
        """The values of rows as an Arrow array."""


def new_column(kind: Any) -> Column:
    """An empty column of an Arrow type."""
    if kinds.is_boolean(kind) or (kinds.is_primitive(kind) and kind.bit_width >= 8) or kinds.is_decimal128(kind):  # noqa: PLR2004
        return FixedColumn(kind)
    return VariableColumn(kind)


def grown(array: np.ndarray, length: int) -> np.ndarray:
    """The array, or a copy with room for ``length`` values and as many again."""
    if length <= len(array):
        return array
    larger = np.zeros(max(2 * length, _SMALLEST), array.dtype)
    larger[: len(array)] = array
    return larger


def _dtype(kind: Any) -> np.dtype[Any]:
    if kinds.is_boolean(kind):
        return np.dtype(bool)
    if kinds.is_decimal128(kind):
        return np.dtype("V16")
    return np.dtype(f"i{kind.bit_width // 8}")


def to_numpy(array: Any) -> np.ndarray:
    """The values of an array of fixed width; floats come as whole numbers of the same bits, so that equal means the same."""
    if kinds.is_boolean(array.type):
        values: np.ndarray = array.fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003
        return values
    return fixed_values(array, _dtype(array.type))


def _bitmap(values: np.ndarray) -> Any:
    return pa.py_buffer(np.packbits(values, bitorder="little"))


class FixedColumn:
    """Values of one width.

    >>> column = FixedColumn(pa.int64())
    >>> column.append(pa.array([1, None, 3]))
    >>> column.replace(np.array([0, 1, 0]), pa.array([10, 20, None]))
    >>> column.take(np.array([2, 1, 0])).to_pylist()
    [3, 20, None]
    """

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._values = np.zeros(0, _dtype(kind))
        self._valid: np.ndarray | None = None
        self._length = 0

    @property
    def nbytes(self) -> int:
        """The bytes in use."""
        return self._length * self._values.itemsize

    def append(self, array: Any) -> None:
        """Add rows at the end."""
        start = self._length
        self.reserve(len(array))
        self._values[start : self._length] = to_numpy(array)
        self._mark(slice(start, self._length), array)

    def reserve(self, count: int) -> None:
        """Add rows at the end that are replaced before they are read."""
        self._length += count
        self._values = grown(self._values, self._length)

    def replace(self, rows: np.ndarray, array: Any) -> None:
        """Give rows new values; of several for one row the last one stays."""
        self._values[rows] = to_numpy(array)
        self._mark(rows, array)

    def _mark(self, rows: np.ndarray | slice, array: Any) -> None:
        """Note which of the rows are null; nothing is kept of that while none ever was."""
        if self._valid is None:
            if not array.null_count:
                return
            self._valid = np.ones(len(self._values), bool)
        elif len(self._valid) < len(self._values):
            self._valid = grown(self._valid, len(self._values))
        self._valid[rows] = pc.is_valid(array).to_numpy(zero_copy_only=False) if array.null_count else True

    def take(self, rows: np.ndarray) -> Any:
        """The values of rows as an Arrow array."""
        values = self._values[rows]
        data = _bitmap(values) if values.dtype == bool else pa.py_buffer(values)
        validity = None if self._valid is None else _bitmap(self._valid[rows])
        return pa.Array.from_buffers(self._kind, len(rows), [validity, data])


class VariableColumn:
    """Values of any width.

    >>> column = VariableColumn(pa.string())
    >>> column.append(pa.array(["a", None, "c"]))
    >>> column.replace(np.array([0, 1, 0]), pa.array(["d", "e", "f"]))
    >>> column.take(np.array([2, 1, 0])).to_pylist()
    ['c', 'e', 'f']
    """

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._chunks: list[Any] = []
        self._stored = 0
        self._places = np.zeros(0, np.int64)
        self._length = 0

    @property
    def nbytes(self) -> int:
        """The bytes in use."""
        return int(sum(chunk.nbytes for chunk in self._chunks)) + self._length * 8

    def append(self, array: Any) -> None:
        """Add rows at the end."""
        start = self._length
        self.reserve(len(array))
        self._places[start : self._length] = self._store(array)

    def reserve(self, count: int) -> None:
        """Add rows at the end that are replaced before they are read."""
        self._length += count
        self._places = grown(self._places, self._length)

    def replace(self, rows: np.ndarray, array: Any) -> None:
        """Give rows new values; of several for one row the last one stays."""
        self._places[rows] = self._store(array)
        if self._stored > 2 * self._length + _SMALLEST:
            kept = self.take(np.arange(self._length))
            self._chunks, self._stored = [], 0
            self._places[: self._length] = self._store(kept)

    def _store(self, array: Any) -> np.ndarray:
        """Add values to the chunks. Chunks of similar size are joined, so there are few (as the carries of a binary counter)."""
        start, self._stored = self._stored, self._stored + len(array)
        self._chunks.append(array)
        while len(self._chunks) > 1 and len(self._chunks[-2]) <= 2 * len(self._chunks[-1]):
            last = self._chunks.pop()
            self._chunks[-1] = pa.concat_arrays([self._chunks[-1], last])
        return np.arange(start, self._stored)

    def take(self, rows: np.ndarray) -> Any:
        """The values of rows as an Arrow array."""
        if not len(rows):
            return pa.array([], self._kind)
        if len(self._chunks) == 1:
            return self._chunks[0].take(pa.array(self._places[rows]))
        chunks = pa.chunked_array(self._chunks, self._kind)
        return chunks.take(pa.array(self._places[rows])).combine_chunks()


def same_rows(left: list[Any], right: list[Any]) -> np.ndarray:
    """Which rows of two lists of key columns are equal, null being equal to null.

    >>> same_rows([pa.array([1, None, None])], [pa.array([1, None, 2])]).tolist()
    [True, True, False]
    """
    result = np.ones(len(left[0]), bool)
    for one, other in zip(left, right, strict=True):
        if kinds.is_string(one.type) or kinds.is_binary(one.type):
            same = pc.fill_null(pc.equal(one, other), False).to_numpy(zero_copy_only=False)  # noqa: FBT003
        else:
            same = to_numpy(one) == to_numpy(other)
        if one.null_count or other.null_count:
            one_null, other_null = (pc.is_null(side).to_numpy(zero_copy_only=False) for side in (one, other))
            same = (same & ~one_null & ~other_null) | (one_null & other_null)
        result &= same
    return result
