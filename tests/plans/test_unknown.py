"""A plan with operators of packages that are not installed is shown and compared; only who runs it needs the packages."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

import dagster_operators as do
from dagster_operators.catalog import loading
from dagster_operators.cli.main import main
from dagster_operators.errors import PlanError
from dagster_operators.plans import plan_pb2, values_pb2
from dagster_operators.plans.codec import from_bytes, to_bytes
from dagster_operators.plans.diff import diff
from dagster_operators.plans.unknown import UnknownOperator, UnknownSink
from dagster_operators.plans.verdict import Level, Stored
from dagster_operators.plans.verdicts import judge
from tests.catalog import limits


def packages(monkeypatch, *installed):
    monkeypatch.setattr(loading, "_default", [])
    monkeypatch.setattr(loading, "entry_points", lambda group: [])
    for register in installed:
        register(loading.catalog().of("limits"))


@pytest.fixture
def plans(monkeypatch):
    """What a process wrote that had the package: a plan by the number of rows that ``head`` lets through."""
    packages(monkeypatch, limits.register)

    def written(rows):
        made = do.Pipeline("p", root="unused")
        made.source("rows", do.FileSource("in", schema="k string, v long")).head(rows, name="first").to_table("few")
        return made.to_plan()

    data = {rows: written(rows) for rows in (3, 5)}
    packages(monkeypatch)
    return data


def changed(data, change):
    message = plan_pb2.Plan.FromString(data)
    change(message)
    return message.SerializeToString(deterministic=True)


def test_it_is_read_with_its_settings_and_written_as_it_was(plans):
    found = from_bytes(plans[3], to_run=False)
    operator = found.node("first").operator
    assert isinstance(operator, UnknownOperator)
    assert (operator.kind, dict(operator.settings), operator.package) == ("head", {"rows": 3}, "limits")
    assert to_bytes(found) == plans[3]
    assert found == from_bytes(plans[3], to_run=False) != from_bytes(plans[5], to_run=False)


def test_running_it_names_kind_and_package(plans):
    with pytest.raises(PlanError, match="operator of the kind 'head', which no installed package knows") as caught:
        do.Pipeline.from_plan(plans[3], root="unused")
    assert (caught.value.operator, caught.value.kind, caught.value.package) == ("first", "head", "limits")
    assert caught.value.remedy == "install limits"


def test_it_is_compared_setting_by_setting(plans):
    old, new = (from_bytes(plans[rows], to_run=False) for rows in (3, 5))
    assert str(diff(old, new)) == "~ first: rows was 3, is 5"
    assert not diff(old, old)


def test_commands_show_and_compare_it_and_do_not_run_it(plans, tmp_path):
    for rows, data in plans.items():
        (tmp_path / f"{rows}.plan").write_bytes(data)
    files = [str(tmp_path / f"{rows}.plan") for rows in plans]
    shown = CliRunner().invoke(main, ["plan", "show", files[0]])
    assert "first <- rows: head(rows=3) [not known here: install limits]" in shown.output
    assert CliRunner().invoke(main, ["plan", "show", "--details", files[0]]).exit_code == 0
    assert CliRunner().invoke(main, ["plan", "diff", *files]).output == "~ first: rows was 3, is 5\n"
    ran = CliRunner().invoke(main, ["plan", "run", files[0], "--root", str(tmp_path / "root")])
    assert (ran.exit_code, "'head', which no installed package knows" in ran.output) == (1, True)


def test_settings_in_a_message_of_its_own_are_told_apart(plans):
    """Who does not have the message sees that it is another one."""

    def other(text):
        return lambda message: setattr(message.nodes[1], "settings", values_pb2.Names(names=[text]).SerializeToString())

    old, new = (from_bytes(changed(plans[3], other(text)), to_run=False) for text in "ab")
    assert list(diff(old, new).changed[0].fields) == ["settings"]


def test_a_newer_version_of_an_operator_or_sink_is_shown_too(plans):
    def newer(message):
        message.nodes[0].settings += b"\xf2\x3f\x01x"  # a field that is not known here
        message.sinks.add(name="out", stream=message.nodes[1].inputs[0]).target.other.kind = "their_sink"

    found = from_bytes(changed(plans[3], newer), to_run=False)
    assert found.nodes[0].operator.kind == "source"
    assert isinstance(found.nodes[0].operator, UnknownOperator)
    assert found.sinks[0].sink == UnknownSink("their_sink", b"z\x0c\n\ntheir_sink")
    assert from_bytes(to_bytes(found), to_run=False) == found


def test_a_sink_of_a_kind_that_is_not_known_is_judged_by_what_the_plan_has_of_it(plans):
    def given(kind, name="out"):
        def newer(message):
            message.sinks.add(name=name, stream=message.nodes[1].inputs[0]).target.other.kind = kind

        return from_bytes(changed(plans[3], newer), to_run=False)

    stored = Stored(["first"], tables=["few"], positions=["rows"])
    assert judge(given("theirs"), given("theirs"), stored) == []
    told = judge(given("theirs"), given("another"), stored)
    assert [(one.subject, one.level) for one in told] == [("sink out", Level.FROM_HERE_ON)]
    assert "it was theirs, and is another, with other settings; theirs is not known here" in told[0].problem
    assert [one.level for one in judge(given("theirs"), given("theirs", "new"), stored)] == [Level.KEPT]


def test_what_left_the_program_with_its_package_is_judged_like_any_other(plans):
    after = do.Pipeline("p", root="unused")
    after.source("rows", do.FileSource("in", schema="k string, v long")).filter("v > 1").to_table("few")
    stored = Stored(["first"], tables=["few"], positions=["rows"])
    verdicts = judge(from_bytes(plans[3], to_run=False), after.logical_plan(), stored)
    assert [(one.subject, one.level, list(one.choices)) for one in verdicts if one.level is Level.DECISION] == [
        ("operator first", Level.DECISION, ["drop"])
    ]


def test_where_nobody_knows_both_only_a_difference_is_asked_about(plans):
    old, new = (from_bytes(plans[rows], to_run=False) for rows in (3, 5))
    stored = Stored(["first"], tables=["few"], positions=["rows"])
    assert judge(old, old, stored) == []
    asked = judge(old, new, stored)
    assert [(one.subject, list(one.choices)) for one in asked] == [("operator first", ["keep", "restart"])]
    assert "what that means is known with limits installed" in asked[0].problem


def test_a_source_of_a_kind_that_is_not_known_is_asked_about_where_it_changed(plans):
    def newer(message):
        message.nodes[0].settings += b"\xf2\x3f\x01x"

    old, new = from_bytes(changed(plans[3], newer), to_run=False), from_bytes(plans[3], to_run=False)
    assert judge(old, old, Stored(positions=["rows"])) == []
    assert judge(new, old, Stored(positions=["rows"]))[0].level is Level.DECISION
    asked = judge(old, new, Stored(positions=["rows"]))
    assert [(one.subject, one.level) for one in asked] == [("source rows", Level.DECISION)]
