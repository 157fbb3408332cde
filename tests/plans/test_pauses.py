"""Since when something did not run, and what it missed: over plans and positions alone."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import dagster_operators as do
from dagster_operators.plans.logical_plan import LogicalPlan
from dagster_operators.plans.pauses import PastEpoch, Pause, find_pauses

SCHEMA = "k string, v long"
PARTS = ("one", "two", "table")


def plan(*parts: str, key: str = "k", aggregate: str = "count(*)", renamed: str = "") -> LogicalPlan:
    """Two sources, of which an operator counts the union; its table and the second source may be missing."""
    pipeline = do.Pipeline("p", root="unused")
    one, two = (pipeline.source(name, do.FileSource(f"{name}/*.csv", schema=SCHEMA)) for name in ("one", "two"))
    one.to_table("copy")
    rows = (one.union(two) if "two" in parts else one).with_columns(k=key)
    name = {"name": "counts_by_k", "renamed_from": "per_key"} if renamed else {"name": "per_key"}
    if "operator" in parts:
        counts = rows.key_by("k").aggregate(n=aggregate, **name)
        if "table" in parts:
            counts.to_table("counts")
    return pipeline.logical_plan()


RAN = plan("operator", "table")


def past(number: int, ran: LogicalPlan, one: int, **identities: str) -> PastEpoch:
    return PastEpoch(number, ran, {"one": (one, "f")}, identities)


def pauses(after: LogicalPlan, *epochs: PastEpoch, now: Mapping[str, int], name: str = "per_key") -> tuple[Pause, Pause]:
    standing = {source: (position, "f") for source, position in now.items()}
    found = find_pauses(after, epochs, standing, {name: lambda _: True}, ["table counts"])
    return found.operators[name], found.ends["table counts"]


@pytest.mark.parametrize("without", [(), ("operator",)], ids=["taken out", "line stays"])
@pytest.mark.parametrize(("position", "missed"), [(4, False), (5, True)])
def test_what_came_since_the_last_epoch_that_ran_it(without: tuple[str, ...], position: int, *, missed: bool) -> None:
    found = pauses(RAN, past(9, plan(*without), position), past(7, RAN, 4), past(3, RAN, 2), now={"one": position})
    assert [(one.epoch, one.missed, one.harmless) for one in found] == [(7, missed, not missed)] * 2


def test_a_source_that_it_comes_to_read_has_been_read_already() -> None:
    after = plan("operator", "table", "two")
    assert [one.missed for one in pauses(after, past(7, RAN, 4), now={"one": 4})] == [False, False]
    assert [one.missed for one in pauses(after, past(7, RAN, 4), now={"one": 4, "two": 1})] == [True, True]


def test_other_keys_and_settings_than_when_it_ran() -> None:
    operator, table = pauses(plan("operator", "table", key="upper(k)"), past(7, RAN, 4), now={"one": 4})
    assert "'k'" in operator.changed
    assert table.changed
    operator, table = pauses(plan("operator", "table", aggregate="sum(v)"), past(7, RAN, 4), now={"one": 4})
    assert (operator.means_another, table.means_another) == (True, True)
    assert not operator.harmless


def test_it_is_called_otherwise_now() -> None:
    after = plan("operator", "table", renamed="yes")
    operator, table = pauses(after, past(7, RAN, 4, per_key="per_key_2"), now={"one": 4}, name="counts_by_k")
    assert (operator.former, operator.identity, operator.harmless) == ("per_key", "per_key_2", True)
    assert not table.means_another


def test_state_under_a_name_that_another_operator_uses() -> None:
    found = find_pauses(RAN, [past(7, RAN, 4), past(6, RAN, 3, per_key="old")], {}, {"per_key": lambda name: name == "old"}, [])
    assert found.operators["per_key"].epoch == 6
