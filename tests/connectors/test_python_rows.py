"""A value that Python does not have is told of rows for a sink; other errors are what they are."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dagster_operators.connectors.python_rows import python_rows
from dagster_operators.errors import SinkError


def test_text_that_is_no_text_is_no_far_date() -> None:
    text = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    far = pa.array([2932897], pa.int32()).cast(pa.date32())
    with pytest.raises(UnicodeDecodeError):
        list(python_rows([pa.RecordBatch.from_arrays([text], ["s"])]))
    with pytest.raises(SinkError, match="column 'at'"):
        list(python_rows([pa.RecordBatch.from_arrays([far], ["at"])]))
