"""Projections of changes keep ``_change`` at its place among the columns of tables and sinks, whatever the rules do."""

from __future__ import annotations

import json
from itertools import product

import pytest

import dagster_operators as do
from dagster_operators.planner.plan import plan
from dagster_operators.planner.rules.rule_set import optimised
from tests.engines import SAIL

STEPS = {
    "drop": lambda stream: stream.drop("w"),
    "with": lambda stream: stream.with_columns(x="v + 1"),
    "rename": lambda stream: stream.rename(v="u").rename(u="v"),
    "select": lambda stream: stream.select("v", "k", *(name for name in stream.columns if name in ("w", "x"))),
    "same": lambda stream: stream.select(*stream.columns),
    "filter": lambda stream: stream.filter("v > 0"),
    "union": lambda stream: stream.union(stream.filter("v < 0")),
}
FIELDS = [{"name": name, "type": "integer" if name in "vw" else "string", "nullable": True, "metadata": {}} for name in "kvwo"]
SCHEMA = json.dumps({"type": "struct", "fields": FIELDS})


def test_columns_of_changes_are_in_the_order_in_which_they_were_written(sail):
    pipeline = do.Pipeline("p", root="unused", engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource([], schema="k string, v int, w int, o string")).as_changes("o")
    for steps in product(STEPS, repeat=2):
        stream = rows
        for step in steps if steps != ("drop", "drop") else ():
            stream = STEPS[step](stream)
        if stream is not rows:
            stream.to_table("_".join(("of", *steps)))
    made = plan(sail, pipeline.dataflow, {"rows": SCHEMA})  # a warning is an error
    names = {table: [field["name"] for field in json.loads(made.schemas[pipeline.tables[table].stream])["fields"]]
             for table in ("of_drop_with", "of_with_drop", "of_with_select")}  # fmt: skip
    assert names == {
        "of_drop_with": ["k", "v", "_change", "x"],
        "of_with_drop": ["k", "v", "_change", "x"],
        "of_with_select": ["v", "k", "w", "x", "_change"],
    }


@pytest.mark.parametrize("end", [lambda stream: stream.latest("k"), lambda stream: stream.key_by("k").aggregate(n="sum(x)")])
def test_where_nobody_sees_the_place_projections_of_changes_are_merged(end):
    pipeline = do.Pipeline("p", root="unused")
    rows = pipeline.source("rows", do.MemorySource([], schema="k string, v int, w int, o string")).as_changes("o")
    end(rows.with_columns(x="v + 1").drop("w", name="less")).to_table("t")
    assert "with_columns" not in optimised(pipeline.dataflow).plan.nodes
