"""Epochs and state larger than the memory of the engine and of the Python process that drives it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.end_to_end.small_heap import HEAP

REPOSITORY = Path(__file__).parents[2]
KEYS = 300_000
FILES = 6
AGAIN = 10
"""Each tenth key comes once more, in the second epoch."""
PYTHON = 400 << 20
"""What the Python process may take: with all that it imports it takes 240 MB, and the rows of an epoch would be 575 MB."""
REPEATS = 125
"""How often a number's 16 digits are repeated to make a key of 2,000 bytes: on disk that is little, in memory it is not."""


def land(folder: Path, name: str, numbers: np.ndarray) -> int:
    """A file with one row for each number; gives the bytes that its rows take in memory."""
    size = 0
    schema = pa.schema({"k": pa.string(), "v": pa.int64()})
    with pq.ParquetWriter(folder / name, schema, compression="zstd", use_dictionary=False) as file:
        for part in np.array_split(numbers, max(1, len(numbers) // 10_000)):
            digits = pc.utf8_lpad(pa.array(part * 2_654_435_761).cast(pa.string()), 16, "0")
            rows = pa.table({"k": pc.binary_repeat(digits, REPEATS), "v": part})
            file.write_table(rows)
            size += rows.nbytes
    return size


def run(folder: Path, root: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.end_to_end.small_heap", str(folder), str(FILES), str(root)]
    told = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr[-4000:]
    result: dict[str, Any] = json.loads(told.stdout.splitlines()[-1])
    return result


def in_memory(table: Path) -> int:
    """The bytes that a table's rows take when they are not compressed."""
    footers = [pq.read_metadata(path) for path in DeltaTable(str(table)).file_uris()]
    return sum(footer.row_group(group).total_byte_size for footer in footers for group in range(footer.num_row_groups))


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_an_epoch_and_a_state_that_are_larger_than_the_heap(tmp_path: Path) -> None:
    """The second epoch has few rows, and yet reads all the state and writes all the table."""
    folder, root = tmp_path / "landing", tmp_path / "root"
    folder.mkdir()
    first = sum(land(folder, f"{number}.parquet", np.arange(number, KEYS, FILES)) for number in range(FILES))
    land(folder, "again.parquet", np.arange(0, KEYS, AGAIN))
    outcome = run(folder, root)
    assert outcome["epochs"] == [1, 2]
    assert outcome["heap"] <= HEAP
    assert outcome["used"] < PYTHON
    assert first > 1.1 * HEAP
    assert in_memory(root / "state" / "per_key.partials") > 1.1 * HEAP
    copied, totals = (DeltaTable(str(root / "tables" / table)) for table in ("copy", "totals"))
    assert copied.to_pyarrow_dataset().count_rows() == KEYS + KEYS // AGAIN
    found = totals.to_pyarrow_table(columns=["n", "total"])
    assert found.num_rows == KEYS
    assert pc.sum(found["n"]).as_py() == KEYS + KEYS // AGAIN
    assert pc.sum(found["total"]).as_py() == sum(range(KEYS)) + sum(range(0, KEYS, AGAIN))
