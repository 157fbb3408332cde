"""Values that the engine brings to partitions of their own, and rows that go by them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dagster_operators.runtime.workers import placement
from dagster_operators.runtime.workers.shuffle import EntryRows, Shuffle
from dagster_operators.runtime.workers.task import SUBTASK
from dagster_operators.types.arrow_schema import spark_type

SCHEMA = pa.schema([("k", pa.int64())])


def named(batches):
    """The subtasks of a partition, and how many rows each has."""
    found = [subtask for batch in batches for subtask in batch.column(SUBTASK).to_pylist()]
    yield pa.RecordBatch.from_pydict({"subtasks": [sorted(set(found))], "rows": [len(found)]})


@pytest.mark.parametrize("parallelism", [2, 3])
def test_each_subtask_has_a_partition_of_its_own(sail, parallelism):
    rows = sail.range(0, 1000, 1, 1).selectExpr("id AS k")
    shuffle = Shuffle(sail, [EntryRows(rows, SCHEMA, ("k",))], [spark_type(pa.int64())], parallelism)
    frame = shuffle.by_column(range(parallelism))
    partitions = frame.mapInArrow(named, "subtasks array<int>, rows int").collect()
    assert sorted(row.subtasks for row in partitions if row.rows) == [[number] for number in range(parallelism)]
    assert sum(row.rows for row in partitions) == 1000 + parallelism  # and the markers


def test_an_engine_that_tells_nothing_is_given_different_values_all_the_same(monkeypatch):
    class Nothing:
        def __getattr__(self, _):
            return lambda *_: self

        def __iter__(self):
            return iter(())

    monkeypatch.setattr(placement, "_known", {})
    assert placement.apart(Nothing(), 3) == (0, 1, 2)
    assert placement.apart(Nothing(), 1) == (0,)
