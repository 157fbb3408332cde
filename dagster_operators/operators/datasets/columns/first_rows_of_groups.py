"""The first rows of each group by columns, in the order in which a driver gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from dagster_operators.operators.datasets.columns.column_rows import ColumnRows, RowLayout, fits
from dagster_operators.operators.datasets.columns.column_work import ColumnWork, Names
from dagster_operators.operators.datasets.columns.key_runs import begins_of, numbers_of
from dagster_operators.operators.datasets.columns.sorting import in_column_order, is_comparable, order_of
from dagster_operators.optimizer import strategies
from dagster_operators.optimizer.properties.ordering import Ordering
from dagster_operators.optimizer.strategies import DriverStrategy


@dataclass(frozen=True)
class FirstRowsOfGroups(ColumnWork):
    """So many rows of each group.

    Attributes:
        keys: The fields of the key; without any, all rows are a group.
        names: The names of the fields.
        count: How many rows of each group.
        within: The order of the rows of a group, for an operator that brings groups together itself.
    """

    keys: tuple[int, ...]
    names: Names
    count: int
    within: Ordering | None = None

    @override
    def result(self, inputs: Sequence[RowLayout]) -> RowLayout | None:
        (layout,) = inputs
        return layout if layout.names == self.names and all(key < len(layout.types) for key in self.keys) else None

    @override
    def work(self, inputs: Sequence[ColumnRows], result: RowLayout, strategy: DriverStrategy) -> ColumnRows | None:
        ordered = in_column_order(inputs[0])
        table = None if ordered is None else ordered.table()
        if table is None or not all(is_comparable(table.column(key), by_sign=True) for key in self.keys):
            return None
        if not self.keys:
            return ColumnRows.of(result, table.slice(0, self.count))
        if not table.num_rows or not fits(table):
            return ColumnRows.of(result, table) if fits(table) else None
        numbers = numbers_of(result, table, self.keys)
        if strategy != strategies.SORTED_GROUP_COMBINE:  # rows of a group lie together
            return ColumnRows.of(result, table.filter(pa.array(self._are_first(numbers))))
        order = np.arange(table.num_rows)
        if self.within is not None:
            sorted_so = order_of(table, self.within)
            if sorted_so is None:
                return None
            order = sorted_so.to_numpy()
        order = order[np.argsort(numbers[order], kind="stable")]
        return ColumnRows.of(result, table.take(pa.array(order[self._are_first(numbers[order])])))

    def _are_first(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Whether each row is among the first of its group, whose rows lie together."""
        begins = begins_of(numbers)
        sizes = np.diff(np.concatenate([begins, [len(numbers)]]))
        places: npt.NDArray[np.bool_] = np.arange(len(numbers)) - np.repeat(begins, sizes) < self.count
        return places
