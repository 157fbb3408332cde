"""Dagster's real daemon starts the runs, and starts them again that were killed or have failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.scheduler.instigation import InstigatorTick, TickStatus

from dagster_operators.runtime.engine import ENGINE_VARIABLE
from tests.end_to_end.dagster_daemon import dagster_daemon
from tests.end_to_end.served import FOLDER
from tests.end_to_end.served_daemon import STARTED_BY, pipeline
from tests.orchestration import demo

pytestmark = [pytest.mark.sail, pytest.mark.slow, pytest.mark.timeout(900)]
MODULE = "tests.end_to_end.served_daemon"


def until(condition: Callable[[], bool], told: Callable[[], object], seconds: float = 400) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, told()
        time.sleep(0.5)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def kept(home: Path) -> Iterator[dg.DagsterInstance]:
    """What the daemon's Dagster knows."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        yield instance


def runs(instance: dg.DagsterInstance) -> list[str]:
    """The states of all runs, oldest first."""
    return [record.dagster_run.status.value for record in reversed(instance.get_run_records())]


def ticks(instance: dg.DagsterInstance, sensor: str) -> list[InstigatorTick]:
    """What a sensor has done, oldest first."""
    (state,) = [state for state in instance.all_instigator_state() if state.instigator_name == sensor]
    found = instance.get_ticks(state.instigator_origin_id, state.selector_id)
    return [tick for tick in reversed(found) if tick.status is not TickStatus.STARTED]


@pytest.mark.crash
@pytest.mark.parametrize("place", ["stage:files_written", "before:commit_table:1"], ids=["before the decision", "after it"])
def test_a_run_that_is_killed_with_the_daemon_is_brought_home_within_two_ticks(
    place: str, tmp_path: Path, home: Path, kept: dg.DagsterInstance
) -> None:
    """As a node that goes away with the pods of both: nobody has put the run down as over."""
    demo.drop(tmp_path, 0, [("a", 1), ("b", 2)])
    hang = tmp_path / f"hang {place}"
    hang.touch()
    environment = {FOLDER: str(tmp_path), ENGINE_VARIABLE: "sail", STARTED_BY: "sensor"}

    def at_work() -> bool:
        return pipeline(tmp_path).epochs.coordinator.owner_at_work() is not None

    with dagster_daemon(MODULE, home, environment):
        until(lambda: runs(kept) == ["STARTED"] and at_work(), lambda: runs(kept))
        time.sleep(3)  # until it hangs
    assert runs(kept) == ["STARTED"]
    assert not pipeline(tmp_path).history()
    hang.unlink()
    before = len(ticks(kept, "demo_sensor"))
    with dagster_daemon(MODULE, home, environment):
        until(lambda: len(runs(kept)) == 2, lambda: ticks(kept, "demo_sensor")[before:])
        until(lambda: runs(kept)[-1] == "SUCCESS", lambda: runs(kept))
        looked = ticks(kept, "demo_sensor")[before:]
    (started,) = [number for number, tick in enumerate(looked, 1) if tick.run_ids]
    assert started <= 2, [tick.skip_reason for tick in looked]
    assert [complete.rows["clean"] for complete in pipeline(tmp_path).history()] == [2]


def test_a_run_that_dagsters_automation_started_and_that_failed_is_started_again(
    tmp_path: Path, home: Path, kept: dg.DagsterInstance
) -> None:
    demo.drop(tmp_path, 0, [("a", 1), ("b", 2)])
    fail = tmp_path / "fail stage:files_written"
    fail.touch()
    environment = {FOLDER: str(tmp_path), ENGINE_VARIABLE: "sail", STARTED_BY: "automation"}
    rows = dg.AssetKey(["demo", "rows"])

    def asked_again() -> bool:
        """Whether the sensor asked for the rows that a failed run left. Two runs may be under way: the first tick asks, too."""
        latest = kept.fetch_materializations(rows, limit=1).records
        return bool(latest) and "left to do" in latest[0].asset_materialization.metadata

    with dagster_daemon(MODULE, home, environment):
        until(asked_again, lambda: (runs(kept), ticks(kept, "demo_sources")))
        fail.unlink()
        until(lambda: "SUCCESS" in runs(kept), lambda: (runs(kept), ticks(kept, "demo_sources")))
    assert [complete.rows["clean"] for complete in pipeline(tmp_path).history()] == [2]
    again, *_, first = kept.fetch_materializations(rows, limit=10).records
    assert "offers rows up to" in first.asset_materialization.metadata
    assert "left to do" in again.asset_materialization.metadata
    tags = [record.dagster_run.tags for record in kept.get_run_records()]
    assert all(each["dagster/from_automation_condition"] == "true" for each in tags)
