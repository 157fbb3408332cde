"""What is asked about a program that changed is answered, in each of the ways that are offered, until its epochs run."""

from __future__ import annotations

import random
import re
from typing import Any, Final

import pytest

from dagster_operators.errors import EpochUnderWayError, OperatorsError
from dagster_operators.plans.verdict import Level, Verdict
from tests.end_to_end.drawn_parts import Part
from tests.remedies import DECLARING, calls_in
from tests.soak.families import rebuilt_with, tables_with
from tests.soak.world import World

QUESTIONS: Final = 30
"""So many at most are asked after an edit; each answer settles one."""

METHOD: Final = re.compile(r"pipeline\.(\w+)\(")


def settle(world: World, chance: random.Random, part: Part | None = None) -> None:
    """Answer what is asked about the program, one question after the other.

    Args:
        world: The program and its root.
        chance: Which answers.
        part: The part that was edited, which may be rebuilt; None where none was, as behind a rollback.
    """
    rebuilds = part is not None and chance.random() < 0.5 and part in world.program.parts and bool(rebuilt_with(part))
    for _ in range(QUESTIONS):
        asked = [verdict for verdict in world.pipeline().changes() if verdict.level is Level.DECISION]
        if not asked:
            return
        as_told = chance.random() < 0.5
        if as_told or part is None:
            follow(world, chance)
        else:
            if chance.random() < 0.2:
                with pytest.raises(OperatorsError):
                    world.pipeline().run_epoch()
            answer(world, part, asked, chance, rebuilds=rebuilds)
    raise AssertionError(f"there is no end of questions: {[str(verdict) for verdict in asked]}")


def follow(world: World, chance: random.Random, todo: str = "pipeline.run_epoch()") -> None:
    """Make a call, or one of those that its error offers, and so on, until one does its work."""
    made: list[str] = []
    for _ in range(QUESTIONS):
        made.append(todo)
        try:
            _made(world, todo)
        except OperatorsError as error:
            ways = ways_of(error)
            assert ways, f"{made} ends with an error without a way on: {error}"  # noqa: PT017 - each call may be refused
            todo = chance.choice(ways)
        else:
            return
    raise AssertionError(f"{made} lead nowhere")


def ways_of(error: OperatorsError) -> list[str]:
    """The calls that an error offers, word for word; to run an epoch first is one."""
    calls = [call for call in calls_in(str(error)) if _method(call) not in DECLARING]
    return [
        *calls,
        *(["pipeline.run_epoch()"] if "run an epoch first" in str(error) or isinstance(error, EpochUnderWayError) else []),
    ]


def _made(world: World, call: str) -> None:
    """Make a call, and know of which tables it leaves unsure what they have to hold, and of which it settles that."""
    pipeline, method = world.pipeline(), _method(call)
    verdicts = pipeline.changes() if method == "decide" else []
    eval(call, {"pipeline": pipeline})  # noqa: S307 - what the error says to call
    if method == "decide":
        subject = eval(call.removeprefix("pipeline.decide"))[0]  # noqa: S307
        world.unsure |= _touched(world, next(verdict for verdict in verdicts if verdict.subject == subject))
    elif method == "rebuild":
        world.unsure -= {
            part.table
            for part in world.program.parts
            if rebuilt_with(part) and all(repr(table) in call for table in rebuilt_with(part))
        }
    elif method == "reset":
        world.unsure |= world.sinks


def _method(call: str) -> str:
    match = METHOD.match(call)
    assert match, call
    return match[1]


def answer(world: World, part: Part, asked: list[Verdict], chance: random.Random, *, rebuilds: bool) -> None:
    """A choice that is offered, or a rebuild."""
    first = next((verdict for verdict in asked if verdict.choices), None)
    if first is None or rebuilds:
        for decided in [verdict for verdict in world.pipeline().changes() if verdict.level is Level.DECIDED]:
            world.pipeline().withdraw(decided.subject)  # a rebuild wants none that is yet to take effect
        follow(world, chance, f"pipeline.rebuild({list(rebuilt_with(part))})")
        return
    choice: Any = chance.choice(sorted(first.choices))
    world.pipeline().decide(first.subject, choice)
    world.unsure |= _touched(world, first)


def _touched(world: World, verdict: Verdict) -> set[str]:
    """The parts whose tables a decision may leave with other rows than a computation anew gives."""
    parts = world.program.parts
    touched = {part.table for part in parts if part.table in verdict.subject or set(tables_with(part)) & {*verdict.empties}}
    return touched or {part.table for part in parts}
