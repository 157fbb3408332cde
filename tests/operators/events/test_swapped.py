"""Operators that run what another one ran."""

from __future__ import annotations

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
