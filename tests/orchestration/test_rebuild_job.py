"""Tables computed anew by a run of Dagster."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

import dagster_operators as do
from tests.orchestration import demo
from tests.orchestration.test_catch_up import catch_up, told

pytestmark = pytest.mark.usefixtures("on_sail")


def test_tables_are_computed_anew_and_reported(folder: Path, instance: dg.DagsterInstance) -> None:
    catch_up(folder, instance)
    before = sorted(map(tuple, demo.pipeline(folder).read("totals").collect()))
    job = demo.reconstructable(folder, "demo_rebuild")
    result = dg.execute_job(job, instance, run_config={"ops": {"rebuild": {"config": {"tables": ["totals"]}}}})
    assert result.success
    assert ("totals", "3") in told(result)
    made = demo.pipeline(folder)
    assert sorted(map(tuple, made.read("totals").collect())) == before
    assert made.history()[-1].transition.startswith("rebuild totals")
    assert catch_up(folder, instance).success


def test_tables_get_wider_types_and_keep_their_rows(tmp_path: Path) -> None:
    def made(kind: str, *batches: list[tuple[int]]) -> do.Pipeline:
        pipeline = do.Pipeline("p", root=str(tmp_path))
        pipeline.source("rows", do.MemorySource(batches, schema=f"v {kind}")).to_table("t")
        return pipeline

    made("int", [(1,)]).run_epoch()
    now = made("bigint", [(1,)], [(2**40,)])
    job = do.build_definitions(now).resolve_job_def("p_rebuild")
    for _ in range(2):  # as it was done already by a run that died behind it
        result = job.execute_in_process(run_config={"ops": {"rebuild": {"config": {"widen": ["t"]}}}})
        assert result.success
    assert [one.transition.partition(":")[0] for one in now.history()] == ["", "widen t"]
    now.run_epoch()
    assert sorted(row.v for row in now.read("t").collect()) == [1, 2**40]


def test_what_rebuilds_is_refused_beside_tables_that_are_only_made_wider(tmp_path: Path) -> None:
    def made(kind: str) -> do.Pipeline:
        pipeline = do.Pipeline("p", root=str(tmp_path))
        source = do.MemorySource([[(1, datetime(2024, 1, 1, 5, tzinfo=UTC))]], schema=f"v {kind}, t timestamp")
        rows = pipeline.source("rows", source, event_time="t")
        rows.to_table("t")
        rows.select("t", name="times").to_table("other")
        return pipeline

    made("int").run_epoch()
    now = made("bigint")
    job = do.build_definitions(now).resolve_job_def("p_rebuild")

    def run(**config: Any) -> dg.ExecuteInProcessResult:
        return job.execute_in_process(run_config={"ops": {"rebuild": {"config": config}}}, raise_on_error=False)

    for more, named in (
        ({"since": "1"}, "since"),
        ({"between": ["2024-01-01", "2024-01-02"], "empty": True}, "between and empty"),
    ):
        result = run(widen=["t"], **more)
        (failure,) = [event.step_failure_data for event in result.all_events if event.is_step_failure]
        told = str(failure.user_failure_data.description if failure.user_failure_data else failure.error)
        assert f"{named} beside widen alone" in told
        assert "leave it out, or name the tables, or operators, that are to be computed anew" in told
    assert len(now.history()) == 1, "nothing was done"
    assert run(widen=["t"], tables=["other"], between=["2024-01-01", "2024-01-02"]).success
    assert [one.transition.partition(":")[0] for one in now.history()][1] == "widen t"
    assert now.history()[-1].transition.startswith("rebuild other of 2024-01-01")
