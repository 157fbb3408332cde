"""A process that was thought dead comes back: it must not get anything in."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.conftest import Reference
from tests.crash.processes import KILLED, Launcher
from tests.crash.worker import FENCED

pytestmark = [pytest.mark.crash, pytest.mark.sail]


@pytest.mark.parametrize("place", [
    "stage:half_files",
    "before:append_prepared",
    "before:append_decision",
    "after:append_decision",
    "before:commit_table:4",
    "before:append_complete",
])  # fmt: skip
def test_a_paused_process_is_refused_when_it_goes_on(
    place: str, three: Reference, tmp_path: Path, launch: Callable[..., Launcher]
) -> None:
    launcher, root = launch(three.feed), tmp_path / "root"
    zombie = launcher.start(root, stop=place, lease_seconds=0.6)
    zombie.wait_until_stopped()
    launcher.run(root, wait_seconds=60, lease_seconds=0.6)
    three.check(root)
    zombie.go_on()
    assert zombie.end() == FENCED, zombie.tail()
    assert zombie.lines()[-1].startswith("fenced")
    shutil.rmtree(root / "manifests")  # one that was written too late may lie there, which nobody looks at
    three.check(root)


@pytest.mark.parametrize("place", ["after:append_generation", "after:append_begin", "before:create_table:3"])
def test_one_that_has_begun_nothing_starts_anew(
    place: str, three: Reference, tmp_path: Path, launch: Callable[..., Launcher]
) -> None:
    launcher, root = launch(three.feed), tmp_path / "root"
    zombie = launcher.start(root, stop=place, lease_seconds=0.6)
    zombie.wait_until_stopped()
    launcher.run(root, wait_seconds=60, lease_seconds=0.6, rounds=1)
    zombie.go_on()
    assert zombie.end() == 0, zombie.tail()
    assert zombie.reached()["after:append_generation"] == 2
    three.check(root)


@pytest.mark.parametrize("place", ["stage:half_files#9", "before:commit_table:4"])
def test_it_comes_back_while_the_other_is_at_work(
    place: str, three: Reference, tmp_path: Path, launch: Callable[..., Launcher]
) -> None:
    launcher, root = launch(three.feed), tmp_path / "root"
    zombie = launcher.start(root, stop=place, lease_seconds=0.6)
    zombie.wait_until_stopped()
    other = launcher.start(root, stop="after:append_generation", wait_seconds=60, lease_seconds=0.6)
    other.wait_until_stopped()
    zombie.go_on()
    other.go_on()
    assert zombie.end() == FENCED, zombie.tail()
    assert other.end() == 0, other.tail()
    three.check(root)


def test_after_the_completion_it_only_tidies_up(three: Reference, tmp_path: Path, launch: Callable[..., Launcher]) -> None:
    launcher, root = launch(three.feed), tmp_path / "root"
    zombie = launcher.start(root, stop="after:append_complete", lease_seconds=0.6)
    zombie.wait_until_stopped()
    launcher.run(root, wait_seconds=60, lease_seconds=0.6)
    zombie.go_on()
    assert zombie.end() == 0, zombie.tail()
    three.check(root)


def test_a_killed_process_is_replaced_at_once(three: Reference, tmp_path: Path, launch: Callable[..., Launcher]) -> None:
    launcher, root = launch(three.feed), tmp_path / "root"
    first = launcher.start(root, stop="before:append_decision", lease_seconds=3600)
    first.wait_until_stopped()
    os.kill(first.pid, signal.SIGKILL)
    assert first.end() == KILLED
    launcher.run(root, wait_seconds=0, lease_seconds=3600)
    three.check(root)
