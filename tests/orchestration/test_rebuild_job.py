"""Tables computed anew by a run of Dagster."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

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
