"""Rows that an engine writes elsewhere are no epoch without rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import pytest

import dagster_operators as do
from dagster_operators.errors import StageFailedError
from dagster_operators.runtime.stages import reach, staged_files
from tests.engines import SAIL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_an_engine_that_writes_elsewhere_fails_the_epoch(
    tmp_path: Path, sail: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine's disk is another one; an epoch without rows is none of its faults, and leaves no file of the question."""

    def elsewhere(session: SparkSession, uri: str) -> str:
        return uri.replace("root", "elsewhere")

    pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource([[{"v": 1}], [{"v": 2}]], schema="v long"))
    rows.filter("v < 0").to_table("none")
    rows.filter("v > 0").to_table("all", checks={"small": do.Check("v < 9")})
    monkeypatch.setattr(reach, "_REACHED", WeakKeyDictionary())
    with monkeypatch.context() as patch:
        patch.setattr(staged_files, "writer_path", elsewhere)
        patch.setattr(reach, "writer_path", elsewhere)
        with pytest.raises(StageFailedError, match="wrote a row, and no file of it is in the storage root"):
            pipeline.run_epoch()
    assert [pipeline.run_epoch().rows for _ in range(2)] == [{"none": 0, "all": 1}] * 2
    assert not list((tmp_path / "root").rglob("probe"))


def test_a_count_of_the_engine_that_its_files_do_not_hold_fails_the_epoch(
    tmp_path: Path, sail: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource([[{"v": 1}]], schema="v long"))
    rows.to_table("all", checks={"small": do.Check("v < 9")})
    monkeypatch.setattr("dagster_operators.runtime.stages.stage_outputs.StageOutputs._counts", lambda *_: [0, 2])
    with pytest.raises(StageFailedError, match="the engine counted 2, the files hold 1"):
        pipeline.run_epoch()
