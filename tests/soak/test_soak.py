"""A few random scenarios over all families; ``make soak`` tries as many as there is time for."""

from __future__ import annotations

import random

import pytest

from tests.engines import SAIL
from tests.soak.scenario import try_seed

SEEDS = 2
ACTIONS = ("epoch", "two epochs", "arrival", "death", "kill")
"""The others are drawn by the long search, `make soak`."""


@pytest.mark.slow
@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize("number", range(SEEDS))
def test_a_random_scenario_is_right(number: int) -> None:
    """Each run tries other ones; a failure prints the seed."""
    failure = try_seed(random.randrange(10**9), SAIL, shrink=False, actions=ACTIONS, steps=4)  # noqa: S311 - no secrets
    assert failure is None, failure
