"""The runs of a pipeline: is one going on, and which was the last? Sensors and schedules ask before they start another one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

import dagster as dg

from dagster_operators.orchestration.epoch_of_run import begin_tag
from dagster_operators.orchestration.keys import PIPELINE_TAG
from dagster_operators.orchestration.steps import PipelineSteps

_GOING_ON: Final = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
_STARTED: Final = {dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING}
_GRACE_SECONDS: Final = 120.0
"""How long a started run may take to reach the ledger, on top of what it may wait there."""
_LOOKED_AT: Final = 100
"""So many runs of all, the newest, are looked at for those of the pipeline that nobody has tagged yet."""


def work_in_progress(steps: PipelineSteps, instance: dg.DagsterInstance) -> str | None:
    """What is at work on the pipeline, in words; None when it is free.

    A killed run stays "started" in Dagster for ever: from when it has reached the ledger such a run counts only while its
    heartbeat there does.
    """
    coordinator = steps.observer(instance).coordinator
    owner = coordinator.owner_at_work()
    if owner is not None:
        return f"{owner} is working on the pipeline"
    latest, last = time.time() - _GRACE_SECONDS - steps.options.wait_seconds, coordinator.view().owner
    for record in _going_on(steps, instance):
        run = record.dagster_run
        reached = _has_begun(steps.name, run, instance) or (last is not None and last.run_id == run.run_id)
        if run.status not in _STARTED or (not reached and (record.start_time or 0.0) > latest):
            return f"run {run.run_id} ({run.job_name}) is {run.status.value.lower()}"
    return None


def last_run_of_epochs(steps: PipelineSteps, instance: dg.DagsterInstance) -> dg.RunRecord | None:
    """The newest run that was to make epochs of the pipeline, whoever asked for it; None if there is none."""
    others = {f"{steps.name}_{job}" for job in ("rebuild", "maintenance", "repair", "freshness")}
    records = [record for record in _of(steps, instance, None) if record.dagster_run.job_name not in others]
    return max(records, key=lambda record: record.storage_id, default=None)


def _has_begun(pipeline: str, run: dg.DagsterRun, instance: dg.DagsterInstance) -> bool:
    """Whether a run has begun an epoch: its tag says so, unless it came with those of the run that it re-executes."""
    begun = run.tags.get(begin_tag(pipeline))
    if begun is None or run.parent_run_id is None:
        return begun is not None
    parent = instance.get_run_by_id(run.parent_run_id)
    return parent is not None and parent.tags.get(begin_tag(pipeline)) != begun


def _going_on(steps: PipelineSteps, instance: dg.DagsterInstance) -> Iterator[dg.RunRecord]:
    """The runs of the pipeline that Dagster does not know to be over."""
    return _of(steps, instance, _GOING_ON)


def _of(
    steps: PipelineSteps, instance: dg.DagsterInstance, statuses: Sequence[dg.DagsterRunStatus] | None
) -> Iterator[dg.RunRecord]:
    """The newest runs of the pipeline.

    Those that an automation condition asks for, or that are launched from the asset graph, have the pipeline's tag from when
    they begin; until then, as in a queue, the assets that they are to make tell.
    """
    yield from instance.get_run_records(dg.RunsFilter(tags={PIPELINE_TAG: steps.name}, statuses=statuses), limit=25)
    for record in instance.get_run_records(dg.RunsFilter(statuses=statuses), limit=_LOOKED_AT):
        if not steps.asset_keys.isdisjoint(record.dagster_run.asset_selection or ()):
            yield record
