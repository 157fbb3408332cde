"""Pairs of rows with equal keys by columns, in the order in which a driver gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from dagster_operators.operators.datasets.columns.column_rows import ColumnRows, RowLayout, fits
from dagster_operators.operators.datasets.columns.column_work import ColumnWork, Names
from dagster_operators.operators.datasets.columns.lookup import NOBODY, Lookup
from dagster_operators.operators.datasets.columns.sorting import in_column_order, is_comparable
from dagster_operators.operators.datasets.prepared import is_same, prepared
from dagster_operators.optimizer import strategies
from dagster_operators.optimizer.strategies import DriverStrategy

_ROWS_OF_BLOCK: Final = 1 << 20
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
        if strategy not in (*_BY_FIRST, *_BY_SECOND):
            return None
        probing = 0 if strategy in _BY_FIRST else 1
        probed, built = inputs[probing], inputs[1 - probing]
        if is_same(probed) and not is_same(built) and not any(self.keeps) and probed.count > built.count:
            return self._found_in_probed(probed, built, probing, result)
        return self._found_in_built(probed, built, probing, result)

    def _found_in_built(self, probed: ColumnRows, built: ColumnRows, probing: int, result: RowLayout) -> ColumnRows | None:
        """The pairs, by looking up each row in the other input."""
        ordered, known = in_column_order(probed), self._by_key(built, 1 - probing)
        if ordered is None or known is None:
            return None
        met = np.zeros(known.table.num_rows if self.keeps[1 - probing] else 0, np.bool_)
        tables = [result.schema.empty_table()]
        for block in ordered.tables(_ROWS_OF_BLOCK):
            if not fits(block) or not _are_keys(block, self._keys[probing]):
                return None
            columns = [block.column(key) for key in self._keys[probing]]
            probes, partners = known.lookup.pairs(columns, alone=self.keeps[probing])
            if self.keeps[1 - probing]:
                met[partners[partners != NOBODY]] = True
            if not self.fills and (partners == NOBODY).any():
                return None
            sides, places = ((block, known.table), (probes, partners))
            tables.append(self._pairs(result, sides[:: 1 - 2 * probing], places[:: 1 - 2 * probing]))
        if not met.all():
            if not self.fills:
                return None
            left = known.lookup.rows_without(met)
            sides, places = ((probed.layout.schema.empty_table(), known.table), (np.full(len(left), NOBODY), left))
            tables.append(self._pairs(result, sides[:: 1 - 2 * probing], places[:: 1 - 2 * probing]))
        return ColumnRows.of(result, pa.concat_tables(tables))

    @property
    def _keys(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return self.keys, self.second_keys

    def _by_key(self, rows: ColumnRows, side: int) -> _ByKey | None:
        """The rows of an input by their key; None where they are not looked up."""
        keys = self._keys[side]
        return prepared(rows, ("by key", keys, rows.order), partial(_by_key, rows, keys))

    def _found_in_probed(self, probed: ColumnRows, built: ColumnRows, probing: int, result: RowLayout) -> ColumnRows | None:
        """The same pairs in the same order, by looking up the few rows in the many that are the same in all rounds."""
        ordered, known = in_column_order(built), self._by_key(probed, probing)
        table = None if ordered is None else ordered.table()
        if known is None or table is None or not _are_keys(table, self._keys[1 - probing]):
            return None
        few, many = known.lookup.pairs([table.column(key) for key in self._keys[1 - probing]], alone=False)
        order = np.lexsort((few, many))
        sides, places = ((known.table, table), (many[order], few[order]))
        return ColumnRows.of(result, self._pairs(result, sides[:: 1 - 2 * probing], places[:: 1 - 2 * probing]))

    def _pairs(self, result: RowLayout, tables: Sequence[pa.Table], places: Sequence[npt.NDArray[np.int64]]) -> pa.Table:
        """Pairs of rows.

        Args:
            result: The layout of the pairs.
            tables: The rows of the first input, and of the second.
            places: The places of the rows of each pair in both.
        """
        absent = [numbers == NOBODY for numbers in places]
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


@dataclass(frozen=True)
class _ByKey:
    table: pa.Table
    lookup: Lookup

    @property
    def nbytes(self) -> int:
        return int(self.table.nbytes) + self.lookup.nbytes


def _by_key(rows: ColumnRows, keys: Sequence[int]) -> _ByKey | None:
    ordered = in_column_order(rows)
    table = None if ordered is None else ordered.table()
    if table is None or not _are_keys(table, keys):
        return None
    return _ByKey(table, Lookup([table.column(key) for key in keys]))
