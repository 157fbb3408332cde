"""Groups of rows with equal keys in a table: where each begins, and tables in which they lie together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dagster_operators.operators.datasets.columns.column_rows import RowLayout, fits
from dagster_operators.operators.datasets.columns.sorting import is_comparable
from dagster_operators.operators.datasets.rows import Key, key_of
from dagster_operators.optimizer.properties.fields import Fields


def runs(layout: RowLayout, table: pa.Table, keys: Fields) -> Iterator[pa.Table]:
    """The groups of a table in which rows with equal keys lie together: each as a slice.

    Args:
        layout: The fields of the rows.
        table: The rows.
        keys: The key; without one all rows are a group.

    Raises:
        BadInputError: A key is null.

    >>> layout = RowLayout((pa.string(), pa.int64()), ("k", "v"))
    >>> table = pa.table({"0": ["a", "a", "b"], "1": [1, 2, 3]})
    >>> [group.column(1).to_pylist() for group in runs(layout, table, (0,))]
    [[1, 2], [3]]
    """
    if not table.num_rows:
        return
    if not keys:
        yield table
        return
    begins = begins_of(numbers_of(layout, table, keys))
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), table.num_rows], strict=True):
        yield table.slice(begin, end - begin)


def begins_of(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The places at which runs of equal numbers begin; there is at least one number.

    >>> begins_of(np.array([4, 4, 2, 2, 2])).tolist()
    [0, 2]
    """
    return np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1]]))


def together(layout: RowLayout, table: pa.Table, keys: Fields) -> pa.Table:
    """A table with rows of equal keys together, each as far ahead as the first of its group; within a group as they were.

    Raises:
        BadInputError: A key is null.

    >>> layout = RowLayout((pa.string(), pa.int64()), ("k", "v"))
    >>> together(layout, pa.table({"0": ["b", "a", "b"], "1": [1, 2, 3]}), (0,)).column(1).to_pylist()
    [1, 3, 2]
    """
    if not keys or not table.num_rows:
        return table
    return table.take(np.argsort(numbers_of(layout, table, keys), kind="stable"))


def numbers_of(layout: RowLayout, table: pa.Table, keys: Fields) -> npt.NDArray[np.int64]:
    """A number of each row: equal ones where the keys are, counted in the order in which keys first come.

    Args:
        layout: The fields of the rows.
        table: The rows.
        keys: The key.

    Raises:
        BadInputError: A key is null.

    >>> numbers_of(RowLayout((pa.string(),), ("k",)), pa.table({"k": ["b", "a", "b"]}), (0,)).tolist()
    [0, 1, 0]
    """
    columns = [table.column(key) for key in keys if isinstance(key, int)]
    if not fits(table) or len(columns) < len(keys) or not all(map(is_comparable, columns)):
        return _by_rows(layout, table, keys)
    numbers = np.zeros(table.num_rows, np.int64)
    for column in columns:
        if pa.types.is_floating(column.type):
            column = pc.add(column, pa.scalar(0.0, column.type))  # noqa: PLW2901 - zeros of both signs are one key
        encoded: Any = pa.chunked_array(column.chunks, column.type).combine_chunks().dictionary_encode()
        pairs = pa.array(numbers * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy())
        counted: Any = pairs.dictionary_encode()
        numbers = counted.indices.to_numpy().astype(np.int64)
    return numbers


def _by_rows(layout: RowLayout, table: pa.Table, keys: Fields) -> npt.NDArray[np.int64]:
    """The same by keys as Python's values: for what Arrow compares otherwise, and for fields within others."""
    key, known = key_of(keys), dict[Key, int]()
    rows: Sequence[Any] = [row for batch in table.to_batches() for row in layout.rows(batch)]
    return np.array([known.setdefault(key(row), len(known)) for row in rows], np.int64)
