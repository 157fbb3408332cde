"""A job whose ops are of other stages than recorded choices cut: definitions read no storage, so the ops find out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import dagster_operators as do
from dagster_operators.graph.ports import StreamRef
from tests.planner.test_alternatives import Running, Stub

if TYPE_CHECKING:
    from pathlib import Path

    import dagster as dg

pytestmark = pytest.mark.usefixtures("on_sail")

BATCHES = [[{"v": 3}, {"v": 1}], [{"v": 2}]]
KEPT, PASSED = Stub(1e6), Stub(1e9)


def totals(root: Path, costs: Stub) -> do.Pipeline:
    """What runs before the deduplication is a stage of its own if it keeps something, and else a part of that stage."""
    pipeline = do.Pipeline("totals", root=str(root))
    rows = pipeline.source("rows", do.MemorySource([*BATCHES], schema="v long"))
    pipeline.dataflow.add(Running(name="total"), [StreamRef(rows.name)])
    do.Stream(pipeline.dataflow, StreamRef("total")).key_by("v").deduplicate(name="once").to_table("out")
    pipeline.dataflow.cost_model = costs
    return pipeline


@pytest.mark.parametrize(("recorded", "loaded", "values"), [(KEPT, PASSED, [4, 6]), (PASSED, KEPT, [1, 2, 3])])
def test_the_ops_run_the_stages_that_are_recorded(
    tmp_path: Path, instance: dg.DagsterInstance, recorded: Stub, loaded: Stub, values: list[int]
) -> None:
    totals(tmp_path, recorded).run_epoch()
    definitions = do.build_definitions(totals(tmp_path, loaded))
    result = definitions.resolve_job_def("totals_epoch").execute_in_process(instance=instance)
    assert result.success
    pipeline = totals(tmp_path, recorded)
    assert sorted(row["v"] for row in pipeline.read("out").collect()) == values
    decision = pipeline.epochs.coordinator.view().last_decision
    assert decision is not None
    assert [manifest.stage for manifest in decision.manifests] == (["total", "out"] if recorded is KEPT else ["out"])
