"""What was decided about a pipeline, until an epoch carries it out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dagster_operators.errors import LedgerError
from dagster_operators.runtime.resetting import Resetting
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.effects import StageAttempt
from dagster_operators.transactions.failpoints import watch
from dagster_operators.transactions.manifest import Change, Manifest
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.records import Decide
from dagster_operators.transactions.rollback import roll_back
from tests.transactions.flow import Flow, read_numbers, write_file
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


def test_going_back_would_forget_what_waits_for_the_next_epoch(run: Coordinator) -> None:
    decide(run, "restart")
    for again in (lambda: roll_back(run, 1), lambda: Resetting(run).reset(["numbers"], 1, "keep")):
        with pytest.raises(LedgerError, match=r"operator sums takes effect.*pipeline.withdraw\('operator sums'\)"):
            again()
    decide(run, "withdraw")
    assert roll_back(run, 1).epoch == 3


class DiedError(Exception):
    pass


def next_epoch(run: Coordinator) -> None:
    assert Flow(run).epoch() is not None


def go_back(run: Coordinator) -> None:
    roll_back(run, 2)


@pytest.mark.parametrize("place", ["before:append_drop", "before:drop_dataset"])
@pytest.mark.parametrize("then", [Coordinator.settle, next_epoch, go_back])
def test_what_an_epoch_no_longer_needs_is_deleted_by_whatever_comes_after_it(
    run: Coordinator, place: str, then: Callable[[Coordinator], object]
) -> None:
    """Also if that is no epoch of its run, or begins with another plan, or is the run itself again."""
    flow = Flow(run)
    flow.plan = replace(flow.plan, datasets={**flow.plan.datasets, "tables/extra": flow.plan.datasets["tables/clean"]})
    flow.epoch()
    flow = Flow(run)
    flow.plan = replace(flow.plan, deleted=("tables/extra",))

    def reached(name: str) -> None:
        if name.startswith(place):
            raise DiedError

    with watch(reached), pytest.raises(DiedError):
        flow.epoch()
    assert run.versions().epoch == 4
    assert run.root.exists("tables/extra")
    then(run)
    assert "tables/extra" not in run.view().versions
    assert not run.root.exists("tables/extra")


@pytest.mark.parametrize("how_far", ["begun", "prepared", "complete"])
def test_a_table_that_was_made_anew_is_not_deleted_by_a_run_that_stood_still(run: Coordinator, how_far: str) -> None:
    """It comes to the deletion of what its epoch no longer needed when a later epoch has such a table again."""
    plain = Flow(run).plan
    with_extra = replace(plain, datasets={**plain.datasets, "tables/extra": plain.datasets["tables/clean"]})
    stood: list[str] = []

    def work(attempt: StageAttempt) -> Manifest:
        made = Flow(run).work(attempt)
        if attempt.stage != "clean":
            return made
        file = write_file(run, "tables/extra", attempt.directory(""), "part-0", [attempt.epoch])
        return replace(made, changes=(*made.changes, Change("tables/extra", (file,))))

    flow = Flow(run)
    flow.plan, flow.work = with_extra, work  # type: ignore[method-assign]
    flow.epoch()

    def stand(name: str) -> None:
        if not name.startswith("before:drop_dataset") or stood:
            return
        stood.append(name)
        with Coordinator("numbers", run.root.uri) as other:
            later = Flow(other)
            later.epoch(run.view().owner)
            assert not run.root.exists("tables/extra")
            handle = other.begin(with_extra, later.choose)
            assert handle is not None
            for stage in with_extra.stages if how_far != "begun" else ():
                other.prepare(handle, stage.name, work)
            if how_far == "complete":
                other.commit(handle)

    flow = Flow(run)
    flow.plan = replace(plain, deleted=("tables/extra",))
    with watch(stand):
        flow.epoch()
    assert stood
    flow = Flow(run)
    flow.plan, flow.work = with_extra, work  # type: ignore[method-assign]
    flow.epoch()
    versions = run.versions()
    epochs = list(range(6, versions.epoch + 1))
    assert read_numbers(run, "tables/extra", versions.versions["tables/extra"]) == epochs
    assert epochs == ([6, 7] if how_far == "complete" else [6])
