"""What the optimizer chooses for programs of Flink's own tests, written as data sets."""

from __future__ import annotations

import pyarrow.compute as pc
import pytest

from dagster_operators import MemorySource, Pipeline
from dagster_operators.api.data_sets import UNKNOWN, ArrowFunction
from dagster_operators.api.datasets.base import Bag
from dagster_operators.api.datasets.local_program import LocalProgram
from dagster_operators.optimizer.drawing.drawn import drawn_plan
from dagster_operators.optimizer.drawing.picture import picture
from dagster_operators.optimizer.dump import nodes_of
from dagster_operators.types.schema import Schema

TIB = 1 << 40


def shown(program: LocalProgram, data_set: Bag, *kinds: str) -> list[tuple[str, int, list[str]]]:
    """The operators of a plan that are of some kinds, or all between source and sink: driver, parts, and how inputs come."""
    plan = program.plan(data_set)
    return [
        (step.driver.name, step.parallelism, [channel.ship.name for channel in step.inputs])
        for step in plan
        if (step.node.kind in kinds if kinds else step.inputs and step.node.kind != "Data Sink")
    ]


def either(first: object, second: object) -> object:
    return first or second


def test_a_combiner_is_in_front_of_a_shuffled_reduce():
    program = LocalProgram(8)
    rows = program.rows([("a", 1.0)], "text", "number").set_parallelism(6)
    assert shown(program, rows.group_by(1).reduce(either)) == [
        ("SORTED_PARTIAL_REDUCE", 6, ["FORWARD"]),
        ("SORTED_REDUCE", 8, ["HASH"]),
    ]
    assert shown(program, rows.group_by(0).reduce(either, "NONE")) == [("SORTED_REDUCE", 8, ["HASH"])]
    eight, one = program.rows(range(9)).set_parallelism(8), program.rows(range(4)).set_parallelism(1)
    assert [(name, parts) for name, parts, _ in shown(program, eight.reduce(either))] == [("ALL_REDUCE", 8), ("ALL_REDUCE", 1)]
    assert [(name, parts) for name, parts, _ in shown(program, one.reduce(either))] == [("ALL_REDUCE", 1)]


@pytest.mark.parametrize(
    ("hint", "ways", "driver"),
    [
        ("BROADCAST_HASH_FIRST", ["BROADCAST", "FORWARD"], "FIRST"),
        ("BROADCAST_HASH_SECOND", ["FORWARD", "BROADCAST"], "SECOND"),
        ("REPARTITION_HASH_FIRST", ["HASH", "HASH"], "FIRST"),
        ("REPARTITION_HASH_SECOND", ["HASH", "HASH"], "SECOND"),
        ("REPARTITION_SORT_MERGE", ["HASH", "HASH"], "MERGE"),
        ("OPTIMIZER_CHOOSES", ["HASH", "HASH"], "HASH"),
    ],
)
def test_a_hint_decides_how_rows_are_joined(hint, ways, driver):
    program = LocalProgram(8)
    left, right = (program.rows([], "k", "v", size=10_000_000, count=10_000).set_parallelism(8) for _ in range(2))
    joined = left.join(right, hint).where(lambda row: row.k).equal_to(lambda row: row.k).pairs()
    ((name, parts, inputs),) = shown(program, joined, "Join")
    assert (parts, inputs) == (8, ways)
    assert driver in name


def test_a_partitioning_serves_a_finer_grouping():
    program = LocalProgram(8)
    rows = program.rows([(1, 2, 3)]).group_by(0).sum(1).group_by(0, 1).sum(2)
    names = shown(program, rows)
    assert names[-1][2] == ["FORWARD"]
    assert [inputs for _, _, inputs in names].count(["HASH"]) == 1
    assert len(names) == 3


