"""Operators that cannot go on with their state, over plans alone; that the ways out work is tried in end_to_end and stages."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.runtime.homes import elsewhere


def told(body: Callable[[Any], object], table: str | None, kept: set[str]) -> str | None:
    """What is told of the operator ``one``, which has a table or state tables."""
    pipeline = do.Pipeline("p", root="unused")
    body(pipeline.source("rows", do.FileSource("in/*.csv", schema="k string, v long, at timestamp"), event_time="at"))
    ledgered: Any = SimpleNamespace(stateful={"one"}, table_of=lambda _: table, states=lambda _: {"": kept} if kept else {})
    return elsewhere(pipeline.dataflow, {"one": "one", "rows": "rows"}, ledgered).get("one")


def top(rows: Any) -> None:
    rows.key_by("k").top(1, by="v", name="one").to_table("best")


def filtered_top(rows: Any) -> None:
    rows.key_by("k").top(1, by="v", name="one").filter("v > 1").to_table("best")


def counts(rows: Any) -> None:
    rows.key_by("k").aggregate(n="count(*)", name="one").to_table("counts")


def without(rows: Any) -> None:
    rows.to_table("rows_as_they_are")


@pytest.mark.parametrize(
    ("body", "table", "kept", "text"),
    [
        (top, "best", set(), None),
        (top, "other", set(), "its state is the table 'other', and would be the table 'best'"),
        (top, None, {"rows"}, "its state is in state tables, and would be the table 'best'"),
        (filtered_top, "best", set(), "its state is the table 'best', and would be in state tables"),
        (filtered_top, None, {"rows"}, None),
        (counts, None, {"partials"}, None),
        (counts, None, {"waiting"}, "it would keep its state in other state tables"),
        (without, None, {"partials"}, None),
    ],
)
def test_where_state_is(body: Callable[[Any], object], table: str | None, kept: set[str], text: str | None) -> None:
    assert told(body, table, kept) == text
