"""Signatures of streams: equal for equal computations, whatever they are called."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

import dagster_operators as do
from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.signatures import of_stream, signatures
from tests.plans.random_pipelines import pipelines


def rows(name="rows"):
    pipeline = do.Pipeline("p", root="unused")
    return pipeline.source(name, do.FileSource("in", schema="k string, v long, t timestamp"), event_time="t")


def test_equal_branches_have_equal_signatures():
    stream = rows()
    for name in ("one", "other"):
        stream.filter("v > 1", name=name).key_by("k").window(do.Tumbling("1 h")).aggregate(n="count(*)", name=f"{name}_n")
    found = signatures(stream._dataflow)
    assert found["one"] == found["other"] != found["rows"]
    assert found["one_n"] == found["other_n"]
    assert of_stream(found, StreamRef("one_n")) != of_stream(found, StreamRef("one_n", "late"))


def test_what_comes_before_counts():
    stream = rows()
    stream.filter("v > 1", name="one").filter("v > 3", name="behind_one")
    stream.filter("v > 2", name="other").filter("v > 3", name="behind_other")
    found = signatures(stream._dataflow)
    assert found["behind_one"] != found["behind_other"]


def test_the_order_of_inputs_counts():
    stream = rows()
    big, small = stream.filter("v > 1"), stream.filter("v < 1")
    for name, (left, right) in {"one": (big, small), "other": (small, big)}.items():
        left.union(right, name=name)
    found = signatures(stream._dataflow)
    assert found["one"] != found["other"]


def test_what_may_differ_the_next_time_is_like_no_other():
    stream = rows()
    for name in ("one", "other"):
        stream.filter("v > rand()", name=name).select("k", name=f"{name}_k")
    found = signatures(stream._dataflow)
    assert found["one"] != found["other"]
    assert found["one_k"] != found["other_k"]


@settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(pipelines())
def test_a_plan_read_again_has_the_signatures_that_it_had(pipeline):
    again = do.Pipeline.from_plan(pipeline.to_plan(), root="unused")
    assert signatures(again.dataflow) == signatures(pipeline.dataflow)


def test_a_long_chain_of_diamonds_takes_one_pass():
    stream = rows()
    for _ in range(200):
        stream = stream.filter("v > 1").union(stream.filter("v <= 1"))
    assert len(set(signatures(stream._dataflow).values())) == 601
