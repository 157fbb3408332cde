"""Groups of rows with equal keys by columns: aggregates of their fields, their first rows, and rows with the extreme values.

Rows are taken in block by block. What came out so far goes before the next block, so that numbers are added up one behind the
other, as drivers do it: the sum of floating-point numbers depends on that.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from dagster_operators.operators.datasets.columns.column_rows import ColumnRows, RowLayout, fits
from dagster_operators.operators.datasets.columns.column_work import ColumnWork, Names
from dagster_operators.operators.datasets.columns.exact_sums import is_summed, sums
from dagster_operators.operators.datasets.columns.sorting import in_column_order, is_comparable, order_of
from dagster_operators.optimizer.properties.ordering import Direction, Ordering
from dagster_operators.optimizer.strategies import DriverStrategy

_ROWS_OF_BLOCK: Final = 1 << 20
_PLACE: Final = "place"
"""The column with the positions of rows."""
_FIRST: Final = "first"
"""The column with the place of a group's first row."""
_ALL: Final = "all"
"""The key of operators that have none."""


@dataclass(frozen=True)
class GroupedColumns(ColumnWork):
    """A row of each group, in the order in which the groups come.

    Attributes:
        keys: The fields of the key; without any, all rows are a group.
        names: The names of the result's fields.
    """

    keys: tuple[int, ...]
    names: Names

    @abstractmethod
    def fewer(self, table: pa.Table, before: int) -> pa.Table | None:
        """A row of each group, with the same columns; None where values are such that only rows can be worked on.

        Args:
            table: Rows of which the first ones came out already.
            before: How many did.
        """

    @override
    def result(self, inputs: Sequence[RowLayout]) -> RowLayout | None:
        (layout,) = inputs
        width = len(layout.types)
        if any(key >= width for key in self.keys) or (self.names is not None and len(self.names) != width):
            return None
        return RowLayout(layout.types, self.names)

    @override
    def work(self, inputs: Sequence[ColumnRows], result: RowLayout, strategy: DriverStrategy) -> ColumnRows | None:
        (rows,) = inputs
        order = rows.order
        if order is not None and not set(order.fields) <= set(self.keys):
            ordered, order = in_column_order(rows), None
            if ordered is None:
                return None
            rows = ordered
        table: pa.Table | None = rows.layout.schema.empty_table()
        for block in rows.tables(_ROWS_OF_BLOCK):
            if table is None or not all(is_comparable(block.column(key), by_sign=True) for key in self.keys):
                return None
            before, table = table.num_rows, pa.concat_tables([table, block])
            table = self.fewer(table, before) if fits(table) else None
        if table is not None and order is not None:
            places = order_of(table, order)
            table = None if places is None else table.take(places)
        return None if table is None else ColumnRows.of(result, table)

    def keys_of(self, table: pa.Table) -> dict[str, Any]:
        """The columns of the key, by name."""
        keys = {f"key {key}": table.column(key) for key in self.keys}
        return keys or {_ALL: pa.array(np.zeros(table.num_rows, np.int8))}


@dataclass(frozen=True)
class GroupAggregates(GroupedColumns):
    """A row of each group with aggregates of some fields; the other ones are those of its last row.

    Attributes:
        parts: Each aggregate with its field.
    """

    parts: tuple[tuple[str, int], ...]

    @override
    def result(self, inputs: Sequence[RowLayout]) -> RowLayout | None:
        layout = super().result(inputs)
        types = inputs[0].types
        works = layout is not None and all(
            field < len(types) and field not in self.keys and (kind != "sum" or is_summed(types[field]))
            for kind, field in self.parts
        )
        return layout if works else None

    @override
    def fewer(self, table: pa.Table, before: int) -> pa.Table | None:
        asked = {field: kind for kind, field in self.parts}
        others = [field for field in range(table.num_columns) if field not in asked and field not in self.keys]
        if not all(is_comparable(table.column(field), by_sign=True) for field in asked):
            return None
        columns: dict[str, Any] = {}
        aggregates = []
        for field, kind in asked.items():
            if kind != "sum":
                columns[str(field)] = table.column(field)
                aggregates.append((str(field), kind))
        if others:
            columns[_PLACE] = np.arange(table.num_rows)
            aggregates.append((_PLACE, "max"))
        summed = {field: table.column(field) for field, kind in asked.items() if kind == "sum"}
        keys = self.keys_of(table)
        added = sums(summed, before, lambda more, parts: _grouped(keys, {**columns, **more}, [*aggregates, *parts]))
        if added is None:
            return None
        grouped, totals = added
        results: dict[int, Any] = {key: grouped.column(f"key {key}") for key in self.keys}
        results |= {field: grouped.column(f"{field}_{kind}") for field, kind in asked.items() if kind != "sum"}
        results |= totals
        if others:
            last = table.select([str(field) for field in others]).take(grouped.column(f"{_PLACE}_max"))
            results |= dict(zip(others, last.columns, strict=True))
        return pa.table([results[field] for field in range(table.num_columns)], schema=table.schema)


@dataclass(frozen=True)
class FirstOfGroups(GroupedColumns):
    """The first row of each group."""

    @override
    def fewer(self, table: pa.Table, before: int) -> pa.Table | None:
        grouped = _grouped(self.keys_of(table), {_PLACE: np.arange(table.num_rows)}, [(_PLACE, "min")])
        return table.take(grouped.column(f"{_PLACE}_min"))


@dataclass(frozen=True)
class ExtremeOfGroups(GroupedColumns):
    """The row of each group with the smallest, or the largest, values of some fields; of equal ones the first.

    Attributes:
        fields: The fields, the first one first.
        least: Whether it is the smallest.
    """

    fields: tuple[int, ...]
    least: bool

    @override
    def result(self, inputs: Sequence[RowLayout]) -> RowLayout | None:
        return super().result(inputs) if all(field < len(inputs[0].types) for field in self.fields) else None

    @override
    def fewer(self, table: pa.Table, before: int) -> pa.Table | None:
        way = Direction.ASCENDING if self.least else Direction.DESCENDING
        order = order_of(table, Ordering(tuple((field, way) for field in dict.fromkeys(self.fields))))
        if order is None:
            return None
        keys = {name: pc.take(column, order) for name, column in self.keys_of(table).items()}
        grouped = _grouped(keys, {_PLACE: order}, [(_PLACE, "first"), (_PLACE, "min")])
        by_group = pc.sort_indices(grouped, sort_keys=[(f"{_PLACE}_min", "ascending")])
        return table.take(grouped.column(f"{_PLACE}_first").take(by_group))


def _grouped(keys: Mapping[str, Any], columns: Mapping[str, Any], aggregates: Sequence[tuple[str, str]]) -> pa.Table:
    """Aggregates of columns for each group, in the order in which the groups come.

    Args:
        keys: The columns of the key, by name.
        columns: The columns that are aggregated, by name.
        aggregates: The name of each column with the aggregate.
    """
    given = pa.table({**keys, **columns})
    given = given.append_column(_FIRST, pa.array(np.arange(given.num_rows)))
    grouped = given.group_by(list(keys), use_threads=False).aggregate([*aggregates, (_FIRST, "min")])
    # Arrow numbers groups in an order of its own.
    return grouped.take(pc.sort_indices(grouped.column(f"{_FIRST}_min"))).drop_columns([f"{_FIRST}_min"])
