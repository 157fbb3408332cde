"""Rows of functions: named, and of the types that are declared; values of other types are refused where a function gives them."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from dagster_operators.api.datasets.local_program import LocalProgram
from dagster_operators.errors import SchemaError
from dagster_operators.operators.datasets.row_maker import RowMaker
from dagster_operators.operators.datasets.rows import named_rows
from dagster_operators.types.schema import Schema

PAIR = "k string, v long"


@dataclass
class Record:
    v: int
    k: str


class Named(NamedTuple):
    first: str
    second: int


@pytest.mark.parametrize("given", [("a", 1), ["a", 1], {"v": 1, "k": "a"}, Record(1, "a"), Named("a", 1)])
@pytest.mark.parametrize("schema", [None, Schema.from_ddl(PAIR)])
def test_rows_of_every_kind_get_names(given, schema):
    row = RowMaker(("k", "v"), schema)(given)
    assert (row, type(row)) == (("a", 1), named_rows(("k", "v")))


@pytest.mark.parametrize("given", ["ab", b"ab", 7, None, ("a",), ("a", 1, 2), {"k": "a"}, {"a", "b"}, {"k": "a", "w": 1}])
def test_other_values_are_no_rows(given):
    with pytest.raises(SchemaError, match="k, v") as refused:
        RowMaker(("k", "v"))(given)
    assert refused.value.remedy
    assert "row" not in refused.value.where


def test_a_row_of_one_field_may_be_a_plain_value():
    make = RowMaker(("k",), Schema.from_ddl("k string"))
    assert [make(given) for given in ("abc", ("abc",), None)] == [("abc",), ("abc",), (None,)]


def test_each_combination_of_types_is_looked_at():
    make = RowMaker(("k", "v"), Schema.from_ddl("k string NOT NULL, v long"))
    assert make(("a", 1)) and make(("a", None))  # noqa: PT018 - both are rows
    for wrong in (("a", "b"), (1, 1), ("a", True), (None, 1), ("a", 1.0)):
        with pytest.raises(SchemaError, match=r"is declared|declared NOT NULL"):
            make(wrong)


def test_it_can_be_sent_to_another_process():
    make = pickle.loads(pickle.dumps(RowMaker(("k", "class"), Schema.from_ddl("k string, class int"))))  # noqa: S301
    assert make(("a", 1)) == ("a", 1)


CALLS = {
    "map": lambda rows: rows.map(lambda row: (row.k, row.k), schema=PAIR),
    "flat_map": lambda rows: rows.flat_map(lambda row: [(row.k, row.k)], schema=PAIR),
    "map_partition": lambda rows: rows.map_partition(lambda part: [(row.k, row.k) for row in part], schema=PAIR),
    "reduce": lambda rows: rows.group_by("k").reduce(lambda first, second: (first.k, second.k)),
    "reduce of all": lambda rows: rows.reduce(lambda first, second: (first.k, second.k)),
    "reduce_group": lambda rows: rows.group_by("k").reduce_group(lambda group: [(row.k, row.k) for row in group], schema=PAIR),
    "combine": lambda rows: rows.group_by("k").reduce_group(
        list, schema=PAIR, combine=lambda group: [(row.k, row.k) for row in group]
    ),
    "join": lambda rows: rows.join(rows).where("k").equal_to("k").with_function(lambda one, _: (one.k, one.k), schema=PAIR),
    "co_group": lambda rows: (
        rows.co_group(rows).where("k").equal_to("k").with_function(lambda one, _: [(row.k, row.k) for row in one], schema=PAIR)
    ),
    "cross": lambda rows: rows.cross(rows).with_function(lambda one, _: (one.k, one.k), schema=PAIR),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_function_that_gives_another_type_is_named(call):
    program = LocalProgram(2)
    made = CALLS[call](program.rows([("a", 1), ("a", 2)], schema=PAIR)).name("tens")
    with pytest.raises(SchemaError, match=r"'a' is a str where a long is declared \[(operator 'tens'|column 'v')") as refused:
        program.collect(made)
    assert (refused.value.operator, refused.value.column) == ("tens", "v")
