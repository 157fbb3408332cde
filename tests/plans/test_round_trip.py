"""Plans of random pipelines of all operators: read and written again they are equal, and compute the same."""

from __future__ import annotations

import tempfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.planner.stages import cut_stages
from dagster_operators.plans.codec import from_bytes, to_bytes
from tests.engines import SAIL
from tests.operators.samples import SAMPLES
from tests.plans.random_pipelines import APPENDING, UPDATING, pipelines, source

BRIEF = settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@BRIEF
@given(pipelines())
def test_a_plan_read_again_is_equal(pipeline):
    data = pipeline.to_plan()
    plan = from_bytes(data)
    assert to_bytes(plan) == data
    assert plan == pipeline.logical_plan()
    for node in plan.nodes:
        operator = pipeline.dataflow.nodes[node.name].operator
        assert (node.operator, node.operator.signature()) == (operator, operator.signature())


@BRIEF
@given(pipelines())
def test_the_pipeline_of_a_plan_is_the_same_pipeline(pipeline):
    again = do.Pipeline.from_plan(pipeline.to_plan(), root="unused")
    assert again.explain() == pipeline.explain()
    assert fingerprints(again) == fingerprints(pipeline)
    assert again.to_plan() == pipeline.to_plan()
    assert {name: node.outputs for name, node in again.dataflow.nodes.items()} == {
        name: node.outputs for name, node in pipeline.dataflow.nodes.items()
    }


def fingerprints(pipeline):
    return {stage.name: stage.fingerprint for stage in cut_stages(pipeline.dataflow)}


@settings(BRIEF, max_examples=1)
@given(st.data())
def test_the_random_pipelines_have_all_operators(data):
    pipeline = do.Pipeline("steps", root="unused")
    streams = [source(pipeline, name, []) for name in ("one", "two")]
    for step in APPENDING.values():
        step(*streams, data.draw)
    for step in UPDATING.values():
        step(streams[0], data.draw)
    assert {node.operator.kind for node in pipeline.dataflow} == {sample.kind for sample in SAMPLES}


@pytest.mark.sail
@settings(BRIEF, max_examples=4)
@given(pipelines(most=3))
def test_the_pipeline_of_a_plan_has_the_same_results(pipeline):
    data = pipeline.to_plan()
    results = [results_of(data) for _ in range(2)]
    assert results[0] == results[1] == results_of(pipeline)


def results_of(pipeline):
    with tempfile.TemporaryDirectory() as root:
        if isinstance(pipeline, bytes):
            pipeline = do.Pipeline.from_plan(pipeline, root=root, engine=SAIL)
        else:
            pipeline.root, pipeline.engine = root, SAIL
        pipeline.run_until_caught_up()
        return {name: sorted(map(repr, pipeline.read(name).toLocalIterator())) for name in pipeline.tables}
