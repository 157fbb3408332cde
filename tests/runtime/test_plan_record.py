"""What the ledger says of a stage: whatever gives other rows or files has another fingerprint, so no manifest is taken again."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from dagster_operators import MemorySource, Pipeline
from dagster_operators.operators.relational.changelog import Latest
from dagster_operators.planner.lowering import lower
from dagster_operators.planner.stages import Output, cut_stages
from dagster_operators.runtime.plan_record import _stage, _table
from dagster_operators.transactions.plan import STATE_OF


def recorded(identities: dict[str, str] | None = None, **table: Any) -> str:
    pipeline = Pipeline("p", root="unused")
    rows = pipeline.source("rows", MemorySource([], schema="k string, v long"))
    rows.key_by("k").aggregate(n="count(*)", name="sums").to_table("sums", **table)
    return _stage(cut_stages(pipeline.dataflow)[-1], identities or {}).fingerprint


@pytest.mark.parametrize("other", [
    {"identities": {"sums": "sums_2"}}, {"identities": {"sums": "sums_3"}}, {"change_feed": True}, {"partition_by": ["k"]},
    {"partition_by": ["n"]}, {"change_feed": True, "partition_by": ["k"]}, {"identities": {"rows": "rows_2"}},
], ids=["state", "another state", "feed", "partitions", "other partitions", "feed and partitions", "source"])  # fmt: skip
def test_it_is_another_stage(other: dict[str, Any]) -> None:
    assert recorded(**other) != recorded()


def test_they_are_all_different() -> None:
    made = [
        recorded(identities={"sums": "a"}),
        recorded(identities={"sums": "b"}),
        recorded(partition_by=["k"]),
        recorded(partition_by=["n"]),
    ]
    assert len(set(made)) == 4
    assert recorded() == recorded(identities={"nobody": "else"})


def test_a_table_that_is_only_looked_at_is_no_state() -> None:
    """Roots with ``as_changes(op).latest(k)`` were refused, as their table seemed to have become the state of the operator."""
    pipeline = Pipeline("p", root="unused")
    rows = pipeline.source("rows", MemorySource([], schema="k string, v long, op string"))
    rows.as_changes("op").through(Latest, name="current", keys=("k",)).to_table("beside")
    rows.as_changes("op").through(Latest, name="before", keys=("k",)).select("k", "v").to_table("by_itself")
    rows.key_by("k").top(1, by="v", name="newest").to_table("state")
    made: Any = SimpleNamespace(physical=lower(pipeline.dataflow), schemas={})
    found = {}
    for ref, table in made.physical.tables.items():
        made.schemas[ref] = '{"type": "struct", "fields": []}'
        found[table.name] = json.loads(_table(made, pipeline.dataflow, Output(ref, table.name, table), table, "o").fingerprint)
    assert "beside its table" in str(made.physical.nodes["current"].choice)
    assert made.physical.own_table("current") is None
    assert found["beside"] == found["by_itself"] == {"table": "updating", "keys": ["k"]}
    assert found["state"][STATE_OF] == "o"
