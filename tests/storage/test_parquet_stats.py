"""Statistics in the log of values at the ends of what a type has: right or left out, never an error, never too narrow (a15)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dagster_operators.storage.parquet_stats import delta_stats

UTC_TIME = pa.timestamp("us", "UTC")
LAST = 253_402_300_799_999_999
"""9999-12-31T23:59:59.999999, the last microsecond that Python's calendar has."""


@pytest.mark.parametrize(
    ("values", "kind", "low", "high"),
    [
        ([316_516_204_800_000_000], UTC_TIME, None, None),
        ([316_516_204_800_000_000], pa.timestamp("us"), None, None),
        ([-62_200_000_000_000_000], UTC_TIME, None, None),
        ([0, LAST], UTC_TIME, None, None),
        ([0, 1_500], UTC_TIME, "1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00.002Z"),
        ([3_000_000], pa.date32(), None, None),
        (["a", chr(0x10FFFF) * 40], pa.string(), "a", None),
        (["b" * 40], pa.string(), "b" * 32, "b" * 31 + "c"),
        ([1.0, float("nan")], pa.float64(), 1.0, None),
        ([-(2**63), 2**63 - 1], pa.int64(), -(2**63), 2**63 - 1),
        ([b"\xff"], pa.binary(), None, None),
    ],
)
def test_bounds(tmp_path: Path, values: list[Any], kind: pa.DataType, low: object, high: object) -> None:
    file = tmp_path / "values.parquet"
    pq.write_table(pa.table({"c": pa.array(values, kind)}), file)
    stats = json.loads(delta_stats(pq.read_metadata(file)))
    assert (stats["numRecords"], stats["nullCount"]) == (len(values), {"c": 0})
    assert (stats["minValues"].get("c"), stats["maxValues"].get("c")) == (low, high)
