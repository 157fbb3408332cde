"""Batches cut by the time of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dagster_operators.errors import BadInputError
from dagster_operators.time.antichain import MinimalTimes

Constant: TypeAlias = Callable[[pa.RecordBatch], bool]

GATHERED: Final = 1_000_000
"""So many rows are cut by time together."""

_FEW: Final = 2**16
"""So many different times have numbers of 16 bits, which are sorted without comparing them."""


def cut_by_time(batch: pa.RecordBatch, column: str) -> Iterator[tuple[Any, pa.RecordBatch]]:
    """The rows of each time, in the order of time; rows of one time stay in their order.

    >>> rows = pa.RecordBatch.from_pydict({"v": [1, 2, 3], "t": pa.array([5, 3, 5], pa.timestamp("us"))})
    >>> [(time, part["v"].to_pylist()) for time, part in cut_by_time(rows, "t")]
    [(3, [2]), (5, [1, 3])]
    """
    times = whole_numbers(batch, column)
    if not len(times):
        return
    if is_constant(times):
        yield int(times[0]), batch
        return
    if (times[1:] < times[:-1]).any():
        order = stable_order(times)
        batch, times = batch.take(pa.array(order)), times[order]
    changes = np.flatnonzero(times[1:] != times[:-1]) + 1
    for start, end in pairwise([0, *changes.tolist(), batch.num_rows]):
        yield int(times[start]), batch.slice(start, end - start)


def stable_order(times: np.ndarray) -> np.ndarray:
    """The places of times in their order, equal ones as they stand: of few different times by their numbers, of 16 bits.

    >>> stable_order(np.array([5, 3, 5, 3])).tolist()
    [1, 3, 0, 2]
    """
    found = pa.array(times).dictionary_encode()
    different = found.dictionary.to_numpy()
    if len(different) > _FEW:
        return np.argsort(times, kind="stable")
    numbers = np.empty(len(different), np.uint16)
    numbers[np.argsort(different)] = np.arange(len(different))
    return np.argsort(numbers[found.indices.to_numpy()], kind="stable")


class Gathered:
    """Rows of several batches, to be cut together: cutting each small batch into many times would take long.

    Args:
        column: The column with the time; or what tells whether all rows of a batch are of one time.
        limit: How many rows are gathered at most.

    >>> def rows(*times): return pa.RecordBatch.from_pydict({"t": pa.array(times, pa.timestamp("us"))})
    >>> gathered = Gathered("t", limit=4)
    >>> gathered.add(rows(3, 3)).num_rows, gathered.add(rows(3, 4)), gathered.add(rows(4, 4)).num_rows, gathered.rest()
    (2, None, 4, None)
    """

    def __init__(self, column: str | Constant, limit: int = GATHERED) -> None:
        self._is_constant = partial(_one_time, column) if isinstance(column, str) else column
        self._limit = limit
        self._batches: list[pa.RecordBatch] = []
        self._count = 0

    def add(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Add rows; those that are to be cut now: at once if all are of one time and none wait, or if many wait."""
        if not self._batches and self._is_constant(batch):
            return batch
        self._batches.append(batch)
        self._count += batch.num_rows
        return self.rest() if self._count >= self._limit else None

    def rest(self) -> pa.RecordBatch | None:
        """The rows that wait, if there are any."""
        batches, self._batches, self._count = self._batches, [], 0
        return pa.concat_batches(batches) if batches else None


def apart_from_late(batch: pa.RecordBatch, column: str, frontier: MinimalTimes) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    """The rows that may still come at a frontier of whole numbers, and those that may not, if there are any.

    >>> from dagster_operators.time import Frontier
    >>> rows = pa.RecordBatch.from_pydict({"t": pa.array([5, 3], pa.timestamp("us"))})
    >>> [part.num_rows for part in apart_from_late(rows, "t", Frontier([4]))], apart_from_late(rows, "t", Frontier([3]))[1]
    ([1, 1], None)
    """
    times = whole_numbers(batch, column)
    least = min(frontier, default=None)
    timely = np.zeros(len(times), bool) if least is None else times >= least
    if timely.all():
        return batch, None
    return batch.filter(pa.array(timely)), batch.filter(pa.array(~timely))


def _one_time(column: str, batch: pa.RecordBatch) -> bool:
    return is_constant(whole_numbers(batch, column))


def is_constant(times: np.ndarray) -> bool:
    """Whether all are the same."""
    return not len(times) or bool((times == times[0]).all())


def whole_numbers(batch: pa.RecordBatch, column: str) -> np.ndarray:
    """A column of times as whole numbers.

    Raises:
        BadInputError: A row has no time.
    """
    if batch.column(column).null_count:
        raise BadInputError(
            "a row has no time", column=column, remedy=f"leave such rows out before: filter('{column} IS NOT NULL')"
        )
    found: np.ndarray = pc.cast(batch.column(column), pa.int64()).to_numpy(zero_copy_only=False)
    return found
