"""A backfill of a time range of a pipeline's tables computes it anew, or is refused, and what it names instead works."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.automation_tick_evaluation_context import build_run_requests_with_backfill_policies
from dagster._core.definitions.events import AssetKeyPartitionKey
from dagster._core.definitions.reconstruct import ReconstructableRepository

import dagster_operators as do
from dagster_operators.orchestration.in_progress import last_run_of_epochs
from dagster_operators.orchestration.keys import AssetKeys
from dagster_operators.orchestration.options import Options
from dagster_operators.orchestration.steps import PipelineSteps
from tests.orchestration import demo
from tests.orchestration.test_catch_up import catch_up
from tests.orchestration.test_sinks import Kept

pytestmark = pytest.mark.usefixtures("on_sail")


def test_a_backfill_of_a_day_is_refused_and_the_rebuild_job_is_named(folder: Path, instance: dg.DagsterInstance) -> None:
    assert catch_up(folder, instance).success
    epochs = len(demo.pipeline(folder).history())
    days = dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-02-01")
    defs = demo.definitions(folder).map_asset_specs(func=lambda spec: spec.replace_attributes(partitions_def=days))
    job = dg.define_asset_job(
        "by_day", selection=dg.AssetSelection.assets(*(demo.KEYS[name] for name in ("clean", "totals", "hourly")))
    )
    by_day = dg.Definitions.merge(defs, dg.Definitions(jobs=[job])).resolve_job_def("by_day")
    demo.drop(folder, 4, [("c", 1)])
    days_of = {"dagster/asset_partition_range_start": "2024-01-02", "dagster/asset_partition_range_end": "2024-01-03"}
    for day, tags, named in (
        ("2024-01-02", {"dagster/backfill": "kqpz"}, "2024-01-02"),
        ("2024-01-02", {}, "2024-01-02"),  # chosen by hand, which Dagster would show as materialised
        (None, days_of, "2024-01-02 to 2024-01-03"),  # a range that is launched as a single run has no backfill
    ):
        result = by_day.execute_in_process(instance=instance, partition_key=day, tags=tags, raise_on_error=False)
        assert not result.success
        assert not result.get_asset_materialization_events()
        (failure, *_) = [event.step_failure_data for event in result.all_events if event.is_step_failure]
        told = str(failure.user_failure_data.description if failure.user_failure_data else failure.error)
        assert f"a backfill of {named} of totals would leave the tables as they are: no time range of it can be computed" in told
        assert "run the job demo_rebuild" in told
    assert len(demo.pipeline(folder).history()) == epochs
    config = {"ops": {"rebuild": {"config": {"tables": ["totals"]}}}}
    assert dg.execute_job(demo.reconstructable(folder, "demo_rebuild"), instance, run_config=config).success
    config = {"ops": {"rebuild": {"config": {"tables": ["hourly"], "between": ["2024-01-01", "2024-01-02"]}}}}
    assert dg.execute_job(demo.reconstructable(folder, "demo_rebuild"), instance, run_config=config).success
    assert demo.pipeline(folder).history()[-1].transition.startswith("rebuild hourly of 2024-01-01T00:00:00Z to ")
    assert by_day.execute_in_process(instance=instance).success  # what is new, as it says
    assert len(demo.pipeline(folder).history()) == epochs + 3
    scheduled = {"dagster/schedule_name": "daily"}  # of which the partition is only the time
    assert by_day.execute_in_process(instance=instance, partition_key="2024-01-02", tags=scheduled).success


def daily(folder: Path, least: int = 0, more: Callable[[do.Stream], object] = lambda _: None) -> do.Pipeline:
    made = do.Pipeline("daily", root=str(folder / "daily"))
    source = do.FileSource(str(folder / "in"), format="json", schema=demo.SCHEMA)
    some = made.source("rows", source, event_time="t", lateness="1 hour").filter(f"v > {least}", name="some")
    some.to_table("clean")
    some.key_by("k").window(do.Tumbling("1 hour")).aggregate(n="count(*)", name="counts").to_table("hourly")
    more(some)
    return made


@pytest.mark.parametrize("tags", [
    {"dagster/backfill": "kqpz"},
    {"dagster/asset_partition_range_start": "2024-01-01-02:00", "dagster/asset_partition_range_end": "2024-01-01-03:00"},
], ids=["a partition", "a range"])  # fmt: skip
def test_a_backfill_of_partitions_computes_them_anew(folder: Path, instance: dg.DagsterInstance, tags: dict[str, str]) -> None:
    for hour in range(6):
        demo.drop(folder, hour, [("a", 1), ("b", 5)])
    daily(folder).run_until_caught_up()
    hours = dg.HourlyPartitionsDefinition("2024-01-01-00:00", end_date="2024-01-02-00:00")
    defs = do.build_definitions(daily(folder, least=4)).map_asset_specs(
        func=lambda spec: spec.replace_attributes(partitions_def=hours)
    )
    keys = [dg.AssetKey(["daily", name]) for name in ("clean", "hourly")]
    job = dg.define_asset_job("by_hour", selection=dg.AssetSelection.assets(*keys))
    by_hour = dg.Definitions.merge(defs, dg.Definitions(jobs=[job])).resolve_job_def("by_hour")
    whole = "dagster/backfill" not in tags
    result = by_hour.execute_in_process(instance=instance, partition_key=None if whole else "2024-01-01-02:00", tags=tags)
    done = ["2024-01-01-02:00", "2024-01-01-03:00"] if whole else ["2024-01-01-02:00"]
    told = [event.materialization for event in result.get_asset_materialization_events()]
    assert [(one.asset_key, one.partition) for one in told] == [(key, hour) for key in keys for hour in done]
    for key in keys:
        assert instance.get_materialized_partitions(key) == set(done)
    made = daily(folder, least=4)
    rows: Counter[Any] = Counter(row.t.hour for row in made.read("clean").collect())
    assert rows == {hour: 1 if f"2024-01-01-{hour:02}:00" in done else 2 for hour in range(6)}
    assert len(made.history()) == 2
    assert by_hour.execute_in_process(instance=instance, tags={"dagster/schedule_name": "x"}).success  # nothing is new
    assert len(made.history()) == 2


_BY_HOUR = """
import sys
from pathlib import Path
import dagster as dg
import dagster_operators as do
from tests.orchestration.test_backfills import daily

