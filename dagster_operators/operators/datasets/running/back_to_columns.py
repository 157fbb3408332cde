"""The return to columns behind functions of rows: their rows become Arrow batches, as long as these hold the same values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
from typing_extensions import override

from dagster_operators.errors import PipelineError
from dagster_operators.operators.datasets.columns.column_rows import ColumnRows, RowLayout
from dagster_operators.operators.datasets.columns.exact_batches import exact_batch
from dagster_operators.operators.datasets.drivers.driver import ChainedDriver, Collect, TaskContext, driver_for
from dagster_operators.operators.datasets.drivers.row_wise import RowWiseDriver
from dagster_operators.operators.datasets.rows import Row, snapshot
from dagster_operators.optimizer.strategies import DriverStrategy

RETURN: Final = DriverStrategy("RETURN_TO_COLUMNS", chained=True)
"""Stands in a chain of drivers between a function of rows and what works by columns behind it."""

_ROWS_OF_BATCH: Final = 1 << 14
_MOST_BYTES: Final = 1 << 29
"""So many bytes are kept at most. Rows beyond go on one by one, which takes no memory."""


class Gathering:
    """Rows on their way into batches. From the first row on that is not exact in Arrow, all go on as rows, in their order.

    Args:
        layout: The layout of the rows.
        take: Takes all rows by their columns; says whether it could.

    Attributes:
        is_taken: Whether the rows were taken by their columns.
    """

    def __init__(self, layout: RowLayout, take: Callable[[ColumnRows], bool]) -> None:
        self.is_taken = False
        self._layout = layout
        self._take = take
        self._copies = layout.names is None or any(map(pa.types.is_binary, layout.types))
        self._rows: list[Row] = []
        self._batches: list[pa.RecordBatch] = []
        self._size = 0
        self._hand_on: Collect | None = None
        self._is_by_rows = False

    def begin(self, hand_on: Collect) -> None:
        """Take the function that rows go on to, where they do not become batches."""
        self._hand_on = hand_on

    def __call__(self, row: Row) -> None:
        """Add a row."""
        if self._is_by_rows:
            self._by_rows(row)
            return
        self._rows.append(snapshot(row) if self._copies else row)  # a function may change a value that it gave
        if len(self._rows) >= _ROWS_OF_BATCH:
            self._encode()

    def end(self) -> None:
        """There are no more rows."""
        if self._rows and not self._is_by_rows:
            self._encode()
        if self._is_by_rows:
            return
        batches, count = self._batches, sum(batch.num_rows for batch in self._batches)
        self.is_taken = self._take(ColumnRows(self._layout, lambda: batches, count))
        if not self.is_taken:
            self.go_on_by_rows()

    def go_on_by_rows(self) -> None:
        """Hand on all rows that are kept, and from now on each row as it comes."""
        batches, rows = self._batches, self._rows
        self._is_by_rows, self._batches, self._rows = True, [], []
        for batch in batches:
            for row in self._layout.rows(batch):
                self._by_rows(row)
        for row in rows:
            self._by_rows(row)

    def _encode(self) -> None:
        batch = exact_batch(self._layout, self._rows)
        if batch is None:
            self.go_on_by_rows()
            return
        self._rows = []
        self._batches.append(batch)
        self._size += batch.nbytes
        if self._size > _MOST_BYTES:
            self.go_on_by_rows()

    def _by_rows(self, row: Row) -> None:
        if self._hand_on is None:
            raise PipelineError("rows are gathered by nobody", remedy="report it with the program")
        self._hand_on(row)


class ChainedReturn(ChainedDriver):
    """Gathers rows into batches behind a function of rows."""

    _gathering: Gathering

    @override
    def setup(self, context: TaskContext) -> None:
        super().setup(context)
        gathering = context.work.function
        if not isinstance(gathering, Gathering):
            raise PipelineError("a return to columns has no rows to gather", remedy="report it with the program")
        gathering.begin(context.collect)
        self._gathering = gathering

    @override
    def collect(self, row: Row) -> None:
        self._gathering(row)

    @override
    def finish(self) -> None:
        self._gathering.end()


driver_for(RETURN, RowWiseDriver, ChainedReturn)
