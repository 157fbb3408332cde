"""What is done to rows that replace each other, before their changes, does not change unasked: other keys would not follow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.api.stream import Stream
from dagster_operators.errors import ChangedColumnsError, PipelineError, UndecidedChangeError
from dagster_operators.plans.verdict import Level, Stored
from dagster_operators.plans.verdicts import judge
from tests.engines import ENGINES, SAIL

SCHEMA = "k string, v long"
STATEFUL = {"keyed_aggregate", "top_per_key", "over", "to_changes", "join"}
STORED = Stored(tables=["t"], positions=["rows"], updating=["t"])

Make = Callable[[Stream], Any]


def counts(rows: Stream) -> Stream:
    return rows.key_by("k").aggregate(n="count(*)", name="counts")


def best(rows: Stream) -> Stream:
    return rows.key_by("k").top(1, by="v DESC", name="best").with_columns(n="v")


def newest(rows: Stream) -> Stream:
    return rows.key_by("k").over("v", place="row_number()", n="sum(v)", name="places").latest("k", "place", name="newest")


def totals(rows: Stream) -> Stream:
    return rows.aggregate(total="sum(n)", keys="count(*)", name="end")


def log(rows: Stream) -> Stream:
    return rows.to_changes(name="log")


def joined(rows: Stream) -> Stream:
    return rows.join(rows.select("k", "n AS m"), on="k", name="end")


WAYS = [(counts, totals), (counts, log), (counts, joined), (best, totals), (best, log), (newest, totals), (newest, log)]


def asked(begin: Make, before: Make, after: Make, end: Make, stored: Stored = STORED) -> list[str]:
    plans = []
    for made in (before, after):
        pipeline = do.Pipeline("p", root="unused")
        end(made(begin(pipeline.source("rows", do.FileSource("in/*.json", schema=SCHEMA))))).to_table("t")
        plans.append(pipeline.logical_plan())
    names = [node.name for node in plans[0].nodes if node.operator.kind in STATEFUL]
    found = judge(*plans, replace(stored, stateful=names))
    return sorted(one.subject for one in found if one.level is Level.DECISION)


def same(rows: Stream) -> Stream:
    return rows


def doubled(rows: Stream) -> Stream:
    return rows.with_columns(n="n * 2")


def some(rows: Stream) -> Stream:
    return rows.filter("n > 1")


EDITS: list[tuple[Make, Make]] = [(same, some), (some, same), (lambda r: r.filter("n > 0"), some), (same, doubled)]


@pytest.mark.parametrize(("before", "after"), EDITS, ids=["filter added", "filter removed", "filter", "expression"])
@pytest.mark.parametrize(("begin", "end"), WAYS)
def test_what_is_done_to_rows_that_replace_each_other_does_not_change_unasked(
    begin: Make, before: Make, after: Make, end: Make
) -> None:
    found = asked(begin, before, after, end)
    assert found
    assert all(one == "operator log" or one.endswith("_changes") for one in found)


@pytest.mark.parametrize("begin", [counts, best, newest])
def test_the_same_in_other_words_is_no_change(begin: Make) -> None:
    assert asked(begin, some, lambda rows: rows.filter(" N  > 1 -- many"), totals) == []
    assert asked(begin, lambda rows: some(rows).filter("n < 9"), lambda rows: some(rows.filter("n < 9")), totals) == []


def test_nothing_is_asked_of_what_a_reset_emptied() -> None:
    assert asked(counts, same, some, totals, replace(STORED, emptied=["counts", "filter_changes", "counts_changes", "end"])) == []


def with_both(rows: Stream) -> Stream:
    return rows.key_by("k").aggregate(n="count(*)", m="max(v)", name="counts")


def by(text: str) -> Make:
    return lambda rows: rows.with_columns(m=text)


def counted(rows: Stream) -> Stream:
    return totals(rows.filter("n > 0").with_columns(n="n + 1"))


def of_both(rows: Stream) -> Stream:
    return rows.aggregate(total="sum(n)", most="max(m)", name="end")


READERS: list[tuple[Make, bool]] = [
    (totals, False), (counted, False), (lambda rows: totals(rows.rename({"m": "other"})), False),
    (lambda rows: totals(rows.select("k", "n", "m * 2 AS x")), False), (lambda rows: totals(rows.drop("m")), False),
    (of_both, True), (log, True), (lambda rows: totals(rows.to_changes(name="log").filter("m > 1")), True),
    (lambda rows: totals(rows.to_changes(name="log").select("k", "n + m AS n")), True),
    (lambda rows: rows.key_by("m").aggregate(total="sum(n)", name="end"), True),
]  # fmt: skip


@pytest.mark.parametrize(("end", "read"), READERS)
@pytest.mark.parametrize(("before", "after"), [("m * 2", "m * 3"), ("m", "m * 3"), ("m * 2", "m")])
def test_what_becomes_of_a_column_is_asked_where_it_is_read(before: str, after: str, end: Make, read: bool) -> None:  # noqa: FBT001
    for behind in (end, lambda rows: end(rows.filter("n > 0"))):
        assert bool(asked(with_both, by(before), by(after), behind)) == read


def two_keys(rows: Stream) -> Stream:
    return rows.key_by("k", "v").aggregate(n="count(*)", m="max(v)", name="counts")


def test_keys_that_nobody_reads_are_asked_about() -> None:
    turned = lambda rows: rows.select("v AS k", "k::bigint AS x", "k AS v", "n")  # noqa: E731
    assert asked(two_keys, lambda rows: rows.select("k", "k::bigint AS x", "v", "n"), turned, totals)
    assert asked(
        two_keys, lambda rows: rows.select("k", "v", "v + 1 AS w", "n"), lambda r: r.select("k", "v AS w", "v", "n"), totals
    )


@pytest.mark.slow
@pytest.mark.parametrize("engine", [pytest.param("sail", marks=pytest.mark.sail), pytest.param("spark", marks=pytest.mark.spark)])
def test_a_column_that_nobody_reads_changes_unasked(tmp_path: Path, engine: str) -> None:
    def made(root: str, epochs: int, text: str, end: Make = totals, **settings: Any) -> do.Pipeline:
        pipeline = do.Pipeline("p", root=str(tmp_path / root), engine=ENGINES[engine])
        one, other = {"k": "a", "v": 1}, {"k": "b", "v": 1}
        source = do.MemorySource([[one, other], [one], [one, other]][:epochs], schema=SCHEMA)
        changes = by(text)(with_both(pipeline.source("rows", source))).to_changes(name="changes")
        totals(changes).to_table("t")
        if end is not totals:
            end(changes).to_table("more", **settings)
        return pipeline

    made("root", 1, "m * 2").run_until_caught_up()
    changed = made("root", 2, "m * 3")
    changed.run_until_caught_up()
    if engine == "spark":
        assert rows_of(changed) == [(3, 2)]
        return
    most = lambda rows: rows.aggregate(most="max(m)", name="most")  # noqa: E731
    most = lambda rows: rows.aggregate(most="max(m)", name="most")  # noqa: E731
    with pytest.raises(UndecidedChangeError, match="would take back rows that it never had"):
        made("root", 3, "m * 3", most).run_epoch()
    later = made("root", 3, "m * 3", most, backfill=True)
    with pytest.raises(PipelineError, match=r"computed it otherwise.*pipeline.rebuild"):  # they have it as it was
        later.run_epoch()
    later.rebuild("more")
    later.run_until_caught_up()
    assert rows_of(later) == [(5, 2)]
    assert [tuple(row) for row in later.read("more").collect()] == [(3,)]


def pipeline_of(root: Path, epochs: int, made: Make, engine: Any = SAIL) -> do.Pipeline:
    """Both keys come once, and only one of them again."""
    one, other = {"k": "a", "v": 1}, {"k": "b", "v": 1}
    batches = [[one, one, other], [one], [one]]
    pipeline = do.Pipeline("p", root=str(root), engine=engine)
    rows = counts(pipeline.source("rows", do.MemorySource(batches[:epochs], schema=SCHEMA)))
    totals(made(rows)).to_table("t")
    return pipeline


def rows_of(pipeline: do.Pipeline) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, pipeline.read("t").collect()))


@pytest.mark.parametrize(
    ("engine", "before", "after"),
    [
        *(pytest.param("sail", *edit, marks=pytest.mark.sail) for edit in EDITS[1:]),
        pytest.param("spark", *EDITS[2], marks=[pytest.mark.spark, pytest.mark.slow]),
    ],
)
def test_a_rebuild_is_the_full_computation(tmp_path: Path, engine: str, before: Make, after: Make) -> None:
    pipeline_of(tmp_path / "root", 1, before, ENGINES[engine]).run_until_caught_up()
    changed = pipeline_of(tmp_path / "root", 2, after, ENGINES[engine])
    with pytest.raises(UndecidedChangeError, match=r"pipeline\.rebuild\('t'\)") as refused:
        changed.run_epoch()
    assert "restart" not in str(refused.value)
    changed.rebuild("t")
    again = pipeline_of(tmp_path / "root", 3, after, ENGINES[engine])
    again.run_until_caught_up()
    whole = pipeline_of(tmp_path / "whole", 3, after)
    whole.run_until_caught_up()
    assert rows_of(again) == rows_of(whole)


@pytest.mark.sail
def test_rows_stay_as_they_were_computed_by_decision(tmp_path: Path) -> None:
    pipeline_of(tmp_path, 1, lambda rows: rows.filter("n > 0")).run_until_caught_up()
    changed = pipeline_of(tmp_path, 2, some)
    changed.decide("operator filter_changes", "keep")
    changed.run_until_caught_up()
    again = pipeline_of(tmp_path, 3, some)
    again.run_until_caught_up()
    assert rows_of(again) == [(5, 2)]  # a: 4, and b: 1, which the filter would not let through now


@pytest.mark.sail
def test_columns_that_the_rows_there_are_do_not_have_are_refused_with_a_way_on(tmp_path: Path) -> None:
    pipeline_of(tmp_path, 1, doubled).run_until_caught_up()
    changed = pipeline_of(tmp_path, 2, lambda rows: rows.with_columns(n="CAST(n AS int)"))
    changed.decide("operator with_columns_changes", "keep")
    with pytest.raises(ChangedColumnsError, match=r"pipeline\.rebuild") as refused:
        changed.run_epoch()
    assert "operators='with_columns_changes'" in refused.value.remedy
    changed.rebuild(operators="with_columns_changes")
    changed.run_until_caught_up()
    assert rows_of(changed) == [(4, 2)]
