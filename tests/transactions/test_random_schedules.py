"""Random schedules of several runs, with deaths and lost answers, keep the promises; the seed of one that fails is told."""

from __future__ import annotations

import os
import random
import time
from typing import Final

import pytest

from dagster_operators.errors import OperatorsError
from tests.transactions.model_world import Model
from tests.transactions.schedules import Schedule, forget
from tests.transactions.test_every_interleaving import (
    DIAMOND,
    ONE,
    SINK,
    TWO,
    ForgetfulTables,
    NoLedgerCompareAndSet,
    SinkWithoutFence,
)

SCHEDULES: Final = int(os.environ.get("DAGSTER_OPERATORS_SCHEDULES", "40"))
"""How many are tried; ``make soak`` tries a million."""

FIRST: Final = int(os.environ.get("DAGSTER_OPERATORS_SEED", str(random.SystemRandom().randrange(1 << 40))))
"""The seed of the first one; each has the next."""

SETTINGS: Final = ((TWO, TWO), (SINK, SINK), (ONE, ONE, ONE), (DIAMOND,), (TWO,))


def schedule(seed: int) -> Schedule:
    chance = random.Random(seed)  # noqa: S311 - the same setting each time
    return Schedule(chance.choice(SETTINGS), epochs=chance.randint(1, 3), faults=chance.randint(0, 8), seed=seed)


def test_any_schedule() -> None:
    began = time.monotonic()
    for number in range(1, SCHEDULES + 1):
        seed = FIRST + number - 1
        try:
            schedule(seed).go()
        except BaseException as error:
            error.add_note(f"again: DAGSTER_OPERATORS_SEED={seed} DAGSTER_OPERATORS_SCHEDULES=1")
            raise
        if number % 1_000 == 0:
            forget()
        if number % 10_000 == 0:
            print(f"{number} schedules from seed {FIRST}, {number / (time.monotonic() - began) * 60:.0f} a minute", flush=True)  # noqa: T201 - of a soak


def test_one_seed_is_one_schedule() -> None:
    assert schedule(7).go() == schedule(7).go()


def some(model: type[Model], count: int = 2_000) -> None:
    for seed in range(count):
        Schedule((SINK, SINK), epochs=2, faults=2, seed=seed, model=model).go()


@pytest.mark.parametrize("model", [NoLedgerCompareAndSet, ForgetfulTables, SinkWithoutFence])
def test_what_is_broken_is_caught(model: type[Model]) -> None:
    with pytest.raises((AssertionError, OperatorsError)):
        some(model)
