"""What a worker and a program in a process of its own say to each other: pickled messages in which rows are Arrow IPC streams.

Arrow's own pickling of a slice sends all of what it was cut from, and cannot be read without copying; the IPC format can do both.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import pyarrow as pa


def dumps(message: Any) -> bytes:
    """A message as bytes.

    >>> loads(dumps(("rows", pa.table({"v": [1, 2, 3]}).slice(1, 1)))) == ("rows", pa.table({"v": [2]}))
    True
    """
    target = io.BytesIO()
    _Pickler(target, protocol=5).dump(message)
    return target.getvalue()


def loads(data: bytes) -> Any:
    """The message that ``dumps`` made bytes of."""
    return pickle.loads(data)  # noqa: S301 - both ends run the same user's code


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, pa.RecordBatch):
            return _batch, (pickle.PickleBuffer(_stream(value.schema, [value])),)
        if isinstance(value, pa.Table):
            return _table, (pickle.PickleBuffer(_stream(value.schema, value.to_batches())),)
        return NotImplemented


def _stream(schema: pa.Schema, batches: list[pa.RecordBatch]) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def _table(data: Any) -> pa.Table:
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()


def _batch(data: Any) -> pa.RecordBatch:
    return pa.ipc.open_stream(pa.py_buffer(data)).read_next_batch()
