"""Batches cut by the time of their rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dagster_operators.errors import BadInputError
from dagster_operators.time.antichain import MinimalTimes


def cut_by_time(batch: pa.RecordBatch, column: str) -> Iterator[tuple[Any, pa.RecordBatch]]:
    """The rows of each time, in the order of time; rows of one time stay in their order.

    >>> rows = pa.RecordBatch.from_pydict({"v": [1, 2, 3], "t": pa.array([5, 3, 5], pa.timestamp("us"))})
    >>> [(time, part["v"].to_pylist()) for time, part in cut_by_time(rows, "t")]
    [(3, [2]), (5, [1, 3])]
    """
    times = _micros(batch, column)
    if not len(times):
        return
    if (times == times[0]).all():
        yield int(times[0]), batch
        return
    if (times[1:] < times[:-1]).any():
        order = np.argsort(times, kind="stable")
        batch, times = batch.take(pa.array(order)), times[order]
    changes = np.flatnonzero(times[1:] != times[:-1]) + 1
    for start, end in pairwise([0, *changes.tolist(), batch.num_rows]):
        yield int(times[start]), batch.slice(start, end - start)


def apart_from_late(batch: pa.RecordBatch, column: str, frontier: MinimalTimes) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    """The rows that may still come at a frontier of whole numbers, and those that may not, if there are any.

    >>> from dagster_operators.time import Frontier
    >>> rows = pa.RecordBatch.from_pydict({"t": pa.array([5, 3], pa.timestamp("us"))})
    >>> [part.num_rows for part in apart_from_late(rows, "t", Frontier([4]))], apart_from_late(rows, "t", Frontier([3]))[1]
    ([1, 1], None)
    """
    times = _micros(batch, column)
    least = min(frontier, default=None)
    timely = np.zeros(len(times), bool) if least is None else times >= least
    if timely.all():
        return batch, None
    return batch.filter(pa.array(timely)), batch.filter(pa.array(~timely))


def _micros(batch: pa.RecordBatch, column: str) -> np.ndarray:
    if batch.column(column).null_count:
        raise BadInputError(
            "a row has no time", column=column, remedy=f"leave such rows out before: filter('{column} IS NOT NULL')"
        )
    found: np.ndarray = pc.cast(batch.column(column), pa.int64()).to_numpy(zero_copy_only=False)
    return found
