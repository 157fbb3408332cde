"""What is said to be renamed must be renamed from what there was; who mistypes a name is told which there are."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.errors import ChangedPipelineError
from dagster_operators.plans.logical_plan import LogicalPlan
from dagster_operators.plans.renamings import check_known, check_renamings


def plan(source: dict[str, Any], aggregate: dict[str, Any], more: Callable[[Any], object] = lambda _: None) -> LogicalPlan:
    pipeline = do.Pipeline("p", root="unused")
    rows = pipeline.source(connector=do.FileSource("in", schema="k string, v long"), **source)
    rows.key_by("k").aggregate(n="count(*)", **aggregate).to_table("totals")
    more(rows)
    return pipeline.logical_plan()


def check(before: LogicalPlan, after: LogicalPlan, *known: str) -> None:
    check_renamings(before, after)
    check_known(before, after, lambda: known)


BEFORE = plan({"name": "rows"}, {"name": "per_key"})


@pytest.mark.parametrize(
    ("source", "aggregate", "said", "where"),
    [
        ({"name": "rows"}, {"name": "new", "renamed_from": "per_kye"}, "of the last epoch that are gone: 'per_key'", "new"),
        ({"name": "lines", "renamed_from": "row"}, {"name": "per_key"}, "of the last epoch that are gone: 'rows'", "lines"),
        ({"name": "lines"}, {"name": "new", "renamed_from": "rows"}, "was a source and no keyed_aggregate", "new"),
        ({"name": "lines", "renamed_from": "per_key"}, {"name": "x"}, "was a keyed_aggregate and no source", "lines"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(source: Any, aggregate: Any, said: str, where: str) -> None:
    after = plan(source, aggregate)
    with pytest.raises(ChangedPipelineError, match=re.escape(said)) as caught:
        check(BEFORE, after)
    assert where in caught.value.where.values()


def test_who_gives_a_new_one_an_earlier_name_is_told_that_nothing_is_gone() -> None:
    def more(rows: Any) -> None:
        rows.key_by("k").top(1, by="v", name="best", renamed_from="bets").to_table("best")

    with pytest.raises(ChangedPipelineError, match="no operator like it is gone"):
        check(BEFORE, plan({"name": "rows"}, {"name": "per_key"}, more))


@pytest.mark.parametrize("known", [["per_key"], ["new"]])
def test_what_was_there_long_ago_may_have_been_renamed(known: list[str]) -> None:
    without = plan({"name": "rows"}, {"name": "other"})
    after = plan({"name": "rows"}, {"name": "new", "renamed_from": "per_key"})
    check(without, after, *known)


def test_what_is_said_may_stay_in_the_program() -> None:
    renamed = plan({"name": "lines", "renamed_from": "rows"}, {"name": "new", "renamed_from": "per_key"})
    for before in (BEFORE, renamed):
        check(before, renamed)
