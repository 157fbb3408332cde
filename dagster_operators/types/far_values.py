"""Dates and times outside of the years 1 to 9999, which engines and Parquet have and Python has not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def shown_rows(rows: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows to be shown: a value that Python does not have is text.

    >>> import pyarrow as pa
    >>> shown_rows(pa.table({"n": [1], "at": pa.array([2932897], pa.int32()).cast(pa.date32())}))
    [{'n': 1, 'at': '10000-01-01'}]
    >>> shown_rows(pa.table({"n": [1]}).to_batches()[0].select([]))
    [{}]
    """
    names = rows.schema.names
    columns = [shown_values(column) for column in rows.columns]
    by_row = zip(*columns, strict=True) if columns else [()] * rows.num_rows
    return [dict(zip(names, values, strict=True)) for values in by_row]


def shown_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column to be shown."""
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        return [_shown(value) for value in column]
    return values


def _shown(value: pa.Scalar[Any]) -> Any:
    import pyarrow as pa

    try:
        return value.as_py()
    except (OverflowError, ValueError):
        pass
    if isinstance(value, pa.StructScalar):
        return {name: _shown(value[name]) for name in value.type.names}
    if isinstance(value, pa.ListScalar | pa.LargeListScalar | pa.MapScalar):
        return shown_values(value.values)
    return str(value.cast(pa.string()))


def first_far(batch: pa.RecordBatch) -> tuple[int, str] | None:
    """The row and the column of the first date or time that Python does not have; None if it has all.

    >>> import pyarrow as pa
    >>> first_far(pa.RecordBatch.from_pydict({"at": pa.array([0, 2932897], pa.int32()).cast(pa.date32())}))
    (1, 'at')
    """
    import pyarrow as pa

    found = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        for number, value in enumerate(column):
            try:
                value.as_py()
            except (UnicodeError, pa.ArrowException):  # a ValueError of a damaged text or batch, not of a date
                continue
            except (OverflowError, ValueError):
                found.append((number, name))
                break
    return min(found, default=None)
