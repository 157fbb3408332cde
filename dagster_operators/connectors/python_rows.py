"""The rows of a sink as Python has them; one with a value that Python does not have is named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from dagster_operators.errors import SinkError
from dagster_operators.types.far_values import first_far

if TYPE_CHECKING:
    import pyarrow as pa


def python_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """The rows of some batches.

    Raises:
        SinkError: A date or time is outside of the years 1 to 9999.

    >>> import pyarrow as pa
    >>> far = pa.array([0, 2932897], pa.int32()).cast(pa.date32())
    >>> list(python_rows([pa.RecordBatch.from_pydict({"at": far})]))
    Traceback (most recent call last):
    dagster_operators.errors.SinkError: row 2 for the sink has a date or time outside of the years 1 to 9999 [column 'at', ...
    """
    before = 0
    for batch in batches:
        try:
            rows = batch.to_pylist()
        except (OverflowError, ValueError):
            if (far := first_far(batch)) is None:  # other errors are ValueErrors, too
                raise
            row, column = far
            raise SinkError(
                f"row {before + row + 1} for the sink has a date or time outside of the years 1 to 9999", column=column,
                row=before + row + 1, remedy=f"leave such rows out before the sink, or write the column as text: "
                f"with_columns({column}='CAST({column} AS STRING)')",
            ) from None  # fmt: skip
        yield from rows
        before += batch.num_rows
