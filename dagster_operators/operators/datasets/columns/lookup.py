"""The rows of a table by their key: where they are, for the keys of other rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_SPARSE: Final = 8
"""Whole numbers are found by their distance to the least, if there are at most so many places for each row."""
NOBODY: Final = -1
"""The place of a partner that is not there."""
Places: TypeAlias = npt.NDArray[np.int64]


class Lookup:
    """The rows of a table by their key.

    Args:
        keys: The columns of the key, which have no nulls and nothing that is no number.

    >>> probes, partners = Lookup([pa.chunked_array([[7, 5, 7]])]).pairs([pa.chunked_array([[7, 6]])], alone=False)
    >>> probes.tolist(), partners.tolist()
    ([0, 0], [0, 2])
    """

    def __init__(self, keys: Sequence[Any]) -> None:
        self._values: list[Any] = []
        self._whole = len(keys) == 1 and is_whole(keys[0].type)
        if self._whole:
            self._rows, self._begins, self._values = _of_whole(whole_of(keys[0]))
            return
        numbers: Any = None
        for column in keys:
            encoded: Any = column.combine_chunks().dictionary_encode()
            self._values.append(encoded.dictionary)
            numbers = encoded.indices if numbers is None else self._both(numbers, encoded.indices, len(encoded.dictionary))
        coded = numbers.to_numpy()
        self._rows = np.argsort(coded, kind="stable")
        self._begins = np.concatenate([[0], np.cumsum(np.bincount(coded))])

    @property
    def nbytes(self) -> int:
        """The number of bytes that it has."""
        return int(self._rows.nbytes + self._begins.nbytes + sum(values.nbytes for values in self._values))

    def rows_without(self, met: npt.NDArray[np.bool_]) -> Places:
        """The positions of the table's rows that met no partner, those of a key where the key first comes.

        Args:
            met: Of each row, whether it met one.
        """
        left = ~met[self._rows]
        first = np.repeat(self._rows[self._begins[:-1]], np.diff(self._begins)) if len(self._rows) else self._rows
        return self._rows[left][np.argsort(first[left], kind="stable")]

    def pairs(self, keys: Sequence[Any], *, alone: bool) -> tuple[Places, Places]:
        """The positions of rows with some keys, and of their partners in the table.

        Args:
            keys: The columns of the rows' keys, of the same types.
            alone: Whether rows without a partner are there, too.
        """
        matched, groups = self._groups_of_whole(whole_of(keys[0])) if self._whole else self._groups(keys)
        begins, ends = self._begins[groups], self._begins[groups + 1]
        counts = ends - begins
        starts = np.repeat(begins - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts) if len(counts) else begins
        probes, partners = np.repeat(matched, counts), self._rows[starts + np.arange(len(starts))]
        if not alone or len(matched) == len(keys[0]):
            return probes, partners
        left = np.setdiff1d(np.arange(len(keys[0])), matched, assume_unique=True)
        probes, partners = np.concatenate([probes, left]), np.concatenate([partners, np.full(len(left), NOBODY)])
        order = np.argsort(probes, kind="stable")
        return probes[order], partners[order]

    def _both(self, first: Any, second: Any, values: int) -> Any:
        """Numbers of pairs of numbers."""
        encoded: Any = pa.array(first.to_numpy().astype(np.int64) * values + second.to_numpy()).dictionary_encode()
        self._values.append(encoded.dictionary)
        return encoded.indices

    def _groups(self, keys: Sequence[Any]) -> tuple[Places, Places]:
        """The rows whose keys are in the table, and the number of each such key."""
        values = iter(self._values)
        numbers: Any = None
        for column in keys:
            uniques = next(values)
            places: Any = pc.index_in(column, value_set=uniques)
            if numbers is not None:
                both = pc.add(pc.multiply(numbers.cast(pa.int64()), pa.scalar(len(uniques), pa.int64())), places.cast(pa.int64()))
                places = pc.index_in(both, value_set=next(values))
            numbers = places
        return np.flatnonzero(pc.is_valid(numbers)), numbers.drop_null().to_numpy()

    def _groups_of_whole(self, keys: Places) -> tuple[Places, Places]:
        """The same of whole numbers."""
        uniques, *by_distance = self._values
        if not len(uniques):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        if by_distance:
            within = (keys >= uniques[0]) & (keys <= uniques[-1])
            groups = by_distance[0][np.where(within, keys, uniques[0]) - uniques[0]]
            matching = within & (groups >= 0)
        else:
            groups = np.minimum(np.searchsorted(uniques, keys), len(uniques) - 1)
            matching = uniques[groups] == keys
        return np.flatnonzero(matching), groups[matching]


def is_whole(kind: pa.DataType) -> bool:
    """Whether values of a type are compared as whole numbers of 64 bits.

    >>> is_whole(pa.int32()), is_whole(pa.timestamp("us")), is_whole(pa.string())
    (True, True, False)
    """
    whole = pa.types.is_integer(kind) and kind != pa.uint64()
    return bool(whole or pa.types.is_timestamp(kind) or pa.types.is_date32(kind))


def whole_of(column: Any) -> Places:
    """The values of a column as whole numbers.

    >>> whole_of(pa.chunked_array([[3, 4]])).tolist()
    [3, 4]
    """
    numbers: Any = column.cast(pa.int32()) if pa.types.is_date32(column.type) else column
    values: Places = numbers.cast(pa.int64()).to_numpy()
    return values


def _of_whole(numbers: Places) -> tuple[Places, Places, list[Any]]:
    """The rows in the order of their numbers, where each number begins among them, and the numbers."""
    rows = np.argsort(numbers, kind="stable")
    ordered = numbers[rows]
    begins = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(ordered) else rows
    uniques = ordered[begins]
    if not len(uniques) or (span := int(uniques[-1]) - int(uniques[0]) + 1) > _SPARSE * len(ordered):
        return rows, np.append(begins, len(ordered)), [uniques]
    by_distance = np.full(span, -1, np.int64)
    by_distance[uniques - uniques[0]] = np.arange(len(uniques))
    return rows, np.append(begins, len(ordered)), [uniques, by_distance]
