"""The same on Apache Spark: a chain of kills, each met by the process that recovers from the one before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.crash.conftest import Reference
from tests.crash.processes import Launcher
from tests.engines import CONNECT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

Kills = Sequence[tuple[str, int]]


def killed_and_run_again(kills: Kills, reference: Reference, root: Path, launcher: Launcher) -> None:
    for place, epoch in kills:
        launcher.run_until_killed(root, place, epoch=epoch)
    launcher.run(root)
    reference.check(root)


def test_killed_with_its_embedded_spark(two: Reference, tmp_path: Path, launch: Callable[..., Launcher]) -> None:
    """Few kills: each process starts a Java of its own, which takes most of the time."""
    kills = [("before:commit_table:4", 1), ("stage:half_files#4", 2)]
    killed_and_run_again(kills, two, tmp_path / "root", launch(two.feed, engine="local[2]", patience=400))


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
    killed_and_run_again(kills, two, tmp_path / "root", launch(two.feed, engine=str(CONNECT.remote), patience=400))
