"""Pairs of rows with equal keys by columns, in the order in which a driver gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from dagster_operators.operators.datasets.columns.column_rows import ColumnRows, RowLayout, fits
from dagster_operators.operators.datasets.columns.column_work import ColumnWork, Names
from dagster_operators.operators.datasets.columns.sorting import all_in_order, is_comparable
from dagster_operators.optimizer import strategies
from dagster_operators.optimizer.strategies import DriverStrategy

_ROWS_OF_BLOCK: Final = 1 << 20
_BY_SECOND: Final = (strategies.HYBRID_HASH_FIRST, strategies.CACHED_HASH_FIRST)
_BY_FIRST: Final = (strategies.HYBRID_HASH_SECOND, strategies.CACHED_HASH_SECOND, strategies.MERGE)
"""The strategies whose pairs come in the order of the first input's rows; those of the others come in that of the second's."""


@dataclass(frozen=True)
class JoinedFields(ColumnWork):
    """Some fields of each pair of rows with equal keys.

    Attributes:
        keys: The key of the first input.
        second_keys: That of the second.
        fields: The number of an input and a field of it, for each field of a pair.
        names: The names that the fields have then.
        keeps: Of each input, whether rows without a partner are there, too. Where there are such, rows are worked on: their
            fields are those of no row.
    """

    keys: tuple[int, ...]
    second_keys: tuple[int, ...]
    fields: tuple[tuple[int, int], ...]
    names: Names
    keeps: tuple[bool, bool] = (False, False)

    @override
    def result(self, inputs: Sequence[RowLayout]) -> RowLayout | None:
        asked = [*((0, key) for key in self.keys), *((1, key) for key in self.second_keys), *self.fields]
        if any(field >= len(inputs[side].types) for side, field in asked):
            return None
        if any(inputs[0].types[one] != inputs[1].types[other] for one, other in zip(self.keys, self.second_keys, strict=True)):
            return None
        if self.names is not None and len(self.names) != len(self.fields):
            return None
        return RowLayout(tuple(inputs[side].types[field] for side, field in self.fields), self.names)

    @override
    def work(self, inputs: Sequence[ColumnRows], result: RowLayout, strategy: DriverStrategy) -> ColumnRows | None:
        ordered = all_in_order(inputs)
        if ordered is None or strategy not in (*_BY_FIRST, *_BY_SECOND):
            return None
        probing = 0 if strategy in _BY_FIRST else 1
        probed, built = ordered[probing], ordered[1 - probing].table()
        keys = (self.keys, self.second_keys)
        if built is None or not _are_keys(built, keys[1 - probing]):
            return None
        met = np.zeros(built.num_rows if self.keeps[1 - probing] else 0, np.bool_)
        lookup = _Lookup([built.column(key) for key in keys[1 - probing]])
        tables = [result.schema.empty_table()]
        for block in probed.tables(_ROWS_OF_BLOCK):
            if not fits(block) or not _are_keys(block, keys[probing]):
                return None
            probes, partners = lookup.pairs([block.column(key) for key in keys[probing]])
            if self.keeps[probing] and _different(probes) < block.num_rows:
                return None
            if self.keeps[1 - probing]:
                met[partners] = True
            places = (probes, partners) if probing == 0 else (partners, probes)
            sides = (block, built) if probing == 0 else (built, block)
            columns = [sides[side].column(field).take(pa.array(places[side])) for side, field in self.fields]
            tables.append(pa.table(columns, schema=result.schema))
        if not met.all():
            return None
        return ColumnRows.of(result, pa.concat_tables(tables))


def _are_keys(table: pa.Table, fields: Sequence[int]) -> bool:
    return all(is_comparable(table.column(field), by_sign=True) for field in fields)


def _different(ordered: npt.NDArray[np.int64]) -> int:
    """How many different numbers there are among numbers in order."""
    return int(np.count_nonzero(np.diff(ordered))) + 1 if len(ordered) else 0


class _Lookup:
    """The rows of a table by their key.

    Args:
        keys: The columns of the key.
    """

    def __init__(self, keys: Sequence[Any]) -> None:
        self._values: list[Any] = []
        numbers: Any = None
        for column in keys:
            encoded: Any = column.combine_chunks().dictionary_encode()
            self._values.append(encoded.dictionary)
            numbers = encoded.indices if numbers is None else self._both(numbers, encoded.indices, len(encoded.dictionary))
        found = numbers.to_numpy()
        counts = np.bincount(found)
        self._rows: npt.NDArray[np.int64] = np.argsort(found, kind="stable")
        self._begins = np.concatenate([[0], np.cumsum(counts)])

    def _both(self, first: Any, second: Any, values: int) -> Any:
        """Numbers of pairs of numbers."""
        encoded: Any = pa.array(first.to_numpy().astype(np.int64) * values + second.to_numpy()).dictionary_encode()
        self._values.append(encoded.dictionary)
        return encoded.indices

    def pairs(self, keys: Sequence[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The positions of rows with some keys, and of their partners in the table.

        Args:
            keys: The columns of the rows' keys.
        """
        values = iter(self._values)
        numbers: Any = None
        for column in keys:
            known = next(values)
            found: Any = pc.index_in(column, value_set=known)
            if numbers is not None:
                both = pc.add(pc.multiply(numbers.cast(pa.int64()), pa.scalar(len(known), pa.int64())), found.cast(pa.int64()))
                found = pc.index_in(both, value_set=next(values))
            numbers = found
        probes = np.flatnonzero(pc.is_valid(numbers))
        groups = numbers.drop_null().to_numpy()
        begins, ends = self._begins[groups], self._begins[groups + 1]
        counts = ends - begins
        starts = np.repeat(begins - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts) if len(counts) else begins
        return np.repeat(probes, counts), self._rows[starts + np.arange(len(starts))]
