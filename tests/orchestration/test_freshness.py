"""Checks on how far behind the clock tables are: by watermark, else by the last epoch; no engine is started for them."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

import dagster_operators as do
from dagster_operators.errors import PipelineError
from dagster_operators.orchestration.freshness import _result, age_of
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.manifest import TableTime
from tests.orchestration import demo
from tests.transactions.flow import Flow

if TYPE_CHECKING:
    from pathlib import Path


def complete(**times: int) -> Any:
    return SimpleNamespace(epoch=7, committed_at=1000.0, times={name: TableTime("t", mark) for name, mark in times.items()})


def test_how_old_a_table_is() -> None:
    last = complete(hourly=940_000_000, never=MIN_WATERMARK, done=MAX_WATERMARK, ahead=2_000_000_000)
    ages = {name: age_of(last, name, 1060.0).seconds for name in ("hourly", "plain", "never", "done", "ahead")}
    assert ages == {"hourly": 120.0, "plain": 60.0, "never": None, "done": 0.0, "ahead": 0.0}
    assert age_of(last, "ahead", 1060.0).ahead == 940.0
    assert age_of(last, "hourly", 1060.0).told == "t is complete up to 1970-01-01T00:15:40Z"
    assert age_of(None, "hourly", 1060.0).seconds is None


@pytest.mark.usefixtures("on_sail")
def test_maintenance_brings_nothing_new(tmp_path: Path) -> None:
    pipeline = do.Pipeline("numbers", root=str(tmp_path))
    pipeline.source("numbers", do.MemorySource([[{"n": 1}], [{"n": 2}]], schema="n long")).to_table("clean")
    for _ in range(2):
        pipeline.run_epoch()
    run = pipeline.epochs.coordinator
    first, second = run.history()
    assert run.past.last_computed() == second
    assert pipeline.compact() is not None
    assert run.past.last_computed() == second
    pipeline.rollback(1)
    assert run.past.last_computed() == first
    age = age_of(run.last_complete(), "clean", first.committed_at + 60, run.past.last_computed())
    assert (age.seconds, age.told.partition(" was")[0]) == (60.0, "epoch 1")


def test_a_row_ahead_of_the_clock_does_not_make_a_table_fresh() -> None:
    last = complete(day=(1000 + 86_400) * 1_000_000, minute=1060 * 1_000_000)
    found = {table: _result(dg.AssetKey(table), age_of(last, table, 1000.0), 7200.0) for table in ("day", "minute")}
    assert {table: one.passed for table, one in found.items()} == {"day": False, "minute": True}
    assert "1 d ahead of the clock" in str(found["day"].description)
    assert "event_time_ahead='1 day'" in str(found["day"].description)


def definitions(root: Path, **more: Any) -> dg.Definitions:
    pipeline = do.Pipeline("numbers", root=str(root))
    numbers = pipeline.source("numbers", do.MemorySource(schema="n long"))
    numbers.to_table("clean")
    numbers.filter("n > 1", name="some").to_table("sums")
    return do.build_definitions(pipeline, **more)


def checked(defs: dg.Definitions, instance: dg.DagsterInstance) -> dict[str, dg.AssetCheckEvaluation]:
    done = defs.resolve_job_def("numbers_freshness").execute_in_process(instance=instance)
    return {one.asset_key.path[-1]: one for one in done.get_asset_check_evaluations()}


def test_the_job_tells_which_tables_are_behind(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    defs = definitions(tmp_path, freshness={"clean": "1 hour", "numbers.sums": timedelta(microseconds=1)})
    assert {table: one.passed for table, one in checked(defs, instance).items()} == {"clean": False, "sums": False}
    with Coordinator("numbers", str(tmp_path)) as run:
        assert Flow(run, last=1).epoch()
    time.sleep(0.01)
    found = checked(defs, instance)
    assert {table: one.passed for table, one in found.items()} == {"clean": True, "sums": False}
    assert str(found["sums"].description).startswith("epoch 1 was complete at 2")
    assert defs.resolve_schedule_def("numbers_freshness_schedule").cron_schedule == "*/15 * * * *"


def test_epochs_run_without_them(tmp_path: Path) -> None:
    defs = definitions(tmp_path, freshness="1 hour")
    with_them, without = (one.resolve_job_def("numbers_epoch") for one in (defs, definitions(tmp_path)))
    assert [node.name for node in with_them.nodes] == [node.name for node in without.nodes]


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"freshness names 'other', which is no table.*clean, sums, numbers.clean"):
        definitions(tmp_path, freshness={"other": "1 hour"})
    with pytest.raises(PipelineError, match=r"freshness: .*2 hours"):
        definitions(tmp_path, freshness="soon")
    for none in (7200, "0 hours", timedelta(0), {"clean": 7200}, True):
        with pytest.raises(PipelineError, match=r"freshness: .*no span of time.*'2 hours', or give a timedelta"):
            definitions(tmp_path, freshness=none)
    with pytest.raises(PipelineError, match="compact is 'yes', not True or False"):
        definitions(tmp_path, compact="yes")
    pipeline = do.Pipeline("p", root=str(tmp_path))
    pipeline.source("numbers", do.MemorySource(schema="n long")).to_table("clean", checks={"fresh": "n > 0"})
    with pytest.raises(PipelineError, match="a check is called 'fresh'"):
        do.build_definitions(pipeline, freshness="1 hour")


@pytest.mark.usefixtures("on_sail")
def test_the_watermark_counts_where_there_is_one(folder: Path, instance: dg.DagsterInstance) -> None:
    defs = do.build_definitions(demo.pipeline(folder), freshness={"hourly": "2 hours", "clean": "10000000 days"})
    assert defs.resolve_job_def("demo_epoch").execute_in_process(instance=instance).success
    done = defs.resolve_job_def("demo_freshness").execute_in_process(instance=instance)
    found = {one.asset_key.path[-1]: one for one in done.get_asset_check_evaluations()}
    assert {table: one.passed for table, one in found.items()} == {"clean": True, "hourly": False}
    assert str(found["clean"].description).startswith("t is complete up to 2023-12-31T23:00:00Z")
    assert re.search(r"T23:00:00Z, [\d,]+ d( \d+ h)? behind; 2 h are allowed$", str(found["hourly"].description))
