"""Plans as bytes: what cannot be read is told with what would know it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.catalog import loading
from dagster_operators.errors import PlanError
from dagster_operators.graph.outputs import Table
from dagster_operators.graph.ports import StreamRef
from dagster_operators.plans import operators_pb2, plan_pb2, values_pb2
from dagster_operators.plans.codec import FORMAT, from_bytes, packed, to_bytes
from dagster_operators.plans.logical_plan import LogicalPlan, PlanLoop, PlanNode
from dagster_operators.plans.messages import parse, read_value, write_value
from tests.catalog import limits
from tests.operators.samples import SAMPLES

RECURSIVE = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary()),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
)


def plan_of(operator, **more):
    return LogicalPlan("p", (PlanNode(operator, (), "dagster_operators"),), packages={"dagster_operators": "9.1"}, **more)


def changed(change):
    """The bytes of a plan with one filter after a change of its message."""
    sample = next(sample for sample in SAMPLES if sample.kind == "filter")
    message = plan_pb2.Plan.FromString(to_bytes(plan_of(sample)))
    change(message)
    return message.SerializeToString(deterministic=True)


@pytest.mark.parametrize("operator", SAMPLES, ids=[f"{sample.kind}-{i}" for i, sample in enumerate(SAMPLES)])
def test_every_operator_is_written_and_read(operator):
    data = to_bytes(plan_of(operator))
    again = from_bytes(data)
    assert to_bytes(again) == data
    assert again.nodes[0].operator == operator
    assert "hunter2" not in str(data)


@pytest.mark.parametrize("operator", SAMPLES, ids=[f"{sample.kind}-{i}" for i, sample in enumerate(SAMPLES)])
def test_every_operator_has_a_message_of_its_own(operator):
    registration = loading.catalog().operator(operator.kind)
    name = registration.message.rpartition(":")[2]
    fields = {field.name for field in operators_pb2.DESCRIPTOR.message_types_by_name[name].fields}
    assert fields == operator.encode().keys() - {"name", "chain"}


@settings(max_examples=100, deadline=None)
@given(RECURSIVE)
def test_values_are_written_and_read(value):
    message = values_pb2.Value()
    write_value(message, value)
    again = read_value(parse(values_pb2.Value, message.SerializeToString(), "a value"))
    assert repr(again) == repr(value)


def test_an_operator_without_a_message_is_held_by_its_settings(monkeypatch):
    monkeypatch.setattr(loading, "_default", [])
    monkeypatch.setattr(loading, "entry_points", lambda group: [])
    limits.register(loading.catalog().of("limits"))
    rows = do.Pipeline("p", root="unused").source("rows", do.FileSource("in", schema="v long"))
    plan = LogicalPlan.of(rows.head(3)._dataflow)
    assert from_bytes(to_bytes(plan)) == plan
    assert plan.nodes[1].package == "limits"


@pytest.mark.parametrize(
    "said",
    [
        {"side_streams": ((StreamRef("a", "late"), "late_ones"),)},
        {"automatic": frozenset({"a"})},
        {"renamed": {"a": "what_it_was"}},
        {"loops": (PlanLoop("outer", 5, ()), PlanLoop("inner", 7, (("a", StreamRef("a")),), parent="outer"))},
        {"loops": (PlanLoop("fast", 5, (("a", StreamRef("a")),), within_subtask=True),)},
    ],
    ids=["side_streams", "automatic", "renamed", "loop_within_a_loop", "loop_within_a_subtask"],
)
def test_what_a_plan_says_beside_its_operators_is_written_and_read(said):
    plan = plan_of(next(sample for sample in SAMPLES if sample.kind == "filter"), **said)
    assert from_bytes(to_bytes(plan)) == plan


def test_an_operator_that_no_package_knows_is_named_with_the_one_that_would():
    def other(message):
        message.nodes[0].kind, message.nodes[0].package = "sketch", "their-package"
        message.packages.add(name="their-package", version="2.0")

    with pytest.raises(PlanError, match="operator of the kind 'sketch', which no installed package knows") as caught:
        from_bytes(changed(other))
    assert caught.value.remedy == "install their-package 2.0"
    assert caught.value.where == {"operator": "a", "kind": "sketch", "package": "their-package"}


def test_a_field_that_an_operator_does_not_know_is_named_with_the_package():
    def newer(message):
        message.nodes[0].settings += b"\x3a\x01x"  # field 7

    with pytest.raises(PlanError, match=r"operator 'a' has the field 7 in dagster_operators\.plans\.v1\.Filter") as caught:
        from_bytes(changed(newer))
    assert (caught.value.kind, caught.value.package) == ("filter", "dagster_operators")
    assert caught.value.remedy == "install dagster_operators 9.1, or a newer version"


def test_a_field_that_the_plan_does_not_know_is_named():
    with pytest.raises(PlanError, match=r"the plan has the field 77 in dagster_operators\.plans\.v1\.Plan"):
        from_bytes(changed(lambda message: None) + b"\xea\x04\x01x")


def test_a_setting_that_an_operator_does_not_know_is_named(monkeypatch):
    monkeypatch.setattr(loading, "_default", [])
    monkeypatch.setattr(loading, "entry_points", lambda group: [])
    limits.register(loading.catalog().of("limits"))

    def other(message):
        settings = values_pb2.Settings()
        settings.fields.add(name="rows").value.integer = 3
        settings.fields.add(name="colour").value.text = "red"
        message.nodes[0].kind, message.nodes[0].package, message.nodes[0].settings = (
            "head",
            "limits",
            settings.SerializeToString(),
        )

    with pytest.raises(PlanError, match="operator of the kind 'head' has no field 'colour'") as caught:
        from_bytes(changed(other))
    assert (caught.value.operator, caught.value.package, caught.value.field) == ("a", "limits", "colour")


def test_a_newer_format_is_refused_with_the_version_to_upgrade_to():
    def newer(message):
        message.format = FORMAT + 1
        message.packages[0].version = "9.1"

    with pytest.raises(PlanError, match=f"format {FORMAT + 1}, and this version reads up to {FORMAT}") as caught:
        from_bytes(changed(newer))
    assert "9.1" in caught.value.remedy


@pytest.mark.parametrize("data", [b"", b"{}", b"no plan at all", b"\xff\xff\xff"])
def test_what_is_no_plan_is_refused(data):
    with pytest.raises(PlanError, match="this is no plan"):
        from_bytes(data)


def test_a_compressed_plan_is_read_too_and_damage_is_told():
    data = to_bytes(plan_of(SAMPLES[4]))
    assert from_bytes(packed(data)) == from_bytes(data)
    with pytest.raises(PlanError, match="the plan is damaged"):
        from_bytes(packed(data)[:-3])


def test_a_stream_that_is_not_there_is_named():
    with pytest.raises(PlanError, match="'out' reads 'nothing', which does not come before it"):
        from_bytes(to_bytes(plan_of(SAMPLES[4], tables=(Table("out", StreamRef("nothing")),))))

    def loop(message):
        message.nodes[0].inputs.add(operator="a", port="main")

    with pytest.raises(PlanError, match="the operator 'a' reads 'a', which does not come before it"):
        from_bytes(changed(loop))


def test_an_operator_that_is_not_registered_is_refused():
    rows = do.Pipeline("p", root="unused").source("rows", do.FileSource("in", schema="v long"))
    with pytest.raises(PlanError, match=r"limits\.Head is not registered") as caught:
        LogicalPlan.of(rows.through(limits.Head, rows=3)._dataflow)
    assert "add_operator" in caught.value.remedy


def test_the_order_of_settings_that_have_none_does_not_matter():
    plans = []
    for options in ({"sep": ";", "header": True}, {"header": True, "sep": ";"}):
        pipeline = do.Pipeline("p", root="unused")
        pipeline.source("rows", do.FileSource("in", schema="v long", options=options))
        plans.append(pipeline.to_plan())
    assert plans[0] == plans[1]
