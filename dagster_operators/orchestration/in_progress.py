"""The runs of a pipeline: is one going on, and which was the last? Sensors and schedules ask before they start another one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import dagster as dg

from dagster_operators.errors import LedgerError
from dagster_operators.orchestration.backfills import backfill_tag, backfilled
from dagster_operators.orchestration.epoch_of_run import begin_tag
from dagster_operators.orchestration.keys import PIPELINE_TAG, ROOT_TAG, pipeline_tag
from dagster_operators.orchestration.steps import PipelineSteps

_GOING_ON: Final = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
_MAY_LACK_TAG: Final = [*_GOING_ON, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
"""What may become of a run before it has its pipeline's tag; a run that succeeds has it."""
_STARTED: Final = {dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING}
_GRACE_SECONDS: Final = 120.0
"""How long a started run may take to reach the ledger, on top of what it may wait there."""
_LOOKED_AT: Final = 100
"""So many runs of all, the newest, are looked at for those of the pipeline that nobody has tagged yet."""
_PAGE: Final = 25
"""So many runs are fetched at a time in search of one."""


def work_in_progress(steps: PipelineSteps, instance: dg.DagsterInstance) -> str | None:
    """What is at work on the pipeline, in words; None when it is free.

    A killed run stays "started" in Dagster for ever: from when it has reached the ledger such a run counts only while its
    heartbeat there does.
    """
    coordinator = steps.observer(instance).coordinator
    try:
        owner = coordinator.owner_at_work()
    except LedgerError:  # one that was removed or replaced since the last look: what is there now counts
        coordinator = steps.observer(instance, anew=True).coordinator
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


def newest_run(instance: dg.DagsterInstance) -> int:
    """The number that Dagster gave to its newest run, of any pipeline or none; 0 if there is none."""
    return max((record.storage_id for record in instance.get_run_records(limit=1)), default=0)


def last_run_of_epochs(steps: PipelineSteps, instance: dg.DagsterInstance, after: int) -> dg.RunRecord | None:
    """The newest run that was to make epochs of the pipeline, whoever asked for it; None if there is none.

    Args:
        steps: The pipeline's.
        instance: Knows the runs.
        after: Dagster's number of a run: only newer ones are looked at.
    """
    tagged = _newest_first(instance, dg.RunsFilter(tags=_own_tag(steps)), after)
    named = _newest_first(instance, dg.RunsFilter(tags={PIPELINE_TAG: steps.name}), after)  # as earlier versions tagged them
    not_begun = _newest_first(instance, dg.RunsFilter(statuses=_MAY_LACK_TAG), after)  # so the assets tell whose they are
    found = (
        next((one for one in tagged if _is_of_epochs(steps, one.dagster_run)), None),
        next((one for one in named if _is_ours(steps, one.dagster_run) and _is_of_epochs(steps, one.dagster_run)), None),
        next((one for one in not_begun if _makes(steps, one.dagster_run) and _is_of_epochs(steps, one.dagster_run)), None),
    )
    return max((one for one in found if one), key=lambda record: record.storage_id, default=None)


def _is_of_epochs(steps: PipelineSteps, run: dg.DagsterRun) -> bool:
    """Whether a run of the pipeline is one of epochs: not of its upkeep, nor a backfill.

    One of its assets alone is known from when it is asked for, one beside assets of others from when it begins.
    """
    others = {f"{steps.name}_{job}" for job in ("rebuild", "change", "maintenance", "repair", "freshness")}
    alone = steps.asset_keys.issuperset(run.asset_selection or ())
    is_backfill = backfill_tag(steps.name) in run.tags or (alone and backfilled(run.tags))
    return run.job_name not in others and not is_backfill


def _makes(steps: PipelineSteps, run: dg.DagsterRun) -> bool:
    """Whether a run was asked for by assets, and some of the pipeline's are among them, or of another one that has such."""
    named = pipeline_tag(steps.name) in run.tags or run.tags.get(PIPELINE_TAG) == steps.name
    others = named and not _is_ours(steps, run)
    return not others and not steps.asset_keys.isdisjoint(run.asset_selection or ())


def _is_ours(steps: PipelineSteps, run: dg.DagsterRun) -> bool:
    """Whether a run is the pipeline's by its tags, and of its root; one that an earlier version has started does not say that."""
    mine = steps.run_tags
    if (root := run.tags.get(pipeline_tag(steps.name))) is not None:
        return root == mine[ROOT_TAG]
    return run.tags.get(PIPELINE_TAG) == steps.name and run.tags.get(ROOT_TAG, mine[ROOT_TAG]) == mine[ROOT_TAG]


def _own_tag(steps: PipelineSteps) -> dict[str, str]:
    """The tag that every run of the pipeline has, also one that is of others too."""
    name = pipeline_tag(steps.name)
    return {name: steps.run_tags[name]}


def _newest_first(instance: dg.DagsterInstance, wanted: dg.RunsFilter, after: int) -> Iterator[dg.RunRecord]:
    """The runs after one that a filter lets through, fetched page by page as they are asked for."""
    cursor: str | None = None
    while records := instance.get_run_records(wanted, limit=_PAGE, cursor=cursor):
        for record in records:
            if record.storage_id <= after:
                return
            yield record
        cursor = records[-1].dagster_run.run_id


def _has_begun(pipeline: str, run: dg.DagsterRun, instance: dg.DagsterInstance) -> bool:
    """Whether a run has begun an epoch: its tag says so, unless it came with those of the run that it re-executes."""
    begun = run.tags.get(begin_tag(pipeline))
    if begun is None or run.parent_run_id is None:
        return begun is not None
    parent = instance.get_run_by_id(run.parent_run_id)
    return parent is not None and parent.tags.get(begin_tag(pipeline)) != begun


def _going_on(steps: PipelineSteps, instance: dg.DagsterInstance) -> Iterator[dg.RunRecord]:
    """The runs of the pipeline that Dagster does not know to be over.

    Those that an automation condition asks for, or that are launched from the asset graph, have the pipeline's tag from when
    they begin; until then, as in a queue, the assets that they are to make tell.
    """
    yield from instance.get_run_records(dg.RunsFilter(tags=_own_tag(steps), statuses=_GOING_ON), limit=25)
    for record in instance.get_run_records(dg.RunsFilter(statuses=_GOING_ON), limit=_LOOKED_AT):
        if _is_ours(steps, record.dagster_run) or _makes(steps, record.dagster_run):
            yield record
