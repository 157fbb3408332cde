"""Operators that run what another one ran."""

from __future__ import annotations

from dataclasses import replace

import pytest

import dagster_operators as do
from dagster_operators.operators.events.event_operators import EventOperators
from dagster_operators.operators.events.swapped import swapped
from dagster_operators.operators.events.wiring import EventInput, EventOperator, EventSource
from dagster_operators.plans.verdict import Level, Stored
from dagster_operators.plans.verdicts import judge


def dataflow(texts, state="plain", **files):
    """Operators with their files, each of which has a letter of the text as its content."""
    given = (EventInput("n", "numbers/n"),)
    operators = tuple(
        EventOperator(node, "op", alone=True, file=f"{name}.py", inputs=given, outputs=("o",), state=state)
        for node, name in files.items()
    )
    pairs = tuple((f"{name}.py", text) for name, text in zip("xyz", texts, strict=False))
    return EventOperators(name="events", sources=(EventSource("numbers", (("n", "v"),), "t"),), operators=operators, files=pairs)


BEFORE = dataflow("XY", a="x", b="y")


@pytest.mark.parametrize(
    ("after", "found"),
    [
        pytest.param(dataflow("XY", a="y", b="x"), ("a", "b"), id="the files are swapped"),
        pytest.param(dataflow("YX", a="x", b="y"), ("a", "b"), id="what is in them is swapped"),
        pytest.param(dataflow("Xy", a="y", b="x"), ("a", "b"), id="swapped and edited"),
        pytest.param(dataflow("XYZ", a="y", b="z"), ("a", "b"), id="handed on"),
        pytest.param(dataflow("XY", b="x", c="y"), ("b", "a"), id="ids handed on"),
        pytest.param(dataflow("XY", b="y", a="x"), None, id="in another order"),
        pytest.param(dataflow("xy", a="x", b="y"), None, id="both edited"),
        pytest.param(dataflow("YX", a="y", b="x"), None, id="the files have each other's names"),
        pytest.param(dataflow("XY", a="y", b="y"), None, id="both run the same"),
        pytest.param(dataflow("XY", a="x", c="y"), None, id="an id of its own"),
        pytest.param(dataflow("XY", "none", a="y", b="x"), None, id="nothing is kept"),
    ],
)
def test_who_took_over_the_file_of_another_one(after, found):
    assert swapped(BEFORE, after) == found


def plan(made):
    pipeline = do.Pipeline("p", root="unused")
    numbers = pipeline.source("numbers", do.FileSource("in/*.csv", schema="t timestamp, v long"), event_time="t")
    events = numbers.through(EventOperators, name="events", sources=made.sources, operators=made.operators, files=made.files)
    output = next(one.path for one in made.operators[::-1])
    events.side_output(f"{output}/o", name="outputs").to_table("outputs")
    return pipeline.logical_plan()


def test_the_state_of_one_that_is_taken_out_is_told_to_be_dropped():
    stored = Stored(stateful=["events"], tables=["outputs"], positions=["numbers"])
    said = judge(plan(BEFORE), plan(dataflow("XY", b="y")), stored)
    assert [one.level for one in said if "the state of 'a' is dropped" in one.problem] == [Level.FROM_HERE_ON]
    assert not [one for one in judge(plan(BEFORE), plan(dataflow("XY", "none", b="y")), stored) if one.level is Level.DECISION]
    assert not [one for one in judge(plan(BEFORE), plan(dataflow("XZ", a="x", b="y")), stored) if "dropped" in one.problem]


def test_it_is_asked_what_becomes_of_their_state():
    old = plan(BEFORE)
    stored = Stored(stateful=["events"], tables=["outputs"], positions=["numbers"])
    asked = [one for one in judge(old, plan(dataflow("XY", a="y", b="x")), stored) if one.level is Level.DECISION]
    assert [(one.subject, tuple(one.choices)) for one in asked] == [("operator events", ("keep", "restart"))]
    assert "'a' runs what 'b' ran" in asked[0].problem
    assert not [one for one in judge(old, plan(dataflow("xy", a="x", b="y")), stored) if one.level is Level.DECISION]


@pytest.mark.parametrize(
    ("after", "gone", "new"),
    [
        pytest.param(dataflow("XY", a="x", c="y"), "'b'", "'c'", id="another id"),
        pytest.param(dataflow("XYZ", a="x", c="z"), "'b'", "'c'", id="another id and file"),
        pytest.param(dataflow("XY", c="x", d="y"), "'a', 'b'", "'c', 'd'", id="both"),
    ],
)
def test_another_id_may_be_a_new_name_and_is_asked_about(after, gone, new):
    stored = Stored(stateful=["events"], tables=["outputs"], positions=["numbers"])
    (asked,) = (one for one in judge(plan(BEFORE), plan(after), stored) if one.level is Level.DECISION and one.was)
    assert (asked.subject, set(asked.choices)) == ("operator events", {"drop", "restart"})
    assert (
        asked.problem
        == f"{gone} is not in the file any more, whose state would be dropped, and {new} is new and begins without state"
    )
    assert EventOperators.renamed_within(dataflow("XY", "none", a="x", c="y"), BEFORE) == ""
    assert EventOperators.renamed_within(dataflow("XYZ", a="x", b="y", c="z"), BEFORE) == ""


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        (("a", "b"), ""),
        (("c", "b"), ""),
        (("b", "a"), ""),
        (("c", "b", "z"), "the source node 'a' and its stream are not in the file any more"),
    ],
)
@pytest.mark.parametrize("order", ["time", ""])
def test_source_nodes_whose_rows_may_wait_are_asked_about_where_nothing_reads_their_stream(nodes, told, order):
    def planned(nodes):
        pipeline = do.Pipeline("p", root="unused")
        one, two = (
            pipeline.source(name, do.FileSource(f"{name}/*.csv", schema="t timestamp, v long"), event_time="t")
            for name in (*nodes[2:], *"xy")[:: 1 + len(nodes[2:])]
        )
        sources = tuple(EventSource(node, (("n", "v"),), "t") for node in nodes[:2])
        own = {"name": "events", "sources": sources, "order": order, "operators": BEFORE.operators, "files": BEFORE.files}
        one.through(EventOperators, two, **own).side_output("a/o", name="outputs").to_table("outputs")
        return pipeline.logical_plan()

    stored = Stored(stateful=["events"], tables=["outputs"], positions=["x", "y"])
    said = [one for one in judge(planned("ab"), planned(nodes), stored) if one.subject == "operator events"]
    asked = [one for one in said if one.level is Level.DECISION]
    assert [one.problem.partition(":")[0] for one in asked] == ([told] if told and order else [])
    assert all(set(one.choices) == {"keep", "restart"} for one in asked)


def test_one_that_is_new_with_state_is_asked_about_unless_the_file_says_that_it_begins():
    stored = Stored(stateful=["events"], tables=["outputs"], positions=["numbers"])
    after = dataflow("XYZ", a="x", b="y", c="z")
    asked = [one for one in judge(plan(BEFORE), plan(after), stored) if one.level is Level.DECISION]
    told = "'c' is new and keeps state: it would begin without what came before"
    assert told in [one.problem for one in asked if one.subject == "operator events" and set(one.choices) == {"keep", "restart"}]
    restarted = tuple(replace(one, restart="1") if one.node == "c" else one for one in after.operators)
    assert replace(after, operators=restarted).mixed_up(BEFORE) == ""
    assert dataflow("XYZ", "none", a="x", b="y", c="z").mixed_up(dataflow("XY", "none", a="x", b="y")) == ""
