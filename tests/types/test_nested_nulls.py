"""Nulls in nested values: the values stay what they are, and nothing is left below a null."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.graph.user_functions import forget
from dagster_operators.types.nested_nulls import with_nested_nulls
from tests.engines import SAIL
from tests.operators.cut_input import run

INNER = pa.struct({"c": pa.int64(), "d": pa.string()})
KINDS = {
    "struct": pa.struct({"a": pa.int64(), "inner": INNER}),
    "list": pa.list_(pa.struct({"a": pa.int64(), "inner": INNER})),
    "list of lists": pa.large_list(pa.list_(INNER)),
    "map": pa.map_(pa.string(), INNER),
    "plain": pa.list_(pa.int64()),
}


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(kind):
        return st.none() | st.fixed_dictionaries({field.name: values(field.type) for field in kind})
    if pa.types.is_map(kind):
        return st.none() | st.dictionaries(st.sampled_from("xyz"), values(kind.item_type)).map(
            lambda entries: list(entries.items())
        )
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return st.none() | st.lists(values(kind.value_type), max_size=3)
    return st.none() | (st.integers(0, 9) if pa.types.is_integer(kind) else st.sampled_from(["p", "q"]))


def left_below_nulls(array: pa.Array) -> int:
    """How many values lie in fields of structs that are null."""
    if pa.types.is_struct(array.type):
        fields = [array.field(number) for number in range(array.type.num_fields)]
        below = sum(field.is_valid().to_numpy(zero_copy_only=False)[array.is_null()].sum() for field in fields)
        return int(below) + sum(map(left_below_nulls, fields))
    if pa.types.is_map(array.type):
        return left_below_nulls(array.items)
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        return left_below_nulls(array.values)
    return 0


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=50, deadline=None, database=None)
@given(data=st.data(), start=st.integers(0, 3), cut=st.booleans())
def test_values_stay_and_nothing_is_left_below_a_null(name: str, data: st.DataObject, start: int, *, cut: bool) -> None:
    kind = KINDS[name]
    array = pa.array(data.draw(st.lists(values(kind), max_size=6)), kind)
    array = array.slice(start, 2) if cut else array
    found = with_nested_nulls(array)
    found.validate(full=True)
    assert (found.type, found.to_pylist()) == (array.type, array.to_pylist())
    assert left_below_nulls(found) == 0


@pytest.mark.usefixtures("sail")
def test_a_field_of_a_null_struct_is_null_on_sail_whoever_made_the_struct() -> None:
    @do.udf("struct<a: long>", name="boxed_of_mine")
    def boxed(v):  # type: ignore[no-untyped-def]
        return [None if one is None else {"a": one} for one in v.to_pylist()]

    schema = "v long, s struct<a: long, t: struct<c: long>>, ss array<struct<a: long>>, n struct<a: long NOT NULL>"
    batch = [
        {"v": 1, "s": {"a": 2, "t": {"c": 3}}, "ss": [{"a": 4}]},
        {"v": None, "s": {"a": 5, "t": None}, "ss": [None]},
        {"v": None, "s": None, "ss": None},
    ]

    def build(pipeline: do.Pipeline) -> None:
        rows = pipeline.source("rows", do.MemorySource([batch], schema=schema))
        rows.select("s.a", "s.t.c", "get(ss, 0).a AS x", "boxed_of_mine(v).a AS y", "n").to_table("out")

    try:
        found = run(SAIL, build).tables["out"]
        assert sorted(found, key=str) == [(2, 3, 4, 1, None), (5, None, None, None, None), (None, None, None, None, None)]
    finally:
        forget("boxed_of_mine")
