"""A pipeline with a loop as a Dagster job: its stages are ops, and the epoch has as many rounds as it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
import pytest

import dagster_operators as do

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("on_sail")


def halving(root: Path, batches: list[list[dict[str, int]]], limit: int = 100) -> do.Pipeline:
    pipeline = do.Pipeline("numbers", root=str(root))
    start = pipeline.source("start", do.MemorySource(batches, schema="n long"))
    loop = pipeline.loop("halving", limit=limit)
    again = loop.variable("again", "n long")
    halves = loop.enter(start).union(again).filter("n > 1").select("n div 2 AS n", name="halves")
    once = halves.key_by("n").deduplicate(name="once")
    loop.feed(again, once)
    loop.leave(once).to_table("numbers_seen")
    return pipeline


@pytest.mark.parametrize("job", ["numbers_epoch", "numbers_catch_up"])
def test_the_job_runs_all_rounds(tmp_path: Path, instance: dg.DagsterInstance, job: str) -> None:
    pipeline = halving(tmp_path, [[{"n": 40}, {"n": 21}]])
    result = do.build_definitions(pipeline).resolve_job_def(job).execute_in_process(instance=instance)
    assert result.success
    assert sorted(row["n"] for row in pipeline.read("numbers_seen").collect()) == [1, 2, 5, 10, 20]
    assert pipeline.epochs.coordinator.view().last_complete.epoch == 1


def test_a_loop_that_does_not_end_is_not_retried(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    definitions = do.build_definitions(halving(tmp_path, [[{"n": 1000}]], limit=2), retry_policy=dg.RetryPolicy(max_retries=2))
    result = definitions.resolve_job_def("numbers_epoch").execute_in_process(instance=instance, raise_on_error=False)
    assert not result.success
    assert not [event for event in result.all_events if event.event_type is dg.DagsterEventType.STEP_RESTARTED]
    failed = [event for event in result.all_events if event.event_type is dg.DagsterEventType.STEP_FAILURE]
    assert "after 2 rounds" in str(failed[0].step_failure_data)
