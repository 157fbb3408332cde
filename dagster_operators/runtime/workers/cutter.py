"""The engine's batches, cut into those that programs get: rows of one subtask and one entry, in the declared types."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from dagster_operators.errors import StageFailedError
from dagster_operators.runtime.workers.task import MARKER, PORT, ROW, SUBTASK, GraphTask

Part: TypeAlias = tuple[int, int, pa.RecordBatch]
"""A subtask, an entry or ``MARKER``, and rows."""


class Cutter:
    """Cuts the batches of a partition.

    Args:
        task: What there is to be done.
        partition: The partition's number.
    """

    def __init__(self, task: GraphTask, partition: int) -> None:
        self._task = task
        self._partition = partition
        self._last: dict[int, int] = {}

    def parts(self, batch: pa.RecordBatch) -> Iterator[Part]:
        """The parts of a batch. Rows of one subtask and entry stay in their order; all of a subtask, if an order is wanted.

        Raises:
            StageFailedError: The engine did not keep the order that is wanted.
        """
        if not batch.num_rows:
            return
        if PORT not in batch.schema.names:
            yield self._partition, 0, self._entry(batch, 0)
            return
        entries = batch.column(PORT).to_numpy(zero_copy_only=False)
        by_column = self._task.routing == "by column"
        subtasks = batch.column(SUBTASK).to_numpy(zero_copy_only=False) if by_column else np.full_like(entries, self._partition)
        if ROW in batch.schema.names:
            self._check_order(subtasks, batch.column(ROW).to_numpy(zero_copy_only=False))
        if (subtasks == subtasks[0]).all() and (entries == entries[0]).all():
            yield int(subtasks[0]), int(entries[0]), self._entry(batch, int(entries[0]))
        elif self._task.ordered:
            yield from self._stretches(batch, subtasks, entries)
        else:
            order = np.lexsort((entries, subtasks))  # which is stable
            yield from self._stretches(batch.take(pa.array(order)), subtasks[order], entries[order])

    def _stretches(self, batch: pa.RecordBatch, subtasks: np.ndarray, entries: np.ndarray) -> Iterator[Part]:
        """A batch cut wherever the next row is of another subtask or entry."""
        changes = np.flatnonzero((subtasks[1:] != subtasks[:-1]) | (entries[1:] != entries[:-1])) + 1
        for start, end in pairwise([0, *changes.tolist(), batch.num_rows]):
            entry = int(entries[start])
            yield int(subtasks[start]), entry, self._entry(batch.slice(start, end - start), entry)

    def _check_order(self, subtasks: np.ndarray, places: np.ndarray) -> None:
        """See that the engine gives all rows of each subtask one after another."""
        for subtask in dict.fromkeys(subtasks.tolist()):
            own = places[subtasks == subtask]
            first = self._last.get(subtask, 0) + 1
            if not np.array_equal(own, np.arange(first, first + len(own))):
                raise StageFailedError("the engine did not keep the order of rows", remedy="run the pipeline on Apache Spark")
            self._last[subtask] = first + len(own) - 1

    def _entry(self, batch: pa.RecordBatch, entry: int) -> pa.RecordBatch:
        if entry == MARKER:
            return batch
        schema = self._task.entries[entry].schema
        if len(self._task.entries) == 1:
            return _cast(batch.select(schema.names), schema)
        return _cast(pa.RecordBatch.from_struct_array(batch.column(f"_{entry}")), schema)


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The engine's batch in the declared types: engines differ in the zone of a timestamp and the width of a string."""
    columns = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
