"""Programs in pipelines whose operators work by columns, beside the same ones by rows."""

from __future__ import annotations

import tempfile
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_operators import MemorySource, Pipeline
from dagster_operators.api.datasets.stream_program import StreamProgram
from dagster_operators.errors import OperatorsError
from tests.engines import SAIL
from tests.examples import fresh_examples
from tests.operators.datasets.columns_drawn import STEPS, made, typed_rows, without_columns

pytestmark = [pytest.mark.in_process, pytest.mark.sail]


def written(schema, rows, steps, parallelism, *, by_columns):
    """The rows of the table that a program writes, as texts, or its failure."""
    plan = StreamProgram.plan

    def by_rows(*arguments, **named):
        chosen, sources = plan(*arguments, **named)
        without_columns(chosen)
        return chosen, sources

    with tempfile.TemporaryDirectory() as root, mock.patch.object(StreamProgram, "plan", plan if by_columns else by_rows):
        pipeline = Pipeline("p", root=root, engine=SAIL, parallelism=parallelism)
        data = made(pipeline.source("rows", MemorySource([rows], schema=schema)).data_set(), steps)
        try:
            data.to_table("t")
            pipeline.run_epoch()
        except OperatorsError as error:
            return f"{type(error).__name__}: {error.problem}"
        return sorted(map(repr, pipeline.to_arrow("t").to_pylist()))


TRIES = 40
"""How often rows may come in another order, where a result depends on it: a pipeline promises none to ``min_by`` or ``first``."""


@fresh_examples(5)
@given(typed_rows(), STEPS, st.sampled_from([1, 2, 4]))
def test_tables_are_the_same_by_columns_and_by_rows(schema_and_rows, steps, parallelism):
    schema, rows = schema_and_rows
    by_columns = written(schema, rows, steps, parallelism, by_columns=True)
    by_rows = [written(schema, rows, steps, parallelism, by_columns=False)]
    while by_columns not in by_rows and len(by_rows) < TRIES:
        by_rows.append(written(schema, rows, steps, parallelism, by_columns=False))
    assert by_columns in by_rows
