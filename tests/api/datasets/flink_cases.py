"""Cases of Flink's own tests: their data sets, and the rows that must come out.

The data and the rows restate those of Flink 1.14's tests (Apache-2.0): CollectionDataSets and the ITCases of its operators.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from dagster_operators.api.datasets.base import Bag
from dagster_operators.api.datasets.data_set import DataSet
from dagster_operators.api.datasets.local_program import LocalProgram

HERE = Path(__file__).parent
DATA = json.loads((HERE / "flink_data.json").read_text())
EXPECTED = json.loads((HERE / "flink_cases.json").read_text())
PARALLELISM = [1, 2, 4]


def as_row(values: Any) -> Any:
    return tuple(map(as_row, values)) if isinstance(values, list | tuple) else values


def data(program: LocalProgram, name: str) -> DataSet:
    rows = as_row(DATA[name])
    return program.rows(rows, *(f"f{number}" for number in range(len(rows[0]))))


def values(program: LocalProgram, *given: Any) -> DataSet:
    """A data set of plain values."""
    return program.rows(given)


def is_as_expected(program: LocalProgram, data_set: Bag, case: str, part: str | None = None) -> None:
    expected = EXPECTED[case] if part is None else EXPECTED[case][part]
    if isinstance(expected, dict):
        expected = DATA[expected["data"]] * expected["times"]
    rows = [row if isinstance(row, tuple) else (row,) for row in program.collect(data_set)]
    assert Counter(map(as_row, rows)) == Counter(map(as_row, expected))
