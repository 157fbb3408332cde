"""What the ledger says of a stage: whatever gives other rows or files has another fingerprint, so no manifest is taken again."""

from __future__ import annotations

from typing import Any

import pytest

from dagster_operators import MemorySource, Pipeline
from dagster_operators.planner.stages import cut_stages
from dagster_operators.runtime.plan_record import _stage


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
