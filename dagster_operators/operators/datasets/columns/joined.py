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
_NOBODY: Final = -1
"""The place of a partner that is not there."""
_BY_SECOND: Final = (
    strategies.HYBRID_HASH_FIRST, strategies.CACHED_HASH_FIRST, strategies.LEFT_HASH_FIRST, strategies.RIGHT_HASH_FIRST,
    strategies.FULL_HASH_FIRST, strategies.RIGHT_OUTER_MERGE,
)  # fmt: skip
_BY_FIRST: Final = (
    strategies.HYBRID_HASH_SECOND, strategies.CACHED_HASH_SECOND, strategies.LEFT_HASH_SECOND, strategies.RIGHT_HASH_SECOND,
    strategies.FULL_HASH_SECOND, strategies.MERGE, strategies.LEFT_OUTER_MERGE, strategies.FULL_OUTER_MERGE,
)  # fmt: skip
"""The strategies whose pairs come in the order of the first input's rows; those of the others come in that of the second's."""


@dataclass(frozen=True)
class JoinedFields(ColumnWork):
    """Some fields of each pair of rows with equal keys, or the rows of each pair as they are.

    Attributes:
        keys: The key of the first input.
        second_keys: That of the second.
        fields: The number of an input and a field of it, for each field of a pair; None in place of a field is the whole row.
        names: The names that the fields have then.
        keeps: Of each input, whether rows without a partner are there, too.
        fills: Whether null stands for the fields of a partner that is not there. Otherwise such rows are left to the driver,
            whose function refuses them.
        layouts: The layout of each input's rows, as far as the plan knows it: a part may have no rows, and so no batch.
    """

    keys: tuple[int, ...]
    second_keys: tuple[int, ...]
    fields: tuple[tuple[int, int | None], ...]
    names: Names
    keeps: tuple[bool, bool] = (False, False)
    fills: bool = True
    layouts: tuple[RowLayout | None, RowLayout | None] = (None, None)

    def is_empty_without(self, side: int) -> bool:
        """Whether no row comes out where an input has none.

        Args:
            side: The input without rows.
        """
        return not self.keeps[1 - side]

    def no_rows(self, side: int) -> ColumnRows | None:
        """An input without rows; None where the plan does not know its fields.

        Args:
            side: The input.
        """
        layout = self.layouts[side]
        return None if layout is None else ColumnRows.of(layout, layout.schema.empty_table())

    @override
    def result(self, inputs: Sequence[RowLayout]) -> RowLayout | None:
        asked = [*((0, key) for key in self.keys), *((1, key) for key in self.second_keys), *self.fields]
        if any(field is not None and field >= len(inputs[side].types) for side, field in asked):
            return None
        if any(inputs[0].types[one] != inputs[1].types[other] for one, other in zip(self.keys, self.second_keys, strict=True)):
            return None
        if self.names is not None and len(self.names) != len(self.fields):
            return None
        kinds = [_whole(inputs[side]) if field is None else inputs[side].types[field] for side, field in self.fields]
        known = tuple(kind for kind in kinds if kind is not None)
        return RowLayout(known, self.names) if len(known) == len(kinds) else None

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
            probes, partners = lookup.pairs([block.column(key) for key in keys[probing]], alone=self.keeps[probing])
            if self.keeps[1 - probing]:
                met[partners[partners != _NOBODY]] = True
            if not self.fills and (partners == _NOBODY).any():
                return None
            sides, places = ((block, built), (probes, partners))
            tables.append(self._pairs(result, sides[:: 1 - 2 * probing], places[:: 1 - 2 * probing]))
        if not met.all():
            if not self.fills:
                return None
            left = lookup.rows_without(met)
            sides, places = ((probed.layout.schema.empty_table(), built), (np.full(len(left), _NOBODY), left))
            tables.append(self._pairs(result, sides[:: 1 - 2 * probing], places[:: 1 - 2 * probing]))
        return ColumnRows.of(result, pa.concat_tables(tables))

    def _pairs(self, result: RowLayout, tables: Sequence[pa.Table], places: Sequence[npt.NDArray[np.int64]]) -> pa.Table:
        """Pairs of rows.

        Args:
            result: The layout of the pairs.
            tables: The rows of the first input, and of the second.
            places: The places of the rows of each pair in both.
        """
        absent = [numbers == _NOBODY for numbers in places]
        rows = [pa.array(numbers, mask=missing) for numbers, missing in zip(places, absent, strict=True)]
        columns: list[Any] = []
        for (side, field), kind in zip(self.fields, result.types, strict=True):
            table = tables[side]
            if field is not None:
                columns.append(table.column(field).take(rows[side]))
                continue
            parts = [column.take(rows[side]).combine_chunks() for column in table.columns]
            fields = [kind.field(number) for number in range(kind.num_fields)]
            columns.append(pa.StructArray.from_arrays(parts, fields=fields, mask=pa.array(absent[side])))
        return pa.table(columns, schema=result.schema)


def _whole(layout: RowLayout) -> pa.DataType | None:
    """The type of rows as values of a field; None where that would be rows of another type."""
    if not layout.names or len(set(layout.names)) < len(layout.names):
        return None
    return pa.struct([pa.field(name, kind) for name, kind in zip(layout.names, layout.types, strict=True)])


def _are_keys(table: pa.Table, fields: Sequence[int]) -> bool:
    return all(is_comparable(table.column(field), by_sign=True) for field in fields)


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

    def rows_without(self, met: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """The positions of the table's rows that met no partner, those of a key where the key first comes.

        Args:
            met: Of each row, whether it met one.
        """
        return self._rows[~met[self._rows]]

    def pairs(self, keys: Sequence[Any], *, alone: bool) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The positions of rows with some keys, and of their partners in the table.

        Args:
            keys: The columns of the rows' keys.
            alone: Whether rows without a partner are there, too.
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
        probes, partners = np.repeat(probes, counts), self._rows[starts + np.arange(len(starts))]
        if not alone or not numbers.null_count:
            return probes, partners
        left = np.flatnonzero(pc.is_null(numbers))
        probes, partners = np.concatenate([probes, left]), np.concatenate([partners, np.full(len(left), _NOBODY)])
        order = np.argsort(probes, kind="stable")
        return probes[order], partners[order]
