"""Rows one by one, parts and where they lie, and unions: cases of Flink's tests."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from dagster_operators.api.datasets.data_set import CustomUnaryOperation, DataSet
from dagster_operators.api.datasets.local_program import LocalProgram
from dagster_operators.errors import OperatorsError, PipelineError
from dagster_operators.operators.datasets.context import RichFunction
from tests.api.datasets.flink_cases import DATA, EXPECTED, PARALLELISM, data, is_as_expected, values

pytestmark = pytest.mark.parametrize("parallelism", PARALLELISM)


def test_map_takes_fields_in_another_order(parallelism):
    program = LocalProgram(parallelism)
    mapped = data(program, "tuple3").map(lambda row: (row[0] + 1, row[2], row[1]))
    is_as_expected(program, mapped, "map_reorder")


def test_flat_map_gives_none_or_several(parallelism):
    program = LocalProgram(parallelism)
    mapped = data(program, "tuple3").flat_map(lambda row: [row] * (row.f0 % 3), schema="f0 int, f1 long, f2 string")
    is_as_expected(program, mapped, "flat_map_mod_3")


def test_map_partition_reads_an_iterator(parallelism):
    def small_sums(rows):
        return ((row.f1, int(row.f0) + 10) for row in rows if int(row.f0) + int(row.f1) < 10)

    program = LocalProgram(parallelism)
    is_as_expected(program, data(program, "digit_pairs").map_partition(small_sums), "map_partition_small_sums")


def count(rows):
    yield sum(1 for _ in rows)


def test_map_partition_is_called_once_for_parts_without_rows_too(parallelism):
    program = LocalProgram(8)
    spread = data(program, "tuple3_small").rebalance()
    counts = program.collect(spread.map_partition(count))
    assert (len(counts), sum(counts)) == (8, 3)
    assert counts.count(0) >= 5
    assert program.collect(spread.filter(lambda _: False).map_partition(count)) == [0] * 8


def test_filter(parallelism):
    program = LocalProgram(parallelism)
    is_as_expected(program, data(program, "tuple3").filter(lambda row: row.f0 % 2 == 0), "filter_even")


@pytest.mark.parametrize("fields", [(3, 4, 2), ("f3", "f4", "f2")])
def test_project(parallelism, fields):
    program = LocalProgram(parallelism)
    projected = data(program, "tuple5").project(*fields)
    assert projected.fields == ("f3", "f4", "f2")
    is_as_expected(program, projected, "project_reorder")


def test_distinct_by_a_computed_key(parallelism):
    program = LocalProgram(parallelism)
    rows = data(program, "tuple5").distinct(lambda row: (row.f0, row.f4)).project(0, 4)
    is_as_expected(program, rows, "distinct_key_function")


def test_distinct_of_whole_rows(parallelism):
    program = LocalProgram(parallelism)
    assert sorted(program.collect(data(program, "integers").distinct())) == sorted({tuple(row) for row in DATA["integers"]})


def test_sort_partition_by_two_fields(parallelism):
    def in_order(rows):
        keys = [(row.f4, -row.f2) for row in rows]
        yield keys == sorted(keys)

    program = LocalProgram(2)
    rows = data(program, "tuple5").rebalance().sort_partition(4).sort_partition(2, "descending")
    is_as_expected(program, rows.map_partition(in_order).distinct(), "sort_partition_two_fields")


def test_sort_partition_by_a_function(parallelism):
    program = LocalProgram(parallelism)
    rows = data(program, "tuple3").rebalance().sort_partition(lambda row: -row.f0)
    parts = program.collect(rows.map_partition(lambda part: [[row.f0 for row in part]]))
    assert parts == [sorted(part, reverse=True) for part in parts]
    assert sorted(number for part in parts for number in part) == list(range(1, 22))


def test_partition_by_hash(parallelism):
    program = LocalProgram(parallelism)
    rows = data(program, "tuple3").partition_by_hash(1).map_partition(lambda part: {row.f1 for row in part})
    is_as_expected(program, rows, "partition_hash")


@pytest.mark.parametrize("key", [0, lambda row: row[0]])
def test_partition_by_range(parallelism, key):
    def ends(part):
        numbers = [row[0] for row in part]
        return [(min(numbers), max(numbers))] if numbers else []

    program = LocalProgram(4)
    rows = program.rows([(number,) for number in range(10_001)])
    found = sorted(program.collect(rows.partition_by_range(key).map_partition(ends)))
    assert 1 < len(found) <= 4
    assert (found[0][0], found[-1][1]) == (0, 10_000)
    assert all(second[0] == first[1] + 1 for first, second in pairwise(found))


class Part(RichFunction):
    def open(self, context):
        self.part = context.subtask

    def __call__(self, row):
        return self.part, 1


def test_partition_custom(parallelism):
    program = LocalProgram(4)
    rows = program.rows([(number,) for number in range(1, 1001)]).partition_custom(lambda key, parts: 0, 0)
    is_as_expected(program, rows.map(Part()).group_by(0).sum(1), "partition_custom")


@pytest.mark.parametrize("answer", [-1, 4, None, "0"])
def test_a_partitioner_answers_with_a_part(parallelism, answer):
    program = LocalProgram(4)
    rows = program.rows([(1,), (2,)]).partition_custom(lambda key, parts: answer, 0)
    with pytest.raises(OperatorsError, match="part"):
        program.collect(rows.map_partition(count))


def test_union_keeps_equal_rows(parallelism):
    program = LocalProgram(parallelism)
    rows = data(program, "tuple3")
    is_as_expected(program, rows.union(data(program, "tuple3")), "union_keeps_duplicates")
    is_as_expected(program, rows.union(rows), "union_keeps_duplicates")


class EvenTexts(CustomUnaryOperation):
    def set_input(self, data_set: DataSet) -> None:
        self.rows = data_set

    def create_result(self) -> DataSet:
        return self.rows.filter(lambda row: row.f0 % 2 == 0).project(2)


def test_an_operation_of_the_users_own_is_its_parts(parallelism):
    program = LocalProgram(parallelism)
    rows = data(program, "tuple3").run_operation(EvenTexts())
    is_as_expected(program, rows, "custom_unary_operation")
    assert [one.node.kind for one in program.plan(rows)] == ["Data Source", "Filter", "Map", "Data Sink"]


class Words(RichFunction):
    """Words of lines, with an accumulator of each kind."""

    def open(self, context):
        self.lines = context.accumulator("num-lines", 0)
        self.lengths = context.accumulator("words-per-line", Counter())
        self.words = context.accumulator("distinct-words", frozenset(), lambda first, second: first | second)
        self.calls = context.accumulator("open-close", 0.0)
        self.calls.add(0.5)

    def close(self):
        self.calls.add(0.5)

    def __call__(self, line):
        words = line.lower().split()
        self.lines.add(1)
        self.lengths.add(Counter([len(words)]))
        self.words.add(frozenset(words))
        return [(word, 1) for word in words]


def word_sums(rows):
    listed = list(rows)
    return [(listed[0][0], sum(row[1] for row in listed))]


def test_accumulators(parallelism):
    program = LocalProgram(parallelism)
    lines = values(program, "one", "two two", "three three three").rebalance()
    counted = lines.flat_map(Words()).set_parallelism(parallelism).group_by(0).reduce_group(word_sums, combine=word_sums)
    is_as_expected(program, counted, "accumulators")
    assert program.accumulators["num-lines"] == 3
    assert program.accumulators["words-per-line"] == {1: 1, 2: 1, 3: 1}
    assert program.accumulators["distinct-words"] == {"one", "two", "three"}
    assert program.accumulators["open-close"] == float(parallelism)


class TwoTypes(RichFunction):
    def open(self, context):
        assert context.accumulator("n", 0) is context.accumulator("n", 0)
        context.accumulator("n", 0.0)

    def __call__(self, row):
        return row


def test_an_accumulator_has_one_type(parallelism):
    program = LocalProgram(parallelism)
    with pytest.raises(OperatorsError, match="accumulator 'n' is of the type int"):
        program.collect(data(program, "tuple3").map(TwoTypes()))


def test_zip_with_index(parallelism):
    program = LocalProgram(parallelism)
    rows = program.collect(values(program, *range(100)).rebalance().zip_with_index())
    assert sorted(index for index, _ in rows) == list(range(100))
    assert sorted(value for _, value in rows) == list(range(100))


def test_zip_with_unique_id(parallelism):
    program = LocalProgram(parallelism)
    rows = program.collect(values(program, *range(100)).rebalance().zip_with_unique_id())
    assert len({number for number, _ in rows}) == 100
    assert sorted(value for _, value in rows) == list(range(100))


def test_elements_of_parts_are_counted(parallelism):
    program = LocalProgram(parallelism)
    rows = program.collect(values(program, *range(10)).rebalance().count_elements_per_partition())
    assert sorted(part for part, _ in rows) == list(range(parallelism))
    assert sum(number for _, number in rows) == 10


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda rows: rows.project("f7"), "no field 7"),
        (lambda rows: rows.project("text"), "no field 'text'"),
        (lambda rows: rows.group_by(), "no key"),
        (lambda rows: rows.group_by(3), "no field 3"),
        (lambda rows: rows.group_by(lambda row: row, "f0"), "computes a key alone"),
        (lambda rows: rows.first(0), "first 0 rows"),
        (lambda rows: rows.and_aggregate("sum", 0), "no aggregate to add to"),
        (lambda rows: rows.aggregate("mean", 0), "no aggregate 'mean'"),
        (lambda rows: rows.map(tuple).set_parallelism(0), "no number of parts"),
        (lambda rows: rows.union(rows).set_parallelism(2), "no parts of its own"),
        (lambda rows: rows.partition_by_range(0, 1, orders=["ascending"]), "2 keys have 1 orders"),
        (lambda rows: rows.partition_custom(lambda key, parts: 0, "f9"), "no field 9"),
        (lambda rows: rows.iterate(0), "0 rounds"),
        (lambda rows: rows.join(rows, "HASH"), "no join hint 'HASH'"),
        (lambda rows: rows.map(tuple).with_forwarded_fields("f8"), "no field 8"),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_written(parallelism, call, words):
    rows = data(LocalProgram(parallelism), "tuple3")
    with pytest.raises(PipelineError, match=words) as met:
        call(rows)
    assert met.value.remedy


def test_a_wrong_claim_of_forwarded_fields_fails_the_run(parallelism):
    program = LocalProgram(4)
    placed = data(program, "tuple3").partition_by_hash(0).set_parallelism(4)
    rows = placed.map(lambda row: (row[0] // 10, row[1], row[2])).set_parallelism(4)
    assert sum(count for _, count in program.collect(rows.map(lambda row: (row[0], 1)).group_by(0).sum(1))) == 21
    wrong = rows.with_forwarded_fields("f0")
    with pytest.raises(PipelineError, match="rows do not lie as the plan says"):
        program.collect(wrong.group_by(0).reduce(lambda first, second: first))


def test_names_are_in_rows_of_functions_and_results(parallelism):
    program = LocalProgram(parallelism)
    rows = program.rows([("a", 1), ("b", 2)], "k", "v").map(lambda row: (row.k * 2, row.v), schema="kk string, v bigint")
    assert sorted((row.kk, row.v) for row in program.collect(rows)) == [("aa", 1), ("bb", 2)]


def test_several_results_read_one_data_set_once(parallelism):
    class Seen(RichFunction):
        def open(self, context):
            self.seen = context.accumulator("seen", 0)

        def __call__(self, row):
            self.seen.add(1)
            return row

    program = LocalProgram(parallelism)
    rows = data(program, "tuple3").map(Seen())
    first, second = program.collect_all(rows.project(0), rows.filter(lambda row: row[0] > 20))
    assert (len(first), len(second), program.accumulators["seen"]) == (21, 1, 21)


def test_every_case_of_flink_is_expected_somewhere(parallelism):
    texts = [file.read_text() for file in Path(__file__).parent.glob("test_*.py")]
    assert not [case for case in EXPECTED if not any(f'"{case}"' in text for text in texts)]


APPENDS = {
    "a list": ("array<int>", [1], lambda row: (row.t.append(9), row)[1], [1, 9, 9]),
    "a list in a record": ("struct<x:array<int>>", ([1],), lambda row: (row.t[0].append(9), row)[1], ([1, 9, 9],)),
    "a map": ("map<int,int>", {1: 1}, lambda row: (row.t.update({2: 2}), row)[1], {1: 1, 2: 2}),
}


@pytest.mark.parametrize("kind", APPENDS)
def test_a_function_that_changes_a_value_within_its_row_changes_no_row_of_others(parallelism, kind):
    """Others read the same rows, in the same task too."""
    ddl, value, append, changed = APPENDS[kind]
    program = LocalProgram(parallelism)
    rows = program.rows([(value,)], schema=f"t {ddl}").filter(lambda _: True)
    both = rows.map(append, schema=f"t {ddl}").map(append, schema=f"t {ddl}").union(rows).union(rows.filter(lambda _: True))
    found = sorted((row[0] for row in program.collect(both)), key=str)
    assert (found.count(value), found.count(changed), len(found)) == (2, 1, 3)
