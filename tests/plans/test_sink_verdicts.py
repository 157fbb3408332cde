"""What follows for the sinks of a pipeline when it changes, most over plans alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.api.stream import Stream
from dagster_operators.errors import UndecidedChangeError
from dagster_operators.plans.logical_plan import LogicalPlan
from dagster_operators.plans.verdict import Level, Stored, Verdict
from dagster_operators.plans.verdicts import judge
from tests.engines import SAIL

SCHEMA = "k string, n long, v long"

Made = Callable[[Stream, str], Stream]


def files(path: str = "events", key: str | tuple[str, ...] = "k") -> do.FileSink:
    return do.FileSink(path, format="debezium-json", key=key)


SINKS = {
    "events": lambda: files(key=("k", "n")),
    "messages": lambda: do.KafkaSink("b:9092", "t", key=("k", "n")),
    "messages of changes": lambda: do.KafkaSink("b:9092", "t", format="debezium-json", key="k"),
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


def of_totals(rows: Stream, what: str) -> Stream:
    return rows.key_by("k").over("n", total=f"{what}(v)", name="o")


def of_the_last(rows: Stream, what: str) -> Stream:
    return rows.to_changes("k", order_by="v" if what == "sum" else "n", name="o")


def of_pairs(rows: Stream, what: str) -> Stream:
    return rows.join(rows.rename(v="w"), on="k" if what == "sum" else ["k", "n"], how="left", columns=["w"], name="o")


def of_unions(rows: Stream, what: str) -> Stream:
    return of_totals(rows, what).union(rows.key_by("k").over("n", total="max(v)", name="other")).filter("total > 2")


MADE = {"over": of_totals, "to_changes": of_the_last, "join": of_pairs, "union": of_unions}


def ended(made: Made, what: str = "sum", *, condition: str = "", sink: do.FileSink | None = None) -> LogicalPlan:
    pipeline = do.Pipeline("p", root="unused")
    rows = pipeline.source("rows", do.FileSource("in/*.csv", schema=SCHEMA))
    rows.to_table("raw")
    stream = made(rows, what)
    (stream.filter(condition) if condition else stream).to_sink(sink or files(), name="out")
    return pipeline.logical_plan()


def asked(old: LogicalPlan, new: LogicalPlan, **more: Any) -> list[Verdict]:
    known = Stored(stateful=["o", "other"], tables=["raw"], positions=["rows"], **more)
    return [one for one in judge(old, new, known) if one.level is Level.DECISION]


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_a_sink_of_changes_behind_what_begins_anew_is_asked_about(made: Made) -> None:
    old, new = ended(made), ended(made, "count")
    (first,) = asked(old, new)
    assert (first.subject, tuple(first.choices)) == ("operator o", ("restart",))
    (found,) = asked(old, new, decided={("operator o", first.question): "restart"})
    assert (found.subject, tuple(found.choices)) == ("sink out", ("keep",))
    assert "o begins without state, and what it gave before stays there" in found.problem
    decided = {("operator o", first.question): "restart", ("sink out", found.question): "keep"}
    assert asked(old, new, decided=decided) == []


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_a_sink_of_changes_is_asked_about_what_is_before_it_and_where_it_is(made: Made) -> None:
    for new in (ended(made, condition="k > 'a'"), ended(made, sink=files("elsewhere"))):
        (found,) = asked(ended(made), new)
        assert (found.subject, tuple(found.choices)) == ("sink out", ("keep",))
    assert asked(ended(made), ended(made)) == []


def test_a_new_sink_of_changes_that_were_read_before_is_asked_about() -> None:
    def plans(sink: str) -> LogicalPlan:
        pipeline = do.Pipeline("p", root="unused")
        stream = of_the_last(pipeline.source("rows", do.FileSource("in/*.csv", schema=SCHEMA)), "sum")
        stream.to_table("raw")
        if sink:
            stream.to_sink(files(), name=sink)
        return pipeline.logical_plan()

    (found,) = asked(plans(""), plans("out"))
    assert (found.subject, tuple(found.choices)) == ("sink out", ("keep",))
    assert asked(plans("out"), plans("renamed")) == []


@pytest.mark.sail
def test_a_sink_of_changes_goes_on_once_it_is_decided_or_under_another_name_and_place(tmp_path: Path) -> None:
    def made(batches: int, what: str, name: str = "out", root: str = "kept") -> do.Pipeline:
        pipeline = do.Pipeline("p", root=str(tmp_path / root / "root"), engine=SAIL)
        given = [[("a", 1, 10)], [("a", 2, 20)]][:batches]
        rows = pipeline.source("rows", do.MemorySource(given, schema=SCHEMA))
        rows.to_table("raw")
        of_totals(rows, what).to_sink(files(str(tmp_path / root / name), ("k", "n")), name=name)
        return pipeline

    def totals(folder: Path) -> list[int]:
        return [json.loads(file.read_text())["after"]["total"] for file in sorted(folder.glob("*.json"))]

    made(1, "sum").run_epoch()
    shutil.copytree(tmp_path / "kept", tmp_path / "moved")
    changed = made(2, "count")
    changed.decide("operator o", "restart")
    with pytest.raises(UndecidedChangeError, match=r"sink out: o begins without state.*stays there"):
        changed.run_epoch()
    changed.decide("sink out", "keep")
    changed.run_epoch()
    assert totals(tmp_path / "kept/out") == [10, 1]
    moved = made(2, "count", "new", "moved")
    moved.decide("operator o", "restart")
    moved.run_epoch()
    assert (totals(tmp_path / "moved/out"), totals(tmp_path / "moved/new")) == ([10], [1])
