"""Habits from Flink and Spark are refused with what is written here, and a row in place of several is not taken in silence."""

from __future__ import annotations

import copy
import pickle
from typing import Any, NamedTuple

import pytest

from dagster_operators.api.datasets.local_program import LocalProgram
from dagster_operators.errors import OperatorsError, PipelineError, SchemaError

pytestmark = pytest.mark.in_process


class Point(NamedTuple):
    k: str
    v: int


def rows() -> Any:
    return LocalProgram().rows([("a", 1), ("b", 2)], schema="k string, v long")


@pytest.mark.parametrize(
    ("write", "told"),
    [
        (lambda data: data.groupBy("k"), "it is 'group_by' here"),
        (lambda data: data.flatMap(str), "it is 'flat_map' here"),
        (lambda data: data.leftOuterJoin(data), "it is 'left_outer_join' here"),
        (lambda data: data.join(data).where("k").equalTo("k"), "it is 'equal_to' here"),
        (lambda data: data.group_by("k").sortGroup("v", "ascending"), "it is 'sort_group' here"),
        (lambda data: data.iterate(3).closeWith(data), "it is 'close_with' here"),
        (lambda data: data.collect(), r"LocalProgram\(\)\.collect"),
        (lambda data: data.writeAsCsv("x"), "to_table"),
        (lambda data: data.with_columns(w="v"), r"before data_set\(\)"),
        (lambda data: data.join(data).where("k").equal_to("k").to_table("t"), r"no rows yet; end the join: pairs\(\)"),
        (lambda data: data.join(data).where("k").equal_to("k").project_first("k").map(str), r"no rows yet.*data_set\(\)"),
        (lambda data: data.cross(data).filter(bool), "no rows yet; end the product"),
        (lambda data: data.co_group(data).where("k").equal_to("k").map(str), r"no rows yet; .*with_function"),
        (lambda data: data.group_by("k").to_table("t"), r"no rows yet; end the group: reduce"),
        (lambda data: data.group_by("k").count(), "no rows yet; end the group"),
        (lambda data: data.iterate(3).map(str), "rows_of_round"),
        (lambda data: data.iterate_delta(data, 3, "k").join(data), "workset"),
        (lambda data: data.nothing_like_it, "no attribute 'nothing_like_it'$"),
    ],
)
def test_names_of_elsewhere(write: Any, told: str) -> None:
    with pytest.raises(AttributeError, match=told):
        write(rows())


def test_the_number_of_rows_as_the_error_says() -> None:
    program = LocalProgram()
    assert program.collect(rows().map(lambda _: (1,), schema="rows long").sum("rows")) == [(2,)]


def test_a_data_set_is_asked_for_names_as_other_objects_are() -> None:
    data = rows()
    assert not hasattr(data, "collect")
    assert copy.copy(data).fields == data.fields
    assert pickle.loads(pickle.dumps(data)).fields == data.fields  # noqa: S301 - our own


@pytest.mark.parametrize(
    "write",
    [
        lambda data: data.filter(7),
        lambda data: data.map("v * 2", schema="w long"),
        lambda data: data.group_by("k").reduce("sum"),
        lambda data: data.reduce_group(3),
        lambda data: data.join(data).where("k").equal_to("k").with_function("v"),
        lambda data: data.cross(data).with_function(0),
        lambda data: data.co_group(data).where("k").equal_to("k").with_function("v"),
        lambda data: data.map_partition(["v"]),
    ],
)
def test_what_is_no_function_is_refused_where_it_is_written(write: Any) -> None:
    with pytest.raises(PipelineError, match="is no function"):
        write(rows())


@pytest.mark.parametrize("row", ["ab", b"ab", {"w": "a"}, Point("a", 1)], ids=lambda row: type(row).__name__)
@pytest.mark.parametrize("declared", [{}, {"schema": "w string"}], ids=["plain", "declared"])
def test_a_row_in_place_of_several_is_refused(row: Any, declared: dict[str, str]) -> None:
    """Its letters, names or fields would be rows in silence."""
    program = LocalProgram()
    data = program.rows([("a", 1), ("b", 2)], schema="k string, v long")
    joined = data.join(data).where("k").equal_to("k")
    for made in (
        data.flat_map(lambda _: row, **declared),
        data.map_partition(lambda _: row, **declared),
        data.group_by("k").reduce_group(lambda _: row, **declared),
        joined.with_function(lambda *_: row, several=True, **declared),
        data.co_group(data).where("k").equal_to("k").with_function(lambda *_: row, **declared),
    ):
        with pytest.raises(SchemaError, match=r"which is one.*\[row\]"):
            program.collect(made)


def test_rows_in_any_iterable_are_taken() -> None:
    program = LocalProgram()
    data = program.rows([3])
    for several in ([1, 2], (1, 2), iter([1, 2]), range(1, 3), {1: 0, 2: 0}.keys()):
        assert program.collect(data.flat_map(lambda _, several=several: several)) == [1, 2]
    for none in (None, [], ()):
        assert not program.collect(data.flat_map(lambda _, none=none: none))
    with pytest.raises(OperatorsError, match="'int' object is not iterable"):
        program.collect(data.flat_map(lambda _: 0))
