"""The plan as text, with what the last epoch was: the steps of programs of data sets, beside what the optimizer estimated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import dagster_operators as do
from tests.engines import ENGINES

if TYPE_CHECKING:
    from pathlib import Path

SORTED = "Hash Partition on [0], Sort (combining) on [0:ASC]"
COUNTED = "4 rows of 2 steps of this name"


@pytest.mark.usefixtures("sail")
def test_steps_of_data_sets_have_the_rows_that_there_were(tmp_path: Path) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=ENGINES["sail"], parallelism=2)
    rows = pipeline.source("rows", do.MemorySource([[("a", 1), ("b", 2), ("a", 3)]], schema="k string, v long")).data_set()
    rows.group_by("k").sum("v").name("sum of v").to_table("sums")
    loop = rows.iterate(3)
    plus = loop.rows_of_round.map(lambda row: (row.k, row.v + 1), schema="k string, v long").name("plus")
    loop.close_with(plus).name("three times").to_table("added")
    assert "step" not in pipeline.explain(rows=True)
    pipeline.run_epoch()
    assert "step" not in pipeline.explain()
    steps = [line for line in pipeline.explain(rows=True).splitlines() if line.lstrip().startswith("step ")]
    assert steps == [
        "    step rows 0: Data Source: 3 rows, 3 estimated",
        "    step sum of v: Combine (SORTED_GROUP_COMBINE) from rows 0 by Forward: 4 rows of 2 steps of this name, 3 estimated",
        f"    step sum of v: GroupReduce (SORTED_GROUP_REDUCE) from sum of v by {SORTED}: {COUNTED}, an unknown number estimated",
        "    step out: Data Sink from sum of v by Forward: 2 rows, an unknown number estimated",
        "    step rows 0: Data Source: 3 rows, 3 estimated",
        "    step three times: Bulk Iteration from rows 0 by Forward: 3 estimated, 3 rounds",
        "      step PartialSolution: Bulk Partial Solution: 3 estimated",
        "      step plus: Map (MAP) from PartialSolution by Forward: 9 rows, 3 estimated",
        "    step out: Data Sink from three times by Forward: 3 rows, 3 estimated",
    ]
