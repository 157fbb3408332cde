"""Tables computed anew by a run of Dagster."""

from __future__ import annotations

from pathlib import Path

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
    result = job.execute_in_process(run_config={"ops": {"rebuild": {"config": {"widen": ["t"]}}}})
    assert result.success
    assert [one.transition.partition(":")[0] for one in now.history()] == ["", "widen t"]
    now.run_epoch()
    assert sorted(row.v for row in now.read("t").collect()) == [1, 2**40]
