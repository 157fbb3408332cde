"""Random schedules of several runs, with deaths and lost answers, keep the promises; a failing one is shrunk."""

from __future__ import annotations

import os
import random
import time
from dataclasses import replace
from typing import Final

import pytest

from dagster_operators.errors import OperatorsError
from dagster_operators.transactions.plan import PlanRecord
from tests.transactions.model_world import Model
from tests.transactions.schedules import Schedule, forget
from tests.transactions.shrinking import Shrunk
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

CHANGED: Final = replace(TWO, stages=(TWO.stages[0], replace(TWO.stages[1], fingerprint="changed")))
"""The same pipeline with another program for its second stage."""

SETTINGS: Final = ((TWO, TWO), (SINK, SINK), (ONE, ONE, ONE), (DIAMOND,), (TWO,), (TWO, CHANGED, TWO))


def schedule(seed: int) -> Schedule:
    chance = random.Random(seed)  # noqa: S311 - the same setting each time
    return Schedule(chance.choice(SETTINGS), epochs=chance.randint(1, 3), faults=chance.randint(0, 8), seed=seed)


def test_any_schedule() -> None:
    began = time.monotonic()
    for number in range(1, SCHEDULES + 1):
        seed = FIRST + number - 1
        made = schedule(seed)
        try:
            made.go()
        except Exception as error:
            error.add_note(f"again: DAGSTER_OPERATORS_SEED={seed} DAGSTER_OPERATORS_SCHEDULES=1")
            error.add_note(str(Shrunk(made, error)))
            raise
        if number % 1_000 == 0:
            forget()
        if number % 10_000 == 0:
            print(f"{number} schedules from seed {FIRST}, {number / (time.monotonic() - began) * 60:.0f} a minute", flush=True)  # noqa: T201 - of a soak


def test_one_seed_is_one_schedule() -> None:
    assert schedule(7).go() == schedule(7).go()


def test_a_schedule_is_told_by_its_turns() -> None:
    chosen = schedule(7)
    chosen.go()
    again = Schedule(chosen.plans, epochs=chosen.epochs, turns=[turn for turn, _ in chosen.taken])
    again.go()
    assert again.taken == chosen.taken


def failing(model: type[Model], plans: tuple[PlanRecord, ...] = (SINK, SINK), count: int = 2_000) -> tuple[Schedule, Exception]:
    for seed in range(count):
        made = Schedule(plans, epochs=2, faults=2, seed=seed, model=model)
        try:
            made.go()
        except (AssertionError, OperatorsError) as error:
            return made, error
    pytest.fail("nothing is found")


@pytest.mark.parametrize("model", [NoLedgerCompareAndSet, ForgetfulTables, SinkWithoutFence])
def test_what_is_broken_is_caught_and_shrunk(model: type[Model]) -> None:
    """Each of these needs a run that stands still while another one takes over, and next to nothing else."""
    made, error = failing(model)
    found = Shrunk(made, error)
    assert (len(found.schedule.plans), found.schedule.epochs) == (2, 1)
    assert found.faults <= 1
    assert len(str(found).splitlines()) <= 6, "three turns of runs, or four"
    assert len(found.schedule.taken) <= len(made.taken)
    with pytest.raises(type(error)):
        Schedule(found.schedule.plans, epochs=1, model=model, turns=[turn for turn, _ in found.schedule.taken]).go()


class SinkThatTakesTwice(Model):
    def commit(self, world, effect, unique):  # type: ignore[no-untyped-def]
        again = [(effect.epoch, effect.data)] if (effect.epoch, effect.data) in world.sink.committed else []
        world, answer = super().commit(world, effect, unique)
        return world._replace(sink=world.sink._replace(committed=(*world.sink.committed, *again))), answer


def test_faults_that_are_needed_stay() -> None:
    found = Shrunk(*failing(SinkThatTakesTwice))
    assert (len(found.schedule.plans), found.faults) == (1, 1)
    assert "commit_participant" in str(found).splitlines()[1]


class NoChange(Model):
    def append(self, world, effect, unique):  # type: ignore[no-untyped-def]
        assert getattr(effect.record, "plan", None) != CHANGED, "a run of the changed program begins"
        return super().append(world, effect, unique)


@pytest.mark.parametrize("plans", [(TWO, CHANGED, TWO), (TWO, TWO, CHANGED)])
def test_the_run_that_is_left_keeps_its_plan(plans: tuple[PlanRecord, ...]) -> None:
    assert Shrunk(*failing(NoChange, plans)).schedule.plans == (CHANGED,)
