"""The frontier at which an input ends that reads several streams, as behind a union."""

from __future__ import annotations

import pyarrow as pa

from dagster_operators.runtime.workers.task import Entry, GraphTask
from dagster_operators.time.frontier import FINISHED, Frontier


def test_an_input_has_not_ended_while_one_of_its_streams_has_not():
    schema = pa.schema([("v", pa.int64())])
    entries = [Entry(schema, (("events", 0),), Frontier([5])), Entry(schema, (("events", 0), ("events", 1)), FINISHED)]
    task = GraphTask(
        epoch=1, round=0, root="", files=None, programs=list, members=(), edges=(), entries=tuple(entries), parallelism=1,
        order=(), routing="none", cache=None,
    )  # fmt: skip
    assert task.ends() == {("events", 0): Frontier([5]), ("events", 1): FINISHED}
