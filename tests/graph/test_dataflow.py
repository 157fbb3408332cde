"""The graph under construction: names, what a stream leads to, and what it is made from."""

from __future__ import annotations

import pytest

from dagster_operators import ArrowOperator, MemorySource, Pipeline, Stream
from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.graph.changes import Changes
from dagster_operators.graph.operator import StreamType
from dagster_operators.graph.ports import StreamRef


class Nothing(ArrowOperator):
    def output_schema(self, *inputs):
        return "v long"


def flow() -> Pipeline:
    pipeline = Pipeline("p", root="unused")
    pipeline.source("rows", MemorySource([], schema="v long"))
    return pipeline


def test_a_fresh_name_is_one_that_nothing_has() -> None:
    pipeline = flow()
    rows = pipeline.source("more", MemorySource([], schema="v long"))
    for number in range(2, 3000):
        rows.filter("v > 0", name=f"filter_{number}")
    assert [rows.filter("v > 0").name for _ in range(2)] == ["filter", "filter_3000"]
    rows.apply(Nothing(), name="nothing").late(name="filter_3001")
    assert rows.filter("v > 0").name == "filter_3002"
    with pytest.raises(PipelineError, match="there is an operator named 'filter_3001' already"):
        rows.filter("v > 0", name="filter_3001")


def test_a_stream_knows_its_table_and_its_sinks() -> None:
    pipeline = flow()
    dataflow, rows = pipeline.dataflow, StreamRef("rows")
    kept = pipeline.source("more", MemorySource([], schema="v long")).filter("v > 0").to_table("Kept")
    assert dataflow.table_of(StreamRef("filter")) == pipeline.tables["Kept"]
    assert dataflow.ends_at(StreamRef("filter"))
    assert dataflow.table_of(rows) is None
    assert dataflow.sinks_of(rows) == ()
    assert not dataflow.ends_at(rows)
    with pytest.raises(PipelineError, match="there is a table named 'kept' already"):
        kept.select("v").to_table("kept")
    with pytest.raises(PipelineError, match="goes to table 'Kept' already"):
        kept.to_table("again")


def test_what_a_stream_is_made_from_comes_before_it_and_once() -> None:
    pipeline = flow()
    first = last = pipeline.source("other", MemorySource([], schema="v long"))
    for _ in range(50):
        last = last.filter("v > 1").union(last.filter("v < 1"), first)
    dataflow = pipeline.dataflow
    found = list(dataflow.leading_to(StreamRef(last.name)))
    assert len(found) == len(set(found)) == 151
    place = {stream: number for number, stream in enumerate(found)}
    for stream in found:
        assert all(place[before] < place[stream] for before in dataflow.nodes[stream.operator].inputs)
    ends = StreamRef("union_49")
    assert {stream.operator for stream in dataflow.leading_to(StreamRef(last.name), lambda stream: stream == ends)} == {
        "union_50", "filter_99", "filter_100", "union_49", "other"
    }  # fmt: skip


def test_a_node_can_be_put_behind_other_streams() -> None:
    pipeline = flow()
    nodes = pipeline.dataflow.nodes
    Stream(pipeline.dataflow, StreamRef("rows")).union(Stream(pipeline.dataflow, StreamRef("rows")), name="both").filter("v > 1")
    moved = nodes["filter"].with_inputs([StreamRef("rows")], [nodes["rows"].type])
    assert (nodes["filter"].children, moved.children, nodes["both"].children) == (("both",), ("rows",), ("rows",))
    assert moved.outputs == nodes["filter"].outputs
    with pytest.raises(SchemaError, match="uses column 'v', which its input does not have"):
        nodes["filter"].with_inputs([StreamRef("rows")], [StreamType(("w",))])
    with pytest.raises(SchemaError, match="union takes append or retracting streams"):
        nodes["both"].with_inputs([StreamRef("rows")], [StreamType(("v",), changes=Changes.upsert(("v",)))])
