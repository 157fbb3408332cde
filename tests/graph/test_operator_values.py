"""Logical operators are values: equal by their settings, made again from them, with signatures that say when rows are equal."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import json
import pickle
import pkgutil
from collections import Counter
from functools import cached_property

import pyarrow as pa
import pytest

import dagster_operators as do
from dagster_operators import operators
from dagster_operators.connectors.operator_source import OperatorSource
from dagster_operators.errors import PlanError
from dagster_operators.graph.alternatives import Alternative
from dagster_operators.graph.operator import LogicalOperator, StreamType
from dagster_operators.graph.traits import Trait
from dagster_operators.graph.values import canonical_fields
from dagster_operators.operators.arrow.apply import Apply
from dagster_operators.operators.physical import Parts, TableOperator
from dagster_operators.operators.relational.changelog import Latest
from dagster_operators.operators.relational.filter import Filter
from dagster_operators.operators.relational.source import Source
from dagster_operators.operators.relational.transform import Transform
from dagster_operators.operators.windows.window_aggregate import WindowAggregate
from tests.operators.samples import PAIRS, SAMPLES, WINDOW, Counting, doubled


def each(samples=SAMPLES):
    return pytest.mark.parametrize("operator", samples, ids=[f"{s.kind}-{i}" for i, s in enumerate(samples)])


def read_again(source):
    connector = source.connector
    return Source.decode({**source.encode(), "connector": type(connector).decode(connector.encode())})


def classes(kind=LogicalOperator):
    return {sub for direct in kind.__subclasses__() for sub in ({direct} if direct.kind else set()) | classes(direct)}


def test_no_two_classes_have_one_kind():
    for module in pkgutil.walk_packages(operators.__path__, "dagster_operators.operators."):
        importlib.import_module(module.name)
    own = [
        kind
        for kind in classes()
        if kind.__module__.startswith(("dagster_operators.operators.", "dagster_operators.connectors."))
    ]
    assert [kind for kind, count in Counter(c.kind for c in own).items() if count > 1] == []
    assert {type(sample) for sample in SAMPLES} == set(own)


def test_what_stored_state_knows_operators_by_stays():
    labels = {type(sample).kind: sample.label for sample in SAMPLES}
    assert {kind: label for kind, label in labels.items() if kind != label} == {
        "deduplicate_changes": "deduplicate",
        "deduplicate_first": "deduplicate",
        "deduplicate_last": "deduplicate",
        "final_session_aggregate": "session_aggregate",
        "final_top_per_window": "top_per_window",
        "final_window_aggregate": "window_aggregate",
        "input_window_aggregate": "window_aggregate",
        "session_aggregate_changes": "session_aggregate",
        "window_aggregate_changes": "window_aggregate",
    }
    assert SAMPLES[13].meaning()[0] == "deduplicate"


@each()
def test_an_operator_is_made_again_of_its_settings(operator):
    again = type(operator).decode(operator.encode())
    assert again == operator
    assert hash(again) == hash(operator)
    assert again.signature() == operator.signature()
    again.config()  # imports the user's code, which says more of an operator than its settings do
    assert again.explain(details=True) == operator.explain(details=True)


@each()
def test_another_setting_makes_another_operator(operator):
    for change in ({"name": "b"}, {"chain": not operator.chain}):
        assert dataclasses.replace(operator, **change) != operator


@each()
def test_unknown_and_missing_settings_are_named(operator):
    with pytest.raises(PlanError, match="has no field 'colour'"):
        type(operator).decode({**operator.encode(), "colour": 1})
    with pytest.raises(PlanError, match="needs the field 'name'"):
        type(operator).decode({name: value for name, value in operator.encode().items() if name != "name"})


@each([sample for sample in SAMPLES if not (isinstance(sample, Source) and isinstance(sample.connector, OperatorSource))])
def test_the_settings_that_explain_shows_stay_after_a_round_trip(operator):
    assert json.dumps(type(operator).decode(operator.encode()).config()) == json.dumps(operator.config())


def test_signatures_tell_what_gives_other_rows_and_nothing_else():
    one = Filter(name="a", condition="v > 1")
    assert one.signature() == Filter(name="b", condition="v > 1", chain=False).signature()
    assert one.signature() != Filter(name="a", condition="v > 2").signature()
    assert Filter(name="a", condition="v > rand()").signature() != Filter(name="b", condition="v > rand()").signature()
    sources = [Source(name=name, connector=do.FileSource("in")).signature() for name in ("a", "b")]
    assert sources[0] != sources[1]
    windows = [WindowAggregate(name="a", **WINDOW, window=do.Tumbling(size), aggregates=PAIRS) for size in ("1 h", "2 h")]
    assert windows[0].signature() != windows[1].signature()


def test_traits():
    assert Filter(name="a", condition="v > 1").traits == {Trait.ROW_WISE, Trait.REPEATABLE}
    assert Filter(name="a", condition="v > rand()").traits == {Trait.ROW_WISE}
    assert Apply(name="a", arrow=Counting(), keys=(("k",),)).traits == set()
    assert Trait.REPEATABLE not in Transform(name="a", function=doubled).traits


def test_an_operator_explains_itself_short_and_with_details():
    operator = Filter(name="late", condition="v > 1")
    assert operator.explain() == "filter(condition='v > 1')"
    assert operator.explain(details=True).startswith("late: filter(condition='v > 1') [repeatable, row-wise] ")


def test_secrets_are_left_out_and_given_again():
    source = SAMPLES[1]
    again = read_again(source)
    assert "hunter2" not in canonical_fields(source.encode())
    assert again.left_out() == ("storage_options",)
    given = again.with_secrets({"storage_options": {"secret": "hunter2"}})
    assert (given.left_out(), given.connector.storage_options) == ((), {"secret": "hunter2"})


def test_a_secret_of_a_users_source_must_be_given_again():
    again = read_again(SAMPLES[3])
    assert again.left_out() == ("password",)
    with pytest.raises(PlanError, match=r"'password' of .*Numbers is a secret"):
        again.connector.placed("a", "root", None)
    placed = again.with_secrets({"password": "y"}).connector.placed("a", "root", None)
    assert (placed.operator.password, placed.declared_schema) == ("y", "`n` bigint")


def test_an_applied_operator_is_made_when_it_is_asked_for():
    again = Apply.decode(SAMPLES[-1].encode())
    assert "arrow" not in vars(again)
    assert (again.arrow.least, again.arrow.names) == (2, ["a"])
    assert again.arrow.state["seen"] == Counting().state["seen"]
    assert again.arrow.schema == pa.schema([("k", pa.string())])


COLUMNS = StreamType(("k", "v", "t", "xs", "id"), "t")
RIGHT = StreamType(("l", "w", "u"), "u")


def of_windows(stream):
    return dataclasses.replace(stream, columns=(*stream.columns, "window_start", "window_end"))


@each()
@pytest.mark.parametrize("complete", [False, True])
def test_an_operator_says_whether_it_keeps_state(operator, *, complete):
    """By that a new one is asked about where it has missed rows."""
    two = operator.kind.endswith("join")
    inputs = [
        dataclasses.replace(of_windows(one), complete_windows=complete) for one in ((COLUMNS, RIGHT) if two else (COLUMNS,))
    ]
    lowered = operator.lower(inputs)
    parts = [part.operator for part in lowered] if isinstance(lowered, Parts) else [lowered]
    ways = [way.lowered for part in parts for way in (part if isinstance(part, tuple) else (Alternative("", part),))]
    of_table = not isinstance(operator, Latest)  # which compares with the table's rows, which are none of its own
    assert operator.keeps_state(inputs) == any(way.states or (of_table and isinstance(way, TableOperator)) for way in ways)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Prepared(Filter):
    """An operator from outside with an attribute beside its settings, and a value that no pickle holds."""

    kind = ""

    def __post_init__(self):
        object.__setattr__(self, "_limits", (1, 2))

    @cached_property
    def checks(self):
        return lambda: True


def test_a_copy_has_what_an_operator_set_beside_its_settings():
    prepared = _Prepared(name="few", condition="n > 1")
    assert prepared.checks()
    for again in (copy.copy(prepared), copy.deepcopy(prepared), pickle.loads(pickle.dumps(prepared))):  # noqa: S301 - our own
        assert again == prepared
        assert again._limits == (1, 2)
        assert "checks" not in vars(again)
        assert again.checks()
