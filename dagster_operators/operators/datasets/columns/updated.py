"""Changes taken into the rows of a solution set by columns, in the order in which a dictionary of rows has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from typing_extensions import override

from dagster_operators.operators.datasets.columns.column_rows import ColumnRows, RowLayout, fits
from dagster_operators.operators.datasets.columns.column_work import ColumnWork
from dagster_operators.operators.datasets.columns.key_runs import numbers_of
from dagster_operators.operators.datasets.columns.sorting import is_comparable
from dagster_operators.optimizer.strategies import DriverStrategy


@dataclass(frozen=True)
class UpdatedRows(ColumnWork):
    """The last row of each key, where the key first came.

    Attributes:
        keys: The fields of the key.
    """

    keys: tuple[int, ...]

    @override
    def result(self, inputs: Sequence[RowLayout]) -> RowLayout | None:
        (layout,) = set(inputs) if len(set(inputs)) == 1 else (None,)
        return layout if layout is not None and all(key < len(layout.types) for key in self.keys) else None

    @override
    def work(self, inputs: Sequence[ColumnRows], result: RowLayout, strategy: DriverStrategy) -> ColumnRows | None:
        if any(rows.order is not None for rows in inputs):
            return None
        table = pa.Table.from_batches([batch for rows in inputs for batch in rows.unsorted()], result.schema)
        if not fits(table) or not all(is_comparable(table.column(key), by_sign=True) for key in self.keys):
            return None
        if not table.num_rows:
            return ColumnRows.of(result, table)
        numbers = numbers_of(result, table, self.keys)
        last = np.zeros(int(numbers.max()) + 1, np.int64)
        last[numbers] = np.arange(table.num_rows)  # of several places of a number the last one stays
        return ColumnRows.of(result, table.take(pa.array(last)))
