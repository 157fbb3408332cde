"""How far time has come in a pipeline's tables, as other pipelines are told that read them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dagster_operators.transactions.codec import from_json, to_json
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.effects import StageAttempt
from dagster_operators.transactions.manifest import Manifest, TableTime
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.rollback import roll_back
from dagster_operators.transactions.transition import Transition
from tests.transactions.flow import Flow


class Timed(Flow):
    """A flow whose table has an event time, or no longer has."""

    timed = True

    def work(self, attempt: StageAttempt) -> Manifest:
        manifest = super().work(attempt)
        time = TableTime("n", 10 * attempt.epoch)
        return replace(manifest, times={"clean": time}) if attempt.stage == "clean" and self.timed else manifest


def after(root: Path, epochs: int) -> tuple[Coordinator, Timed]:
    flow = Timed(Coordinator("numbers", str(root)))
    for _ in range(epochs):
        flow.epoch()
    return flow.run, flow


def test_it_goes_back_with_the_tables(tmp_path: Path) -> None:
    run, _ = after(tmp_path, 3)
    with run:
        assert run.versions().times == {"clean": TableTime("n", 30)}
        assert roll_back(run, 1).times == {"clean": TableTime("n", 10)}


def test_a_table_that_lost_its_event_time_has_none(tmp_path: Path) -> None:
    run, flow = after(tmp_path, 1)
    with run:
        flow.timed = False
        assert flow.epoch().times == {}


@pytest.mark.parametrize(("kind", "times"), [("reset", {"clean": TableTime("n", 10)}), ("rollback", {})])
def test_a_transition_of_an_earlier_version_of_the_package_says_nothing_of_it(tmp_path: Path, kind: Any, times: Any) -> None:
    to = Transition(kind, "")
    assert from_json(Transition, to_json(to)) == to
    assert "times" not in to_json(to)
    run, flow = after(tmp_path, 1)
    with run:
        run.open(Owner.of_process())
        assert run.transit(flow.plan, to, lambda _: ()).times == times


def test_a_transition_keeps_it_as_it_was_told() -> None:
    for times in ({}, {"clean": TableTime("n", 1)}):
        to = Transition("reset", "", times=times)
        assert from_json(Transition, to_json(to)) == to
