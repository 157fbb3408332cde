"""The schedule of a pipeline: starts a run at the times of a cron expression, unless one is going on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from dagster_operators.orchestration.in_progress import work_in_progress
from dagster_operators.orchestration.steps import PipelineSteps

if TYPE_CHECKING:
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition


def epoch_schedule(
    steps: PipelineSteps,
    job: dg.JobDefinition | UnresolvedAssetJobDefinition,
    cron: str,
    execution_timezone: str,
    default_status: dg.DefaultScheduleStatus,
) -> dg.ScheduleDefinition:
    """The schedule ``<pipeline>_schedule``."""

    @dg.schedule(
        name=f"{steps.name}_schedule",
        job=job,
        cron_schedule=cron,
        execution_timezone=execution_timezone,
        default_status=default_status,
        description=f"Runs {steps.name} at the times of {cron!r}",
    )
    def start(context) -> dg.RunRequest | dg.SkipReason:  # type: ignore[no-untyped-def]  # noqa: ANN001  # Dagster takes no other
        busy = work_in_progress(steps, context.instance)
        return dg.SkipReason(busy) if busy is not None else dg.RunRequest(tags=steps.run_tags)

    return start


def maintenance_schedule(
    steps: PipelineSteps,
    job: dg.JobDefinition,
    cron: str,
    execution_timezone: str,
    default_status: dg.DefaultScheduleStatus,
) -> dg.ScheduleDefinition:
    """The schedule ``<pipeline>_maintenance_schedule``; its run waits for one of an epoch by being tried again."""
    return dg.ScheduleDefinition(
        name=f"{steps.name}_maintenance_schedule",
        job=job,
        cron_schedule=cron,
        execution_timezone=execution_timezone,
        default_status=default_status,
        description=f"Deletes what only old epochs of {steps.name} need, at the times of {cron!r}",
    )
