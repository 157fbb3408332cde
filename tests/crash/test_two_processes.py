"""Two processes on one pipeline at once: one works, the other is refused or waits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.conftest import Reference
from tests.crash.processes import Launcher
from tests.crash.worker import BUSY

pytestmark = [pytest.mark.crash, pytest.mark.sail]


@pytest.mark.parametrize("place", ["after:append_generation", "stage:half_files", "after:commit_table:2"])
def test_the_second_is_refused_and_told_who_is_at_work(
    place: str, three: Reference, tmp_path: Path, launch: Callable[..., Launcher]
) -> None:
    launcher, root = launch(three.feed), tmp_path / "root"
    first = launcher.start(root, stop=place)
    first.wait_until_stopped()
    second = launcher.start(root, lease_seconds=600)  # a stopped process gives no sign of life
    assert second.end() == BUSY
    assert f"pid {first.pid}" in second.lines()[-1]
    assert not second.reached()
    first.go_on()
    assert first.end() == 0, first.tail()
    three.check(root)


def test_the_second_waits_and_goes_on_where_the_first_ended(
    three: Reference, tmp_path: Path, launch: Callable[..., Launcher]
) -> None:
    launcher, root = launch(three.feed), tmp_path / "root"
    first = launcher.start(root, stop="stage:half_files", rounds=1)
    first.wait_until_stopped()
    second = launcher.start(root, wait_seconds=60, lease_seconds=600)
    first.go_on()
    assert first.end() == second.end() == 0, second.tail()
    assert second.reached()["after:append_complete"] == 2
    three.check(root)


def test_both_work_in_turns(many: Reference, tmp_path: Path, launch: Callable[..., Launcher]) -> None:
    launcher, root = launch(many.feed), tmp_path / "root"
    children = [launcher.start(root, wait_seconds=120) for _ in range(2)]
    for child in children:
        assert child.end() == 0, child.tail()
    assert sum(child.reached()["after:append_complete"] for child in children) == many.epochs
    many.check(root)


def test_both_start_on_a_new_root(three: Reference, tmp_path: Path, launch: Callable[..., Launcher]) -> None:
    launcher, root = launch(three.feed), tmp_path / "root"
    children = [launcher.start(root) for _ in range(3)]
    codes = [child.end() for child in children]
    assert set(codes) <= {0, BUSY}, [child.tail() for child in children]
    assert 0 in codes
    three.check(root)
