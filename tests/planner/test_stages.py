"""Cutting a dataflow into stages: what chains and what does not."""

from __future__ import annotations

import pytest

from dagster_operators import MemorySource, Pipeline, Stream, Tumbling
from dagster_operators.errors import PipelineError
from dagster_operators.planner.stages import cut_stages


def flow() -> tuple[Pipeline, Stream]:
    pipeline = Pipeline("p", root="unused")
    source = MemorySource([], schema="k string, v long, t timestamp")
    return pipeline, pipeline.source("rows", source, event_time="t")


def chains(pipeline: Pipeline) -> dict[str, tuple[str, ...]]:
    return {stage.name: stage.operators for stage in cut_stages(pipeline.dataflow)}


def test_neighbours_with_one_consumer_share_a_stage() -> None:
    pipeline, rows = flow()
    rows.filter("v > 0").select("k", "t").to_table("clean")
    assert chains(pipeline) == {"clean": ("rows", "filter", "select")}


def test_a_stream_with_two_consumers_ends_its_stage() -> None:
    pipeline, rows = flow()
    kept = rows.filter("v > 0")
    kept.select("k").to_table("a")
    kept.select("v").to_table("b")
    assert chains(pipeline) == {"filter": ("rows", "filter"), "a": ("select",), "b": ("select_2",)}


def test_a_table_ends_its_stage() -> None:
    pipeline, rows = flow()
    rows.filter("v > 0").to_table("clean").key_by("k").window(Tumbling("1 s")).aggregate(n="count(*)").to_table("counts")
    stages = cut_stages(pipeline.dataflow)
    assert [stage.name for stage in stages] == ["clean", "counts"]
    assert stages[1].upstream == ("clean",)
    assert stages[1].inputs == ("filter",)


def test_two_stateful_operators_do_not_share_a_stage() -> None:
    pipeline, rows = flow()
    first = rows.key_by("k").window(Tumbling("1 s")).aggregate(n="count(*)", name="fine")
    first.key_by("k").window(Tumbling("1 min")).aggregate(n="sum(n)", name="coarse").to_table("coarse_counts")
    assert chains(pipeline) == {"fine": ("rows", "fine"), "coarse_counts": ("coarse",)}


def test_a_union_chains_with_all_its_inputs() -> None:
    pipeline, rows = flow()
    other = pipeline.source("others", MemorySource([], schema="k string, v long, t timestamp"), event_time="t")
    rows.filter("v > 0").union(other.filter("v < 0")).to_table("both")
    assert chains(pipeline) == {"both": ("rows", "others", "filter", "filter_2", "union")}


def test_a_stream_united_with_itself_is_computed_once() -> None:
    pipeline, rows = flow()
    kept = rows.filter("v > 0")
    kept.union(kept).to_table("twice")
    assert chains(pipeline) == {"filter": ("rows", "filter"), "twice": ("union",)}


@pytest.mark.parametrize("how", ["chain", "start_new_stage"])
def test_a_chain_is_cut_where_asked(how: str) -> None:
    pipeline, rows = flow()
    cut = rows.filter("v > 0", chain=False) if how == "chain" else rows.start_new_stage().filter("v > 0")
    cut.to_table("clean")
    assert chains(pipeline) == {"rows": ("rows",), "clean": ("filter",)}


def test_operators_that_lead_to_no_table_are_left_out() -> None:
    pipeline, rows = flow()
    rows.select("v")
    rows.filter("v > 0").to_table("clean")
    assert chains(pipeline) == {"clean": ("rows", "filter")}


def test_a_pipeline_without_a_table_is_refused() -> None:
    pipeline, _ = flow()
    with pytest.raises(PipelineError, match="writes no table"):
        cut_stages(pipeline.dataflow)


def test_a_stage_has_another_fingerprint_when_it_computes_something_else() -> None:
    prints = set()
    for condition in ("v > 0", "v > 1", "v > 0"):
        pipeline, rows = flow()
        rows.filter(condition).to_table("clean")
        prints.add(cut_stages(pipeline.dataflow)[0].fingerprint)
    assert len(prints) == 2
