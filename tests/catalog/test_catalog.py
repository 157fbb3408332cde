"""Registrations by kind, from this package and others, and the fluent methods that they bring."""

from __future__ import annotations

import importlib.metadata
import sys
from importlib.metadata import EntryPoint

import pytest

import dagster_operators as do
from dagster_operators.api.keyed_stream import KeyedStream
from dagster_operators.api.stream import Stream
from dagster_operators.api.windowed_stream import WindowedStream
from dagster_operators.catalog import loading, own
from dagster_operators.catalog.catalog import Catalog
from dagster_operators.errors import PipelineError
from dagster_operators.graph.operator import LogicalOperator
from dagster_operators.operators.arrow.registry import ENTRY_POINTS
from dagster_operators.planner.lowering import lower
from tests.catalog import limits


@pytest.fixture
def packages(monkeypatch):
    """Says which entry points are installed, and gives a catalog that has loaded none of them yet."""

    def install(**points):
        found = [EntryPoint(name, value, ENTRY_POINTS) for name, value in points.items()]
        monkeypatch.setattr(loading, "entry_points", lambda group: found if group == ENTRY_POINTS else [])
        monkeypatch.setattr(loading, "_default", [])
        return loading.catalog()

    return install


def rows():
    return do.Pipeline("p", root="unused").source("rows", do.MemorySource([], schema="k string, v long, t timestamp"))


def test_every_operator_of_the_package_is_registered_with_its_class():
    made = Catalog()
    own.register(made)
    for registration in made.registrations:
        assert registration.operator.kind == registration.kind
        assert registration.summary.endswith((".", ":"))
        assert registration.package == "dagster_operators"
    folders = ("dagster_operators.operators.", "dagster_operators.connectors.")
    ours = {kind for kind in every(LogicalOperator) if kind.__module__.startswith(folders)}
    assert {registration.operator for registration in made.registrations} == {kind for kind in ours if kind.kind}


def every(kind):
    return {sub for direct in kind.__subclasses__() for sub in {direct} | every(direct)}


def test_every_value_of_the_package_is_registered_with_its_class():
    made = Catalog()
    own.register(made)
    for kind in own._VALUES:
        assert made.value(kind).type.kind == kind
        assert made.value(kind).type.decode


def test_the_package_announces_itself_as_others_do():
    points = importlib.metadata.entry_points(group=ENTRY_POINTS)
    declared = {point.value for point in points} or {f"{own.__name__}:register"}
    assert f"{own.__name__}:register" in declared
    assert EntryPoint("own", f"{own.__name__}:register", ENTRY_POINTS).load() is own.register


@pytest.mark.parametrize(
    ("receiver", "kind"), [("stream", Stream), ("keyed_stream", KeyedStream), ("windowed_stream", WindowedStream)]
)
def test_no_package_can_take_a_name_that_streams_have(receiver, kind, packages):
    catalog = packages().of("another")
    for name in [name for name in dir(kind) if not name.startswith("_")]:
        with pytest.raises(PipelineError, match=f"{name!r} comes with 'dagster_operators' and with 'another'"):
            catalog.add_operator(limits.Head, **{receiver: {name: limits.head}})


def test_built_in_methods_belong_to_their_operators(packages):
    catalog = packages()
    assert catalog.method("stream", "filter") is Stream.filter
    assert catalog.methods("keyed_stream")["deduplicate"].kind == "deduplicate_first"


def test_a_package_brings_an_operator_with_its_method_and_lowering(packages):
    packages(limits=f"{limits.__name__}:register")
    stream = rows().head(2, name="few")
    assert (stream.name, stream.columns) == ("few", ("k", "v", "t"))
    stream.to_table("few_rows")
    assert isinstance(lower(stream._dataflow).nodes["few"].operator, limits.TakeRows)
    assert "head" in dir(stream)
    registration = loading.catalog().operator("head")
    assert (registration.package, registration.docs, registration.examples()) == ("tests", "docs/head.md", limits.samples())


def test_a_module_registers_too(packages):
    assert packages(limits=limits.__name__).operator("head").operator is limits.Head


