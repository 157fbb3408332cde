"""Operators before what takes rows back do not change unasked: rows of before would be taken back as they are computed now."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.api.stream import Stream
from dagster_operators.errors import PipelineError, UndecidedChangeError
from dagster_operators.functions.references import Reference
from dagster_operators.plans.diff import diff
from dagster_operators.plans.logical_plan import LogicalPlan
from dagster_operators.plans.verdict import Level, Stored
from dagster_operators.plans.verdicts import judge
from tests.engines import SAIL

SCHEMA = "id long, k string, v long"
STATEFUL = {"keyed_aggregate", "top_per_key", "deduplicate_changes", "over", "to_changes", "latest"}

Make = Callable[[Stream], Stream]


def changes(pipeline: do.Pipeline, path: str = "in/*.json", **more: str) -> Stream:
    """What a table was told of its changes."""
    return pipeline.source("rows", do.FileSource(path, format="debezium-json", schema=SCHEMA, key="id", **more))


def said(pipeline: do.Pipeline) -> Stream:
    """Rows that say themselves what they do."""
    rows = pipeline.source("rows", do.FileSource("in/*.json", schema=f"{SCHEMA}, op string"))
    return rows.with_columns(v="v + 1").as_changes("op")


def totals(rows: Stream) -> Stream:
    return rows.key_by("k").aggregate(n="count(*)", total="sum(v)", name="end")


def tops(rows: Stream) -> Stream:
    return rows.key_by("k").top(1, by="v DESC", name="end")


def newest(rows: Stream) -> Stream:
    return rows.key_by("k").deduplicate(keep="last", order_by="v", name="end")


def placed(rows: Stream) -> Stream:
    return rows.key_by("k").over("v", n="row_number()", name="end")


def now(rows: Stream) -> Stream:
    return rows.latest("id", name="end")


def log(rows: Stream) -> Stream:
    return rows


def same(rows: Stream) -> Stream:
    return rows


def plan(begin: Callable[[do.Pipeline], Stream], made: Make, end: Make) -> LogicalPlan:
    pipeline = do.Pipeline("p", root="unused")
    end(made(begin(pipeline))).to_table("t")
    return pipeline.logical_plan()


def asked(old: LogicalPlan, new: LogicalPlan) -> dict[str, tuple[str, ...]]:
    names = [node.name for node in old.nodes if node.operator.kind in STATEFUL]
    stored = Stored(stateful=names, tables=["t"], positions=["rows"])
    found = [one for one in judge(old, new, stored) if one.level is Level.DECISION]
    return {one.subject: tuple(one.choices) for one in found}


EDITS: list[tuple[str, Make, Make]] = [
    ("filter widened", lambda r: r.filter("v < 5"), lambda r: r.filter("v < 100")),
    ("filter added", same, lambda r: r.filter("v < 5")),
    ("filter removed", lambda r: r.filter("v < 5"), same),
    ("text", lambda r: r.filter("k = 'a'"), lambda r: r.filter("k = 'A'")),
    ("select", lambda r: r.select("id", "k", "v * 2 AS v"), lambda r: r.select("id", "k", "v * 3 AS v")),
    ("with_columns", lambda r: r.with_columns(v="v * 2"), lambda r: r.with_columns(v="v * 3")),
    ("key", lambda r: r.with_columns(k="upper(k)"), lambda r: r.with_columns(k="lower(k)")),
    ("rename", same, lambda r: r.rename(v="w", id="v").rename(w="id")),
    ("two in turn", lambda r: r.with_columns(v="v + 1").filter("v > 3"), lambda r: r.filter("v > 3").with_columns(v="v + 1")),
    ("unnest", lambda r: r.unnest("array(v) AS x"), lambda r: r.unnest("array(v, v) AS x")),
    ("union", same, lambda r: r.union(r.filter("v > 1"))),
]
ENDS = [totals, tops, newest, placed, now, log]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(("before", "after"), [row[1:] for row in EDITS], ids=[row[0] for row in EDITS])
def test_what_is_done_to_changes_does_not_change_unasked(before: Make, after: Make, end: Make) -> None:
    found = asked(plan(changes, before, end), plan(changes, after, end))
    assert found == {"table t" if end is log else "operator end": ()}


REWRITTEN: list[tuple[str, Make, Make]] = [
    ("spaces", lambda r: r.filter("v<5"), lambda r: r.filter(" V  < 5 -- small")),
    ("order of filters", lambda r: r.filter("v < 5").filter("v > 1"), lambda r: r.filter("v > 1").filter("v < 5")),
    ("a projection of all columns", lambda r: r.select("id", "k", "v"), same),
    ("there and back", lambda r: r.rename(v="w").rename(w="v"), same),
    (
        "projections in one",
        lambda r: r.with_columns(w="v * 2").select("id", "k", "w AS v"),
        lambda r: r.select("id", "k", "v * 2 AS v"),
    ),
]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(("before", "after"), [row[1:] for row in REWRITTEN], ids=[row[0] for row in REWRITTEN])
def test_the_same_in_other_words_is_no_change(before: Make, after: Make, end: Make) -> None:
    assert asked(plan(changes, before, end), plan(changes, after, end)) == {}


@pytest.mark.parametrize("edited", [False, True], ids=["as it was", "edited"])
@pytest.mark.parametrize("shape", ["diamonds", "chain"])
def test_large_plans_are_compared_in_no_time(shape: str, *, edited: bool) -> None:
    """Without one step for each way through the diamonds (2 ** 40), and without one call within another for each operator."""

    def long(rows: Stream, *, edited: bool) -> Stream:
        rows = rows.filter("v < 5" if edited else "v < 6")
        for number in range(40 if shape == "diamonds" else 1200):
            if shape == "diamonds":
                rows = rows.filter(f"v > {number}").union(rows.filter(f"v < {number}")).with_columns(k="concat(k, k)")
            else:
                rows = rows.select("id", "k", "v")
        return rows

    before = plan(changes, lambda rows: long(rows, edited=False), totals)
    after = plan(changes, lambda rows: long(rows, edited=edited), totals)
    assert asked(before, after) == ({"operator end": ()} if edited else {})


def test_a_column_that_an_aggregate_does_not_read_may_change() -> None:
    assert asked(plan(changes, same, totals), plan(changes, lambda r: r.with_columns(w="v + 1"), totals)) == {}


def test_what_is_before_the_state_that_rows_are_taken_back_from_may_change() -> None:
    def rows(condition: str) -> Callable[[do.Pipeline], Stream]:
        def begin(pipeline: do.Pipeline) -> Stream:
            read = pipeline.source("rows", do.FileSource("in/*.json", schema=SCHEMA))
            return read.filter(condition).to_changes("id", order_by="v", name="changes")

        return begin

    assert asked(plan(rows("v > 1"), same, totals), plan(rows("v > 2"), same, totals)) == {}


def test_rows_that_say_themselves_what_they_do_are_followed_to_their_source() -> None:
    def other(pipeline: do.Pipeline) -> Stream:
        rows = pipeline.source("rows", do.FileSource("in/*.json", schema=f"{SCHEMA}, op string"))
        return rows.with_columns(v="v + 2").as_changes("op")

    assert asked(plan(said, same, totals), plan(other, same, totals)) == {"operator end": ()}
    assert asked(plan(said, same, totals), plan(said, same, totals)) == {}


def test_how_a_source_reads_changes_does_not_change_unasked() -> None:
    def read(**settings: Any) -> LogicalPlan:
        def begin(pipeline: do.Pipeline) -> Stream:
            files = do.FileSource("in/*.csv", **{"schema": f"{SCHEMA}, op string", "format": "csv", **settings})
            return pipeline.source("rows", files).as_changes("op")

        return plan(begin, same, totals)

    assert asked(read(), read(options={"sep": ";"})) == {"operator end": ()}
    assert asked(read(), read(schema="id long, k string, v int, op string")) == {"operator end": ()}
    assert asked(read(), read(max_files=3, schema=f"{SCHEMA}, more string, op string")) == {}


def test_a_function_in_an_expression_does_not_change_unasked() -> None:
    before = plan(changes, lambda rows: rows.filter("abs(v) > 1"), totals)
    old, new = (replace(before, functions={"abs": Reference("m", "f", digest)}) for digest in ("one", "two"))
    assert asked(old, new) == {"operator end": ()}
    assert asked(old, old) == {}


def looped(limit: int) -> LogicalPlan:
    pipeline = do.Pipeline("p", root="unused")
    loop = pipeline.loop("down", limit=50)
    variable = loop.variable("left", SCHEMA, retracting=True)
    rows = loop.enter(changes(pipeline)).union(variable).filter("v > 0")
    loop.feed(variable, rows.filter(f"v > {limit}").select("id", "k", "v - 1 AS v"))
    totals(loop.leave(rows)).to_table("t")
    return pipeline.logical_plan()


def test_what_goes_round_does_not_change_unasked() -> None:
    assert asked(looped(1), looped(3)) == {"operator end": ()}
    assert asked(looped(1), looped(1)) == {}


def event(what: str, key: int, value: int | None = None) -> str:
    return json.dumps({"op": what, "before": {"id": key}, "after": value and {"id": key, "k": "a", "v": value}})


@pytest.mark.sail
def test_only_a_rebuild_is_a_way_on(tmp_path: Path) -> None:
    def made(condition: str) -> do.Pipeline:
        pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=SAIL)
        totals(changes(pipeline, str(tmp_path / "in/*.json")).filter(condition)).to_table("t")
        return pipeline

    (tmp_path / "in").mkdir()
    (tmp_path / "in/0.json").write_text("\n".join((event("c", 1, 1), event("c", 3, 7), event("c", 4, 2))))
    made("v < 5").run_until_caught_up()
    (tmp_path / "in/1.json").write_text(event("d", 3))
    changed = made("v < 100")
    with pytest.raises(UndecidedChangeError, match=r"pipeline\.rebuild\('t'\)") as refused:
        changed.run_epoch()
    assert "keep" not in str(refused.value)
    with pytest.raises(PipelineError, match="'keep' is no way out here"):
        changed.decide("operator end", "keep")
    changed.rebuild("t")
    changed.run_until_caught_up()
    assert [(row.k, row.n, row.total) for row in changed.read("t").collect()] == [("a", 2, 3)]


class Given(do.Sink):
    """Counts the rows that it is given."""

    updates = True

    def write(self, rows: Any, attempt: Any) -> Any:
        return sum(batch.num_rows for batch in rows)

    def prepare(self, epoch: int, commit_data: Any, generation: int) -> None: ...

    def commit(self, epoch: int, commit_data: Any) -> None: ...

    def abort(self, epoch: int, generation: int) -> None: ...

    def recover(self, decided_epoch: int, generation: int) -> None: ...


@pytest.mark.sail
def test_a_sink_behind_what_changed_is_taken_out_for_the_rebuild(tmp_path: Path) -> None:
    def made(condition: str, sink: str = "") -> do.Pipeline:
        pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=SAIL)
        last = totals(changes(pipeline, str(tmp_path / "in/*.json")).filter(condition)).to_table("t")
        if sink:
            last.to_sink(Given(), name=sink)
        return pipeline

    (tmp_path / "in").mkdir()
    (tmp_path / "in/0.json").write_text("\n".join((event("c", 1, 1), event("c", 3, 7))))
    made("v < 5", "out").run_until_caught_up()
    with pytest.raises(UndecidedChangeError, match="take the sink out of the program, rebuild the tables") as refused:
        made("v < 100", "out").run_epoch()
    assert "pipeline.rebuild" not in str(refused.value)
    made("v < 100").rebuild("t")
    again = made("v < 100", "new")
    again.decide("sink new", "keep")
    (tmp_path / "in/1.json").write_text(event("d", 3))
    again.run_until_caught_up()
    assert [(row.k, row.n, row.total) for row in again.read("t").collect()] == [("a", 1, 1)]


def as_of(root: Path, count: int, **settings: Any) -> do.Pipeline:
    """Prices with the rates of their time, and a table of what that join puts out."""
    batches = [[{"k": "a", "v": n, "at": datetime(2024, 1, 1 + 3 * n, tzinfo=UTC)}] for n in range(count)]
    made = do.Pipeline("p", root=str(root), engine=SAIL)
    schema = "k string, v long, at timestamp"
    prices = made.source("prices", do.MemorySource(batches, schema=schema), event_time="at", lateness="1 hour")
    rates = made.source("rates", do.MemorySource(batches, schema=schema), event_time="at").rename(v="w", at="since")
    prices.join_as_of(rates, on="k", columns=["v", "w"], name="priced", **settings).to_table("priced")
    return made


@pytest.mark.sail
@pytest.mark.parametrize(
    ("before", "after"),
    [({"keep": "1 day"}, {"corrections": False}), ({"corrections": False}, {"keep": "1 day"})],
    ids=["no longer corrected", "corrected"],
)
def test_a_join_whose_rows_are_no_longer_changes_is_only_rebuilt(tmp_path: Path, before: Any, after: Any) -> None:
    as_of(tmp_path / "root", 2, **before).run_until_caught_up()
    changed = as_of(tmp_path / "root", 3, **after)
    with pytest.raises(UndecidedChangeError, match=r"pipeline.rebuild\('priced'\)") as refused:
        changed.run_epoch()
    assert "restart" not in str(refused.value)
    assert "1 day" in str(refused.value)
    changed.rebuild("priced")
    changed.run_until_caught_up()
    whole = as_of(tmp_path / "whole", 3, **after)
    whole.run_until_caught_up()
    assert sorted(map(tuple, changed.read("priced").collect())) == sorted(map(tuple, whole.read("priced").collect()))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda rows, n: rows.within_last(f"{n} days", name="end"), "age was 1 day, and is 2 days"),
        (lambda rows, n: rows.key_by("k").deduplicate(within=f"{n} days", name="end"), "within was 1 day, and is 2 days"),
        (
            lambda rows, n: rows.key_by("k").interval_join(
                rows.rename(v="w", at="t").key_by("k"), lower="0 s", upper=f"{n} days"
            ),
            "high was 1 day, and is 2 days",
        ),
    ],
    ids=["age", "within", "interval"],
)
def test_lengths_of_time_are_told_as_people_say_them(make: Callable[[Any, int], Any], told: str) -> None:
    def plan_of(days: int) -> LogicalPlan:
        pipeline = do.Pipeline("p", root="unused")
        rows = pipeline.source("rows", do.FileSource("in/*.csv", schema="k string, v long, at timestamp"), event_time="at")
        make(rows, days).to_table("t")
        return pipeline.logical_plan()

    old, new = plan_of(1), plan_of(2)
    name = next(node.name for node in old.nodes if node.operator.kind in ("within_last", "deduplicate_first", "interval_join"))
    found = judge(old, new, Stored(stateful=[name], tables=["t"], positions=["rows"]))
    assert told in next(one.problem for one in found if one.subject == f"operator {name}")
    assert told.replace(", and is", ", is") in str(diff(old, new))
