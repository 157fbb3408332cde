"""Rows in an order, by their columns: as sorting them one by one gives them, those that are equal in the order as they were."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from dagster_operators.operators.datasets.columns.column_rows import ColumnRows
from dagster_operators.operators.datasets.prepared import prepared
from dagster_operators.optimizer.properties.ordering import Direction, Ordering

_ORDERED: Final = (
    pa.types.is_integer, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_string, pa.types.is_binary, pa.types.is_date32,
    pa.types.is_timestamp,
)  # fmt: skip


def is_comparable(column: Any, *, by_sign: bool = False) -> bool:
    """Whether the values of a column are ordered, and equal, as Python has it: none is null, or no number.

    Args:
        column: The column.
        by_sign: Whether zeros with different signs matter: they are equal in Python, and different values.

    >>> is_comparable(pa.array([1, 2])), is_comparable(pa.array([1, None])), is_comparable(pa.array([float("nan")]))
    (True, False, False)
    """
    kind, tests = column.type, pa.types
    if column.null_count:
        return False
    if tests.is_floating(kind):
        odd = pc.is_nan(column)
        if by_sign:
            inverse = pc.divide(pa.scalar(1.0, kind), column)  # of a negative zero it is less than any number
            odd = pc.or_(odd, pc.equal(inverse, pa.scalar(float("-inf"), kind)))
        return not pc.any(odd).as_py()
    return any(test(kind) for test in _ORDERED)


def order_of(table: pa.Table, ordering: Ordering) -> Any:
    """The positions of a table's rows in an order; None where columns are not compared as Python's values are.

    >>> from dagster_operators.optimizer.properties.ordering import Ordering
    >>> order_of(pa.table({"0": [3, 1, 2]}), Ordering.of([0], Direction.DESCENDING)).to_pylist()
    [0, 2, 1]
    """
    keys = [(field, "descending" if way is Direction.DESCENDING else "ascending") for field, way in ordering.parts]
    if not all(isinstance(field, int) and is_comparable(table.column(field)) for field, _ in keys):
        return None
    return pc.sort_indices(table, sort_keys=[(str(field), way) for field, way in keys])


def in_column_order(rows: ColumnRows) -> ColumnRows | None:
    """The rows in the order that they are to be in; None where columns are not compared as Python's values are."""
    if rows.order is None:
        return rows
    table = prepared(rows, ("in order", rows.order), partial(_sorted, rows, rows.order))
    return None if table is None else ColumnRows.of(rows.layout, table)


def _sorted(rows: ColumnRows, order: Ordering) -> pa.Table | None:
    table = rows.table()
    places = None if table is None else order_of(table, order)
    return None if table is None or places is None else table.take(places)


def all_in_order(several: Iterable[ColumnRows]) -> list[ColumnRows] | None:
    """The rows of several inputs, each in the order that it is to be in; None where that cannot be."""
    results = []
    for rows in several:
        ordered = in_column_order(rows)
        if ordered is None:
            return None
        results.append(ordered)
    return results
