"""Groups of rows with equal keys: cases of Flink's tests."""

from __future__ import annotations

import pytest

from dagster_operators.api.datasets.local_program import LocalProgram
from dagster_operators.errors import OperatorsError, PipelineError
from dagster_operators.operators.datasets.context import RichFunction
from tests.api.datasets.flink_cases import EXPECTED, PARALLELISM, as_row, data, is_as_expected

pytestmark = pytest.mark.parametrize("parallelism", PARALLELISM)


@pytest.mark.parametrize("hint", ["HASH", "SORT", "NONE", "OPTIMIZER_CHOOSES"])
@pytest.mark.parametrize("keys", [(4, 0), ("f4", "f0"), (lambda row: (row.f4, row.f0),)])
def test_reduce_leaves_rows_alone_that_are_alone(parallelism, hint, keys):
    program = LocalProgram(parallelism)
    rows = data(program, "tuple5").group_by(*keys)
    reduced = rows.reduce(lambda a, b: (a[0], a[1] + b[1], 0, "P-)", a[4]), hint)
    is_as_expected(program, reduced, "reduce_two_keys")


class WithSum(RichFunction):
    def open(self, context):
        self.sum = str(sum(value for (value,) in context.broadcast("ints")))

    def __call__(self, first, second):
        return first[0] + second[0], first[1], self.sum


def test_reduce_reads_a_broadcast_set_when_it_is_opened(parallelism):
    program = LocalProgram(parallelism)
    reduced = data(program, "tuple3").group_by(1).reduce(WithSum()).with_broadcast_set(data(program, "integers"), "ints")
    is_as_expected(program, reduced, "reduce_with_broadcast")


def test_rows_of_a_group_are_sorted_by_nested_fields(parallelism):
    def text(rows):
        listed = list(rows)
        yield listed[0].f1 + "--" + "".join("({},{})-".format(*row.f0) for row in listed)

    program = LocalProgram(parallelism)
    grouped = data(program, "nested").group_by(1).sort_group("f0.f0", "descending").sort_group("f0.f1", "descending")
    is_as_expected(program, grouped.reduce_group(text), "reduce_group_sorted")


def test_rows_of_a_group_of_a_computed_key_are_sorted_by_a_function(parallelism):
    program = LocalProgram(parallelism)
    grouped = data(program, "tuple3").group_by(lambda row: row.f1).sort_group(lambda row: -row.f0)
    found = program.collect(grouped.reduce_group(lambda rows: [tuple(row.f0 for row in rows)]))
    assert sorted(found) == [(1,), (3, 2), (6, 5, 4), (10, 9, 8, 7), (15, 14, 13, 12, 11), (21, 20, 19, 18, 17, 16)]


@pytest.mark.parametrize("parts", [2, 3, 4])
def test_a_combiner_is_in_front_of_every_shuffle(parallelism, parts):
    def combine(rows):
        listed = list(rows)
        yield sum(row[0] for row in listed), listed[0][1], f"test{listed[0][1]}"

    def reduce(rows):
        listed = list(rows)
        yield sum(row[0] for row in listed), listed[-1][2]

    program = LocalProgram(parts)
    rows = data(program, "tuple3").group_by(1).reduce_group(reduce, combine=combine)
    is_as_expected(program, rows, "reduce_group_combinable")


def test_rows_that_change_behind_their_way_out(parallelism):
    def twice(rows):
        for row in rows:
            if row[0] < 4:
                row[2] = "Hi!"
                row[0] += 10
                yield row
                row[0] += 10
                row[2] = "Hi again!"
                yield row

    program = LocalProgram(parallelism)
    rows = program.rows([list(row) for row in program.collect(data(program, "tuple3"))])
    changed, untouched = program.collect_all(rows.group_by(1).reduce_group(twice), rows.map(lambda row: row))
    assert sorted(map(tuple, changed)) == sorted(as_row(EXPECTED["reduce_group_mutating_input"]))
    assert sorted(untouched) == sorted(map(list, program.collect(data(program, "tuple3"))))


def test_combine_group_to_another_kind_of_row(parallelism):
    def partly(rows):
        listed = list(rows)
        yield listed[0][0], (sum(row.f0 for _, row in listed), sum(row.f1 + len(row.f2) for _, row in listed))

    def wholly(rows):
        listed = list(rows)
        yield tuple(sum(part) for part in zip(*(pair for _, pair in listed), strict=True))

    program = LocalProgram(parallelism)
    combined = data(program, "tuple3").rebalance().map(lambda row: (row.f1, row)).group_by(0).combine_group(partly)
    is_as_expected(program, combined.group_by(0).reduce_group(wholly), "combine_group_other_type")
    found = program.collect(combined)
    assert len({key for key, _ in found}) == 6
    assert len(found) >= 6


def test_aggregates_of_all_rows(parallelism):
    program = LocalProgram(parallelism)
    rows = data(program, "tuple3").aggregate("sum", 0).and_aggregate("max", "f1").project(0, 1)
    is_as_expected(program, rows, "aggregate_sum_and_max")


