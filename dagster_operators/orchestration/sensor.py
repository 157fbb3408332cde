"""The sensors of a pipeline: one starts a run when a source holds something new, one only tells of it. They need no engine."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

import dagster as dg

from dagster_operators.orchestration.in_progress import work_in_progress
from dagster_operators.orchestration.keys import PIPELINE_TAG
from dagster_operators.orchestration.materialisation import DATA_VERSION
from dagster_operators.orchestration.steps import PipelineSteps
from dagster_operators.orchestration.tries import NEWS_TAG, judge

if TYPE_CHECKING:
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

    from dagster_operators.runtime.epochs import Epochs


_TOLD: Final = "told"


def news_sensor(
    steps: PipelineSteps,
    job: dg.JobDefinition | UnresolvedAssetJobDefinition,
    minimum_interval_seconds: int,
    default_status: dg.DefaultSensorStatus,
) -> dg.SensorDefinition:
    """The sensor ``<pipeline>_sensor``.

    For the same news it starts a second run only when the first was killed or failed for a reason that may pass, and a few times
    at most. The cursor holds what the last run was asked for, and what Dagster was told of the sources.
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
        told = _told(context.cursor)
        cursor = {"run_key": run_key, **news, _TOLD: told | news["sources"]}
        return dg.SensorResult(
            run_requests=[request], asset_events=_updates(steps, news, told), cursor=json.dumps(cursor, sort_keys=True)
        )

    return look


def source_sensor(
    steps: PipelineSteps, minimum_interval_seconds: int, default_status: dg.DefaultSensorStatus
) -> dg.SensorDefinition:
    """The sensor ``<pipeline>_sources``, which starts nothing: Dagster's automation conditions say what the news lead to."""

    @dg.sensor(
        name=f"{steps.name}_sources",
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
        description=f"Tells of what sources of {steps.name} newly hold",
    )
    def look(context) -> dg.SensorResult | dg.SkipReason:  # type: ignore[no-untyped-def]  # noqa: ANN001  # Dagster takes no other
        news, told = _news(steps.observer(context.instance)), _told(context.cursor)
        updates = _updates(steps, news, told)
        if not updates:
            return dg.SkipReason(f"The sources hold nothing that was not told, after epoch {news['epoch']}")
        cursor = json.dumps({_TOLD: told | news["sources"]}, sort_keys=True)
        return dg.SensorResult(asset_events=updates, cursor=cursor)

    return look


def _told(cursor: str | None) -> dict[str, Any]:
    """What each source held when Dagster was told of it last."""
    found: dict[str, Any] = json.loads(cursor).get(_TOLD, {}) if cursor else {}
    return found


def _own_sources(steps: PipelineSteps) -> dict[str, dg.AssetKey]:
    """The sources whose assets are nobody else's, who would tell of them."""
    return {name: key for name, key in steps.keys.inputs.items() if name not in steps.keys.theirs}


def _updates(steps: PipelineSteps, news: dict[str, Any], told: dict[str, Any]) -> list[dg.AssetMaterialization]:
    """The sources that hold something new that Dagster was not told of.

    Of an external asset that is a materialization: of what is merely observed Dagster's automation conditions see nothing.
    """
    found, own = [], _own_sources(steps)
    for name, offered in news["sources"].items():
        if name in own and told.get(name) != offered:
            metadata = {"offers rows up to": dg.MetadataValue.json({"position": offered}), "after epoch": news["epoch"]}
            tags = {DATA_VERSION: _digest({"position": offered})}
            found.append(dg.AssetMaterialization(own[name], metadata=metadata, tags=tags))
    return found


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
