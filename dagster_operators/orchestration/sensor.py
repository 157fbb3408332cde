"""The sensors of a pipeline: one starts a run when there is something to do, one tells Dagster of it. They need no engine."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import dagster as dg

from dagster_operators.orchestration.epoch_of_run import found_nothing
from dagster_operators.orchestration.in_progress import last_run_of_epochs, newest_run, work_in_progress
from dagster_operators.orchestration.keys import ROOT_TAG
from dagster_operators.orchestration.news import News, Told
from dagster_operators.orchestration.steps import PipelineSteps
from dagster_operators.orchestration.tries import NEWS_TAG, Verdict, judge, judge_last

if TYPE_CHECKING:
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition


def news_sensor(
    steps: PipelineSteps,
    job: dg.JobDefinition | UnresolvedAssetJobDefinition,
    minimum_interval_seconds: int,
    default_status: dg.DefaultSensorStatus,
) -> dg.SensorDefinition:
    """The sensor ``<pipeline>_sensor``.

    For the same news it starts a second run only when the first was killed, failed for a reason that may pass, or succeeded and
    its epoch is not here (the root was removed or restored), and a few times at most. The cursor holds what the last run was
    asked for, and what Dagster was told of the sources.
    """

    @dg.sensor(
        name=f"{steps.name}_sensor",
        job=job,
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
        description=f"Starts a run when a source of {steps.name} holds something new",
    )
    def look(context) -> dg.SensorResult | dg.SkipReason:  # type: ignore[no-untyped-def]  # noqa: ANN001  # Dagster takes no other
        busy = work_in_progress(steps, context.instance)
        if busy is not None:
            return dg.SkipReason(f"{busy}: looking again when it is done")
        news = News.of(steps, steps.observer(context.instance))
        if not news:
            return dg.SkipReason(f"Nothing new after epoch {news.epoch} in {', '.join(steps.keys.sources)}")
        request = _request(steps, context.instance, news)
        if isinstance(request, dg.SkipReason):
            return request
        told = Told.of(context.cursor)
        events = told.tell(news, time.time(), left=False)
        cursor = json.dumps({"run_key": request.run_key, **news.as_json(), **told.as_json()}, sort_keys=True)
        return dg.SensorResult(run_requests=[request], asset_events=events, cursor=cursor)

    return look


def source_sensor(
    steps: PipelineSteps,
    job: dg.JobDefinition | UnresolvedAssetJobDefinition,
    minimum_interval_seconds: int,
    default_status: dg.DefaultSensorStatus,
) -> dg.SensorDefinition:
    """The sensor ``<pipeline>_sources``: Dagster's automation conditions say what the news that it tells of lead to.

    So does what no source has told: an epoch that waits to be carried out, a change that was decided, operators with work left.
    The first two are told again, after a pause, as long as they wait and nothing is at work: the run may have failed. What no
    epoch has read is told again when the run was killed or failed for a reason that may pass, a few times at most.
    With ``"new input"`` it starts a run for these itself where all sources are others' assets, and it has none to tell of.
    """
    starts = steps.options.automation_condition == "new input" and not News.own(steps)

    @dg.sensor(
        name=f"{steps.name}_sources",
        job=job if starts else None,
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
        description=f"Tells of what sources of {steps.name} newly hold, and of what is left to do",
    )
    def look(context) -> dg.SensorResult | dg.SkipReason:  # type: ignore[no-untyped-def]  # noqa: ANN001  # Dagster takes no other
        busy = work_in_progress(steps, context.instance)
        if busy is not None:
            return dg.SkipReason(f"{busy}: looking again when it is done")
        news, told = News.of(steps, steps.observer(context.instance)), Told.of(context.cursor)
        now = time.time()
        if starts and told.left(news, now):
            request = _request(steps, context.instance, news)
            if isinstance(request, dg.SkipReason):
                return dg.SensorResult(skip_reason=request, cursor=told.as_cursor())
            return dg.SensorResult(run_requests=[request], cursor=told.as_cursor())
        events, unread = told.tell(news, now), told.unread(news, now)
        verdict = None if events or not unread else _tried(steps, context.instance, news, told, now)
        if verdict is not None and not verdict.reason:
            events = [told.reminder(news)]
        if events:
            told.asked = (unread, verdict.tries + 1 if verdict else 1, newest_run(context.instance))
            return dg.SensorResult(asset_events=events, cursor=told.as_cursor())
        nothing = f"The sources hold nothing that was not told, after epoch {news.epoch}"
        reason = f"{verdict.reason} ({news.in_words()})" if verdict else nothing
        return dg.SensorResult(skip_reason=reason, cursor=told.as_cursor())

    return look


def _tried(
    steps: PipelineSteps,
    instance: dg.DagsterInstance,
    news: News,
    told: Told,
    now: float,
) -> Verdict | None:
    """Whether what was told and no epoch has read is to be told again; None while no run was there since."""
    subject, count, before = told.asked
    if subject != told.unread(news, now):  # as an earlier version of the cursor says
        count, before = 1, 0
    last = last_run_of_epochs(steps, instance, after=before)
    if last is None:
        return None
    job, which = f"{steps.name}_epoch", "the last one of the pipeline"
    return judge_last(
        instance, last, count, job, now, which=which, nothing=found_nothing(last.dagster_run, steps.name, news.epoch)
    )


def _request(steps: PipelineSteps, instance: dg.DagsterInstance, news: News) -> dg.RunRequest | dg.SkipReason:
    """The run for some news, unless one for the same ended in a way that another one does not help."""
    key = f"{steps.name}:{news.epoch + 1}:{news.digest(steps.run_tags[ROOT_TAG])}"
    verdict = judge(instance, key, lambda run: found_nothing(run, steps.name, news.epoch))
    if verdict.reason:
        return dg.SkipReason(f"{verdict.reason} ({news.in_words()})")
    run_key = f"{key}:{verdict.last}" if verdict.last else key
    return dg.RunRequest(run_key=run_key, tags={**steps.run_tags, NEWS_TAG: key})