def test_the_sum_of_groups(parallelism):
    program = LocalProgram(parallelism)
    is_as_expected(program, data(program, "tuple3").group_by("f1").sum("f0").project(1, 0), "grouped_sum")


def test_the_least_of_groups_and_of_all(parallelism):
    program = LocalProgram(parallelism)
    is_as_expected(program, data(program, "tuple3").group_by(1).min(0).min(0).project(0), "min_of_group_minima")


def test_groups_that_are_sorted_by_a_function_are_combined_and_placed_by_their_key(parallelism):
    def numbers(rows):
        return [tuple(row.f0 for row in rows)]

    program = LocalProgram(parallelism)
    rows = data(program, "tuple3").partition_by_hash(1)
    grouped = rows.group_by(lambda row: row.f1).sort_group(lambda row: -row.f0)
    expected = [(1,), (3, 2), (6, 5, 4), (10, 9, 8, 7), (15, 14, 13, 12, 11), (21, 20, 19, 18, 17, 16)]
    assert sorted(program.collect(grouped.combine_group(numbers))) == expected
    assert sorted(program.collect(grouped.with_partitioner(lambda key, parts: key % parts).reduce_group(numbers))) == expected


FOUR = [(10, 100, "HelloWorld", 200, 20), (5, 50, "Hello", 50, 15), (10, 100, "HelloWorld", 200, 17), (5, 50, "Hello", 50, 17)]


def test_rows_with_extreme_values(parallelism):
    program = LocalProgram(parallelism)
    rows = program.rows(FOUR, "f0", "f1", "f2", "f3", "f4").rebalance()
    is_as_expected(program, rows.max_by(0, 2, 1, 4, 3), "max_by_min_by", "a")
    is_as_expected(program, rows.min_by(0, 2, 1, 4, 3), "max_by_min_by", "b")
    is_as_expected(program, rows.group_by("f4").max_by("f0"), "max_by_min_by", "c")
    (largest,) = program.collect(rows.max_by(0, 3))
    assert tuple(largest) in {FOUR[0], FOUR[2]}


def test_the_first_three_of_sorted_groups(parallelism):
    program = LocalProgram(parallelism)
    rows = data(program, "tuple3").group_by(1).sort_group("f0", "descending").first(3).project(1, 0)
    is_as_expected(program, rows, "first_three_sorted")


def test_the_first_rows_of_all(parallelism):
    program = LocalProgram(parallelism)
    assert len(program.collect(data(program, "tuple3").first(5))) == 5
    assert len(program.collect(data(program, "tuple3").first(50))) == 21


@pytest.mark.parametrize("call", ["sum", "min", "max", "min_by", "max_by"])
def test_null_is_not_compared_or_added(parallelism, call):
    program = LocalProgram(parallelism)
    rows = program.rows([(1, 2), (1, None)])
    with pytest.raises(OperatorsError, match="null"):
        program.collect(getattr(rows.group_by(0), call)(1))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda groups: groups.sort_group(lambda row: row), "sorted by a function, and one of fields"),
        (lambda groups: groups.sort_group(2).reduce(max), "does not look at the order"),
        (lambda groups: groups.sort_group(2).sum(0), "does not look at the order"),
        (lambda groups: groups.sort_group(7), "no field 7"),
        (lambda groups: groups.reduce(max, "BOTH"), "no combine hint 'BOTH'"),
        (lambda groups: groups.first(-1), "first -1 rows"),
        (lambda groups: groups.aggregate("median", 0), "no aggregate 'median'"),
        (lambda groups: groups.max_by("f9"), "no field 9"),
    ],
)
def test_what_groups_cannot_do_is_refused_where_it_is_written(parallelism, call, words):
    with pytest.raises(PipelineError, match=words) as met:
        call(data(LocalProgram(parallelism), "tuple3").group_by(1))
    assert met.value.remedy


def test_computed_keys_have_limits(parallelism):
    groups = data(LocalProgram(parallelism), "tuple3").group_by(lambda row: row.f1)
    with pytest.raises(PipelineError, match="no aggregates"):
        groups.sum(0)
    with pytest.raises(PipelineError, match="one function alone"):
        groups.sort_group(lambda row: row.f0).sort_group(lambda row: row.f2)
    with pytest.raises(PipelineError, match="one key field"):
        data(LocalProgram(parallelism), "tuple3").group_by(0, 1).with_partitioner(lambda key, parts: 0)


def test_a_partitioner_of_groups(parallelism):
    class Part(RichFunction):
        def open(self, context):
            self.part = context.subtask

        def __call__(self, rows):
            return [(self.part, row.f1) for row in rows]

    program = LocalProgram(parallelism)
    grouped = data(program, "tuple3").group_by(1).with_partitioner(lambda key, parts: key % parts)
    found = program.collect(grouped.reduce_group(Part()))
    assert len(found) == 21
    assert all(part == key % parallelism for part, key in found)
