"""Unions of one stream are left out, unions of unions become one."""

from __future__ import annotations

import dagster_operators as do
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.relational.union import Union
from dagster_operators.planner.rules.rule_set import optimised
from tests.planner.rules.shown import SCHEMA, done, flow, plan_of


def several(count: int) -> tuple[do.Pipeline, list[do.Stream]]:
    pipeline, first = flow("a")
    others = [pipeline.source(name, do.MemorySource([], schema=SCHEMA)) for name in "bcdef"[: count - 1]]
    return pipeline, [first, *others]


def reads(pipeline: do.Pipeline, name: str) -> list[str]:
    return [str(stream) for stream in optimised(pipeline.dataflow).plan.nodes[name].inputs]


def test_unions_of_unions_become_one():
    pipeline, (a, b, c, d, e) = several(5)
    a.union(b, name="ab").union(c.union(d, name="cd"), e, name="all").to_table("t")
    assert reads(pipeline, "all") == ["a", "b", "c", "d", "e"]
    assert done(pipeline, "redundant_unions") == ["all takes the streams of the unions ab, cd"]


def test_a_long_chain_of_unions_becomes_one():
    pipeline, (a, b, c, d, e) = several(5)
    a.union(b).union(c).union(d).union(e, name="all").to_table("t")
    assert reads(pipeline, "all") == ["a", "b", "c", "d", "e"]


def test_a_union_that_is_read_elsewhere_or_ends_its_stage_stays():
    pipeline, (a, b, c) = several(3)
    both = a.union(b, name="ab").to_table("both")
    both.union(c, name="all").to_table("t")
    assert reads(pipeline, "all") == ["ab", "c"]
    pipeline, (a, b, c) = several(3)
    a.union(b, name="ab").start_new_stage().union(c, name="all").to_table("t")
    assert reads(pipeline, "all") == ["ab", "c"]


def test_a_union_of_one_stream_is_left_out():
    pipeline, rows = flow()
    one = pipeline.dataflow.add(Union(name="one"), [StreamRef(rows.name)])
    do.Stream(pipeline.dataflow, StreamRef(one.name)).filter("v > 1", name="few").to_table("t")
    assert plan_of(pipeline) == {"few": "filter(condition='v > 1') of rows"}
    assert done(pipeline, "redundant_unions") == ["one is a union of one stream, and left out"]
