"""Plans of random pipelines of all operators: read and written again they are equal, and compute the same."""

from __future__ import annotations

import tempfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.graph.signatures import of_stream, signatures
from dagster_operators.planner.stages import cut_stages
from dagster_operators.plans.codec import from_bytes, to_bytes
from tests.engines import SAIL
from tests.operators.samples import SAMPLES
from tests.plans.random_pipelines import APPENDING, ROWS, UPDATING, pipelines, source

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
    assert {node.operator.kind for node in pipeline.dataflow} == {sample.kind for sample in SAMPLES} - IN_PYTHON_ALONE - OF_TABLES


@pytest.mark.sail
@settings(BRIEF, max_examples=4)
@given(pipelines(most=3))
def test_the_pipeline_of_a_plan_has_the_same_results(pipeline):
    data = pipeline.to_plan()
    results = [results_of(data) for _ in range(2)]
    assert results[0] == results[1] == results_of(pipeline)


@pytest.mark.sail
@settings(BRIEF, max_examples=4)
@given(st.data())
def test_equal_signatures_mean_equal_rows(data):
    """The same steps taken twice, under other names, have the signatures that they had, and the rows."""
    pipeline = do.Pipeline("twice", root="unused")
    epochs = data.draw(st.lists(st.lists(ROWS, max_size=4), min_size=1, max_size=2))
    streams = [source(pipeline, name, epochs) for name in ("one", "two")]
    steps = data.draw(st.lists(st.sampled_from(sorted(APPENDING)), min_size=2, max_size=4, unique=True))
    for step in steps:
        drawn = []
        first = APPENDING[step](*streams, lambda strategy, drawn=drawn: drawn.append(data.draw(strategy)) or drawn[-1])
        again = iter(drawn)
        second = APPENDING[step](*streams, lambda _, again=again: next(again))
        for stream, table in ((first, f"first_{step}"), (second, f"second_{step}")):
            stream.to_table(table)
    signed = signatures(pipeline.dataflow)
    results = results_of(pipeline)
    for step in steps:
        ours = [of_stream(signed, pipeline.tables[f"{which}_{step}"].stream) for which in ("first", "second")]
        assert (ours[0] == ours[1]) == (step not in UNIQUE)
        assert results[f"first_{step}"] == results[f"second_{step}"]


IN_PYTHON_ALONE = {"data_sets", "data_sets_with_state", "groups_over_epochs"}
"""Kinds of which a plan says what they are, and cannot run them."""

OF_TABLES = {"whole_table", "upsert"}
"""Kinds of operators that are made with a table, or of one."""

UNIQUE = {"udf", "flat_map", "map_async", "transform", "lookup", "apply", "apply_large", "events", "frontier", "loop"}
"""Steps with code of the user's, or a table that is read as it is; so their rows are like no other's."""


def results_of(pipeline):
    with tempfile.TemporaryDirectory() as root:
        if isinstance(pipeline, bytes):
            pipeline = do.Pipeline.from_plan(pipeline, root=root, engine=SAIL)
        else:
            pipeline.root, pipeline.engine = root, SAIL
        pipeline.run_until_caught_up()
        return {name: sorted(map(repr, pipeline.read(name).toLocalIterator())) for name in pipeline.tables}
