"""The engine's batches, cut by subtask and entry: every row once, and those of one subtask and entry in their order."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_operators.runtime.workers.cutter import Cutter
from dagster_operators.runtime.workers.task import MARKER, PORT, SUBTASK

ROWS = pa.schema([("v", pa.int64())])
ENTRIES = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, MARKER])), max_size=20)


@settings(max_examples=50, deadline=None)
@given(rows=ENTRIES)
def test_rows_come_by_subtask_and_entry_in_their_order(rows):
    task = SimpleNamespace(routing="by column", ordered=False, entries=[SimpleNamespace(schema=ROWS)])
    batch = pa.RecordBatch.from_pydict({
        SUBTASK: pa.array([subtask for subtask, _ in rows], pa.int32()),
        PORT: pa.array([entry for _, entry in rows], pa.int32()),
        "v": pa.array(np.arange(len(rows)), pa.int64()),
    })  # fmt: skip
    found = {}
    for subtask, entry, part in Cutter(task, 0).parts(batch):
        assert (subtask, entry) not in found
        found[subtask, entry] = part["v"].to_pylist()
    wanted = {pair: [place for place, other in enumerate(rows) if other == pair] for pair in rows}
    assert found == wanted
