"""What is read of a stream behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster_operators as do
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.aggregates.keyed_aggregate import KeyedAggregate
from dagster_operators.plans.read_columns import ReadColumns
from dagster_operators.plans.shape import PlanShape

if TYPE_CHECKING:
    import pytest


def counted() -> ReadColumns:
    pipeline = do.Pipeline("p", root="unused")
    rows = pipeline.source("rows", do.MemorySource(schema="k string, v long, w long"))
    rows.key_by("k").aggregate(n="sum(v)", name="counts").to_table("t")
    return ReadColumns(PlanShape(pipeline.logical_plan()))


def test_of_an_aggregate_its_keys_and_what_it_computes_with() -> None:
    assert counted().of(StreamRef("rows")) == {"k", "v"}


def test_of_an_aggregate_that_may_read_all_columns_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeyedAggregate, "reads", lambda *_: [None])
    assert counted().of(StreamRef("rows")) is None