def test_forwarded_fields_keep_a_partitioning():
    program = LocalProgram(8)
    rows = program.rows([(1, 2, 3)], "a", "b", "c").set_parallelism(8)
    first = rows.map(lambda row: row, schema="a int, b int, c int").with_forwarded_fields("*")
    moved = first.group_by(0).reduce(lambda a, b: (a[0], a[0], 0)).with_forwarded_fields("f0->f1")
    second = moved.map(lambda row: row, schema="a int, b int, c int").with_forwarded_fields("*")
    last = second.group_by(1).reduce(either).with_forwarded_fields("*")
    ships = [inputs for _, _, inputs in shown(program, last)]
    assert ships == [["FORWARD"], ["FORWARD"], ["HASH"], ["FORWARD"], ["FORWARD"]]


@pytest.mark.parametrize(("scale", "orders_kept", "join_kept"), [(1, 0.01, 0.05), (100, 0.1, 0.5)])
def test_estimates_decide_whether_a_data_set_is_copied(scale, orders_kept, join_kept):
    program = LocalProgram(8)
    orders = program.rows([], *"abcde", size=scale * TIB, count=scale * TIB // 100).set_parallelism(8)
    items = program.rows([], "a", "b", size=scale * TIB, count=scale * TIB // 140).set_parallelism(8)
    kept = orders.flat_map(lambda row: [(row.a, row.e)], schema="a bigint, e int")
    kept = kept.with_forwarded_fields("f0->f0", "f4->f1").with_hints(row_size=16, filter_factor=orders_kept)
    joined = kept.join(items).where(0).equal_to(0).with_function(lambda a, b: (*a, b.b), schema="a bigint, e int, b double")
    joined = joined.with_forwarded_fields_first("f0", "f1").with_hints(filter_factor=join_kept)
    summed = joined.group_by(0, 1).reduce_group(list, combine=list)
    ((_, _, ways),) = shown(program, summed, "Join")
    groups = shown(program, summed, "GroupReduce")
    if scale == 1:
        assert ways == ["BROADCAST", "FORWARD"]
        assert [inputs for _, _, inputs in groups] == [["FORWARD"], ["HASH"]]
    else:
        assert ways == ["HASH", "HASH"]
        assert [inputs for _, _, inputs in groups] == [["FORWARD"]]


@pytest.mark.parametrize(
    ("call", "ways"), [("cross_with_tiny", ["FORWARD", "BROADCAST"]), ("cross_with_huge", ["BROADCAST", "FORWARD"])]
)
def test_the_small_side_of_a_product_is_copied(call, ways):
    program = LocalProgram(8)
    left, right = (program.rows([0, 1]).set_parallelism(8) for _ in range(2))
    ((_, _, inputs),) = shown(program, getattr(left, call)(right).pairs(), "Cross")
    assert inputs == ways


@pytest.mark.in_process
def test_plans_say_of_each_function_which_kind_it_is():
    pipeline = Pipeline("p", root="unused", engine="sail")
    data = pipeline.source("rows", MemorySource([[("a", 1)]], schema="k string, v long")).data_set()
    data = data.filter("v > 0").name("positive").map(lambda row: row, schema="k string, v long").name("same")
    data = data.map_partition(ArrowFunction(lambda part: part), schema="k string, v long").name("whole")
    data = data.filter(ArrowFunction(lambda batch: pc.is_valid(batch["k"]))).name("kept")
    groups = ArrowFunction(lambda group: group)
    data.group_by("k").reduce_group(groups, schema="k string, v long").name("groups").group_by("k").sum("v").to_table("t")
    kinds = {
        "positive": "Spark SQL", "same": "rows", "whole": "Arrow parts", "kept": "Arrow batches", "groups": "Arrow groups",
    }  # fmt: skip
    plan, _ = pipeline.dataflow.nodes["t"].operator.program.plan(2, [UNKNOWN], [Schema.from_ddl("k string, v long")])
    assert {node["contents"]: node["function"] for node in nodes_of(plan) if "function" in node} == kinds
    assert {node.name: node.function for node in drawn_plan(plan) if node.function} == kinds
    text = picture({"t": drawn_plan(plan)})
    explained = pipeline.explain()
    for name, kind in kinds.items():
        assert f"function: {kind}" in text
        assert f"functions, {kind}: {name}" in explained
