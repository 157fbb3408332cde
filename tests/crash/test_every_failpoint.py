"""Kills the process at each named failpoint, and the recovery from that at each it reaches."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dagster_operators.transactions.failpoints import FAILPOINTS
from tests.crash.conftest import Reference
from tests.crash.flow import DATASETS
from tests.crash.processes import Child, Launcher

pytestmark = [pytest.mark.crash, pytest.mark.sail]

# These belong to external participants of a commit, which this pipeline does not have, and to `repair`, `clean` and `decide`,
# which it does not call; tests/transactions kills at them.
ELSEWHERE = {f"{when}:{name}" for when in ("before", "after") for name in (
    "prepare_participant", "commit_participant", "abort_participant", "recover_participant",
    "append_repair", "restore_table", "mend_log", "append_clean", "delete_outdated",
    "append_decide", "append_drop", "drop_dataset",
)}  # fmt: skip
EACH_TABLE = tuple(f"{when}:{name}" for name in ("create_table", "commit_table") for when in ("before", "after"))
ONE_BY_ONE = tuple(name for name in FAILPOINTS if name not in {*ELSEWHERE, *EACH_TABLE})


def test_the_pipeline_reaches_every_failpoint_there_is(three: Reference) -> None:
    numbered = {f"{name}:{index}" for name in EACH_TABLE for index in range(1, len(DATASETS) + 1)}
    assert set(three.reached) == {*ONE_BY_ONE, *numbered}


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_killed_in_the_first_epoch_and_in_a_middle_one(
    name: str, three: Reference, tmp_path: Path, launch: Callable[..., Launcher]
) -> None:
    """In the middle epoch each recovery is killed one such place further: a failpoint of stages is met in every stage."""
    launcher, root = launch(three.feed), tmp_path / "root"
    launcher.run_until_killed(root, name)
    again = name
    for _ in range(times_in_an_epoch(name, three)):
        again = one_further(name, launcher.run_until_killed(root, again, epoch=2))
    launcher.run(root)
    three.check(root)


def times_in_an_epoch(name: str, reference: Reference) -> int:
    times = reference.reached[name]
    return max(times // reference.epochs, 1) if times > 1 else 0


def one_further(name: str, killed: Child) -> str:
    """The next place of that name in the stage that the next run does anew, or the first one in the stage after it."""
    done = [number for number, line in enumerate(killed.lines(), start=1) if line == "after:append_prepared"]
    return f"{name}#{1 + killed.lines()[done[-1] if done else 0 :].count(name)}"


@pytest.mark.parametrize("name", EACH_TABLE)
def test_killed_between_any_two_tables(name: str, three: Reference, tmp_path: Path, launch: Callable[..., Launcher]) -> None:
    """Each recovery is killed at the next table; from the second epoch on tables are only committed to."""
    launcher, root = launch(three.feed), tmp_path / "root"
    for index in range(1, len(DATASETS) + 1):
        launcher.run_until_killed(root, f"{name}:{index}")
    for index in (2, 6) if "commit_table" in name else ():
        launcher.run_until_killed(root, f"{name}:{index}", epoch=2)
    launcher.run(root)
    three.check(root)


@pytest.mark.parametrize(
    ("place", "until"),
    [
        ("stage:half_files#7", "stage:half_files"),  # an epoch that is not decided is taken up
        ("after:append_decision", ""),  # one that is decided is rolled forward
        ("after:append_complete", ""),  # one that is complete is tidied up
    ],
)
def test_killed_again_while_recovering(
    place: str, until: str, three: Reference, tmp_path: Path, launch: Callable[..., Launcher]
) -> None:
    """At each failpoint that the recovery reaches, each time from the same remains of the last epoch."""
    launcher, killed, root = launch(three.feed), tmp_path / "killed", tmp_path / "root"
    launcher.run_until_killed(killed, place, epoch=3)

    def start_over() -> None:
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(killed, root)

    start_over()
    recovery = list(launcher.run(root, rounds=1).reached())
    recovery = recovery[: recovery.index(until)] if until else recovery
    assert {"before:append_generation", "before:delete_attempts"}.issubset(recovery)
    for again in recovery:
        start_over()
        launcher.run_until_killed(root, again)
        launcher.run(root)
        three.check(root)
