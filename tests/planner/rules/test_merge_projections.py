"""Projections behind one another become one selection, unless something would be computed twice or mean something else."""

from __future__ import annotations

import pytest

import dagster_operators as do
from dagster_operators.planner.rules.rule_set import optimised
from tests.planner.rules.shown import done, flow, plan_of


@do.udf("long")
def merged_twice(v):
    return v


def merged(steps, **source):
    pipeline, rows = flow(**source)
    steps(rows).to_table("t")
    plan_of(pipeline)
    (node,) = (node for node in optimised(pipeline.dataflow).plan if node.inputs)
    return list(node.operator.expressions)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (lambda rows: rows.select("k", "v + 1 AS w").rename(w="x"), ["`k`", "v + 1 AS `x`"]),
        (lambda rows: rows.select("k AS a", "v").select("a AS b", "v * 2 AS w"), ["`k` AS `b`", "v * 2 AS `w`"]),
        (lambda rows: rows.with_columns(w="v + 1").select("W % 3 AS r", "k"), ["(v + 1) % 3 AS `r`", "`k`"]),
        (lambda rows: rows.rename(v="w").drop("t").with_columns(x="w + `k`"), ["`k`", "`v` AS `w`", "`v` + `k` AS `x`"]),
        (lambda rows: rows.with_columns(v="k", k="v").select("k", "v"), ["`v` AS `k`", "`k` AS `v`"]),
        (lambda rows: rows.select("k", "v").select("struct(v) AS s", "k"), ["struct(v) AS `s`", "`k`"]),
        (lambda rows: rows.rename(v="a", k="v").rename(a="k"), ["`k` AS `v`", "`v` AS `k`", "`t`"]),
        (lambda rows: rows.with_columns(w="v + 1 -- one").select("w * /* two */ 2 AS z -- z"), ["(v + 1) * 2 AS `z`"]),
        (
            lambda rows: rows.with_columns(w="concat(k, '--') -- w").select("concat(w, '/*') AS z"),
            ["concat((concat(k, '--')), '/*') AS `z`"],
        ),
        (lambda rows: rows.select("k", "v").select("merged_twice(v) AS w"), ["merged_twice(v) AS `w`"]),
    ],
)
def test_projections_behind_one_another_become_one(steps, expected):
    assert merged(steps) == expected


def test_the_event_time_goes_along():
    assert merged(lambda rows: rows.select("k", "t AS at").rename(at="ts"), event_time="t") == ["`k`", "`t` AS `ts`"]


@pytest.mark.parametrize(
    "steps",
    [
        lambda rows: rows.select("v + 1 AS w", name="a").select("w AS x", "w AS y", name="b"),
        lambda rows: rows.select("v + 1 AS w", name="a").select("w * w AS x", name="b"),
        lambda rows: rows.select("rand() AS w", name="a").select("w AS x", name="b"),
        lambda rows: rows.select("merged_twice(v) AS w", name="a").select("w AS x", name="b"),
        lambda rows: rows.select("v AS w", "k", name="a").select("struct(w) AS s", name="b"),
        lambda rows: rows.select("array(v) AS xs", "v + 1 AS x", name="a").select("transform(xs, y -> y + x) AS s", name="b"),
        lambda rows: rows.with_columns(t="t", name="a").select("k", "t", name="b"),  # would be an event time again
        lambda rows: rows.select("v", name="a").start_new_stage().select("v AS w", name="b"),
        lambda rows: rows.select("v", name="a").to_table("seen").select("v AS w", name="b"),
        lambda rows: rows.transform(lambda frame: frame).select("v", "k", name="a").filter("true").select("v AS w", name="b"),
    ],
)
def test_projections_stay_apart_where_one_would_not_be_the_same(steps):
    pipeline, rows = flow(event_time="t")
    steps(rows).to_table("t")
    assert {"a", "b"} <= plan_of(pipeline, "push_filters").keys()


def test_an_updating_stream_keeps_its_keys():
    pipeline, rows = flow()
    rows.key_by("k").aggregate(n="sum(v)", name="sums").rename(k="key", name="a").with_columns(m="n + 1", name="b").to_table("t")
    made = plan_of(pipeline)
    assert made["b"] == "select(expressions=('`k` AS `key`', '`n`', 'n + 1 AS `m`')) of sums"
    assert done(pipeline, "merge_projections") == ["a and b are one projection"]


def test_a_long_chain_of_computations_is_not_nested_without_end():
    pipeline, rows = flow()
    for _ in range(400):
        rows = rows.with_columns(v="v + 1")
    rows.to_table("t")
    made = [node.operator for node in optimised(pipeline.dataflow).plan if node.inputs]
    assert 1 < len(made) < 40
    assert all(len(expression) < 1100 for operator in made for expression in operator.sql())
