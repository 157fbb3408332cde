"""Filters go towards the sources, past projections and unions, as long as they decide by the same values."""

from __future__ import annotations

import pytest

import dagster_operators as do
from tests.planner.rules.shown import SCHEMA, done, flow, plan_of

APART = ("merge_projections", "merge_filters")


@pytest.mark.parametrize(
    ("steps", "condition"),
    [
        (lambda rows: rows.select("v AS w", "k", name="a").filter("W > 1 AND k = 'w'", name="f"), "`v` > 1 AND k = 'w'"),
        (lambda rows: rows.rename(v="k", k="v", name="a").filter("v = 'x' AND k > 1", name="f"), "`k` = 'x' AND `v` > 1"),
        (lambda rows: rows.with_columns(w="v + 1", name="a").filter("v > 1", name="f"), "v > 1"),
        (lambda rows: rows.drop("k", name="a").filter("v > 1", name="f"), "v > 1"),
        (lambda rows: rows.select("k", "v + 1 AS w", name="a").filter("true", name="f"), "true"),
    ],
)
def test_a_filter_goes_before_a_projection(steps, condition):
    pipeline, rows = flow()
    steps(rows).to_table("t")
    made = plan_of(pipeline, *APART)
    assert made["f_first"] == f"filter(condition={condition!r}) of rows"
    assert made["f"].endswith("of f_first")
    assert "a" not in made
    assert done(pipeline, "push_filters") == ["f goes before a"]


@pytest.mark.parametrize(
    "steps",
    [
        lambda rows: rows.select("v + 1 AS w", name="a").filter("w > 1", name="f"),
        lambda rows: rows.select("rand() AS w", "v", name="a").filter("v > 1", name="f"),
        lambda rows: rows.select("v AS w", name="a").filter("rand() > w", name="f"),
        lambda rows: rows.select("v AS w", name="a").start_new_stage().filter("w > 1", name="f"),
        lambda rows: rows.select("v AS w", name="a").to_table("seen").filter("w > 1", name="f"),
        lambda rows: rows.key_by("k").aggregate(n="sum(v)").rename(n="m", name="a").filter("m > 1", name="f"),
    ],
)
def test_a_filter_stays_where_it_would_see_something_else(steps):
    pipeline, rows = flow()
    steps(rows).to_table("t")
    made = plan_of(pipeline, *APART)
    assert {"a", "f"} <= made.keys()
    assert "filter" in made["f"]


def test_a_filter_goes_through_several_projections_and_a_union_to_each_source():
    pipeline, rows = flow()
    other = pipeline.source("other", do.MemorySource([], schema=SCHEMA))
    both = rows.rename(v="w", name="a").union(other.select("t", "v AS w", "k", name="b"), name="u")
    both.with_columns(x="w + 1", name="c").filter("w > 1", name="f").to_table("t")
    made = plan_of(pipeline, *APART)
    assert sorted(text for text in made.values() if text.startswith("filter")) == [
        "filter(condition='`v` > 1') of other", "filter(condition='`v` > 1') of rows",
    ]  # fmt: skip
    assert made["f"].startswith("with_columns")
    assert plan_of(pipeline)["f"].startswith("with_columns(expressions=(('x', 'w + 1'),))")


def test_a_name_that_is_taken_is_not_taken_again():
    pipeline, rows = flow()
    rows.filter("v > 3", name="f_first").to_table("other")
    rows.drop("k", name="a").filter("v > 1", name="f").to_table("t")
    made = plan_of(pipeline, *APART)
    assert made["f_first_2"] == "filter(condition='v > 1') of rows"
