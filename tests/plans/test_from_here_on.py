"""What comes later behind changes does not take back rows that it never had, and is not silently a part."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.api.stream import Stream
from dagster_operators.errors import PipelineError, UndecidedChangeError
from dagster_operators.plans.logical_plan import LogicalPlan
from dagster_operators.plans.verdict import Level, Stored, Verdict
from dagster_operators.plans.verdicts import judge
from tests.engines import SAIL

STATEFUL = {"keyed_aggregate", "top_per_key", "to_changes"}
SCHEMA = "id long, k string, v long, op string"

Make = Callable[[Stream], Stream]


def events(pipeline: do.Pipeline) -> Stream:
    """Rows of keys that are told of as events."""
    files = do.FileSource("in/*.json", format="debezium-json", schema="id long, k string, v long", key="id")
    return pipeline.source("rows", files)


def said(pipeline: do.Pipeline) -> Stream:
    """Rows that say themselves what they do."""
    return pipeline.source("rows", do.FileSource("in/*.json", schema=SCHEMA)).as_changes("op")


def totalled(pipeline: do.Pipeline) -> Stream:
    """One row of each key, which is replaced."""
    rows = pipeline.source("rows", do.FileSource("in/*.json", schema=SCHEMA))
    return rows.key_by("k").aggregate(total="sum(v)", name="per_key")


def counted(rows: Stream) -> Stream:
    return rows.aggregate(n="count(*)", name="new")


def best(rows: Stream) -> Stream:
    return rows.key_by("k").top(1, by="v DESC", name="new")


def now(rows: Stream) -> Stream:
    return rows.latest("id", name="new")


def log(rows: Stream) -> Stream:
    return rows


def was(rows: Stream) -> Stream:
    return rows.latest("id", name="old")


def totals(rows: Stream) -> Stream:
    return rows.key_by("k").aggregate(total="sum(v)", name="old")


def as_is(rows: Stream) -> Stream:
    return rows


def plan(begin: Callable[[do.Pipeline], Stream], old: Make, new: Make | None = None, *, sink: bool = False) -> LogicalPlan:
    pipeline = do.Pipeline("p", root="unused")
    rows = begin(pipeline)
    old(rows).to_table("before")
    if new is not None and sink:
        new(rows).to_sink(do.PostgresSink("env:W", "t", mode="upsert"), name="out")
    elif new is not None:
        new(rows).to_table("later")
    return pipeline.logical_plan()


def judged(old: LogicalPlan, new: LogicalPlan, **more: Any) -> list[Verdict]:
    stateful = [node.name for node in old.nodes if node.operator.kind in STATEFUL]
    tables = [table.name for table in old.tables]
    known = {"stateful": stateful, "tables": tables, "updating": tables, "positions": ["rows"], **more}
    return [one for one in judge(old, new, Stored(**known)) if one.level is Level.DECISION]


LATER: list[tuple[str, Callable[[do.Pipeline], Stream], Make, Make, str, tuple[str, ...]]] = [
    ("an aggregate of events", events, totals, counted, "operator new", ()),
    ("the top of events", events, totals, best, "operator new", ()),
    ("the current rows of events", events, totals, now, "table later", ("keep",)),
    ("a log of events", events, totals, log, "table later", ("keep",)),
    ("an aggregate of current rows", events, was, counted, "operator new", ()),
    ("an aggregate of rows that say it", said, was, counted, "operator new", ()),
    ("an aggregate behind a filter", said, was, lambda rows: counted(rows.filter("v > 1")), "operator new", ()),
    ("a log of rows that say it", said, was, log, "table later", ("keep",)),
    ("an aggregate of an aggregate", totalled, as_is, counted, "table later", ("keep",)),
]


@pytest.mark.parametrize(("begin", "old", "new", "subject", "choices"), [row[1:] for row in LATER], ids=[row[0] for row in LATER])
def test_what_comes_later_is_asked_about(
    begin: Callable[[do.Pipeline], Stream], old: Make, new: Make, subject: str, choices: tuple[str, ...]
) -> None:
    found = judged(plan(begin, old), plan(begin, old, new))
    assert [(one.subject, tuple(one.choices), one.fillable) for one in found] == [(subject, choices, True)]
    assert judged(plan(begin, old), plan(begin, old, new), stateful=[], positions=[]) == []


def from_rows(pipeline: do.Pipeline) -> Stream:
    return pipeline.source("rows", do.FileSource("in/*.json", schema=f"{SCHEMA}, at timestamp"), event_time="at")


def unique(rows: Stream) -> Stream:
    return rows.key_by("id").deduplicate(name="new")


def hourly(rows: Stream) -> Stream:
    return rows.key_by("k").window(do.Tumbling("1 hour")).aggregate(n="count(*)", name="new")


def paired(rows: Stream) -> Stream:
    right = rows.filter("v > 1").rename(v="w", at="t").key_by("k")
    return rows.key_by("k").interval_join(right, lower="0 s", upper="1 hour", columns=["v", "w"], name="new")


def current(rows: Stream) -> Stream:
    return rows.to_changes("id", order_by="v", name="new").latest("id")


def chosen(rows: Stream) -> Stream:
    return rows.filter("v > 1", name="new")


def twice(rows: Stream) -> Stream:
    return unique(rows).key_by("k").aggregate(n="count(*)", name="behind")


BEGINNING = [counted, best, unique, hourly, paired, current, twice]


@pytest.mark.parametrize("new", BEGINNING, ids=lambda new: new.__name__)
def test_what_keeps_state_and_comes_later_behind_rows_that_stay_is_asked_about(new: Make) -> None:
    """It lacks the rows of before; the first of several decides, and where no rows were given nothing is asked."""
    before, after = plan(from_rows, totals), plan(from_rows, totals, new)
    (found,) = judged(before, after)
    assert (found.subject, [*found.choices], found.tables, found.fillable) == ("operator new", ["keep"], ("later",), True)
    assert judged(before, after, decided={(found.subject, found.question): "keep"}) == []
    assert judged(before, after, positions=[]) == []


def test_what_keeps_state_before_a_sink_cannot_be_filled() -> None:
    (found,) = judged(plan(from_rows, totals), plan(from_rows, totals, best, sink=True))
    assert (found.subject, [*found.choices], found.tables, found.fillable) == ("operator new", ["keep"], (), False)


def test_what_keeps_nothing_applies_from_here_on() -> None:
    assert judged(plan(from_rows, totals), plan(from_rows, totals, chosen)) == []


def test_an_operator_before_a_table_that_goes_on_is_asked_about() -> None:
    """Rows that came before the deduplication would come again."""
    before, after = plan(from_rows, as_is), plan(from_rows, unique)
    (found,) = judged(before, after, updating=[])
    assert (found.subject, [*found.choices], found.tables, found.fillable) == ("operator new", ["keep"], ("before",), False)


def test_windows_of_windows_that_close_in_an_epoch_lack_nothing() -> None:
    def of_hours(pipeline: do.Pipeline) -> Stream:
        return hourly(from_rows(pipeline))

    def most(rows: Stream) -> Stream:
        return rows.key_by("k").window().top(1, by="n DESC", name="most")

    before, after = plan(of_hours, as_is), plan(of_hours, as_is, most)
    assert judged(before, after, stateful=["new"]) == []


@pytest.mark.parametrize("begin", [events, said, totalled])
def test_a_sink_that_comes_later_is_asked_about(begin: Callable[[do.Pipeline], Stream]) -> None:
    last = as_is if begin is totalled else was
    found = judged(plan(begin, last), plan(begin, last, as_is if begin is totalled else now, sink=True))
    asked = ("operator new", ()) if begin is said else ("sink out", ("keep",))  # of a log all rows are kept
    assert [(one.subject, tuple(one.choices)) for one in found] == [asked]


def test_an_aggregate_of_changes_does_not_begin_anew_alone() -> None:
    def other(rows: Stream) -> Stream:
        return rows.key_by("k").aggregate(total="max(v)", name="old")

    (found,) = judged(plan(said, totals), plan(said, other))
    assert (found.subject, found.choices) == ("operator old", {})
    assert "take back rows of rows that it never had" in found.problem


def ordered(by: str) -> LogicalPlan:
    pipeline = do.Pipeline("p", root="unused")
    rows = pipeline.source("rows", do.FileSource("in/*.json", schema=SCHEMA))
    last = rows.to_changes("k", order_by=by, name="changes").latest("k")
    last.to_table("before").to_sink(do.PostgresSink("env:W", "t", mode="upsert"), name="out")
    return pipeline.logical_plan()


def test_a_sink_of_changes_that_begin_anew_is_asked_about() -> None:
    old, new = ordered("id"), ordered("v")
    (asked,) = judged(old, new)
    assert (asked.subject, tuple(asked.choices)) == ("operator changes", ("restart",))
    (found,) = judged(old, new, decided={(asked.subject, asked.question): "restart"})
    assert (found.subject, tuple(found.choices)) == ("sink out", ("keep",))


@pytest.mark.sail
def test_what_comes_later_is_computed_over_what_came_before(tmp_path: Path) -> None:
    def event(what: str, key: int, value: int | None = None) -> str:
        return json.dumps({"op": what, "before": {"id": key}, "after": value and {"id": key, "k": "a", "v": value}})

    def made(*, later: bool = False, backfill: bool = False) -> do.Pipeline:
        pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=SAIL)
        files = do.FileSource(str(tmp_path / "in/*.json"), format="debezium-json", schema="id long, k string, v long", key="id")
        rows = pipeline.source("rows", files)
        totals(rows).to_table("before")
        if later:
            counted(rows).to_table("later", backfill=backfill)
        return pipeline

    (tmp_path / "in").mkdir()
    (tmp_path / "in/0.json").write_text("\n".join((event("c", 1, 1), event("c", 3, 7), event("c", 4, 2))))
    made().run_until_caught_up()
    (tmp_path / "in/1.json").write_text(event("d", 3))
    with pytest.raises(UndecidedChangeError, match=r"would take back rows that it never had[\s\S]*backfill=True") as refused:
        made(later=True).run_epoch()
    assert "pipeline.rebuild('later')" in str(refused.value)
    with pytest.raises(PipelineError, match="is no way out here"):
        made(later=True).decide("operator new", "keep")
    changed = made(later=True, backfill=True)
    assert all(one.level is not Level.DECISION for one in changed.changes())
    changed.run_until_caught_up()
    assert [row.n for row in changed.read("later").collect()] == [2]
    assert [row.total for row in changed.read("before").collect()] == [3]
