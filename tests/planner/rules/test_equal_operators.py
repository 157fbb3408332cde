"""Equal operators over one stream are computed once, where that saves something and cannot be seen."""

from __future__ import annotations

import pytest

import dagster_operators as do
from tests.planner.rules.shown import done, flow, plan_of

BEHIND = ("merge_filters", "merge_projections", "push_filters", "prune_columns")


@do.udf("long")
def equal_twice(v):
    return v


def test_equal_chains_become_one():
    pipeline, rows = flow()
    for number in range(3):
        made = rows.filter("v > 1", name=f"f{number}").with_columns(w="v + 1", name=f"w{number}")
        made.key_by("k").aggregate(n=f"sum(w + {number})", name=f"n{number}").to_table(f"t{number}")
    made = plan_of(pipeline, *BEHIND)
    assert [name for name in made if name[0] in "fw"] == ["f0", "w0"]
    assert all(made[f"n{number}"].endswith("of w0") for number in range(3))
    assert done(pipeline, "equal_operators") == [
        f"{name}{number} is the same as {name}0, and computed once" for name in "fw" for number in (1, 2)
    ]


def test_unions_of_the_same_streams_in_the_same_order_become_one():
    pipeline, rows = flow()
    other = pipeline.source("other", do.MemorySource([], schema="k string, v long, t timestamp"))
    for name in "ab":
        rows.union(other, name=name).key_by("k").aggregate(n="count(*)").to_table(f"t_{name}")
    made = plan_of(pipeline, *BEHIND)
    assert "b" not in made
    pipeline, rows = flow()
    other = pipeline.source("other", do.MemorySource([], schema="k string, v long, t timestamp"))
    rows.union(other, name="a").aggregate(n="count(*)").to_table("t_a")
    other.union(rows, name="b").aggregate(n="count(*)").to_table("t_b")
    assert {"a", "b"} <= plan_of(pipeline, *BEHIND).keys()


def test_one_that_goes_to_a_table_is_the_one_that_is_kept():
    pipeline, rows = flow()
    rows.filter("v > 1", name="a").key_by("k").aggregate(n="count(*)", name="n").to_table("n")
    rows.filter("v > 1", name="b").to_table("big")
    rows.filter("v > 1", name="c").to_table("big_too")
    rows.to_table("all")
    made = plan_of(pipeline, *BEHIND)
    assert (made["n"].rpartition(" of ")[2], "a" in made) == ("b", False)
    assert {"b", "c"} <= made.keys()


@pytest.mark.parametrize(
    "make",
    [
        lambda rows, name: rows.filter("rand() > v", name=name),
        lambda rows, name: rows.filter("equal_twice(v) > 1", name=name),
        lambda rows, name: rows.filter("v > 1", name=name, chain=False),
        lambda rows, name: rows.filter(f"v > {ord(name)}", name=name),
        lambda rows, name: rows.select("k", f"v AS {name}", "v", name=name),
        lambda rows, name: rows.key_by("k", "v").deduplicate(name=name),
        lambda rows, name: rows.transform(lambda frame: frame, name=name),
    ],
)
def test_what_differs_or_keeps_something_or_cannot_be_repeated_stays(make):
    pipeline, rows = flow()
    for name in "ab":
        make(rows, name).key_by("k").aggregate(n="sum(v)").to_table(f"t_{name}")
    assert {"a", "b"} <= plan_of(pipeline, *BEHIND).keys()


def test_nothing_is_shared_where_more_would_be_written():
    """The rows are read by a third one, so that they are written anyway; the filtered ones would be too."""
    pipeline, rows = flow()
    for name in "ab":
        rows.filter("v > 1", name=name).key_by("k").aggregate(n="count(*)").to_table(f"t_{name}")
    rows.aggregate(n="count(*)").to_table("n")
    assert {"a", "b"} <= plan_of(pipeline, *BEHIND).keys()
