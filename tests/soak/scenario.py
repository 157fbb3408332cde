"""Programs and actions that are drawn from a seed, tried, and made fewer when one of them fails."""

from __future__ import annotations

import os
import random
import time
import traceback
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from tests.disk import disk_at
from tests.engines import SAIL
from tests.in_memory import folder_in_memory
from tests.soak.actions import ACTIONS
from tests.soak.edits import drawn_part
from tests.soak.families import FAMILIES, Program
from tests.soak.world import World

STEPS: Final = 8
SHRINKING: Final = 300.0
"""So many seconds at most fewer actions and parts are tried."""

SPARK_OF: Final = 10
"""The scenario of one seed in so many runs on Spark."""


@dataclass(frozen=True)
class Scenario:
    """A program, and what is done to it: each action with a number from which it draws what it needs."""

    program: Program
    steps: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return f"{self.program}\nsteps: {self.steps}"


def drawn(seed: int, families: Sequence[str] = FAMILIES, actions: Sequence[str] = tuple(ACTIONS), steps: int = STEPS) -> Scenario:
    """The scenario of a seed."""
    chance = random.Random(seed)  # noqa: S311 - no secrets
    parts = tuple(drawn_part(chance, families, f"t{number}") for number in range(chance.randrange(1, 5)))
    chosen = tuple((chance.choice(actions), chance.randrange(10**6)) for _ in range(chance.randrange(3, steps + 1)))
    return Scenario(Program(parts), (("epoch", chance.randrange(10**6)), *chosen))


def run(scenario: Scenario, engine: Any) -> None:
    """Try a scenario.

    Raises:
        AssertionError: Something is not as it has to be; other errors of a run come out as they are.
    """
    with ExitStack() as opened:
        folder = opened.enter_context(folder_in_memory())
        world = World(folder, scenario.program, engine)
        with suppress(pytest.skip.Exception):  # where none may be mounted, writing fails instead
            world.disk = opened.enter_context(disk_at(folder / "disk"))
            world.disk.resize(256)
        for position, (name, number) in enumerate(scenario.steps, 1):
            try:
                ACTIONS[name](world, random.Random(number))  # noqa: S311 - no secrets
                world.check()
            except Exception as error:
                error.add_note(f"in step {position}, {name!r}, of {world.program}")
                raise
        world.check_end()


def fails(scenario: Scenario, engine: Any) -> BaseException | None:
    try:
        run(scenario, engine)
    except Exception as error:  # noqa: BLE001 - whatever a run fails with is what is looked for
        return error
    return None


def shrunk(scenario: Scenario, error: BaseException, engine: Any) -> tuple[Scenario, BaseException]:
    """A scenario that fails in the same way with fewer actions and parts, if leaving one out shows one."""
    smaller, until = True, time.monotonic() + SHRINKING
    while smaller:
        smaller = False
        for fewer in _fewer(scenario):
            other = fails(fewer, engine) if time.monotonic() < until else None
            if other is not None and type(other) is type(error):
                scenario, error, smaller = fewer, other, True
                break
    return scenario, error


def _fewer(scenario: Scenario) -> list[Scenario]:
    steps, parts = scenario.steps, scenario.program.parts
    without_step = [replace(scenario, steps=steps[:n] + steps[n + 1 :]) for n in reversed(range(len(steps)))]
    without_part = [
        replace(scenario, program=replace(scenario.program, parts=parts[:n] + parts[n + 1 :])) for n in range(len(parts))
    ]
    return [*without_part, *without_step]


def try_seed(seed: int, engine: Any, *, shrink: bool = True, **restricted: Any) -> str | None:
    """What to print when the scenario of a seed fails: how to run it again, the smallest that fails, and why."""
    scenario = drawn(seed, **restricted)
    error = fails(scenario, engine)
    if error is None:
        return None
    first = "".join(traceback.format_exception(error))
    smallest, last = shrunk(scenario, error, engine) if shrink else (scenario, error)
    again = f"python -m tests.soak --seed {seed}" + (" --spark" if engine != SAIL else "")
    return f"{first}\nsmallest:\n{smallest}\n{type(last).__name__}: {last}\nrun it again: {again}{os.linesep}"
