"""Which operators of a user's own share a stage: a graph of any form, as long as no rows need to move."""

from __future__ import annotations

import pytest

import dagster_operators as do
from dagster_operators.planner.stages import Stage, cut_stages


class Same(do.ArrowOperator):
    """Puts out what comes in."""

    def output_schema(self, *inputs):
        return inputs[0]


class Two(Same):
    """Has two outputs."""

    def output_schema(self, *inputs):
        return {"main": inputs[0], "other": inputs[0]}


class Holding(Same):
    def handle_watermark(self, watermark, ctx, out):
        return watermark - 1


class Keeping(Same):
    state = {"seen": do.KeyedState("k string, n long", key="k")}


def flow():
    pipeline = do.Pipeline("p", root="unused")
    source = do.MemorySource([], schema="k string, j string, v long, t timestamp")
    return pipeline, pipeline.source("rows", source, event_time="t")


def stages(pipeline) -> dict[str, Stage]:
    return {stage.name: stage for stage in cut_stages(pipeline.dataflow)}


def chains(pipeline) -> dict[str, tuple[str, ...]]:
    return {name: stage.operators for name, stage in stages(pipeline).items()}


def same(stream, name, key="k", **more):
    return stream.key_by(key).apply(Same(), name=name, **more)


def join(*streams, name="d", key="k"):
    return do.apply(Same(), *(stream.key_by(key) for stream in streams), name=name)


def test_a_diamond_with_one_key_is_one_stage():
    pipeline, rows = flow()
    even, odd = do.apply(Two(), rows.key_by("k"), name="a")
    join(same(even, "b"), same(odd, "c")).to_table("out")
    (stage,) = stages(pipeline).values()
    assert stage.operators == ("rows", "a", "b", "c", "d")
    assert [output.name for output in stage.outputs] == ["out"]
    assert (stage.inputs, stage.upstream) == ((), ())


def test_one_output_may_have_several_readers_and_a_reader_read_it_twice():
    pipeline, rows = flow()
    first = same(rows, "a")
    join(first, same(first, "b"), first).to_table("out")
    assert chains(pipeline) == {"out": ("rows", "a", "b", "d")}


def test_the_ends_of_a_stage_are_all_written():
    pipeline, rows = flow()
    first = same(rows, "a")
    same(first, "b").to_table("one")
    kept = same(first, "c")
    kept.late().to_table("late")
    kept.to_table("two")
    (stage,) = stages(pipeline).values()
    assert stage.name == "two"
    assert {(output.name, str(output.ref)) for output in stage.outputs} == {("one", "b"), ("two", "c"), ("late", "c.late")}


def test_a_stream_that_two_inputs_read_is_brought_there_once_and_joined_on_the_spot():
    pipeline, rows = flow()
    kept = rows.filter("v > 0")
    join(same(kept, "b"), same(kept, "c")).to_table("out")
    assert chains(pipeline) == {"filter": ("rows", "filter"), "out": ("b", "c", "d")}


def test_several_relational_branches_may_lead_into_a_stage():
    pipeline, rows = flow()
    rows.to_table("raw")
    left, right = (rows.filter(f"v % 2 = {number}", name=name) for number, name in enumerate(("even", "odd")))
    join(same(left, "b"), same(right, "c")).to_table("out")
    assert chains(pipeline) == {"raw": ("rows",), "out": ("even", "odd", "b", "c", "d")}


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda first: same(first, "b", key="j").to_table("out"), {"a": ("rows", "a"), "out": ("b",)}),
        (lambda first: same(first, "b", chain=False).to_table("out"), {"a": ("rows", "a"), "out": ("b",)}),
        (lambda first: same(first.to_table("first"), "b").to_table("out"), {"first": ("rows", "a"), "out": ("b",)}),
        (lambda first: first.apply(Keeping(), name="b").to_table("out"), {"a": ("rows", "a"), "out": ("b",)}),
        (lambda first: same(first.key_by("k").apply(Holding(), name="b"), "c").to_table("out"),
         {"b": ("rows", "a", "b"), "out": ("c",)}),
    ],
    ids=["another key", "not chained", "a table", "one subtask", "held time"],
)  # fmt: skip
def test_what_ends_a_stage(build, expected):
    pipeline, rows = flow()
    build(same(rows, "a"))
    assert chains(pipeline) == expected


def test_if_one_reader_cannot_stay_the_stream_is_written_and_none_stays():
    pipeline, rows = flow()
    first = same(rows, "a")
    same(first, "b").to_table("one")
    first.filter("v > 0").to_table("two")
    assert chains(pipeline) == {"a": ("rows", "a"), "one": ("b",), "two": ("filter",)}


@pytest.mark.parametrize("turned", [False, True])
def test_no_stage_waits_for_what_is_made_elsewhere_of_its_own_rows(turned):
    pipeline, rows = flow()
    even, odd = do.apply(Two(), rows.key_by("k"), name="a")
    both = [same(even, "b"), odd.filter("v > 0", name="f")]
    join(*(reversed(both) if turned else both)).to_table("out")
    found = stages(pipeline)
    assert {name: stage.operators for name, stage in found.items()} == {"b": ("rows", "a", "b"), "out": ("f", "d")}
    assert {output.name for output in found["b"].outputs} == {"b", "a_other"}
    assert found["out"].upstream == ("b",)


def test_nor_if_the_way_back_leads_through_several_stages():
    pipeline, rows = flow()
    even, odd = do.apply(Two(), rows.key_by("k"), name="a")
    away = same(same(odd, "f", key="j"), "g", key="v")
    join(even, same(away, "h"), same(rows, "e")).to_table("out")
    order = list(stages(pipeline).values())
    for place, stage in enumerate(order):
        assert set(stage.upstream) <= {other.name for other in order[:place]}, stage
