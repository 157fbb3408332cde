"""Functions over Arrow batches, parts and groups: as functions of rows give them, whatever came before and comes behind."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dagster_operators import MemorySource, Pipeline
from dagster_operators.api.data_sets import ArrowFunction, LocalProgram, RichFunction
from dagster_operators.errors import BadInputError, OperatorFailedError, PipelineError, SchemaError
from tests.engines import SAIL

SCHEMA = "k string, v long"
ROWS = [("a", 1), ("b", 2), ("a", 3), ("c", 4), ("b", 5)]


def rows_of(program, rows=ROWS, schema=SCHEMA):
    return program.rows(rows, schema=schema)


def doubled(batch):
    return pa.record_batch({"k": batch["k"], "v": pc.multiply(batch["v"], 2)})


def counted(group):
    return pa.table({"k": group["k"].slice(0, 1), "v": pa.array([group.num_rows])})


def summed(group):
    return pa.table({"k": group["k"].slice(0, 1), "v": pa.array([pc.sum(group["v"]).as_py()])})


def total(table):
    return pa.table({"v": pa.array([pc.sum(table["v"]).as_py() or 0])})


CALLS = {
    "map": (lambda rows: rows.map(ArrowFunction(doubled), schema=SCHEMA), [(k, 2 * v) for k, v in ROWS]),
    "flat map": (lambda rows: rows.flat_map(ArrowFunction(lambda batch: [batch, batch]), schema=SCHEMA), ROWS + ROWS),
    "nothing": (lambda rows: rows.flat_map(ArrowFunction(lambda _: None), schema=SCHEMA), []),
    "filter": (lambda rows: rows.filter(ArrowFunction(lambda batch: pc.greater(batch["v"], 2))), [r for r in ROWS if r[1] > 2]),
    "by an array of numpy": (
        lambda rows: rows.filter(ArrowFunction(lambda batch: batch["v"].to_numpy() > 2)), [r for r in ROWS if r[1] > 2],
    ),
    "groups": (
        lambda rows: rows.group_by("k").reduce_group(ArrowFunction(counted), schema=SCHEMA), [("a", 2), ("b", 2), ("c", 1)],
    ),
    "sorted groups": (
        lambda rows: rows.group_by("k").sort_group("v", "descending").reduce_group(
            ArrowFunction(lambda group: group.slice(0, 1)), schema=SCHEMA
        ),
        [("a", 3), ("b", 5), ("c", 4)],
    ),
    "combined groups": (
        lambda rows: rows.group_by("k").reduce_group(ArrowFunction(summed), schema=SCHEMA, combine=ArrowFunction(summed)),
        [("a", 4), ("b", 7), ("c", 4)],
    ),
    "all rows": (lambda rows: rows.reduce_group(ArrowFunction(total), schema="v long"), [(15,)]),
    "behind a function of rows": (
        lambda rows: rows.map(lambda row: (row.k, row.v + 1), schema=SCHEMA).map(ArrowFunction(doubled), schema=SCHEMA)
        .filter(lambda row: row.v > 6),
        [("a", 8), ("c", 10), ("b", 12)],
    ),
    "in a round": (
        lambda rows: (loop := rows.iterate(3)).close_with(loop.rows_of_round.map(ArrowFunction(doubled), schema=SCHEMA)),
        [(k, 8 * v) for k, v in ROWS],
    ),
}  # fmt: skip


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("call", CALLS)
def test_functions_over_arrow(call, parallelism):
    program = LocalProgram(parallelism)
    made, expected = CALLS[call]
    assert sorted(map(tuple, program.collect(made(rows_of(program).rebalance())))) == sorted(expected)


def test_a_part_is_given_whole_and_one_without_rows_too():
    program = LocalProgram(3)
    parts = rows_of(program, ROWS[:2]).rebalance().map_partition(ArrowFunction(total), schema="v long")
    assert sorted(row.v for row in program.collect(parts)) == [0, 1, 2]


def test_groups_are_combined_where_they_lie():
    program = LocalProgram(2)
    parts = rows_of(program).rebalance().group_by("k").sort_group("v").combine_group(ArrowFunction(counted), schema=SCHEMA)
    counts = program.collect(parts)
    assert sum(row.v for row in counts) == len(ROWS)


class Shifted(RichFunction):
    def open(self, context):
        (self.by,) = context.broadcast("by")
        self.factor = context.parameters["factor"]
        self.seen = context.accumulator("seen", 0)

    def __call__(self, batch):
        self.seen.add(batch.num_rows)
        return pa.record_batch({"k": batch["k"], "v": pc.multiply(pc.add(batch["v"], self.by.v), self.factor)})


def test_rich_functions_over_arrow():
    program = LocalProgram(2)
    by = program.rows([(10,)], schema="v long")
    shifted = rows_of(program).map(ArrowFunction(Shifted()), schema=SCHEMA).with_broadcast_set(by, "by").with_parameters(factor=2)
    assert sorted(row.v for row in program.collect(shifted)) == [22, 24, 26, 28, 30]
    assert {name: getattr(value, "value", value) for name, value in program.accumulators.items()} == {"seen": 5}


def test_a_field_that_is_declared_as_forwarded_is_looked_at():
    program = LocalProgram(2)
    turned = ArrowFunction(lambda batch: pa.record_batch({"k": ["z"] * len(batch), "v": batch["v"]}))
    given = rows_of(program, [(f"k{number}", number) for number in range(20)])
    rows = given.partition_by_hash("k").map(turned, schema=SCHEMA).with_forwarded_fields("k")
    with pytest.raises(PipelineError, match="rows do not lie as the plan says"):
        program.collect(rows.group_by("k").sum("v"))


def given(column, values, schema):
    """A function that gives another column, with the columns that are declared."""
    number = ["k", "v"].index(column)
    return lambda rows: rows.map(ArrowFunction(lambda batch: batch.set_column(number, column, values(batch))), schema=schema)


def kept(condition):
    return lambda rows: rows.filter(ArrowFunction(condition))


def gives(result, schema=SCHEMA):
    return lambda rows: rows.map(ArrowFunction(result), schema=schema)


WRONG = {
    "no Arrow": (gives(lambda _: 7), "gave an int", None),
    "no Arrow among them": (gives(lambda batch: [batch, 7]), "gave an int among", None),
    "a text": (gives(lambda _: "ab"), "gave a str", None),
    "other columns": (gives(lambda batch: batch, "k string, w long"), "gave no column 'w'", "w"),
    "more columns": (gives(lambda batch: batch, "k string"), "'v', which is not declared", "v"),
    "another type": (gives(lambda batch: batch, "k long, v long"), "of the type string", "k"),
    "a number too large": (
        given("v", lambda batch: pc.multiply(batch["v"], 1000), "k string, v tinyint"), "of the type int64", "v",
    ),
    "a null": (given("v", lambda batch: pa.nulls(len(batch), pa.int64()), "k string, v long NOT NULL"), "NOT NULL", "v"),
    "a text too long": (
        given("k", lambda batch: pa.array(["abc"] * len(batch)), "k varchar(2), v long"), "more than 2 characters", "k",
    ),
    "no zone": (
        gives(lambda batch: pa.record_batch({"t": pa.array([0] * len(batch), pa.timestamp("us"))}), "t timestamp"),
        "has no time zone", "t",
    ),
    "fewer rows": (gives(lambda batch: batch.slice(1)), "rows of a batch of", None),
    "no truth values": (kept(lambda batch: batch["v"]), "int64, which says of no row", None),
    "no array": (kept(lambda _: True), "bool, which says of no row", None),
    "fewer truth values": (kept(lambda _: pa.array([True])), "1 truth values for", None),
}  # fmt: skip


@pytest.mark.in_process
@pytest.mark.parametrize("case", WRONG)
def test_results_are_held_to_what_is_declared(case):
    program = LocalProgram()
    make, problem, column = WRONG[case]
    with pytest.raises(SchemaError, match=re.escape(problem)) as raised:
        program.collect(make(rows_of(program)).name("mine"))
    assert raised.value.where["operator"] == "mine"
    assert raised.value.where.get("column") == column
    assert raised.value.remedy


def test_a_failure_has_the_operator_and_the_line():
    program = LocalProgram()

    def failing(batch):
        return batch["w"]

    with pytest.raises(OperatorFailedError, match="KeyError") as raised:
        program.collect(rows_of(program).map(ArrowFunction(failing), schema=SCHEMA).name("mine"))
    assert raised.value.where["operator"] == "mine"
    assert raised.value.where["file"].endswith("test_arrow_functions.py")


def test_a_null_key_of_groups_is_refused():
    program = LocalProgram()
    rows = rows_of(program, [("a", 1), (None, 2)])
    with pytest.raises(BadInputError, match="a key is null"):
        program.collect(rows.group_by("k").reduce_group(ArrowFunction(counted), schema=SCHEMA))


REFUSED = {
    "of two rows": (lambda rows: rows.group_by("k").reduce(ArrowFunction(doubled)), "takes a function of rows"),
    "of pairs": (
        lambda rows: rows.join(rows).where("k").equal_to("k").with_function(ArrowFunction(doubled)), "takes a function of rows",
    ),
    "of two groups": (
        lambda rows: rows.co_group(rows).where("k").equal_to("k").with_function(ArrowFunction(doubled)),
        "takes a function of rows",
    ),
    "without columns": (lambda rows: rows.map(ArrowFunction(doubled)), "the columns that a function over Arrow gives"),
    "of a computed key": (
        lambda rows: rows.group_by(lambda row: row.k).reduce_group(ArrowFunction(counted), schema=SCHEMA), "a computed key",
    ),
    "pairs of a computed key": (
        lambda rows: rows.group_by(lambda row: row.k).reduce(ArrowFunction(doubled)), "takes a function of rows",
    ),
    "no function": (lambda _: ArrowFunction(7), "is no function"),
}  # fmt: skip


@pytest.mark.in_process
@pytest.mark.parametrize("case", REFUSED)
def test_uses_that_are_refused_where_they_are_written(case):
    make, problem = REFUSED[case]
    with pytest.raises(PipelineError, match=problem) as raised:
        make(rows_of(LocalProgram()))
    assert raised.value.remedy


@pytest.mark.in_process
def test_rows_whose_types_are_not_known_are_refused_before_anything_runs():
    program = LocalProgram()
    unknown = rows_of(program).map(tuple).name("tuples")
    with pytest.raises(PipelineError, match="the types of the rows of 'tuples' are not known") as raised:
        program.plan(unknown.map(ArrowFunction(doubled), schema=SCHEMA))
    assert raised.value.where["operator"] == "Map"
    declared = rows_of(program).map(tuple, schema=SCHEMA)  # as the remedy says
    assert len(program.collect(declared.map(ArrowFunction(doubled), schema=SCHEMA))) == len(ROWS)


@pytest.mark.in_process
@pytest.mark.sail
def test_columns_of_streams_are_known_behind_functions_that_keep_rows(tmp_path):
    def pipeline():
        made = Pipeline("p", root=str(tmp_path), engine=SAIL, parallelism=2)
        return made, made.source("rows", MemorySource([ROWS], schema=SCHEMA)).data_set()

    wrong, rows = pipeline()
    rows.map(tuple).map(ArrowFunction(doubled), schema=SCHEMA).to_table("unknown")
    with pytest.raises(PipelineError, match="the types of the rows of 'Map' are not known"):
        wrong.run_epoch()
    right, rows = pipeline()
    made = rows.filter(lambda row: row.v > 1).map(ArrowFunction(doubled), schema=SCHEMA)
    made.filter(ArrowFunction(lambda batch: pc.less(batch["v"], 10))).group_by("k").sum("v").to_table("sums")
    right.run_epoch()
    assert sorted((row["k"], row["v"]) for row in right.to_arrow("sums").to_pylist()) == [("a", 6), ("b", 4), ("c", 8)]
