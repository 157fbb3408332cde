"""What differs between two plans, told by node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings

import dagster_operators as do
from dagster_operators.plans.codec import from_bytes
from dagster_operators.plans.diff import diff
from dagster_operators.plans.shown import as_json, as_text
from tests.operators.samples import SAMPLES
from tests.plans.random_pipelines import pipelines

if TYPE_CHECKING:
    from dagster_operators.plans.logical_plan import LogicalPlan


def plan(condition="v > 1", *, more=False, of="rows", sink="a", check="v > 0"):
    pipeline = do.Pipeline("p", root="unused")
    source = do.MemorySource([], schema="k string, v long, t timestamp")
    streams = {name: pipeline.source(name, source, event_time="t") for name in ("rows", "others")}
    kept = streams["rows"].filter(condition, name="kept")
    counts = (kept if of == "kept" else streams[of]).key_by("k").window(do.Tumbling("1 h")).aggregate(n="count(*)", name="counts")
    counts.to_table("counts", checks={"some": "n > 0"})
    kept.to_table("kept", checks={"large": check})
    kept.to_sink(do.PostgresSink("env:A", sink), name="warehouse")
    if more:
        counts.late(name="late_ones").to_table("late", owners=["team:x"])
    return pipeline.logical_plan()


def test_equal_plans_do_not_differ():
    assert not diff(plan(), plan())
    assert str(diff(plan(), plan())) == ""


def test_a_changed_setting_is_told_with_what_it_was():
    found = diff(plan(), plan("v > 2"))
    assert [(change.name, dict(change.fields)) for change in found.changed] == [("kept", {"condition": ("v > 1", "v > 2")})]
    assert str(found) == "~ kept: condition was 'v > 1', is 'v > 2'"
    assert found.to_json()["changed"] == {"kept": {"condition": ["v > 1", "v > 2"]}}
    assert (found.added, found.removed, found.moved, found.ends) == ((), (), {}, ())


def test_operators_come_and_go():
    pipeline = do.Pipeline("p", root="unused")
    pipeline.source("rows", do.FileSource("in", schema="v long")).filter("v > 1").to_table("out")
    less = do.Pipeline("p", root="unused")
    less.source("rows", do.FileSource("in", schema="v long")).to_table("out")
    found = diff(less.logical_plan(), pipeline.logical_plan())
    assert ([node.name for node in found.added], found.removed) == (["filter"], ())
    assert str(found).splitlines() == [
        "+ filter <- rows: filter(condition='v > 1')",
        "~ table out: stream was 'rows', is 'filter'",
    ]
    back = diff(pipeline.logical_plan(), less.logical_plan())
    assert ([node.name for node in back.removed], back.to_json()["removed"][0]["kind"]) == (["filter"], "filter")


def test_an_operator_that_reads_another_stream_is_moved_and_not_changed():
    found = diff(plan(), plan(of="kept"))
    assert str(found) == "~ counts: reads kept, read rows"
    assert found.to_json()["moved"] == {"counts": [["rows"], ["kept"]]}
    assert found.changed == ()


def test_a_kind_that_changes_under_one_name_is_told():
    plans = []
    for method in ("filter", "select"):
        pipeline = do.Pipeline("p", root="unused")
        getattr(pipeline.source("rows", do.FileSource("in", schema="v long")), method)("v", name="one")
        plans.append(pipeline.logical_plan())
    fields = diff(*plans).changed[0].fields
    assert fields == {"kind": ("filter", "select"), "condition": ("v", None), "expressions": (None, ("v",))}


def test_tables_sinks_and_side_streams_are_told():
    told = {change.name: dict(change.fields) for change in diff(plan(), plan(more=True, sink="b", check="v > 5")).ends}
    assert told == {
        "table kept": {"check large": (("v > 0", True), ("v > 5", True))},
        "sink warehouse": {"table": ("a", "b")},
        "side stream counts.late": {"name": (None, "late_ones")},
        "table late": {"stream": (None, "counts.late"), "description": (None, ""), "owners": (None, ("team:x",))},
    }


def test_a_function_with_other_content_is_told():
    from dataclasses import replace

    from dagster_operators.functions.references import Reference

    one, other = (replace(plan(), functions={"f": Reference("m", "f", digest)}) for digest in ("a", "b"))
    assert str(diff(one, other)) == "~ function f: content was 'a', is 'b'"


def test_versions_of_packages_are_told_but_are_no_difference():
    from dataclasses import replace

    found = diff(plan(), replace(plan(), packages={"dagster_operators": "9.9"}))
    assert not found
    assert found.packages["dagster_operators"][1] == "9.9"


BRIEF = settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@BRIEF
@given(pipelines(), pipelines())
def test_two_plans_differ_when_they_are_not_equal(one, other):
    plans = [pipeline.logical_plan() for pipeline in (one, other)]
    assert bool(diff(*plans)) == (plans[0] != plans[1])
    assert not diff(plans[0], from_bytes(one.to_plan()))


@BRIEF
@given(pipelines(), pipelines())
def test_what_one_direction_adds_the_other_removes(one, other):
    there, back = (
        diff(*plans) for plans in ((one.logical_plan(), other.logical_plan()), (other.logical_plan(), one.logical_plan()))
    )
    assert (there.added, there.removed) == (back.removed, back.added)
    assert {name: (after, before) for name, (before, after) in there.moved.items()} == dict(back.moved)
    assert (str(there) and there.to_json()["added"]) or not there.added


def test_a_loop_that_changes_is_told():
    def plan_of(limit):
        pipeline = do.Pipeline("p", root="unused")
        loop = pipeline.loop("halving", limit=limit)
        again = loop.variable("again", "n long")
        start = pipeline.source("start", do.MemorySource([], schema="n long"))
        rows = loop.enter(start).union(again).filter("n > 1", name="large").select("n div 2 AS n", name="halves")
        loop.feed(again, rows)
        loop.leave(rows).to_table("out")
        return pipeline.logical_plan()

    assert str(diff(plan_of(5), plan_of(6))) == "~ loop halving: limit was 5, is 6"
    assert "  loop halving, at most 5 rounds: again is fed halves" in as_text(plan_of(5)).splitlines()
    assert as_json(plan_of(5))["loops"] == [
        {"name": "halving", "limit": 5, "within_subtask": False, "feedback": {"again": "halves"}}
    ]


def test_of_a_source_that_changed_its_settings_are_named_that_did() -> None:
    def plan_of(**given: Any) -> LogicalPlan:
        pipeline = do.Pipeline("p", root="unused")
        pipeline.source("rows", do.FileSource("in/*.csv", **given)).to_table("out")
        return pipeline.logical_plan()

    found = diff(plan_of(schema="v long"), plan_of(schema="v long, w long", max_files=3))
    assert str(found).splitlines() == [
        "~ rows: connector.schema was 'v long', is 'v long, w long'",
        "~ rows: connector.max_files was not there, is 3",
    ]


def test_no_operator_shows_settings_that_nobody_gave() -> None:
    texts = [sample.explain() for sample in SAMPLES if sample.kind != "frontier"]  # shown as the call that makes it again
    assert [text for text in texts if "=None" in text] == []


def test_of_an_operator_what_was_given_is_shown_and_times_in_words() -> None:
    rows = do.Pipeline("p", root="unused").source(
        "rows", do.FileSource("in/*.csv", schema="t timestamp"), event_time="t", lateness="90 minutes"
    )
    shown = rows._dataflow.nodes["rows"].operator.explain()
    connector = "FileSource(path='in/*.csv', schema='t timestamp')"
    assert shown == f"source(connector={connector}, event_time='t', lateness=90 minutes)"
