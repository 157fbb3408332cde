"""Solution sets that change by columns have the rows, in their order, that a dictionary of rows has."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dagster_operators.operators.datasets.arrow_rows import ArrowRows
from dagster_operators.operators.datasets.columns.column_rows import ColumnRows, RowLayout
from dagster_operators.operators.datasets.columns.updated import UpdatedRows
from dagster_operators.operators.datasets.rows import key_of
from dagster_operators.operators.datasets.running.fragments import UPDATE
from dagster_operators.types.schema import Schema
from tests.examples import fresh_examples
from tests.operators.datasets.columns_drawn import typed_rows


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
