"""What was decided about a pipeline, until an epoch carries it out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dagster_operators.errors import LedgerError
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.records import Decide
from tests.transactions.flow import Flow
from tests.transactions.test_repair import epochs

ASKED = ("operator sums", "asked")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Coordinator]:
    """A run that has the pipeline after two epochs."""
    epochs(tmp_path, 2)
    with Coordinator("numbers", str(tmp_path)) as run:
        run.open(Owner.of_process("test"))
        yield run


def decide(run: Coordinator, choice: str) -> None:
    run.decide(Decide(0, 0, ASKED[0], choice, ASKED[1]))  # type: ignore[arg-type]


def test_the_last_decision_about_a_question_holds(run: Coordinator) -> None:
    for choice in ("keep", "restart", "keep", "restart", "restart"):
        decide(run, choice)
        assert run.view().decided == {ASKED: choice}
    assert len(run.view().decisions) == 4
    decide(run, "withdraw")
    assert run.view().decided == {}


def test_an_epoch_ends_what_was_decided_before_it(run: Coordinator) -> None:
    decide(run, "restart")
    Flow(run).epoch()
    assert run.view().decided == {}


def test_an_epoch_that_began_before_something_was_decided_begins_anew(run: Coordinator) -> None:
    flow = Flow(run)
    handle = run.begin(flow.plan, flow.choose)
    assert handle is not None
    for stage in flow.plan.stages:
        run.prepare(handle, stage.name, flow.work)
    decide(run, "restart")
    with pytest.raises(LedgerError, match=r"decided about the pipeline since the epoch began.*start a new run"):
        run.commit(handle)
    assert run.view().decided == {ASKED: "restart"}
    assert flow.epoch().epoch == 3
