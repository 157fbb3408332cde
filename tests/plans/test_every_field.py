"""Every setting of every kind of operator has a verdict: one that is added with a new version is asked about, or named here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.api.datasets.stream_program import StreamProgram
from dagster_operators.graph.operator import LogicalOperator
from dagster_operators.graph.outputs import Table
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.aggregates.keyed_aggregate import KeyedAggregate
from dagster_operators.operators.events.wiring import EventOperator, EventSource
from dagster_operators.operators.frontier.definition import Definition
from dagster_operators.operators.relational.source import Source
from dagster_operators.plans import operators_pb2
from dagster_operators.plans.logical_plan import LogicalPlan, PlanNode
from dagster_operators.plans.verdict import Level, Stored
from dagster_operators.plans.verdicts import judge
from tests.operators.samples import KEPT, RECORDS, SAMPLES, Counting, handed_on, merge_of

HELPERS = {"Windows", "Window", "Session", "InputWindow"}
"""Messages that are values of settings."""

STATELESS = {
    "filter", "select", "with_columns", "rename", "drop", "flat_map", "map_async", "transform", "union", "as_changes", "latest",
    "lookup", "enter", "loop_variable", "leave", "data_sets",
}  # fmt: skip
"""Kinds that have no state: what they do applies from here on, unless what is behind them cannot have it so."""

FROM_HERE_ON = {
    ("source", "lateness"), ("source", "finished"), ("source", "ahead"),
    *((kind, "forget_after") for kind in ("keyed_aggregate", "top_per_key", "deduplicate_changes", "over", "join")),
    # What the author of these declared is theirs; the state itself knows what fits, and says so when the epoch begins.
    ("apply", "arrow"), ("frontier", "definition"),
    ("event_operators", "sources"), ("event_operators", "operators"), ("event_operators", "files"),
    ("event_operators", "descriptor"),
}  # fmt: skip
"""Settings of others that apply from here on. All that is not named here is asked about."""

HARMLESS = {("source", "asset_key"), ("lookup", "asset_key")}
"""Settings by which no row comes out otherwise."""

WINDOWS = {
    kind: do.Tumbling("3 hours")
    for kind in (
        "window_aggregate",
        "window_aggregate_changes",
        "final_window_aggregate",
        "top_per_window",
        "final_top_per_window",
        "window_join",
    )
}
WINDOWS |= dict.fromkeys(("session_aggregate", "session_aggregate_changes", "final_session_aggregate"), do.Session("3 hours"))
OTHERS: Mapping[tuple[str, str], Any] = {
    ("source", "connector"): do.FileSource("elsewhere", schema="k string"),
    ("source", "ahead"): 5,
    ("apply", "arrow"): Counting(3),
    ("frontier", "definition"): Definition(
        "unary_frontier", [do.frontier.Exchange("v")], "a", handed_on, schema="k string", state=KEPT
    ),
    ("event_operators", "sources"): (EventSource("rows", (("v", "w"),), "t"),),
    ("event_operators", "operators"): (EventOperator("double", "op", alone=True, file="double.py"),),
    ("event_operators", "order"): "time",
    ("event_operators", "closes"): "time",
    ("keyed_aggregate", "aggregates"): (("n", "count(*)"), ("most", "min(v)")),
    ("lookup", "connector"): do.DeltaSource("others"),
    ("to_changes", "max_deleted"): 0.5,
    ("transform", "function"): sorted,
    ("data_sets", "program"): StreamProgram(RECORDS.map(sorted, schema="k string"), [StreamRef("rows")]),
    ("data_sets_with_state", "program"): StreamProgram(RECORDS.map(sorted, schema="k string"), [StreamRef("rows")]),
    ("groups_over_epochs", "merge"): merge_of(RECORDS.reduce(max)),
    **{(kind, "window"): window for kind, window in WINDOWS.items()},
}
"""Another value of settings, where none can be made of what they are."""

BESIDE: Mapping[tuple[str, str], Mapping[str, Any]] = {("event_operators", "closes"): {"order": "time"}}
"""Other settings with which alone a setting means something."""


def other(value: Any) -> Any:
    """Another value of the same kind; of several the last one is another."""
    if isinstance(value, tuple):
        return (*value[:-1], other(value[-1])) if value else ("more",)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value or ''}x"


def plan(operator: LogicalOperator) -> LogicalPlan:
    """An operator behind sources, before a table."""
    columns = "k string, l string, v long, w long, t timestamp, u timestamp"
    read = Source(name="read", connector=do.FileSource("in/*.csv", schema=columns), event_time="t")
    beside = Source(name="beside", connector=do.FileSource("more/*.csv", schema=columns), event_time="u")
    two = operator.kind in ("window_join", "interval_join", "join", "as_of_join", "apply", "union")
    inputs = () if isinstance(operator, Source) else tuple(StreamRef(one.name) for one in ((read, beside) if two else (read,)))
    before = [] if isinstance(operator, Source) else [PlanNode(read, (), "p"), PlanNode(beside, (), "p")]
    kept = KeyedAggregate(name="kept", keys=("k",), event_time=None, aggregates=(("n", "count(*)"),))
    nodes = (*before, PlanNode(operator, inputs, "p"), PlanNode(kept, (StreamRef(operator.name),), "p"))
    return LogicalPlan("p", nodes, tables=(Table("t", StreamRef(operator.name)), Table("counts", StreamRef("kept"))))


def settings() -> list[tuple[LogicalOperator, str]]:
    return [(one, name) for one in SAMPLES for name in one.encode() if name not in ("name", "chain")]


def test_all_settings_of_plans_are_looked_at() -> None:
    """The messages of plans have no field that no sample has."""
    messages = operators_pb2.DESCRIPTOR.message_types_by_name
    looked_at: dict[str, set[str]] = {}
    for one, name in settings():
        looked_at.setdefault(one.kind, set()).add(name)
    kinds = {kind.replace("_", "").lower(): kind for kind in looked_at}
    for name, message in messages.items():
        if name in HELPERS or not message.fields:
            continue
        kind = kinds[name.lower()]
        assert {field.name for field in message.fields} == looked_at[kind], kind


def samples() -> Iterator[Any]:
    """Each setting of each sample; windows that rows carry can be no others."""
    for number, (one, name) in enumerate(settings()):
        if (one.kind, name) != ("input_window_aggregate", "window"):
            yield pytest.param(one, name, id=f"{one.kind}-{name}-{number}")


@pytest.mark.parametrize(("operator", "name"), list(samples()))
def test_a_setting_that_changes_is_asked_about_or_said(operator: LogicalOperator, name: str) -> None:
    kind = operator.kind
    operator = replace(operator, **BESIDE.get((kind, name), {}))
    value = OTHERS[kind, name] if (kind, name) in OTHERS else other(getattr(operator, name))
    changed = replace(operator, **{name: value})
    stored = Stored(["kept", *({operator.name} - {"a" if kind in STATELESS | {"source"} else ""})], tables=["t"], positions=["a"])
    found = {one.level for one in judge(plan(operator), plan(changed), stored) if one.subject.endswith(" a")}
    if (kind, name) in HARMLESS:
        assert found <= {Level.HARMLESS}
    else:
        told_too = (
            {Level.FROM_HERE_ON} if kind == "event_operators" and name in ("order", "closes") else set()
        )  # beside the question
        assert found - told_too == {Level.FROM_HERE_ON if kind in STATELESS or (kind, name) in FROM_HERE_ON else Level.DECISION}


def edited(rows: Any, *, filtered: bool = False) -> None:
    (rows.filter("v > 1", name="few") if filtered else rows).key_by("k").aggregate(n="count(*)", name="kept").to_table("t")


@pytest.mark.parametrize("way", ["added", "removed"])
def test_an_operator_without_state_that_comes_or_goes_is_said(way: str) -> None:
    def made(*, filtered: bool) -> LogicalPlan:
        pipeline = do.Pipeline("p", root="unused")
        edited(pipeline.source("rows", do.FileSource("in/*.csv", schema="k string, v long")), filtered=filtered)
        return pipeline.logical_plan()

    before, after = made(filtered=way == "removed"), made(filtered=way == "added")
    (said,) = judge(before, after, Stored(["kept"], tables=["t"], updating=["t"], positions=["rows"]))
    assert (said.level, said.subject) == (Level.FROM_HERE_ON, "operator few")


def test_settings_by_which_a_source_is_read_otherwise_are_said() -> None:
    def made(**options: str) -> LogicalPlan:
        pipeline = do.Pipeline("p", root="unused")
        source = do.FileSource("in/*.csv", schema="k string, v long", options=options, storage_options={"key": "hunter2"})
        edited(pipeline.source("rows", source))
        return pipeline.logical_plan()

    (said,) = judge(made(), made(nullValue="-"), Stored(["kept"], tables=["t"], updating=["t"], positions=["rows"]))
    assert str(said) == "source rows: options was {}, and is {'nullValue': '-'} (applies from here on)"
