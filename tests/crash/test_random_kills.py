"""Kills the process at random moments, again and again, while it works through many epochs."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.conftest import Reference
from tests.crash.processes import KILLED, Launcher

pytestmark = [pytest.mark.crash, pytest.mark.sail, pytest.mark.slow]

KILLS = int(os.environ.get("DAGSTER_OPERATORS_KILLS", "8"))
"""So many are made with stages one by one, and again with stages side by side; ``make soak`` makes many more."""

SEED = int(os.environ.get("DAGSTER_OPERATORS_SEED", str(random.randrange(10**6))))  # noqa: S311


@pytest.mark.parametrize("concurrent_stages", [1, 3])
def test_killed_at_random_moments(
    concurrent_stages: int, many: Reference, tmp_path: Path, launch: Callable[..., Launcher]
) -> None:
    """A run that gets to the end is checked, and the next one starts on a new root."""
    chance = random.Random(SEED)  # noqa: S311
    kills, roots = 0, 0
    while kills < KILLS:
        roots += 1
        launcher, root = launch(many.feed), tmp_path / f"root-{roots}"
        while kills < KILLS and killed(launcher, root, chance, many, concurrent_stages):
            kills += 1
        try:
            launcher.run(root, concurrent_stages=concurrent_stages)
            many.check(root)
        except AssertionError as error:
            error.add_note(f"DAGSTER_OPERATORS_SEED={SEED}, root {roots}, after {kills} kills")
            raise


def killed(launcher: Launcher, root: Path, chance: random.Random, reference: Reference, concurrent_stages: int) -> bool:
    """Whether a run was killed before it got to the end: after some failpoints and some thousandths of a second."""
    child = launcher.start(root, concurrent_stages=concurrent_stages)
    steps = chance.randrange(sum(reference.reached.values()) // 8)  # so about 16 kills come before the end
    child.comes_to(lambda: len(child.lines()) >= steps)
    time.sleep(chance.uniform(0, 0.05))
    child.kill()
    assert child.process.exitcode in {0, KILLED}, child.tail()
    return child.process.exitcode == KILLED
