"""Edits of a program, and what has to be decided before it goes on."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

import pytest

from dagster_operators.errors import EpochUnderWayError, OperatorsError
from dagster_operators.plans.verdict import Level, Verdict
from tests.end_to_end.drawn_parts import Part
from tests.soak.families import FAMILIES, UNCHANGED, rebuilt_with, tables_with
from tests.soak.world import World

QUESTIONS: Final = 30
"""So many at most are asked after an edit; each answer settles one."""


def add(world: World, chance: random.Random) -> None:
    """A part in front of or behind the others, whose table may be filled with the rows of before."""
    world.parts += 1
    part = drawn_part(chance, FAMILIES, f"u{world.parts}")
    kept = world.program.parts
    parts = (part, *kept) if chance.random() < 0.5 else (*kept, part)
    filled = world.program.filled | ({part.table} if chance.random() < 0.5 else set())
    world.program = replace(world.program, parts=parts, filled=frozenset(filled))
    settle(world, part, chance)


def remove(world: World, chance: random.Random) -> None:
    """A part goes, and perhaps its tables, too."""
    if not world.program.parts:
        return
    part = chance.choice(world.program.parts)
    world.program = replace(world.program, parts=tuple(one for one in world.program.parts if one != part))
    world.removed.append(part)
    settle(world, part, chance)
    if chance.random() < 0.3:
        world.arrive(chance)
        world.pipeline().run_epoch()
        for table in tables_with(part):
            if (world.place.root / "tables" / table).exists():
                world.between_epochs(lambda pipeline, table=table: pipeline.drop(table))


def put_back(world: World, chance: random.Random) -> None:
    """A part that was removed comes back."""
    if world.removed:
        part = world.removed.pop(chance.randrange(len(world.removed)))
        world.program = replace(world.program, parts=(*world.program.parts, part))
        settle(world, part, chance)


def change(world: World, chance: random.Random) -> None:
    """A part gets another filter or setting, or another kind under the same names."""
    numbers = [number for number, part in enumerate(world.program.parts) if part.kind not in UNCHANGED]
    if not numbers:
        return
    number = chance.choice(numbers)
    part = world.program.parts[number]
    fields = chance.choice((
        {"filter": 1 - part.filter}, {"wide": not part.wide}, {"kind": chance.choice(sorted(set(FAMILIES) - UNCHANGED))},
    ))  # fmt: skip
    if part.kind == "widened" and part.wide and "wide" in fields:
        return  # no column becomes narrower
    world.program = world.program.replaced(number, **fields)
    if part.kind == "widened" and "wide" in fields and (world.place.root / "tables" / part.table).exists():
        world.between_epochs(lambda pipeline: pipeline.widen(part.table))
        return
    settle(world, world.program.parts[number], chance)


def settle(world: World, part: Part, chance: random.Random) -> None:
    """Answer what is asked about an edited part; its tables are unsure unless all that is said of them is harmless."""
    verdicts = world.pipeline().changes()
    world.edited.add(part.table)
    about = [one for one in verdicts if part.table in one.subject]
    if part.kind in UNCHANGED or any(one.level is not Level.HARMLESS for one in about):
        world.unsure.add(part.table)
    rebuilds = chance.random() < 0.5 and part in world.program.parts and bool(tables_with(part))
    for _ in range(QUESTIONS):
        asked = [one for one in world.pipeline().changes() if one.level is Level.DECISION]
        if not asked:
            return
        if chance.random() < 0.2:
            with pytest.raises(OperatorsError):
                world.pipeline().run_epoch()
        answer(world, part, asked, chance, rebuilds=rebuilds)
    raise AssertionError(f"there is no end of questions: {[str(one) for one in asked]}")


def answer(world: World, part: Part, asked: list[Verdict], chance: random.Random, *, rebuilds: bool) -> None:
    """A choice that is offered, or a rebuild."""
    first = next((one for one in asked if one.choices), None)
    if first is None or rebuilds:
        for decided in [one for one in world.pipeline().changes() if one.level is Level.DECIDED]:
            world.pipeline().withdraw(decided.subject)  # a rebuild wants none that is yet to take effect
        try:
            world.pipeline().rebuild(list(rebuilt_with(part)))
        except EpochUnderWayError:
            if first is None:
                raise
        else:
            world.unsure.discard(part.table)
            return
    choice = chance.choice(sorted(first.choices))
    world.pipeline().decide(first.subject, choice)
    touched = {one.table for one in world.program.parts if one.table in first.subject or set(tables_with(one)) & {*first.empties}}
    world.unsure |= touched or {one.table for one in world.program.parts}


def drawn_part(chance: random.Random, families: tuple[str, ...], table: str) -> Part:
    kind = chance.choice(families)
    return Part(kind, chance.randrange(2), f"op_{table}", table, wide=kind != "widened" and chance.random() < 0.5)
