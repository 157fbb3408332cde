"""Kills a pipeline that forgets keys, has final rows and leaves change events out: its tables are those of a whole run."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from dagster_operators.graph.changes import ADDS
from dagster_operators.transactions.failpoints import FAILPOINTS
from tests.crash import forgetting_flow
from tests.crash.conftest import Reference
from tests.crash.processes import Launcher
from tests.crash.test_every_failpoint import ELSEWHERE, one_further
from tests.crash.test_random_kills import SEED, killed
from tests.operators.change_logs import plain

pytestmark = [pytest.mark.crash, pytest.mark.sail, pytest.mark.slow, pytest.mark.timeout(600)]

EPOCHS = 4
KILLS = int(os.environ.get("DAGSTER_OPERATORS_KILLS", "8"))
"""At random; ``make soak`` makes many more."""


@pytest.fixture(scope="module")
def forgetting(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    return Reference(tmp_path_factory.mktemp("forgetting"), EPOCHS, forgetting_flow)


def rows_of_tables(reference: Reference) -> dict[str, Counter[forgetting_flow.Row]]:
    """What the tables hold; of the table of changes the rows that are there."""
    found = {table: Counter(map(plain, reference.rows[f"tables/{table}"])) for table in forgetting_flow.TABLES}
    joined: Counter[forgetting_flow.Row] = Counter()
    for (*row, change), count in found["joined"].items():
        joined[tuple(row)] += count if change in ADDS else -count
    return {**found, "joined": +joined}


def test_a_run_that_nobody_interrupts_gives_what_a_plain_computation_gives(forgetting: Reference) -> None:
    expected = forgetting_flow.computed(EPOCHS)
    assert min(map(len, expected.values())) > 1, "it is too easy"
    assert rows_of_tables(forgetting) == expected
    assert {name.rstrip("0123456789").rstrip(":") for name in forgetting.reached} == set(FAILPOINTS) - ELSEWHERE


def test_killed_at_every_failpoint(forgetting: Reference, tmp_path: Path, launch: Callable[..., Launcher]) -> None:
    """In the order in which a run comes to them, of those that each table has every sixth; the last run goes on to the end."""
    launcher, root = launch(forgetting.feed, flow=forgetting.flow), tmp_path / "root"
    for place in forgetting.reached:
        number = place.rpartition(":")[2]
        if not number.isdigit() or int(number) % 6 == 1:
            launcher.run_until_killed(root, place)
    launcher.run(root)
    forgetting.check(root)


def test_killed_at_every_file(forgetting: Reference, tmp_path: Path, launch: Callable[..., Launcher]) -> None:
    """In the third epoch, which forgets keys, has late rows and closes windows: each run is killed one file further."""
    launcher, root, half = launch(forgetting.feed, flow=forgetting.flow), tmp_path / "root", "stage:half_files"
    launcher.run(root, rounds=2)
    again = half
    for _ in range(forgetting.reached[half] // EPOCHS - 1):
        again = one_further(half, launcher.run_until_killed(root, again, epoch=3))
    launcher.run(root)
    forgetting.check(root)


def test_killed_at_random_moments(forgetting: Reference, tmp_path: Path, launch: Callable[..., Launcher]) -> None:
    chance, kills, roots = random.Random(SEED), 0, 0  # noqa: S311
    while kills < KILLS:
        roots += 1
        launcher, root = launch(forgetting.feed, flow=forgetting.flow), tmp_path / f"root-{roots}"
        while kills < KILLS and killed(launcher, root, chance, forgetting, 3):
            kills += 1
        try:
            launcher.run(root, concurrent_stages=3)
            forgetting.check(root)
        except AssertionError as error:
            error.add_note(f"DAGSTER_OPERATORS_SEED={SEED}, root {roots}, after {kills} kills")
            raise