hours = dg.HourlyPartitionsDefinition("2024-01-01-01:00", end_date="2024-01-02-00:00")
made = do.build_definitions(daily(Path(__file__).parent))
defs = made.map_asset_specs(func=lambda spec: spec.replace_attributes(partitions_def=hours))
"""


_ENDS = ("2024-01-01T06:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z")


def test_an_epoch_reports_the_partitions_that_it_fills(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    (tmp_path / "location.py").write_text(_BY_HOUR)
    location = ReconstructableRepository.for_file(str(tmp_path / "location.py"), "defs", working_directory=str(Path.cwd()))
    told: set[int] = set()
    for name, filled in {"daily_epoch": {0, 1, 4}, "daily_catch_up": {2, 6}}.items():
        for hour in filled:
            demo.drop(tmp_path, hour, [("a", 1), ("b", 5)])
        if 6 in filled:  # the last run: times that no calendar goes beyond stand between others
            lines = "".join(f'{{"k": "c", "v": 1, "t": "{time}"}}\n' for time in _ENDS)
            (tmp_path / "in" / "006.json").write_text(lines)
        assert dg.execute_job(location.get_reconstructable_job(name), instance).success
        told |= filled - {0}  # which is before the partitions
        key = dg.AssetKey(["daily", "clean"])
        assert instance.get_materialized_partitions(key) == {f"2024-01-01-{hour:02}:00" for hour in told}


def by_hour_beside_others(folder: Path, made: do.Pipeline, *, partitioned: bool = True) -> tuple[dg.JobDefinition, list[Any]]:
    """A job of a pipeline, and of an asset behind it that is backfilled in the same run; and what that one saw."""
    hours = dg.HourlyPartitionsDefinition("2024-01-01-00:00", end_date="2024-01-02-00:00")
    defs = do.build_definitions(made)
    if partitioned:
        defs = defs.map_asset_specs(func=lambda spec: spec.replace_attributes(partitions_def=hours))
    seen: list[Any] = []

    @dg.asset(
        deps=[["daily", name] for name in made.tables], partitions_def=hours, backfill_policy=dg.BackfillPolicy.single_run()
    )
    def report() -> None:
        seen.append(sorted((row["t"].hour, row["v"]) for row in made.to_arrow("clean").to_pylist()))

    job = dg.define_asset_job("all", selection=dg.AssetSelection.all())
    return dg.Definitions.merge(defs, dg.Definitions(assets=[report], jobs=[job])).resolve_job_def("all"), seen


def beside_others(job: dg.JobDefinition, made: do.Pipeline, instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    """The run of a partition, as it is launched from the asset graph."""
    keys = [dg.AssetKey("report"), *(dg.AssetKey(["daily", name]) for name in made.tables)]
    return job.execute_in_process(instance=instance, partition_key="2024-01-01-02:00", asset_selection=keys, raise_on_error=False)


def epochs_run(made: do.Pipeline, instance: dg.DagsterInstance) -> str | None:
    """The id of the last run of the pipeline's epochs, by which its sensor goes."""
    last = last_run_of_epochs(PipelineSteps(made, AssetKeys(made), Options()), instance, 0)
    return last.dagster_run.run_id if last else None


def hours_told(result: dg.ExecuteInProcessResult) -> dict[str, list[str | None]]:
    told: dict[str, list[str | None]] = {}
    for event in result.get_asset_materialization_events():
        told.setdefault((event.asset_key or dg.AssetKey("")).to_user_string(), []).append(event.partition)
    return told


