"""Projections that change no column are left out, unless somebody sees their stream."""

from __future__ import annotations

import pytest

import dagster_operators as do
from tests.planner.rules.shown import done, flow, plan_of


@pytest.mark.parametrize(
    "same",
    [
        lambda rows: rows.select("k", "v", "t", name="same"),
        lambda rows: rows.select("K AS k", "`v`", "t AS t", name="same"),
        lambda rows: rows.rename({"K": "k"}, name="same"),
        lambda rows: rows.with_columns({"V": "v"}, name="same"),
    ],
)
def test_what_changes_no_column_is_left_out(same):
    pipeline, rows = flow(event_time=None)
    same(rows).key_by("v").aggregate(n="count(*)", name="few").to_table("t")
    assert plan_of(pipeline) == {"few": "keyed_aggregate(keys=('v',), aggregates=(('n', 'count(*)'),)) of rows"}
    assert done(pipeline, "redundant_projections") == ["same changes no column, and is left out"]


@pytest.mark.parametrize(
    "other",
    [
        lambda rows: rows.select("k", "t", "v", name="same"),
        lambda rows: rows.select("k", "v + 0 AS v", "t", name="same"),
        lambda rows: rows.rename(k="K", name="same"),
        lambda rows: rows.drop("k", name="same"),
        lambda rows: rows.with_columns(t="t", name="same"),  # is an event time no more
        lambda rows: rows.start_new_stage().select("k", "v", "t", name="same"),
        lambda rows: rows.transform(lambda frame: frame).select("k", "v", "t", name="same"),  # its columns are not known yet
    ],
)
def test_what_changes_something_or_may_stays(other):
    pipeline, rows = flow(event_time="t")
    other(rows).aggregate(n="count(*)").to_table("n")
    assert "same" in plan_of(pipeline)


def test_a_projection_whose_stream_is_seen_stays():
    pipeline, rows = flow()
    rows.select("k", "v", "t", name="same").to_table("t").filter("v > 1").to_table("u")
    assert "same" in plan_of(pipeline)


def test_several_readers_read_what_the_projection_read():
    pipeline, rows = flow(event_time="t")
    totals = rows.key_by("k").window(do.Tumbling("1 hour")).aggregate(v="sum(v)", name="sums")
    same = totals.late().select("k", "v", "t", name="same")
    same.filter("v > 1", name="few").to_table("t")
    same.filter("v > 2", name="fewer").to_table("u")
    totals.to_table("sums")
    made = plan_of(pipeline)
    assert [made[name].rpartition(" of ")[2] for name in ("few", "fewer")] == ["sums.late", "sums.late"]
