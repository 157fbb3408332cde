"""Operators at work by columns: the rows, in their order, that come out of the same plan by rows, or the same failure."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from operator import add
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_operators.api.datasets.data_set import DataSet
from dagster_operators.api.datasets.local_program import LocalProgram
from dagster_operators.errors import BadInputError, SchemaError, StorageError
from dagster_operators.operators.datasets.arrow_columns import Place, column_of
from dagster_operators.operators.datasets.arrow_values import values_of
from dagster_operators.operators.datasets.columns import column_rows, groups, joined
from dagster_operators.operators.datasets.columns.column_rows import ColumnRows, RowLayout, content_of, holds_batches, rows_within
from dagster_operators.operators.datasets.columns.column_work import HandedOn
from dagster_operators.operators.datasets.columns.exact_batches import exact_batch, has_exact_batches
from dagster_operators.operators.datasets.columns.exact_sums import sums
from dagster_operators.operators.datasets.columns.hashes import parts_of
from dagster_operators.operators.datasets.running import back_to_columns, by_columns, fragment_task
from dagster_operators.operators.datasets.running.fragment_task import run_part
from dagster_operators.operators.datasets.running.fragments import WRITE
from dagster_operators.operators.datasets.running.part_numbers import part_of
from dagster_operators.optimizer.program import Source, ordered
from dagster_operators.types.arrow_schema import arrow_type
from tests.examples import fresh_examples
from tests.operators.datasets.columns_drawn import BEHIND_FUNCTIONS, JOINS, STEPS, Given, Number, many_rows, results, typed_rows
from tests.operators.datasets.in_files import ExecutionInFiles
from tests.operators.datasets.test_arrow_rows import DECIMALS, SIMPLE, VALUES


@fresh_examples(150)
@given(typed_rows(), STEPS, st.sampled_from([1, 2, 4]))
def test_columns_give_what_rows_give(schema_and_rows, steps, parallelism):
    schema, rows = schema_and_rows
    with tempfile.TemporaryDirectory() as folder:
        expected, found = (results(schema, rows, steps, parallelism, Path(folder), by_columns=way) for way in (False, True))
    assert found == expected


@fresh_examples(100)
@given(typed_rows() | many_rows(), JOINS, st.sampled_from([1, 2, 4]))
def test_so_they_do_of_joins(schema_and_rows, steps, parallelism):
    schema, rows = schema_and_rows
    with tempfile.TemporaryDirectory() as folder:
        expected, found = (results(schema, rows, steps, parallelism, Path(folder), by_columns=way) for way in (False, True))
    assert found == expected


@fresh_examples(150)
@given(typed_rows() | many_rows(), BEHIND_FUNCTIONS, st.sampled_from([1, 2, 4]), st.sampled_from([2, 7, 100]))
def test_so_they_do_behind_functions_of_rows(schema_and_rows, steps, parallelism, rows_of_batch):
    schema, rows = schema_and_rows
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(back_to_columns, "_ROWS_OF_BATCH", rows_of_batch)
        expected, found = (results(schema, rows, steps, parallelism, Path(folder), by_columns=way) for way in (False, True))
    assert found == expected


WORDS = [("to be or not", 1), ("to be", 2)]
BEHIND: dict[str, Callable[[DataSet], DataSet]] = {
    "a sum": lambda made: made.group_by("word").sum("n"),
    "a join": lambda made: made.join(made).where("word").equal_to("word").project_first("word").project_second("n").data_set(),
    "a filter": lambda made: made.filter(lambda row: row.n > 0).distinct("word"),
    "an exchange": lambda made: made.partition_by_hash("word"),
}


def worked_by(make, function, tmp_path, most=1 << 29):
    """In how many parts each operator worked by columns and by rows behind a function, and the rows; or the failure."""
    program, ways = LocalProgram(2), Counter()
    rows = program.rows([], schema="line string, i long").set_parallelism(2)
    plan = program.plan(make(rows.flat_map(function, schema="word string, n long").name("made")).name("last"))
    (source,) = (node for node in ordered([sink.node for sink in plan.sinks]) if isinstance(node, Source))

    def launch(job):
        reports = [run_part(job, *task) for task in job.tasks]
        ways.update(reduce(add, (report.ways for report in reports), Counter()))
        return reports

    given = Given("line string, i long", WORDS, by_columns=True, of_batch=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(back_to_columns, "_MOST_BYTES", most)
        (found,) = ExecutionInFiles(plan, {source.name: given}, tmp_path, launch).run().values()
    return {way for name, way in ways if name == "last"}, sorted(map(tuple, found))


@pytest.mark.parametrize("make", BEHIND.values(), ids=BEHIND)
def test_rows_of_functions_return_to_columns(make, tmp_path):
    ways, found = worked_by(make, lambda row: [(word, 1) for word in row.line.split()], tmp_path)
    assert ways == {"columns"}
    rows_alone = worked_by(make, lambda row: [(word, 1) for word in row.line.split()], tmp_path, most=0)
    assert rows_alone == ({"rows"}, found)


@pytest.mark.parametrize("make", BEHIND.values(), ids=BEHIND)
def test_numbers_beyond_their_type_stay_rows(make, tmp_path):
    _, found = worked_by(make, lambda row: [("small", row.i), ("large", row.i * 2**70)], tmp_path)
    assert {number > 2**69 for word, number in found if word == "large"} == {True}


def test_of_two_failures_that_of_the_earlier_row_is_told(tmp_path):
    def failing(row):
        yield "a", 1
        yield None, 1
        raise ValueError("later")

    with pytest.raises(BadInputError, match="a key is null") as met:
        worked_by(BEHIND["a sum"], failing, tmp_path)
    assert met.value.where["operator"] == "last"


@st.composite
def values_by_type(draw):
    kinds = draw(st.lists(st.sampled_from(SIMPLE), min_size=1, max_size=3))
    odd = st.sampled_from([2**63, 1.5, True, "\ud800", b"", Decimal("1.50"), Decimal("-0.00"), float("nan"), None, Number(3)])
    values = [odd | (DECIMALS[kind] if kind in DECIMALS else VALUES[str(kind)]) for kind in kinds]
    return kinds, draw(st.lists(st.tuples(*values), min_size=1, max_size=4))


@fresh_examples(300)
@given(values_by_type())
def test_a_batch_has_the_rows_that_it_was_made_of(kinds_and_rows):
    kinds, rows = kinds_and_rows
    layout = RowLayout(tuple(map(arrow_type, kinds)), None)
    batch = exact_batch(layout, rows) if has_exact_batches(layout) else None
    assert batch is None or repr(layout.rows(batch)) == repr(rows)


@fresh_examples(60)
@given(many_rows(), STEPS, st.sampled_from([1, 2, 4]))
def test_so_they_do_of_many_groups_in_several_blocks(schema_and_rows, steps, parallelism):
    schema, rows = schema_and_rows
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        expected = results(schema, rows, steps, parallelism, Path(folder), by_columns=False)
        for module in (groups, joined):
            patch.setattr(module, "_ROWS_OF_BLOCK", 30)
        patch.setattr(by_columns, "_ROWS_OF_CHUNK", 25)
        patch.setattr(column_rows, "_LARGE_TABLE", 400)
        found = results(schema, rows, steps, parallelism, Path(folder), by_columns=True)
    assert found == expected


def counted(rows):
    listed = list(rows)
    return [(listed[0].k, sum(row.v for row in listed), len(listed))]


COUNTED = "k string, n long, groups long"
ROLLED_UP = {
    "sums of sums": lambda rows: (
        rows.partition_by_hash("k").group_by("k", "l", "v").sum("m").group_by("k", "l").sum("m").group_by("k")
    ),
    "sorted and distinct": lambda rows: (
        rows.partition_by_hash("k").sort_partition("k").sort_partition("l").distinct("k", "l").group_by("k")
    ),
}  # fmt: skip


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("roll_up", ROLLED_UP.values(), ids=ROLLED_UP)
def test_groups_stay_in_the_order_that_the_next_operator_counts_on(roll_up, parallelism, tmp_path):
    schema, drawn = "k string, l string, m long, v long", random.Random(3)  # noqa: S311 - no secret
    given = [(f"k{drawn.randrange(30)}", f"l{drawn.randrange(30)}", drawn.randrange(900), 1) for _ in range(600)]
    program = LocalProgram(parallelism)
    plan = program.plan(roll_up(program.rows([], schema=schema)).reduce_group(counted, schema=COUNTED))
    (source,) = (node for node in ordered([sink.node for sink in plan.sinks]) if isinstance(node, Source))
    (found,) = ExecutionInFiles(plan, {source.name: Given(schema, given, by_columns=True, of_batch=100)}, tmp_path).run().values()
    assert len(found) == len({row[0] for row in found}) == len({row[0] for row in given})


@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("made", [
    lambda rows: rows.project("k", "v"),
    lambda rows: rows.join(rows).where("k").equal_to("k").project_first("k").project_second("v").data_set(),
])  # fmt: skip
def test_a_null_that_is_declared_not_to_be_there(made, by_columns, tmp_path):
    program = LocalProgram()
    plan = program.plan(made(program.rows([], schema="k string, v long")).declaring("k string, v long not null"))
    (source,) = (node for node in ordered([sink.node for sink in plan.sinks]) if isinstance(node, Source))
    given = Given("k string, v long", [("a", 1), ("b", None)], by_columns=by_columns)
    with pytest.raises(SchemaError, match="NOT NULL"):
        ExecutionInFiles(plan, {source.name: given}, tmp_path).run()


def test_what_is_too_large_for_columns_is_left_to_rows():
    class TooLarge(HandedOn):
        def work(self, inputs, result, strategy):
            raise pa.ArrowInvalid("offset overflow while concatenating arrays")

    rows = ColumnRows.of(RowLayout((pa.int64(),), None), pa.table({"0": [1]}))
    assert TooLarge().run([rows], WRITE) is None


def test_tables_of_wide_rows_have_fewer(monkeypatch):
    monkeypatch.setattr(column_rows, "_LARGE_TABLE", 20)
    several = ColumnRows.of(RowLayout((pa.int64(),), None), pa.table({"0": pa.chunked_array([[1], [2], [3], [4]])}))
    assert [table.num_rows for table in several.tables(100)] == [2, 2]


PROGRAMS = {
    "sum": lambda rows: rows.group_by("k").sum("v"),
    "two aggregates": lambda rows: rows.group_by("k").aggregate("max", "v").and_aggregate("min", "t"),
    "sum of all": lambda rows: rows.sum("v"),
    "least": lambda rows: rows.group_by("k").min_by("v", "t"),
    "distinct": lambda rows: rows.distinct("k"),
    "first": lambda rows: rows.group_by("k").sort_group("v", "descending").first(2),
    "first of all": lambda rows: rows.first(2),
    "projected": lambda rows: rows.project("v", "k"),
    "joined": lambda rows: (
        rows.join(rows.distinct("k")).where("k").equal_to("k").project_first("k").project_second("v").data_set()
    ),
    "pairs": lambda rows: rows.join(rows.distinct("k")).where("k").equal_to("k").pairs(),
    **{
        join: lambda rows, join=join: (
            getattr(rows, join)(rows.distinct("v"))
            .where("k", "v")
            .equal_to("t", "v")
            .project_first("k")
            .project_second("v", "t")
            .data_set()
        )
        for join in ("left_outer_join", "right_outer_join", "full_outer_join")
    },
    "united and sorted": lambda rows: rows.union(rows).partition_by_hash("t").sort_partition("v", "descending"),
}
ROWS = [("a", 1, "x"), ("b", 2**40, ""), ("a", -1, "y"), ("c", 0, "z")]


@pytest.mark.parametrize("parallelism", [1, 2, 4])
@pytest.mark.parametrize("make", PROGRAMS.values(), ids=PROGRAMS)
def test_the_work_is_done_by_columns(make, parallelism, tmp_path, monkeypatch):
    """What falls back to rows gives the same rows, and is slow: so it is looked at whether it does."""
    program = LocalProgram(parallelism)
    plan = program.plan(make(program.rows([], schema="k string, v long, t string")))
    (source,) = (node for node in ordered([sink.node for sink in plan.sinks]) if isinstance(node, Source))
    monkeypatch.setattr(fragment_task, "run_task", lambda *_, **__: pytest.fail("rows are worked on"))
    given = Given("k string, v long, t string", ROWS, by_columns=True)
    assert ExecutionInFiles(plan, {source.name: given}, tmp_path).run()


def test_columns_become_rows_once_for_all_functions_that_read_them(tmp_path, monkeypatch):
    program = LocalProgram()
    rows = program.rows([], schema="k string, v long, t string")
    plan = program.plan(rows.map(lambda row: row.v), rows.map(lambda row: row.k), rows.project("v"))
    (source,) = (node for node in ordered([sink.node for sink in plan.sinks]) if isinstance(node, Source))
    given, made, count = Given("k string, v long, t string", ROWS, by_columns=True), RowLayout.rows, []
    monkeypatch.setattr(RowLayout, "rows", lambda layout, batch: count.append(batch) or made(layout, batch))
    execution = ExecutionInFiles(plan, {source.name: given}, tmp_path, lambda job: [run_part(job, *task) for task in job.tasks])
    first, second, _ = execution.run().values()
    assert (first, second) == ([1, 2**40, -1, 0], ["a", "b", "a", "c"])
    assert sum(batch.num_columns == 3 for batch in count) == 2, "each of the two batches once"


@st.composite
def keys_by_type(draw):
    kinds = draw(st.lists(st.sampled_from(SIMPLE), min_size=1, max_size=3))
    values = [DECIMALS[kind] if kind in DECIMALS else VALUES[str(kind)] for kind in kinds]
    return kinds, draw(st.lists(st.tuples(*values), min_size=1, max_size=5))


@fresh_examples(200)
@given(keys_by_type(), st.integers(1, 97))
def test_keys_are_in_the_parts_that_rows_are_in(kinds_and_rows, parts):
    kinds, rows = kinds_and_rows
    arrays = [column_of(values, kind, Place()) for values, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    keys = zip(*(values_of(array, kind, Place()) for array, kind in zip(arrays, kinds, strict=True)), strict=True)
    assert parts_of(arrays, parts).tolist() == [part_of(key, parts) for key in keys]


@fresh_examples(100)
@given(
    st.lists(st.sampled_from([2**63 - 1, -(2**63), 2**62, -1, 0, 1, 2**32, -(2**32) - 1]), min_size=1, max_size=9),
    st.integers(0, 1),
)
def test_sums_of_long_numbers_fit_or_are_left_to_rows(numbers, before):
    added = sums({0: pa.chunked_array([numbers], pa.int64())}, before, _of_all)
    total = sum(numbers)
    assert total == added[1][0].to_pylist()[0] if added is not None else not -(2**63) <= total < 2**63


def _of_all(columns, aggregates):
    table = pa.table({"all": [0] * len(next(iter(columns.values()))), **columns})
    return table.group_by("all", use_threads=False).aggregate(aggregates)


def test_a_file_of_rows_that_is_no_arrow_is_an_error():
    content = content_of(RowLayout((pa.int64(),), ("k",)).batch([pa.array([1])])).to_pybytes()
    assert holds_batches(content)
    for forged in (content[:-20], content[:4] + b"\x00" * 40, content.replace(b"names", b"forms")):
        with pytest.raises(StorageError, match="run again"):
            rows_within(forged)
