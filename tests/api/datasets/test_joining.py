"""Joins, co-groups and products: cases of Flink's tests."""

from __future__ import annotations

import pytest

from dagster_operators.api.datasets.joining import Joining
from dagster_operators.api.datasets.local_program import LocalProgram
from dagster_operators.errors import PipelineError
from dagster_operators.operators.datasets.context import RichFunction
from tests.api.datasets.flink_cases import PARALLELISM, data, is_as_expected

pytestmark = pytest.mark.parametrize("parallelism", PARALLELISM)


def both(program, second="tuple5"):
    return data(program, "tuple3_small"), data(program, second)


@pytest.mark.parametrize("keys", [(0, 2), ("f0", "f2"), (lambda row: row.f0, lambda row: row.f2), (0, lambda row: row.f2)])
def test_a_join_without_a_function_gives_pairs(parallelism, keys):
    program = LocalProgram(parallelism)
    left, right = both(program)
    is_as_expected(program, left.join(right).where(keys[0]).equal_to(keys[1]).pairs(), "join_default_pair")


def test_projections_in_turns(parallelism):
    program = LocalProgram(parallelism)
    left, right = both(program)
    joined = left.join(right).where(1).equal_to(1)
    fields = joined.project_first(2, 1).project_second("f3").project_first(0).project_second(4, 1)
    is_as_expected(program, fields.data_set(), "join_projection")


HINTS = ["OPTIMIZER_CHOOSES", "BROADCAST_HASH_FIRST", "BROADCAST_HASH_SECOND", "REPARTITION_HASH_FIRST"]
HINTS += ["REPARTITION_HASH_SECOND", "REPARTITION_SORT_MERGE"]


def texts(left, right):
    return None if left is None else left.f2, None if right is None else right.f3


@pytest.mark.parametrize("hint", HINTS)
def test_a_hint_changes_no_row(parallelism, hint):
    program = LocalProgram(parallelism)
    left, right = both(program)
    joined = left.join(right, hint).where(1).equal_to(1).with_function(texts)
    is_as_expected(program, joined, "join_hints_same_rows")


@pytest.mark.parametrize("call", ["join_with_tiny", "join_with_huge"])
def test_joins_with_small_and_large_data_sets(parallelism, call):
    program = LocalProgram(parallelism)
    left, right = both(program)
    is_as_expected(program, getattr(left, call)(right).where(1).equal_to(1).with_function(texts), "join_hints_same_rows")


OUTER = [
    ("left_outer_join", 0, 0, {"BROADCAST_HASH_FIRST"}),
    ("right_outer_join", 1, 1, {"BROADCAST_HASH_SECOND"}),
    ("full_outer_join", 0, 2, {"BROADCAST_HASH_FIRST", "BROADCAST_HASH_SECOND"}),
]


@pytest.mark.parametrize("hint", HINTS)
@pytest.mark.parametrize("outer", OUTER)
def test_outer_joins(parallelism, outer, hint):
    call, first, second, refused = outer
    program = LocalProgram(parallelism)
    left, right = both(program, "tuple5_small")
    if hint in refused:
        with pytest.raises(PipelineError, match="BROADCAST_HASH") as met:
            getattr(left, call)(right, hint)
        assert met.value.remedy
        return
    joined: Joining = getattr(left, call)(right, hint).where(first).equal_to(second)
    is_as_expected(program, joined.with_function(texts), call)


LEFT, RIGHT = [(1, "a"), (1, "b"), (2, "c"), (5, "d")], [(5, 50), (3, 30), (1, 10)]
PROJECTED = {
    "left_outer_join": [(1, "a", 10), (1, "b", 10), (2, "c", None), (5, "d", 50)],
    "right_outer_join": [(1, "a", 10), (1, "b", 10), (5, "d", 50), (None, None, 30)],
    "full_outer_join": [(1, "a", 10), (1, "b", 10), (2, "c", None), (5, "d", 50), (None, None, 30)],
}  # fmt: skip


@pytest.mark.parametrize("call", PROJECTED)
def test_fields_of_a_row_that_is_not_there_are_null(parallelism, call):
    program = LocalProgram(parallelism)
    left, right = program.rows(LEFT, schema="k long, t string"), program.rows(RIGHT, schema="k long, v long")
    joined = getattr(left, call)(right).where("k").equal_to("k").project_first("k", "t").project_second("v").data_set()
    assert sorted(map(tuple, program.collect(joined)), key=repr) == PROJECTED[call]


