"""Telling Dagster of completed epochs: each one once, and the last one also when the run that completed it could not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from dagster_operators.orchestration.checks import check_events, check_results
from dagster_operators.orchestration.filled_partitions import filled_partitions
from dagster_operators.orchestration.materialisation import EPOCH, materialisations
from dagster_operators.orchestration.steps import PipelineSteps

if TYPE_CHECKING:
    from dagster_operators.runtime.epochs import Epochs
    from dagster_operators.transactions.records import Complete

Event = dg.AssetMaterialization | dg.AssetCheckEvaluation


def results(steps: PipelineSteps, epochs: Epochs, complete: Complete) -> list[dg.MaterializeResult[None]]:
    """The results of the op whose outputs the assets are."""
    checks: dict[dg.AssetKey | None, list[dg.AssetCheckResult]] = defaultdict(list)
    for check in check_results(steps.tables, complete.checks, complete.epoch):
        checks[check.asset_key].append(check)
    made = materialisations(steps, epochs.coordinator, complete)
    return [materialisation.as_result(checks[materialisation.key]) for materialisation in made]


def events(steps: PipelineSteps, epochs: Epochs, complete: Complete) -> list[Event]:
    """The same as events, for any other op."""
    made = materialisations(steps, epochs.coordinator, complete)
    return [
        *(materialisation.as_event() for materialisation in made),
        *check_events(steps.tables, complete.checks, complete.epoch),
    ]


def of_partitions(steps: PipelineSteps, epochs: Epochs, complete: Complete, partitions: Sequence[str]) -> Iterator[Event]:
    """The tables as events, each for some partitions, of an epoch that computed these anew."""
    tables = {table.key for table in steps.tables.values()}
    for made in materialisations(steps, epochs.coordinator, complete):
        if made.key in tables:
            yield from (made.as_event(partition) for partition in partitions)


def unreported(context: dg.OpExecutionContext, steps: PipelineSteps, epochs: Epochs, before: int) -> Iterator[Event]:
    """What Dagster has not heard of the epoch that was completed last.

    A run may die between the commit and its report, and the next run then rolls forward what was decided; an epoch may also have
    been run without Dagster. The tables are as of that epoch, so Dagster has to know, once.

    Args:
        context: The op's.
        steps: The pipeline.
        epochs: Its epochs.
        before: Look only at an epoch before this one.
    """
    complete = epochs.coordinator.last_complete()
    if complete is None or complete.epoch >= before:
        return
    same = range(epochs.coordinator.past.rows_of(complete), complete.epoch + 1)  # one that only joined files is no news
    missing = {key for key in steps.asset_keys if not _is_reported(context.instance, key, same)}
    if missing:
        context.log.info("Epoch %d was completed before this run and not reported: reporting it now.", complete.epoch)
        for event in (*filled_partitions(context, steps, epochs, complete), *events(steps, epochs, complete)):
            if event.asset_key in missing:
                yield event


def _is_reported(instance: dg.DagsterInstance, key: dg.AssetKey, epochs: range) -> bool:
    event = instance.get_latest_materialization_event(key)
    known = event.asset_materialization if event else None
    return known is not None and (known.tags or {}).get(EPOCH, "") in map(str, epochs)
