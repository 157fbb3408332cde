"""Origins: the least of their watermarks is that of every stream that is made of them."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.graph.origins import origins_of
from dagster_operators.graph.ports import StreamRef
from dagster_operators.runtime.event_time import Frontiers
from dagster_operators.time.frontier import meet
from tests.plans.random_pipelines import pipelines

BRIEF = settings(max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@BRIEF
@given(pipelines(), st.data())
def test_the_least_watermark_of_its_origins_is_that_of_a_stream(pipeline, data):
    marks = {name: data.draw(st.integers(-5, 50)) * 1_000_000 for name in ("one", "two")}
    frontiers = Frontiers(pipeline.dataflow, lambda name: marks.get(name, 3_000_000))
    for node in pipeline.dataflow:
        stream = StreamRef(node.name)
        origins = origins_of(pipeline.dataflow, stream)
        assert len(set(origins)) == len(origins)
        assert frontiers.of(stream) == meet(map(frontiers.of, origins))
        assert all(pipeline.dataflow.nodes[origin.operator].operator.begins_origin for origin in origins)


def sources():
    pipeline = do.Pipeline("p", root="unused")
    source = do.MemorySource([], schema="k string, t timestamp")
    return pipeline.source("east", source, event_time="t"), pipeline.source("west", source, event_time="t")


class Holding(do.ArrowOperator):
    def output_schema(self, rows):
        return rows

    def handle_watermark(self, watermark, ctx, out):
        return watermark - 1


def test_windows_joins_and_held_watermarks_begin_an_origin():
    east, west = sources()
    hourly = east.union(west, name="both").window(do.Tumbling("1 h")).aggregate(n="count(*)", name="hourly")
    near = east.key_by("k").interval_join(
        west.select("k AS l", "t AS u").key_by("l"), lower="0 s", upper="1 h", name="near", columns=["t"]
    )
    held = hourly.apply(Holding(), name="held")
    assert hourly.filter("n > 1").origins == ("hourly",)
    assert (near.origins, held.select("n").origins) == (("near",), ("held",))
    assert hourly.late().origins == ("hourly.late",)


def test_everything_else_has_those_of_what_it_is_made_of():
    east, west = sources()
    both = east.filter("k > 'a'").union(west.with_columns(k="upper(k)"), east)
    assert set(both.origins) == {"east", "west"}
    assert both.key_by("k").deduplicate().origins == both.origins
    assert both.key_by("k").aggregate(n="count(*)").origins == both.origins
