"""Which operator is which: the order in which a union names its streams plays no part, and neither do diamonds cost anything."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.plans.matching import match
from dagster_operators.plans.verdict import Level, Stored
from dagster_operators.plans.verdicts import judge

SOURCES = ("a", "b", "c")


def flow(*unions, keyed=False):
    """For each of some orders of the sources a union of what a filter leaves of them, and an aggregate; nothing has a name."""
    pipeline = do.Pipeline("p", root="unused")
    rows = {name: pipeline.source(name, do.FileSource(name, schema="k string, v long")) for name in SOURCES}
    for number, order in enumerate(unions):
        first, *others = [rows[name].filter(f"v > {number // 2}") for name in order]
        rest = first.union(*others)
        if keyed:
            rest = rest.with_columns(k="upper(k)")
        rest.key_by("k").aggregate(n="count(*)").to_table(f"t{number}")
    return pipeline.logical_plan()


def stored(plan):
    tables = [table.name for table in plan.tables]
    stateful = [node.name for node in plan.nodes if node.operator.kind == "keyed_aggregate"]
    return Stored(stateful, tables=tables, updating=tables, positions=SOURCES)


def stands_for(plan, name):
    """What an operator is, by what no program's order changes: its kind, what it reads, and the tables behind it."""
    nodes = {node.name: node for node in plan.nodes}
    ends = [table.name for table in plan.tables if reads(nodes, table.stream.operator, name)]
    return nodes[name].operator.kind, [source for source in SOURCES if reads(nodes, name, source)], ends


def reads(nodes, name, other):
    return name == other or any(reads(nodes, stream.operator, other) for stream in nodes[name].inputs)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.permutations(SOURCES), min_size=1, max_size=3), st.data(), st.booleans())
def test_unions_in_another_order_are_the_same(orders, data, keyed):
    others = [data.draw(st.permutations(order)) for order in orders]
    before, after = flow(*orders, keyed=keyed), flow(*others, keyed=keyed)
    found = match(before, after).operators
    assert len(found) == len(after.nodes)
    for name, was in found.items():
        assert stands_for(after, name) == stands_for(before, was)
    assert [verdict for verdict in judge(before, after, stored(before)) if verdict.level is Level.DECISION] == []


@pytest.mark.parametrize("shape", ["diamonds", "chain"])
def test_large_plans_are_compared_in_no_time(shape):
    """Without one step for each way through the diamonds (2 ** 60), and without one call within another for each operator."""

    def plan(first):
        pipeline = do.Pipeline("p", root="unused")
        rows = pipeline.source("rows", do.FileSource("in", schema="k string, v long")).filter(first)
        for number in range(60 if shape == "diamonds" else 1200):
            diamond = shape == "diamonds"
            rows = rows.filter(f"v > {number}").union(rows.filter(f"v < {number}")) if diamond else rows.select("k", "v")
            if diamond:
                rows = rows.with_columns(k="concat(k, k)")
        rows.key_by("k").aggregate(n="count(*)").to_table("t")
        return pipeline.logical_plan()

    before, after = plan("v > 7"), plan("v > 8")
    aggregate = next(node.name for node in before.nodes if node.operator.kind == "keyed_aggregate")
    verdicts = judge(before, after, Stored([aggregate], tables=["t"], updating=["t"], positions=["rows"]))
    assert {verdict.level for verdict in verdicts} == {Level.FROM_HERE_ON}