@pytest.mark.parametrize("tags", [
    {},  # a partition that is chosen by hand
    {"dagster/asset_partition_range_start": "2024-01-01-02:00", "dagster/asset_partition_range_end": "2024-01-01-03:00"},
], ids=["a partition", "a range"])  # fmt: skip
def test_a_backfill_beside_assets_of_others_computes_the_partitions_anew_and_they_go_on_behind_it(
    folder: Path, instance: dg.DagsterInstance, tags: dict[str, str]
) -> None:
    """It read what was new, and told Dagster of the partitions."""
    for hour in range(4):
        demo.drop(folder, hour, [("a", 1), ("b", 5)])

    def with_sink(least: int) -> do.Pipeline:
        return daily(folder, least, lambda some: some.to_sink(Kept(), name="kept"))

    with_sink(0).run_until_caught_up()
    demo.drop(folder, 9, [("new", 9)])  # which is for an epoch
    job, seen = by_hour_beside_others(folder, with_sink(4))
    result = job.execute_in_process(instance=instance, tags=tags, partition_key=None if tags else "2024-01-01-02:00")
    done = {2, 3} if tags else {2}
    rows = sorted((hour, v) for hour in range(4) for v in (1, 5) if v > 4 or hour not in done)
    assert seen == [rows]
    keys = [f"2024-01-01-{hour:02}:00" for hour in sorted(done)]
    assert hours_told(result) == {"daily/clean": keys, "daily/hourly": keys, "report": keys}, "nothing is handed to the sink"
    assert job.execute_in_process(instance=instance, tags={"dagster/schedule_name": "x"}, partition_key=keys[0]).success
    assert seen[-1] == [*rows, (9, 9)]


def test_beside_partitioned_assets_of_others_tables_without_partitions_have_an_epoch(
    folder: Path, instance: dg.DagsterInstance
) -> None:
    made = daily(folder)
    job, seen = by_hour_beside_others(folder, made, partitioned=False)
    result = beside_others(job, made, instance)
    assert epochs_run(made, instance) == result.run_id
    assert hours_told(result) == {"daily/clean": [None], "daily/hourly": [None], "report": ["2024-01-01-02:00"]}
    assert seen == [[(0, 1), (0, 2), (3, 10)]]


def test_beside_assets_of_others_what_cannot_be_computed_anew_is_refused_and_told_of_no_partition(
    folder: Path, instance: dg.DagsterInstance
) -> None:
    made = daily(folder, more=lambda some: some.key_by("k").aggregate(n="count(*)", name="all").to_table("totals"))
    made.run_until_caught_up()
    job, seen = by_hour_beside_others(folder, made)
    result = beside_others(job, made, instance)
    assert not result.success
    assert epochs_run(made, instance) is None, "the sensor's next run is for the news, whatever became of this one"
    assert (hours_told(result), seen) == ({}, [])
    (failure,) = [event.step_failure_data for event in result.all_events if event.is_step_failure]
    assert failure.user_failure_data is not None
    assert "run the job daily_rebuild" in str(failure.user_failure_data.description)
    config = {"ops": {"rebuild": {"config": {"tables": ["totals"]}}}}
    rebuild = do.build_definitions(made).resolve_job_def("daily_rebuild")
    assert rebuild.execute_in_process(instance=instance, run_config=config).success


def test_a_backfill_of_partitions_is_one_run_for_those_that_follow_one_another(
    folder: Path, instance: dg.DagsterInstance
) -> None:
    """With a run for each, all but one would wait. Assets of others have their own."""
    hours = dg.HourlyPartitionsDefinition("2024-01-01-00:00", end_date="2024-01-02-00:00")
    made = do.build_definitions(daily(folder)).map_asset_specs(func=lambda spec: spec.replace_attributes(partitions_def=hours))
    keys = [dg.AssetKey(["daily", name]) for name in ("clean", "hourly")]
    report = dg.asset(name="report", partitions_def=hours, deps=keys)(lambda: None)
    defs = dg.Definitions.merge(made, dg.Definitions(assets=[report]))
    wanted = [f"2024-01-01-{hour:02}:00" for hour in (2, 3, 4, 7)]
    asked = build_run_requests_with_backfill_policies(
        [AssetKeyPartitionKey(key, hour) for key in [*keys, report.key] for hour in wanted],
        asset_graph=defs.resolve_asset_graph(),
        dynamic_partitions_store=instance,
    )
    ours = [request for request in asked if set(request.asset_selection or ()) == set(keys)]
    assert [
        (request.tags["dagster/asset_partition_range_start"], request.tags["dagster/asset_partition_range_end"])
        for request in ours
    ] == [(wanted[0], wanted[2]), (wanted[3], wanted[3])]
    theirs = [request for request in asked if request not in ours]
    assert {tuple(request.asset_selection or ()) for request in theirs} == {(report.key,)}
    assert sorted(request.partition_key or "" for request in theirs) == wanted, "no policy: a run for each"