def test_packages_are_loaded_only_when_something_is_asked_for_that_is_not_there(packages, monkeypatch):
    monkeypatch.delitem(sys.modules, limits.__name__)
    catalog = packages(limits=f"{limits.__name__}:register")
    assert catalog.operator("filter") is not None
    rows().filter("v > 1").key_by("k").aggregate(n="count(*)")
    assert limits.__name__ not in sys.modules
    assert catalog.operator("head") is not None
    assert limits.__name__ in sys.modules


def test_who_has_a_name_is_told(packages):
    catalog = packages(limits=f"{limits.__name__}:register")
    own = {name: catalog.owner_of(name) for name in ("filter", "top", "columns", "keys", "top_per_key")}
    assert own == dict.fromkeys(own, "dagster_operators")
    assert (catalog.owner_of("head"), catalog.owner_of("tail")) == ("tests", None)


def test_two_packages_with_one_kind_are_both_named(packages):
    catalog = packages()
    catalog.of("one").add_operator(limits.Head)
    catalog.of("one").add_operator(limits.Head)
    with pytest.raises(PipelineError, match="the operator 'head' comes with 'one' and with 'other'"):
        catalog.of("other").add_operator(limits.Head)


def test_two_packages_with_one_method_are_both_named(packages):
    catalog = packages()
    catalog.of("one").add_operator("a", "a:A", stream={"head": limits.head})
    with pytest.raises(PipelineError, match="the method of a stream 'head' comes with 'one' and with 'other'"):
        catalog.of("other").add_operator(limits.Head, stream={"head": limits.head})
    assert catalog.operator("head") is None


def test_a_package_that_cannot_be_loaded_is_named(packages):
    packages(broken="no_such_package_here:register")
    for _ in range(2):
        with pytest.raises(PipelineError, match="cannot be loaded from 'no_such_package_here:register'") as caught:
            rows().head(1)
    assert caught.value.package == "no_such_package_here"


def test_an_entry_point_that_registers_nothing_is_named(packages):
    with pytest.raises(PipelineError, match="registers nothing"):
        packages(number="math:pi").operator("head")


def test_a_class_of_another_kind_is_refused(packages):
    catalog = packages()
    catalog.of("one").add_operator("tail", f"{limits.__name__}:Head")
    with pytest.raises(PipelineError, match=r"'one' registers .*:Head' as the kind 'tail', which it is not"):
        catalog.operator("tail").operator  # noqa: B018
    with pytest.raises(PipelineError, match="says no kind"):
        catalog.add_operator("nothing")


def test_a_method_that_nobody_has_is_answered_with_those_that_are_near(packages):
    packages(limits=f"{limits.__name__}:register")
    with pytest.raises(AttributeError, match="'Stream' object has no attribute 'filtr'; did you mean 'filter'"):
        rows().filtr("v > 1")
    with pytest.raises(AttributeError, match="did you mean 'head'"):
        rows().heads(1)
    with pytest.raises(AttributeError, match=r"no attribute '_nothing'$"):
        rows()._nothing  # noqa: B018
    assert not hasattr(rows().key_by("k"), "head")


def test_an_operator_that_nothing_does_the_work_of_is_told():
    stream = rows().through(limits.Head, rows=1).to_table("one_row")
    with pytest.raises(PipelineError, match="nothing does the work of the operator kind 'head'"):
        lower(stream._dataflow)


def test_keys_and_windows_are_handed_to_an_operator_of_another_package():
    from dagster_operators.operators.relational.deduplicate import DeduplicateFirst
    from dagster_operators.operators.windows.top_per_window import TopPerWindow

    source = do.MemorySource([], schema="k string, v long, t timestamp")
    keyed = do.Pipeline("p", root="unused").source("rows", source, event_time="t").key_by("k")
    first = keyed.through(DeduplicateFirst, event_time=None, name="first")
    best = keyed.window(do.Tumbling("1 h")).through(TopPerWindow, n=1, by=("v",), name="best")
    nodes = first._dataflow.nodes
    assert nodes["first"].operator.keys == ("k",)
    assert (nodes["best"].operator.keys, nodes["best"].operator.event_time) == (("k",), "t")
    assert best.columns == ("k", "window_start", "window_end", "rank", "v", "t")
