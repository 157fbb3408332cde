"""What columns are made of is found out once for each operator, however long the chain behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster_operators as do
from dagster_operators.graph.ports import StreamRef
from dagster_operators.plans.provenance import Provenance
from dagster_operators.plans.shape import PlanShape

if TYPE_CHECKING:
    import pytest


def test_a_chain_of_aggregates_is_gone_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    length = 50
    pipeline = do.Pipeline("p", root="unused")
    stream = pipeline.source("rows", do.MemorySource([], schema="k long, a long"))
    for number in range(length):
        stream = stream.key_by("k").aggregate(a="sum(a)", name=f"sum_{number}")
    stream.to_table("t")
    looked = []
    before = Provenance._before
    monkeypatch.setattr(Provenance, "_before", lambda self, node, name: looked.append(node.name) or before(self, node, name))
    made_of = Provenance(PlanShape(pipeline.logical_plan()), {})
    assert {made_of.of(StreamRef(f"sum_{number}"), "K") for number in range(length)} == {"rows.k"}
    assert len(looked) <= len(pipeline.logical_plan().nodes)
