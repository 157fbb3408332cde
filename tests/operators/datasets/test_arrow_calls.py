"""Functions over Arrow beside functions of rows that do the same: the same rows in the same order, or the same failure."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, reject
from hypothesis import strategies as st

from dagster_operators.api.data_sets import ArrowFunction
from dagster_operators.errors import PipelineError
from dagster_operators.types.data_type import Field
from dagster_operators.types.schema import Schema
from tests.examples import fresh_examples
from tests.operators.datasets.columns_drawn import STEPS, made, many_rows, results, typed_rows


def ddl_of(data):
    names = data.fields or [f"f{number}" for number in range(len(data.types))]
    return Schema(tuple(map(Field, names, data.types))).to_ddl()


def ends(group):
    return pa.concat_tables([group.slice(0, 1), group.slice(group.num_rows - 1)])


def ends_of_rows(group):
    rows = list(group)
    return [rows[0], rows[-1]]


def turned(table):
    return table.take(pa.array(range(table.num_rows - 1, -1, -1), pa.int64()))


def called(call, data, keys, place, *, over_arrow):
    """The data set that a call makes, with a function over Arrow or one of rows."""
    keys = list(dict.fromkeys(key % len(data.types) for key in keys))
    place, schema = place % len(data.types), ddl_of(data)
    several = {"schema": schema}
    functions = {
        "map": (lambda batch: batch, lambda row: row),
        "flat_map": (lambda batch: [batch.slice(0, 0), batch], lambda row: [row]),
        "filter": (lambda batch: pc.is_valid(batch.column(place)), lambda row: row[place] is not None),
        "map_partition": (turned, lambda rows: list(rows)[::-1]),
        "reduce_group": (ends, ends_of_rows), "combine_group": (ends, ends_of_rows), "sorted": (ends, ends_of_rows),
        "combined": (ends, ends_of_rows),
    }  # fmt: skip
    function = ArrowFunction(functions[call][0]) if over_arrow else functions[call][1]
    if call == "filter":
        return data.filter(function)
    if call in ("map", "flat_map", "map_partition"):
        return getattr(data, call)(function, **several)
    grouped = data.group_by(*keys)
    if call == "sorted":
        return grouped.sort_group(place, "descending").reduce_group(function, **several)
    if call == "combined":
        return grouped.sort_group(place).reduce_group(function, **several, combine=function)
    return getattr(grouped, call)(function, **several)


CALLS = ["map", "flat_map", "filter", "map_partition", "reduce_group", "combine_group", "sorted", "combined"]


BEFORE = st.one_of(st.just([]), STEPS.map(lambda steps: [step for step in steps if step[0] not in ("groups", "aggregate")]))
"""Without steps whose types are not known, and without sums, which may be too large for their type."""


def found_by(drawn, call, parallelism, folder, *, over_arrow, by_columns):
    (schema, rows), before, behind, keys, place = drawn

    def make(data, _):
        data = made(data, before)
        names = data.fields or [str(number) for number in range(len(data.types))]
        if len(set(names)) < len(names):  # columns have names of their own
            named = Schema(tuple(Field(f"n{number}", kind) for number, kind in enumerate(data.types)))
            data = data.map(tuple, schema=named.to_ddl())
        try:
            data = called(call, data, keys, place, over_arrow=over_arrow)
        except PipelineError:  # as a key or an order of lists
            reject()
        return made(data, behind)

    return results(schema, rows, (), parallelism, folder, by_columns=by_columns, make=make)


KEYS = st.lists(st.integers(0, 3), min_size=1, max_size=2)


@fresh_examples(30)
@given(
    st.tuples(st.one_of(typed_rows(), many_rows()), BEFORE, BEFORE, KEYS, st.integers(0, 3)),
    st.sampled_from(CALLS), st.sampled_from([1, 2, 4]),
)  # fmt: skip
def test_functions_over_arrow_give_what_functions_of_rows_give(drawn, call, parallelism):
    with tempfile.TemporaryDirectory() as folder:
        expected = found_by(drawn, call, parallelism, Path(folder), over_arrow=False, by_columns=False)
        for by_columns in (False, True):
            assert found_by(drawn, call, parallelism, Path(folder), over_arrow=True, by_columns=by_columns) == expected
