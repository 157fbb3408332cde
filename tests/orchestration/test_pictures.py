"""The plan of a program of data sets in Dagster's metadata, and a run that does not fail for it."""

from __future__ import annotations

import logging
from base64 import b64decode
from pathlib import Path

import dagster as dg
import pytest

from dagster_operators import MemorySource, Pipeline, build_definitions
from dagster_operators.orchestration import materialisation
from tests.svg import lines_of

pytestmark = pytest.mark.usefixtures("sail")


def test_the_plan_of_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    pipeline = Pipeline("p", root=str(tmp_path), engine="sail", parallelism=2)
    rows = pipeline.source("rows", MemorySource([[("a", 1)], [("b", 2)], [("c", 3)]], schema="k string, v long"))
    rows.data_set().group_by("k").sum("v").name("sum by k").to_table("sums")
    rows.to_table("kept")
    job = build_definitions(pipeline).resolve_job_def("p_epoch")

    def fails(*_: object) -> str:
        raise OverflowError("too much")

    with dg.DagsterInstance.ephemeral() as instance:

        def plan_of(table: str) -> str | None:
            assert job.execute_in_process(instance=instance).success
            told = instance.get_latest_materialization_event(dg.AssetKey(["p", table]))
            assert told is not None
            assert told.asset_materialization is not None
            assert told.asset_materialization.metadata["rows_in_epoch"].value == 1
            found = told.asset_materialization.metadata.get("plan")
            return None if found is None else str(found.value)

        drawn = plan_of("sums")
        assert drawn is not None
        svg = b64decode(drawn.removeprefix("![plan](data:image/svg+xml;base64,").removesuffix(")"))
        assert "sum by k (GroupReduce)" in [lines[0] for lines in lines_of(svg).values()]
        monkeypatch.setattr(materialisation, "picture", fails)
        with caplog.at_level(logging.WARNING):
            assert plan_of("sums") is None
        assert "the plan of table sums is not shown: OverflowError: too much" in caplog.text
        assert plan_of("kept") is None, "no program of data sets is before it"
