"""Solution sets that change by columns have the rows, in their order, that a dictionary of rows has."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_operators.api.datasets.local_program import LocalProgram
from dagster_operators.errors import OperatorsError
from dagster_operators.operators.datasets.arrow_rows import ArrowRows
from dagster_operators.operators.datasets.columns.column_rows import ColumnRows, RowLayout
from dagster_operators.operators.datasets.columns.updated import UpdatedRows
from dagster_operators.operators.datasets.drivers.driver import Work
from dagster_operators.operators.datasets.rows import key_of
from dagster_operators.operators.datasets.running import fragment_task
from dagster_operators.operators.datasets.running.fragments import UPDATE
from dagster_operators.optimizer.program import Source, ordered
from dagster_operators.types.schema import Schema
from tests.examples import fresh_examples
from tests.operators.datasets.columns_drawn import Given, typed_rows
from tests.operators.datasets.in_files import ExecutionInFiles


@fresh_examples(60)
@given(typed_rows(20), st.integers(0, 20), st.lists(st.integers(0, 3), min_size=1, max_size=2, unique=True))
def test_the_last_row_of_each_key_is_where_the_key_came(schema_and_rows, before, keys):
    schema, rows = schema_and_rows
    arrow = ArrowRows(Schema.from_ddl(schema))
    layout, fields = RowLayout.of(arrow.arrow_schema), tuple(key % len(arrow.schema.fields) for key in keys)
    several = [ColumnRows.of(layout, pa.Table.from_batches([arrow.encode(part)])) for part in (rows[:before], rows[before:])]
    found = UpdatedRows(fields).run(several, UPDATE)
    if found is None:  # a null, NaN, or a type that is left to rows
        return
    key, expected = key_of(fields), {}
    for row in (row for part in several for row in part):
        expected[key(row)] = row
    assert list(map(repr, found)) == list(map(repr, expected.values()))


def test_rows_of_other_fields_are_left_to_rows():
    one, other = RowLayout((pa.int64(),), ("k",)), RowLayout((pa.int64(),), ("l",))
    assert UpdatedRows((0,)).result([one, other]) is None
    assert UpdatedRows((0,)).result([one, one]) == one
    assert UpdatedRows((1,)).result([one]) is None


def components(edges, vertices, parallelism, *, by_columns):
    """The rows of a delta iteration without functions of rows, as they come out, or its failure."""
    program = LocalProgram(parallelism)
    known = program.rows([], schema="v long").name("vertices").select("v", "v AS c")
    links = program.rows([], schema="x long, y long").name("edges")
    loop = known.iterate_delta(known, 20, "v")
    near = loop.workset.join(links).where("v").equal_to("x").project_second("y").project_first("c").data_set()
    least = near.group_by("y").min("c").select("y AS v", "c AS new")
    pairs = least.join(loop.solution_set).where("v").equal_to("v").project_first("v", "new").project_second("c")
    changed = pairs.data_set().filter("new < c").select("v", "new AS c")
    plan = program.plan(loop.close_with(changed, changed))
    for candidate in (candidate for sink in plan.sinks for one in sink for candidate in (one, *_within(one))):
        if not by_columns and isinstance(candidate.node.work, Work):
            candidate.node.work = replace(candidate.node.work, columns=None)
    names = {node.name for node in ordered([sink.node for sink in plan.sinks]) if isinstance(node, Source)}
    given = {
        "edges": Given("x long, y long", edges, by_columns), "vertices": Given("v long", [(v,) for v in vertices], by_columns),
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        try:
            (rows,) = ExecutionInFiles(plan, {name: given[name] for name in names}, Path(folder)).run().values() or [[]]
        except OperatorsError as error:
            return f"{type(error).__name__}: {error.problem}"
    return rows


def _within(candidate):
    return [] if candidate.loop is None else [one for end in candidate.loop.ends for one in end]


@fresh_examples(8)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=25), st.integers(8, 10), st.sampled_from([1, 2, 4]),
)  # fmt: skip
def test_a_delta_iteration_by_columns_gives_the_rows_of_one_by_rows(edges, vertices, parallelism):
    """With fewer than ten vertices a row may look up one that is not in the solution set, which fails either way."""
    expected, found = (components(edges, range(vertices), parallelism, by_columns=way) for way in (False, True))
    assert found == expected


@pytest.mark.parametrize("parallelism", [1, 2])
def test_it_works_by_columns_throughout(parallelism, monkeypatch):
    monkeypatch.setattr(fragment_task, "run_task", lambda *_, **__: pytest.fail("rows are worked on"))
    edges = [(1, 2), (2, 1), (2, 3), (3, 2), (5, 6), (6, 5)]
    found = components(edges, range(8), parallelism, by_columns=True)
    assert sorted(map(tuple, found)) == [(0, 0), (1, 1), (2, 1), (3, 1), (4, 4), (5, 5), (6, 5), (7, 7)]
