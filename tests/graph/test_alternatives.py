"""The choice among several ways of doing an operator's work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from dagster_operators.errors import PipelineError
from dagster_operators.graph.alternatives import Alternative, Choice, Place, RowsGoToTable, choose
from dagster_operators.graph.operator import LogicalOperator
from dagster_operators.operators.relational.filter import Filter

FILTER = Filter(name="kept", condition="v > 0")
IN_TABLE = Alternative("in its table", "one", (RowsGoToTable(),))
OF_ITS_OWN = Alternative("of its own", "other")
LAST = Alternative("last", "third")


@dataclass(frozen=True)
class Taking:
    """A cost model that takes the way of one name."""

    name: str

    def choose(self, operator: LogicalOperator, alternatives: Sequence[Alternative]) -> tuple[Alternative, str]:
        assert len(alternatives) > 1
        return next((one for one in alternatives if one.name == self.name), Alternative("made up", ())), "cheapest"


def test_the_only_way_is_no_choice() -> None:
    assert choose(FILTER, Place(), [OF_ITS_OWN], Taking("last")) == (OF_ITS_OWN, None)


def test_the_preferred_way_is_taken_unless_its_needs_do_not_hold() -> None:
    both = [IN_TABLE, OF_ITS_OWN]
    assert choose(FILTER, Place(table="t"), both) == (
        IN_TABLE,
        Choice("in its table", "preferred", {"of its own": "not chosen"}),
    )
    told = {"in its table": "needs that its rows go straight to a table"}
    assert choose(FILTER, Place(), both) == (OF_ITS_OWN, Choice("of its own", "the only one that fits", told))


def test_a_cost_model_chooses_among_those_that_fit() -> None:
    ways = [IN_TABLE, OF_ITS_OWN, LAST]
    told = {"in its table": "needs that its rows go straight to a table", "of its own": "not chosen"}
    assert choose(FILTER, Place(), ways, Taking("last")) == (LAST, Choice("last", "cheapest", told, preferred=False))
    assert choose(FILTER, Place(table="t"), ways, Taking("in its table"))[0] == IN_TABLE


@pytest.mark.parametrize(
    ("ways", "problem"),
    [
        ([IN_TABLE, Alternative("in its table", ())], "two alternatives of one name: in its table, in its table"),
        ([IN_TABLE], "no way to run filter here: in its table needs that its rows go straight to a table"),
        ([LAST, OF_ITS_OWN], "the cost model chose .*made up"),
    ],
)
def test_what_cannot_be_chosen_is_refused(ways: list[Alternative], problem: str) -> None:
    with pytest.raises(PipelineError, match=problem) as refused:
        choose(FILTER, Place(), ways, Taking("none"))
    assert refused.value.operator == "kept"
    assert refused.value.remedy
