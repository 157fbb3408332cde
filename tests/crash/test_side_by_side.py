"""Kills and pauses a process in the midst of stages that run side by side; whoever goes on comes to the same tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.conftest import Reference
from tests.crash.flow import STAGES
from tests.crash.processes import Launcher
from tests.crash.worker import FENCED

pytestmark = [pytest.mark.crash, pytest.mark.sail]

PLACES = ("stage:half_files", "before:write_manifest", "after:write_manifest", "before:append_prepared", "after:append_prepared")


def test_they_reach_what_they_reach_one_after_another(three: Reference, tmp_path: Path, launch: Callable[..., Launcher]) -> None:
    """The same places; some more often, since a record is written again when another stage's came first."""
    launcher, root = launch(three.feed), tmp_path / "root"
    reached = launcher.run(root, concurrent_stages=3).reached()
    assert reached.keys() == three.reached.keys()
    assert reached >= three.reached
    three.check(root)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("number", range(1, STAGES + 1))
def test_killed_at_any_stage(place: str, number: int, two: Reference, tmp_path: Path, launch: Callable[..., Launcher]) -> None:
    """In the second epoch; the first to recover dies too, as far as it still gets there."""
    launcher, root = launch(two.feed), tmp_path / "root"
    launcher.run_until_killed(root, f"{place}#{number}", epoch=2, concurrent_stages=3)
    left = launcher.start(root, kill=f"{place}#{max(1, (STAGES - number) // 2)}", epoch=2, concurrent_stages=3)
    left.end()
    launcher.run(root, concurrent_stages=3)
    two.check(root)


@pytest.mark.parametrize("place", PLACES)
def test_a_paused_process_is_refused_when_it_goes_on(
    place: str, three: Reference, tmp_path: Path, launch: Callable[..., Launcher]
) -> None:
    launcher, root = launch(three.feed), tmp_path / "root"
    zombie = launcher.start(root, stop=f"{place}#4", lease_seconds=0.6, concurrent_stages=3)
    zombie.wait_until_stopped()
    launcher.run(root, wait_seconds=60, lease_seconds=0.6, concurrent_stages=3)
    zombie.go_on()
    assert zombie.end() == FENCED, zombie.tail()
    three.check(root, woke_up=True)


def test_it_comes_back_while_the_other_is_at_work(three: Reference, tmp_path: Path, launch: Callable[..., Launcher]) -> None:
    launcher, root = launch(three.feed), tmp_path / "root"
    zombie = launcher.start(root, stop="stage:half_files#4", lease_seconds=0.6, concurrent_stages=3)
    zombie.wait_until_stopped()
    other = launcher.start(root, stop="stage:half_files#2", wait_seconds=60, lease_seconds=0.6, concurrent_stages=3)
    other.wait_until_stopped()
    zombie.go_on()
    assert zombie.end() == FENCED, zombie.tail()
    other.go_on()
    assert other.end() == 0, other.tail()
    three.check(root, woke_up=True)
