"""The sensor of a pipeline: starts a run when a source holds something new. It looks without an engine."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_operators.orchestration.in_progress import work_in_progress
from dagster_operators.orchestration.keys import PIPELINE_TAG
from dagster_operators.orchestration.steps import PipelineSteps
from dagster_operators.orchestration.tries import NEWS_TAG, judge

if TYPE_CHECKING:
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

    from dagster_operators.runtime.epochs import Epochs


def news_sensor(
    steps: PipelineSteps,
    job: dg.JobDefinition | UnresolvedAssetJobDefinition,
    minimum_interval_seconds: int,
    default_status: dg.DefaultSensorStatus,
) -> dg.SensorDefinition:
    """The sensor ``<pipeline>_sensor``.

    For the same news it starts a second run only when the first was killed or failed for a reason that may pass, and a few times
    at most. The cursor holds what the last run was asked for.
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
        news = _news(steps.observer(context.instance))
        if not (news["sources"] or news["decided"] or news.get("changes")):
            return dg.SkipReason(f"Nothing new after epoch {news['epoch']} in {', '.join(steps.keys.inputs)}")
        key = f"{steps.name}:{news['epoch'] + 1}:{_digest(news)}"
        verdict = judge(context.instance, key)
        if verdict.reason:
            return dg.SkipReason(f"{verdict.reason} ({_in_words(news)})")
        run_key = f"{key}:{verdict.number}" if verdict.number else key
        request = dg.RunRequest(run_key=run_key, tags={PIPELINE_TAG: steps.name, NEWS_TAG: key})
        return dg.SensorResult(run_requests=[request], cursor=json.dumps({"run_key": run_key, **news}, sort_keys=True))

    return look


def _news(epochs: Epochs) -> dict[str, Any]:
    """What there is to do: the last completed epoch, the sources with something new, whether an epoch waits to be carried out.

    With what was decided about changes of the pipeline, if something was.
    """
    view, waiting = epochs.coordinator.view(), epochs.waiting()
    found = {"epoch": view.last_epoch, "sources": epochs.has_news(), "decided": view.decision is not None}
    return {**found, "changes": dict(waiting)} if waiting else found


def _digest(news: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(news, sort_keys=True).encode()).hexdigest()[:16]


def _in_words(news: dict[str, Any]) -> str:
    sources = [f"{name} up to {json.dumps(end)}" for name, end in news["sources"].items()]
    changes = [f"{subject}: {choice}" for subject, choice in news.get("changes", {}).items()]
    return ", ".join([*sources, *changes, *(["an epoch that is decided and not complete"] if news["decided"] else [])])