def test_rows_of_a_right_outer_merge_come_in_the_order_of_the_right_side(parallelism):
    program = LocalProgram(parallelism)
    left, right = program.rows([(2,), (4,)], schema="k long"), program.rows([(1,), (2,), (3,), (5,)], schema="n long")
    merged = left.right_outer_join(right, "REPARTITION_SORT_MERGE").where("k").equal_to("n").project_second("n").data_set()
    parts = program.collect(merged.sort_partition("n").map_partition(lambda rows: [[row.n for row in rows]]))
    assert sorted(map(tuple, parts)) == sorted(tuple(sorted(part)) for part in parts), "the plan takes them as sorted"


class Pairs(RichFunction):
    """For each right row and each left one a row; and how often it is called."""

    def open(self, context):
        self.calls = context.accumulator("calls", 0)

    def __call__(self, lefts, rights):
        self.calls.add(1)
        listed = list(lefts)
        return [(right.f0, right.f1, left.f3) for right in rights for left in listed]


@pytest.mark.parametrize("computed", [False, True])
def test_a_co_group_is_called_for_keys_of_one_side_too(parallelism, computed):
    program = LocalProgram(parallelism)
    groups = data(program, "tuple5").co_group(data(program, "tuple3"))
    if computed:
        groups = groups.where(lambda row: (row.f0, row.f4)).equal_to(lambda row: (row.f0, row.f1))
    else:
        groups = groups.where(0, 4).equal_to(0, 1)
    pairs = Pairs()
    is_as_expected(program, groups.with_function(pairs), "cogroup_two_keys")
    if not computed:
        assert program.accumulators["calls"] == 27


def test_groups_of_both_sides_are_sorted(parallelism):
    program = LocalProgram(parallelism)
    rows = data(program, "tuple3")
    groups = rows.co_group(rows).where(1).equal_to(1).sort_first_group(0, "descending").sort_second_group(2)
    found = program.collect(groups.with_function(lambda firsts, seconds: [([r.f0 for r in firsts], [r.f2 for r in seconds])]))
    assert len(found) == 6
    for numbers, words in found:
        assert numbers == sorted(numbers, reverse=True)
        assert words == sorted(words)


@pytest.mark.parametrize("call", ["cross", "cross_with_tiny", "cross_with_huge"])
def test_all_pairs(parallelism, call):
    program = LocalProgram(parallelism)
    rows = data(program, "tuple5_small")
    crossed = getattr(rows, call)(rows)
    function = crossed.with_function(lambda left, right: (left.f2 + right.f2, left.f3 + right.f3))
    is_as_expected(program, function, "cross_function")
    assert len(program.collect(crossed.pairs())) == 9
    fields = crossed.project_second(2).project_first(2).data_set()
    assert sorted(program.collect(fields)) == [(second, first) for second in range(3) for first in range(3)]


def test_a_join_that_gives_several_rows_of_a_pair(parallelism):
    program = LocalProgram(parallelism)
    left, right = both(program)
    joined = left.join(right).where(0).equal_to(2).with_function(lambda first, second: [first, first], several=True)
    assert len(program.collect(joined)) == 6


@pytest.mark.in_process
def test_a_partitioner_of_a_join(parallelism):
    asked = []

    def part(key, parts):
        asked.append((key, parts))
        return key % parts

    program = LocalProgram(parallelism)
    left, right = both(program)
    is_as_expected(program, left.join(right).where(0).equal_to(2).with_partitioner(part).pairs(), "join_default_pair")
    if parallelism > 1:
        assert {key for key, _ in asked} >= {1, 2, 3}
        assert {parts for _, parts in asked} == {parallelism}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda left, right: left.join(right).equal_to(0), "first data set is not known"),
        (lambda left, right: left.join(right).where(0).pairs(), "keys are not known"),
        (lambda left, right: left.join(right).where(0, 1).equal_to(0), "keys of 2 and of 1 fields"),
        (lambda left, right: left.join(right).where(0).equal_to(8), "no field 8"),
        (lambda left, right: left.left_outer_join(right).where(0).equal_to(0).pairs(), "has no pairs"),
        (lambda left, right: left.join(right).where(0, 1).equal_to(0, 1).with_partitioner(max), "one key field"),
        (lambda left, right: left.join(right).where(0).equal_to(0).project_first(5), "no field 5"),
        (lambda left, right: left.cross(right).project_second("f6"), "no field 6"),
        (lambda left, right: left.co_group(right).where(0).equal_to(0).sort_first_group("f4"), "no field 4"),
    ],
)
def test_joins_that_cannot_be_are_refused_where_they_are_written(parallelism, call, words):
    with pytest.raises(PipelineError, match=words) as met:
        call(*both(LocalProgram(parallelism)))
    assert met.value.remedy


def test_a_projection_of_no_fields(parallelism):
    left, right = both(LocalProgram(parallelism))
    for pairs in (left.join(right).where(0).equal_to(0), left.cross(right)):
        with pytest.raises(PipelineError, match="no fields"):
            pairs.project_first().project_second().data_set()
