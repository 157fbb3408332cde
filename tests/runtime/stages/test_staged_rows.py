"""Rows of staged files as this process reads and writes them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from dagster_operators.runtime.stages.staged_rows import read_batches, write_batches
from dagster_operators.storage.root import Root


def test_a_file_that_is_older_than_a_column_has_nulls_in_it(tmp_path: Path) -> None:
    root, old = Root(str(tmp_path)), pa.schema([("k", pa.string()), ("v", pa.int64())])
    (tmp_path / "tables/all/e1").mkdir(parents=True)
    write_batches(root, "tables/all/e1/old.parquet", [pa.record_batch({"k": ["a", "b"], "v": [1, 2]}, schema=old)], old)
    new = pa.schema([("k", pa.string()), ("w", pa.int64()), ("v", pa.int64())])
    (batch,) = read_batches(root, "tables/all", ["e1/old.parquet"], new, 10)
    assert batch.to_pydict() == {"k": ["a", "b"], "w": [None, None], "v": [1, 2]}
    (alone,) = read_batches(root, "tables/all", ["e1/old.parquet"], pa.schema([("w", pa.int64())]), 10)
    assert alone.to_pydict() == {"w": [None, None]}
