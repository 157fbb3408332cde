"""The times that operators hold at their outputs, in manifests and in the ledger."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from dagster_operators.errors import LedgerError
from dagster_operators.time import FINISHED, Frontier, Product
from dagster_operators.transactions.codec import from_json, to_json
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.manifest import Manifest
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.plan import PlanRecord, Slices
from dagster_operators.transactions.records import Begin
from tests.transactions.flow import Flow

EARLY, LATE = Frontier([Product(5, 1), Product(3, 4)]), Frontier([Product(6, 0)])


class Holding(Flow):
    """A flow whose first stage has an operator that holds times."""

    told: dict | None = None

    def work(self, attempt):
        manifest = super().work(attempt)
        if attempt.stage != "clean" or self.told is None:
            return manifest
        return replace(manifest, watermarks={**manifest.watermarks, "keeper": 3}, held=self.told)


def test_what_is_held_lasts_until_the_operator_says_something_else(tmp_path):
    with Coordinator("numbers", str(tmp_path)) as run:
        flow = Holding(run)
        flow.told = {"keeper": EARLY, "keeper.side": LATE}
        assert flow.epoch().held == {"keeper": EARLY, "keeper.side": LATE}
        flow.told = {"keeper": FINISHED, "keeper.side": LATE}
        assert flow.epoch().held == {"keeper": FINISHED, "keeper.side": LATE}
        flow.told = None
        assert flow.epoch().held == {"keeper": FINISHED, "keeper.side": LATE}, "it said nothing"
        flow.told = {}
        assert flow.epoch().held == {}, "it said by its watermark all there is to say"


def test_an_epoch_begins_with_what_is_held_and_hands_it_on(tmp_path):
    with Coordinator("numbers", str(tmp_path)) as run:
        flow = Holding(run)
        flow.told = {"keeper": EARLY}
        flow.epoch()
    with Coordinator("numbers", str(tmp_path)) as run:
        flow = Holding(run)
        run.open(Owner.of_process("test"))
        handle = run.begin(flow.plan, flow.choose)
        begun: list[Mapping[str, Frontier]] = []
        run.prepare(handle, "clean", lambda attempt: begun.append(attempt.begin.held) or flow.work(attempt))
        assert begun == [{"keeper": EARLY}]
        assert run.view().open_begin.held == {"keeper": EARLY}


def test_records_that_hold_nothing_are_those_of_format_1():
    manifest = Manifest("p", 1, "clean", "g1-0a", "f")
    assert "held" not in json.loads(manifest.to_json())
    begin = Begin(1, 1, "b", Slices(), {}, {}, PlanRecord("p", ()))
    assert "held" not in json.loads(to_json(begin))
    old = json.dumps({**json.loads(manifest.to_json()), "format": 1})
    assert Manifest.from_json(old).held == {}


@pytest.mark.parametrize("held", [{"keeper": [0.5]}, {"keeper": 3}, {"keeper": [{"outer": 1}]}, [1]])
def test_damaged_times_are_found_when_they_are_read(held):
    text = json.dumps({**json.loads(to_json(Begin(1, 1, "b", Slices(), {}, {}, PlanRecord("p", ())))), "held": held})
    with pytest.raises(LedgerError, match=r"Begin\.held"):
        from_json(Begin, text)
