"""Filters behind one another become one, as long as each row is decided as before."""

from __future__ import annotations

import pytest

import dagster_operators as do
from tests.planner.rules.shown import done, flow, plan_of


@do.udf("boolean")
def merged_by_rules(v):
    return v


def test_filters_behind_one_another_become_one():
    pipeline, rows = flow()
    rows.filter("v > 1", name="a").filter("k = 'x' OR v < 5", name="b").filter("k <> 'y'", name="c").to_table("t")
    assert plan_of(pipeline) == {"c": "filter(condition=\"(v > 1) AND (k = 'x' OR v < 5) AND (k <> 'y')\") of rows"}
    assert done(pipeline, "merge_filters") == ["a and b are one filter", "b and c are one filter"]


def test_comments_are_left_out_and_texts_like_them_are_not():
    pipeline, rows = flow()
    rows.filter("v > 1 -- big").filter("k <> '-- k' /* no key */").filter("-- all\nv < 9", name="all").to_table("t")
    assert plan_of(pipeline) == {"all": "filter(condition=\"(v > 1) AND (k <> '-- k') AND (v < 9)\") of rows"}


@pytest.mark.parametrize(
    "other",
    [
        lambda rows: rows.filter("rand() < 0.5", name="a").filter("v > 1", name="b"),
        lambda rows: rows.filter("v > 1", name="a").filter("merged_by_rules(v)", name="b"),
        lambda rows: rows.filter("v > 1", name="a").start_new_stage().filter("v > 2", name="b"),
        lambda rows: rows.filter("v > 1", name="a").to_table("seen").filter("v > 2", name="b"),
        lambda rows: rows.key_by("k").aggregate(n="sum(v)").filter("n > 1", name="a").filter("n > 2", name="b"),
        lambda rows: rows.filter("v > 1" + " AND v > 1" * 120, name="a").filter("v > 2", name="b"),
    ],
)
def test_filters_stay_apart_where_one_would_not_be_the_same(other):
    pipeline, rows = flow()
    other(rows).to_table("t")
    assert {"a", "b"} <= plan_of(pipeline).keys()


def test_a_filter_with_another_reader_stays():
    pipeline, rows = flow()
    positive = rows.filter("v > 0", name="a")
    positive.filter("v > 1", name="b").to_table("b")
    positive.filter("v > 2", name="c").to_table("c")
    assert plan_of(pipeline).keys() == {"a", "b", "c"}
