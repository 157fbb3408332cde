"""Cutting a dataflow into stages: what chains and what does not."""

from __future__ import annotations

from typing import Any

import pytest

from dagster_operators import ArrowOperator, Check, FileSink, MemorySource, Pipeline, Stream, Tumbling
from dagster_operators.errors import PipelineError
from dagster_operators.graph.ports import StreamRef
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
    assert stages[1].inputs == (StreamRef("filter"),)


def test_a_stage_does_not_read_what_it_writes_itself() -> None:
    pipeline, rows = flow()
    counts = rows.key_by("k").window(Tumbling("1 s")).aggregate(n="count(*)", name="counts")
    late = counts.late().select("k", name="late")
    late.union(counts.select("k", name="on_time"), name="all").to_table("keys")
    assert chains(pipeline) == {"on_time": ("rows", "counts", "on_time"), "keys": ("late", "all")}


def test_two_stateful_operators_do_not_share_a_stage() -> None:
    pipeline, rows = flow()
    first = rows.key_by("k").window(Tumbling("1 s")).aggregate(n="count(*)", name="fine")
    first.key_by("k").window(Tumbling("1 min")).aggregate(n="sum(n)", name="coarse").to_table("coarse_counts")
    assert chains(pipeline) == {"fine": ("rows", "fine"), "coarse_counts": ("coarse",)}


@pytest.mark.parametrize("how", ["rand", "transform"])
def test_what_differs_each_time_is_written_before_an_operator_that_reads_it_twice(how: str) -> None:
    def stages(forget_after: str | None) -> int:
        pipeline = Pipeline("p", root="unused")
        rows = pipeline.source("rows", MemorySource([], schema="k string, t timestamp"), event_time="t").filter("k > ''")
        salted = rows.with_columns(g="rand()") if how == "rand" else rows.transform(lambda frame: frame, columns=["k", "t"])
        salted.key_by("k").aggregate(n="count(*)", forget_after=forget_after).to_table("t")
        rows.key_by("k").aggregate(n="count(*)", forget_after=forget_after, name="plain").to_table("u")
        return len(cut_stages(pipeline.dataflow))

    assert stages("1 day") == stages(None) + 1


@pytest.mark.parametrize("late", [True, False])
def test_what_differs_each_time_is_written_before_an_operator_whose_late_rows_are_read(*, late: bool) -> None:
    pipeline = Pipeline("p", root="unused")
    rows = pipeline.source("rows", MemorySource([], schema="k string, t timestamp"), event_time="t")
    some = rows.filter("rand() < 0.5", name="some").key_by("k").window(Tumbling("1 s")).aggregate(n="count(*)", name="counts")
    some.to_table("counts")
    if late:
        some.late().to_table("late")
    assert len(cut_stages(pipeline.dataflow)) == 1 + late


def test_windows_that_come_whole_are_not_waited_for() -> None:
    """A window comes out of an aggregate in one epoch, so what works on its rows needs no state, and no stage of its own."""
    pipeline, rows = flow()
    counts = rows.key_by("k").window(Tumbling("1 s")).aggregate(n="count(*)", name="counts")
    best = counts.select("k", "n", "window_start", "window_end").window().top(1, by="n DESC", name="best")
    best.window().aggregate(all="sum(n)", name="total").to_table("totals")
    assert chains(pipeline) == {"totals": ("rows", "counts", "select", "best", "total")}
    assert "state/best" not in pipeline.explain()


def test_windows_that_may_come_in_pieces_are_waited_for() -> None:
    pipeline, rows = flow()
    parts = [rows.filter(f"v % 2 = {n}").key_by("k").window(Tumbling("1 s")).aggregate(n="count(*)") for n in (0, 1)]
    parts[0].union(parts[1]).window().top(1, by="n DESC", name="best").to_table("best")
    moved = parts[0].transform(lambda frame: frame, columns=("k", "window_start", "window_end", "n"))
    moved.window().aggregate(n="sum(n)", name="sums").to_table("sums")
    explained = pipeline.explain()
    assert "state table state/best.panes" in explained
    assert "state table state/sums.panes" in explained


def test_what_may_change_the_time_does_not_give_whole_windows() -> None:
    _, rows = flow()
    counts = rows.key_by("k").window(Tumbling("1 s")).top(1, by="v")
    assert counts._type.complete_windows
    renamed = counts.filter("v > 1").select("v", "window_start AS s", "window_end").rename({"s": "window_start"})
    assert renamed._type.complete_windows
    assert not counts.with_columns(WINDOW_START="current_timestamp()")._type.event_time
    assert not counts.key_by("k").deduplicate(within="1 day")._type.complete_windows
    assert not counts.transform(lambda frame: frame)._type.complete_windows
    assert not counts.key_by("k").apply(Keeper()).late()._type.complete_windows


class Keeper(ArrowOperator):
    """May give any row it has been given as late, in any epoch."""

    name = "keeper"

    def output_schema(self, *inputs: object) -> str:
        return "k string"


def test_a_union_chains_with_all_its_inputs() -> None:
    pipeline, rows = flow()
    other = pipeline.source("others", MemorySource([], schema="k string, v long, t timestamp"), event_time="t")
    rows.filter("v > 0").union(other.filter("v < 0")).to_table("both")
    assert chains(pipeline) == {"both": ("rows", "others", "filter", "filter_2", "union")}


def test_a_stage_comes_after_those_that_it_reads() -> None:
    """The union shares a stage with the first sums, and reads the second ones of another."""
    pipeline, rows = flow()
    first, second = (rows.key_by("k").window(Tumbling(size)).aggregate(n="count(*)", name=size[2:]) for size in ("1 s", "2 min"))
    first.union(second).to_table("both")
    assert list(chains(pipeline)) == ["rows", "min", "both"]
    assert chains(pipeline)["both"] == ("s", "union")


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


WRITTEN: dict[str, dict[str, Any]] = {
    "as it is": {},
    "another table": {"table": "other"},
    "checked": {"checks": {"some": Check("k > ''", blocking=False)}},
    "checked otherwise": {"checks": {"some": Check("k > 'a'", blocking=False)}},
    "checked strictly": {"checks": {"some": Check("k > ''")}},
}


def test_what_a_stage_writes_and_checks_is_in_its_fingerprint() -> None:
    """Else a stage that died goes on with rows that nobody checked, or that are of another table."""
    prints = []
    for written in WRITTEN.values():
        pipeline, rows = flow()
        rows.select("k").to_table(**{"table": "clean", **written})
        prints.append(cut_stages(pipeline.dataflow)[0].fingerprint)
    assert len(set(prints)) == len(prints)


def test_the_sinks_of_a_stage_are_in_its_fingerprint() -> None:
    prints = []
    for folders in ((), ("a",), ("b",), ("a", "b")):
        pipeline, rows = flow()
        changes = rows.key_by("k").aggregate(n="count(*)").to_changes()
        changes.to_table("log")
        for number, folder in enumerate(folders):
            changes.to_sink(FileSink(folder, format="debezium-json", key="k"), name=f"events{number}")
        prints += [stage.fingerprint for stage in cut_stages(pipeline.dataflow) if stage.name == "log"]
    assert len(set(prints)) == 4
