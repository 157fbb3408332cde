"""Kills processes in the third round of a loop, by the name of stage and round: each goes on there, and nothing is lost."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from dagster_operators.transactions.failpoints import VARIABLE
from tests.engines import SAIL
from tests.forked import PROCESSES
from tests.operators.loops.test_loop import CHAIN, components, expected, labels

pytestmark = [pytest.mark.crash, pytest.mark.sail, pytest.mark.slow, pytest.mark.timeout(600)]

STAGES = ("smallest", "messages", "changes_stream")
KILLS = (
    "stage:half_files@smallest@2",
    "stage:files_written@smallest@2",
    "before:write_manifest@smallest@2",
    "after:write_manifest@smallest@2",
    "before:append_prepared@smallest@2",
    "after:append_prepared@smallest@2",
    "stage:files_written@messages@2",
    "after:append_prepared@changes_stream@2",
    "stage:half_files@smallest@3",
)
"""Each behind the one before it."""


def work(root: str, cache: str, place: str) -> None:
    os.environ[VARIABLE] = place
    os.environ["DAGSTER_OPERATORS_CACHE"] = cache
    components(Path(root), SAIL, CHAIN).run_until_caught_up()


def prepared(root: Path) -> set[str]:
    return set(components(root, SAIL, CHAIN).epochs.coordinator.view().prepared)


def rounds(*numbers: int) -> set[str]:
    return {f"{stage}@{number}" for number in numbers for stage in STAGES}


def test_each_run_goes_on_in_the_round_in_which_the_one_before_died(sail: object, tmp_path: Path) -> None:
    root, done = tmp_path / "root", set[str]()
    for place in KILLS:
        child = PROCESSES.Process(target=work, args=(str(root), str(tmp_path / "cache"), place), daemon=True)
        child.start()
        child.join(200)
        assert child.exitcode == -signal.SIGKILL, place
        now = prepared(root)
        assert done | rounds(0, 1) <= now, "what was prepared before is done again"
        of_third = {key for key in now if key.endswith("@2")}
        assert ("smallest@2" in of_third) == (KILLS.index(place) >= KILLS.index("after:append_prepared@smallest@2"))
        done = now
    assert done == rounds(0, 1, 2) | {"edges", "with_columns"}
    pipeline = components(root, SAIL, CHAIN, parallelism=3)
    pipeline.run_until_caught_up()
    assert labels(pipeline) == expected([*CHAIN[0], *CHAIN[1]])
