"""Many epochs in one run."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import dagster as dg
import pytest

from dagster_operators.errors import StorageError
from dagster_operators.transactions.failpoints import watch
from tests.orchestration import demo

pytestmark = pytest.mark.usefixtures("on_sail")


def catch_up(folder: Path, instance: dg.DagsterInstance, **config: int) -> dg.JobExecutionResult:
    job = demo.reconstructable(folder, "demo_catch_up")
    return dg.execute_job(job, instance, run_config={"ops": {"catch_up": {"config": config}}})


def told(result: dg.JobExecutionResult) -> list[tuple[str, str]]:
    """The tables and epochs that Dagster was told of, in order."""
    events = [event for event in result.all_events if event.event_type is dg.DagsterEventType.ASSET_MATERIALIZATION]
    made = [event.step_materialization_data.materialization for event in events]
    return [(materialization.asset_key.path[-1], (materialization.tags or {})["epoch"]) for materialization in made]


def test_epochs_run_until_there_is_nothing_new(folder: Path, instance: dg.DagsterInstance) -> None:
    demo.drop(folder, 5, [("c", 7)])
    result = catch_up(folder, instance)
    assert result.success
    assert told(result) == [(table, epoch) for epoch in "123" for table in ("clean", "totals", "hourly")]
    assert sorted(demo.pipeline(folder).read("totals").collect()) == [("a", 11), ("b", 2), ("c", 7)]
    lines = [entry.user_message for entry in instance.all_logs(result.run_id) if entry.user_message.startswith("epoch ")]
    assert [line.split(":")[0] for line in lines] == ["epoch 1", "epoch 2", "epoch 3"]
    assert "1 row in clean" in lines[2]
    latest = instance.get_latest_materialization_event(demo.KEYS["clean"])
    assert latest is not None
    assert latest.asset_materialization is not None
    assert (latest.asset_materialization.tags or {})["dagster/data_version"] == "epoch-3"
    assert told(catch_up(folder, instance)) == []


def test_max_epochs_is_the_most(folder: Path, instance: dg.DagsterInstance) -> None:
    assert {epoch for _, epoch in told(catch_up(folder, instance, max_epochs=1))} == {"1"}


def test_checks_are_reported_and_a_blocking_one_ends_the_run(folder: Path, instance: dg.DagsterInstance) -> None:
    demo.drop(folder, 3, [("long", 0)])
    result = catch_up(folder, instance)
    assert not result.success
    assert {epoch for _, epoch in told(result)} == {"1"}
    found = [(evaluation.check_name, evaluation.passed) for evaluation in result.get_asset_check_evaluations()]
    assert found == [("positive", True), ("short", True), ("positive", False), ("short", False)]
    assert demo.pipeline(folder).repair_all("ours") == []  # nobody waits for the run, which is over


def test_a_retry_goes_on_with_the_epoch_under_way(folder: Path, instance: dg.DagsterInstance) -> None:
    passed = []

    def fail(name: str) -> None:
        passed.append(name)
        if passed.count("before:commit_table:2") == 2:
            passed.append("failed")
            if passed.count("failed") == 1:
                raise StorageError("the disk is gone")

    with watch(fail):
        result = catch_up(folder, instance)
    assert result.success
    assert dict.fromkeys(told(result)) == dict.fromkeys(
        (table, epoch) for epoch in "12" for table in ("clean", "totals", "hourly")
    )
    assert sorted(demo.pipeline(folder).read("totals").collect()) == [("a", 11), ("b", 2)]


@pytest.mark.slow
def test_terminated_it_keeps_what_is_complete_and_can_go_on(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    for hour in range(4, 24):
        demo.drop(folder, hour, [("a", 1)])
    home = tmp_path_factory.mktemp("home")
    program = (
        "import sys; from pathlib import Path; import dagster as dg; from tests.orchestration import demo\n"
        "with dg.DagsterInstance.local_temp(sys.argv[2]) as instance:\n"
        "    dg.execute_job(demo.reconstructable(Path(sys.argv[1]), 'demo_catch_up'), instance)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, folder, home], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    coordinator = demo.pipeline(folder).epochs.coordinator
    at = 2
    while process.poll() is None:
        if (last := coordinator.view().last_epoch) >= at:
            process.send_signal(signal.SIGINT)
            at = last + 4  # a signal is lost that comes as Python ends an object, or outside of Dagster's handlers
        time.sleep(0.02)
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        (ended,) = instance.get_runs()
        assert ended.is_finished
        assert ended.status is not dg.DagsterRunStatus.SUCCESS
        done = coordinator.view().last_epoch
        assert 2 <= done < 22
        assert catch_up(folder, instance).success
    assert sorted(demo.pipeline(folder).read("totals").collect()) == [("a", 31), ("b", 2)]
    assert [complete.epoch for complete in demo.pipeline(folder).history()] == list(range(1, 23))
