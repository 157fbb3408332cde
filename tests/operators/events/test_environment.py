"""What variables of the environment hold that a file gives an operator."""

from __future__ import annotations

import pytest

from dagster_operators.errors import OperatorFailedError
from dagster_operators.operators.events.environment import environment
from tests.operators.events.dataflows import LOG, dataflow, operator
from tests.operators.events.test_event_program import Driven, rows

SHOWN = {
    "$DO_TEST_HOME/x": "there/x",
    "${DO_TEST_HOME}x": "therex",
    "${DO_TEST_NOT:-else}/x": "else/x",
    "${DO_TEST_HOME:-else}": "there",
    "${DO_TEST_NOT:-}": "",
    "$$DO_TEST_HOME": "$DO_TEST_HOME",
    "5$ and $5": "5$ and $5",
    "${DO_TEST_HOME": "${DO_TEST_HOME",
}


@pytest.mark.parametrize("written", SHOWN)
def test_what_stands_for_another_variable(monkeypatch, written):
    monkeypatch.setenv("DO_TEST_HOME", "there")
    monkeypatch.delenv("DO_TEST_NOT", raising=False)
    assert environment([("PLACE", written)], {}) == {"PLACE": SHOWN[written]}


def test_a_variable_that_is_not_set_is_told_and_the_ways_out_work(monkeypatch):
    monkeypatch.delenv("DO_TEST_NOT", raising=False)

    def told(written):
        text = "import os\n" + LOG.replace("{value}", "{os.environ['PLACE']}")
        made = operator("log", [("n", "numbers/n")], ["log"], env=(("PLACE", written),))
        return Driven(dataflow([made], {"log": text})).epoch(rows(1)).log()

    with pytest.raises(OperatorFailedError, match="no variable 'DO_TEST_NOT', which PLACE names") as caught:
        told("$DO_TEST_NOT/x")
    assert (caught.value.where["node"], caught.value.where["event_operator"]) == ("log", "op")
    assert "${DO_TEST_NOT:-value}" in caught.value.remedy
    assert told("${DO_TEST_NOT:-value}/x") == ["1 INPUT n value/x"]
    assert told("$$DO_TEST_NOT/x") == ["1 INPUT n $DO_TEST_NOT/x"]
