"""Kills a pipeline over changes at every failpoint it reaches, and at random: the tables are those of a full computation."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dagster_operators.transactions.failpoints import FAILPOINTS
from tests.crash import changes_flow
from tests.crash.conftest import Reference
from tests.crash.processes import Launcher
from tests.crash.soundness import rows_of
from tests.crash.test_every_failpoint import ELSEWHERE
from tests.crash.test_random_kills import SEED, killed

pytestmark = [pytest.mark.crash, pytest.mark.sail, pytest.mark.slow, pytest.mark.timeout(900)]

KILLS = int(os.environ.get("DAGSTER_OPERATORS_KILLS", "6"))
"""At random; ``make soak`` makes many more."""

BEFORE = 2
"""How many epochs are complete before those with kills."""


@pytest.fixture(scope="module")
def changes(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """Five epochs, and what a run that nobody interrupts makes of them: what DuckDB does."""
    reference = Reference(tmp_path_factory.mktemp("changes"), 5, changes_flow)
    check_computed(reference)
    return reference


@pytest.fixture(scope="module")
def begun(changes: Reference, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with the first epochs."""
    folder = tmp_path_factory.mktemp("begun")
    with Launcher(folder, changes.feed, flow=changes.flow) as launcher:
        launcher.run(folder / "root", rounds=BEFORE)
    return folder / "root"


def check_computed(reference: Reference) -> None:
    expected = changes_flow.computed(reference.feed)
    for table, rows in expected.items():
        assert len(rows) > 1, f"{table} is too easy"
        assert reference.rows[f"tables/{table}"] == rows


def test_the_pipeline_reaches_every_failpoint_there_is(changes: Reference) -> None:
    """Those of single tables by number."""
    reached = {name.rstrip("0123456789").rstrip(":") for name in changes.reached}
    assert reached == set(FAILPOINTS) - ELSEWHERE
    state = {name for name in changes.rows if name.startswith("state/")}
    assert state >= {"state/sold.left", "state/sold.right", "state/by_city.weighted"}


@pytest.mark.parametrize("name", sorted(set(FAILPOINTS) - ELSEWHERE))
def test_killed_at(name: str, changes: Reference, begun: Path, tmp_path: Path, launch: Callable[..., Launcher]) -> None:
    """An epoch is killed there the first time that it comes to it, in the middle, and the last time."""
    launcher, root = launch(changes.feed, flow=changes.flow), tmp_path / "root"
    names = sorted(one for one in changes.reached if one == name or one.rpartition(":")[0] == name)
    if names == [name]:
        often = max(changes.reached[name] // changes.epochs, 1)
        places = [f"{name}#{number}" for number in sorted({1, (often + 1) // 2, often})]
    else:
        places = [names[0], names[len(names) // 2], names[-1]]
    if "create" in name:  # all is created in the first epoch
        for place in places:
            launcher.run_until_killed(root, place)
    else:
        shutil.copytree(begun, root)
        launcher.run_until_killed(root, places[-1], epoch=BEFORE + 1)
        for epoch, place in enumerate(places[:-1], start=BEFORE + 2):
            launcher.run_until_killed(root, place, epoch=epoch)
    launcher.run(root)
    changes.check(root)


@pytest.mark.timeout(600 + 20 * KILLS)
@pytest.mark.parametrize("concurrent_stages", [1, 3])
def test_killed_at_random_moments(concurrent_stages: int, tmp_path: Path, launch: Callable[..., Launcher]) -> None:
    """A run that gets to the end is checked, and the next one starts on a new root."""
    many = Reference(tmp_path / "reference", 12, changes_flow)
    check_computed(many)
    chance, kills, roots = random.Random(SEED), 0, 0  # noqa: S311
    while kills < KILLS:
        roots += 1
        launcher, root = launch(many.feed, flow=many.flow), tmp_path / f"root-{roots}"
        while kills < KILLS and killed(launcher, root, chance, many, concurrent_stages):
            kills += 1
        try:
            launcher.run(root, concurrent_stages=concurrent_stages)
            many.check(root)
        except AssertionError as error:
            error.add_note(f"DAGSTER_OPERATORS_SEED={SEED}, root {roots}, after {kills} kills")
            raise
    assert rows_of(root) == many.rows
