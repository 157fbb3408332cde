"""A backfill of a time range of a pipeline's tables: refused, and what it names instead works."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from tests.orchestration import demo
from tests.orchestration.test_catch_up import catch_up

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
        assert f"a backfill of {named} would leave the tables as they are" in told
        assert "run the job demo_rebuild" in told
    assert len(demo.pipeline(folder).history()) == epochs
    config = {"ops": {"rebuild": {"config": {"tables": ["totals"]}}}}
    assert dg.execute_job(demo.reconstructable(folder, "demo_rebuild"), instance, run_config=config).success
    assert by_day.execute_in_process(instance=instance).success  # what is new, as it says
    assert len(demo.pipeline(folder).history()) == epochs + 2
    scheduled = {"dagster/schedule_name": "daily"}  # of which the partition is only the time
    assert by_day.execute_in_process(instance=instance, partition_key="2024-01-02", tags=scheduled).success
