"""What follows for the sinks of a pipeline when it changes, over plans alone."""

from __future__ import annotations

import pytest

import dagster_operators as do
from dagster_operators.plans.logical_plan import LogicalPlan
from dagster_operators.plans.verdict import Stored, Verdict
from dagster_operators.plans.verdicts import judge

SCHEMA = "k string, n long, v long"


def files(path: str = "events", key: str | tuple[str, ...] = "k") -> do.FileSink:
    return do.FileSink(path, format="debezium-json", key=key)


SINKS = {
    "events": lambda: files(key=("k", "n")),
    "a table": lambda: do.PostgresSink("env:W", "t"),
    "columns and key": lambda: do.PostgresSink("env:W", "t", ("k", "n"), mode="upsert", key="k"),
    "names of columns": lambda: do.PostgresSink("env:W", "t", {"k": "key", "n": "number"}),
}
"""A sink of each kind and each form of its settings."""


def plan(sink: do.Sink, *, description: str = "", order: str = "n") -> LogicalPlan:
    pipeline = do.Pipeline("p", root="unused")
    rows = pipeline.source("rows", do.FileSource("in/*.csv", schema=SCHEMA))
    rows.to_table("raw", description=description)
    stream = rows.to_changes("k", order_by=order, name="changes") if sink.takes_changes else rows
    stream.to_sink(sink, name="out")
    return pipeline.logical_plan()


def judged(old: LogicalPlan, new: LogicalPlan) -> list[Verdict]:
    return judge(old, new, Stored(stateful=["changes"], tables=["raw"], positions=["rows"]))


def test_every_sink_of_the_package_has_a_sample() -> None:
    public = [getattr(do, name) for name in do.__all__]
    sinks = {one for one in public if isinstance(one, type) and issubclass(one, do.Sink) and one is not do.Sink}
    assert sinks == {type(made()) for made in SINKS.values()}


@pytest.mark.parametrize("name", SINKS)
def test_a_pipeline_with_a_sink_can_be_changed(name: str) -> None:
    made = SINKS[name]
    assert judged(plan(made()), plan(made())) == []
    assert judged(plan(made()), plan(made(), description="Rows")) == []


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        (files(), files("elsewhere"), "path was 'events', and is 'elsewhere'"),
        (files(), files(key=("k", "n")), "key was ('k',), and is ('k', 'n')"),
        (
            do.PostgresSink("env:W", "t", {"k": "key"}),
            do.PostgresSink("env:W", "t", {"k": "id"}),
            "columns was (('k', 'key'),), and is (('k', 'id'),)",
        ),
    ],
    ids=["path", "key", "columns"],
)
def test_where_a_sink_writes_is_told(was: do.Sink, now: do.Sink, told: str) -> None:
    (found,) = judged(plan(was), plan(now))
    assert found.subject == "sink out"
    assert told in found.problem
