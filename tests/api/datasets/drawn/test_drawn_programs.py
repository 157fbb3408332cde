"""Fresh programs of data sets have the rows of a plain computation: in lists, in files, and on engines, in any parts."""

from __future__ import annotations

import os
from typing import Final

import pytest
from hypothesis import given

from dagster_operators.api.datasets.local_program import LocalProgram
from tests.api.datasets.drawn.programs import Case, cases
from tests.api.datasets.drawn.values import bag
from tests.examples import fresh_examples

EXAMPLES: Final = int(os.environ.get("DAGSTER_OPERATORS_DATA_SETS", "20"))


@pytest.mark.timeout(300 + 10 * EXAMPLES)
@fresh_examples(EXAMPLES)
@given(cases())
def test_rows_are_those_of_a_plain_computation(case: Case) -> None:
    local = LocalProgram(case.parts)
    inputs = [local.rows(rows, schema=case.program.schema, size=case.size[0], count=case.size[1]) for rows in case.rows]
    if case.spread:
        inputs = [rows.rebalance() for rows in inputs]
    ends = case.program.data_sets(inputs)
    for found, rows in zip(local.collect_all(*ends), case.expected, strict=True):
        assert bag(found) == bag(rows)
