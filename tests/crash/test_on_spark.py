"""The same on Apache Spark: a chain of kills, each met by the process that recovers from the one before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dagster_operators.runtime.engine import ENGINE_VARIABLE
from tests.crash import flow
from tests.crash.conftest import Reference
from tests.crash.processes import Launcher
from tests.engines import CONNECT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

Kills = Sequence[tuple[str, int]]


def killed_one_after_the_other(kills: Kills, root: Path, launcher: Launcher) -> None:
    for place, epoch in kills:
        launcher.run_until_killed(root, place, epoch=epoch)


def test_killed_with_its_embedded_spark(
    spark: SparkSession, two: Reference, tmp_path: Path, launch: Callable[..., Launcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few kills, and the last run is in this process: each other one starts a Java of its own, which takes most of the time."""
    assert spark
    kills = [("before:commit_table:4", 1), ("stage:half_files#4", 2)]
    killed_one_after_the_other(kills, tmp_path / "root", launch(two.feed, engine="local[2]", patience=400))
    monkeypatch.setenv(ENGINE_VARIABLE, "local[2]")
    flow.build(str(tmp_path / "root"), str(two.feed)).run_until_caught_up()
    two.check(tmp_path / "root")


def test_killed_while_its_spark_lives_on(
    connect: SparkSession, two: Reference, tmp_path: Path, launch: Callable[..., Launcher]
) -> None:
    assert connect
    kills = [
        ("stage:half_files#4", 1),
        ("before:append_decision", 1),
        ("before:commit_table:4", 1),
        ("before:append_complete", 1),
        ("stage:files_written#5", 2),
        ("after:append_decision", 2),
    ]
    launcher = launch(two.feed, engine=str(CONNECT.remote), patience=400)
    killed_one_after_the_other(kills, tmp_path / "root", launcher)
    launcher.run(tmp_path / "root")
    two.check(tmp_path / "root")
