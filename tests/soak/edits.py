"""Edits of a program, and what has to be decided before it goes on."""

from __future__ import annotations

import random
from dataclasses import replace

from dagster_operators.errors import ChangedPipelineError, OperatorsError
from dagster_operators.plans.verdict import Level
from tests.end_to_end.drawn_parts import Part
from tests.soak import management
from tests.soak.families import FAMILIES, UNCHANGED, tables_with
from tests.soak.settling import settle, ways_of
from tests.soak.world import World


def add(world: World, chance: random.Random) -> None:
    """A part in front of or behind the others, whose table may be filled with the rows of before."""
    world.parts += 1
    part = drawn_part(chance, FAMILIES, f"u{world.parts}")
    kept = world.program.parts
    parts = (part, *kept) if chance.random() < 0.5 else (*kept, part)
    filled = world.program.filled | ({part.table} if chance.random() < 0.5 else set())
    world.program = replace(world.program, parts=parts, filled=frozenset(filled))
    settle_edit(world, part, chance)


def remove(world: World, chance: random.Random) -> None:
    """A part goes, and perhaps its tables, too."""
    if not world.program.parts:
        return
    part = chance.choice(world.program.parts)
    world.program = replace(world.program, parts=tuple(one for one in world.program.parts if one != part))
    world.removed.append(part)
    settle_edit(world, part, chance)
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
        settle_edit(world, part, chance)


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
    settle_edit(world, world.program.parts[number], chance)


def settle_edit(world: World, part: Part, chance: random.Random) -> None:
    """Answer what is asked about an edited part; its tables are unsure unless all that is said of them is harmless.

    Before that a command of an operator may come, behind the changed program.
    """
    world.edited.add(part.table)
    about = [verdict for verdict in world.pipeline().changes() if part.table in verdict.subject]
    if part.kind in UNCHANGED or any(verdict.level is not Level.HARMLESS for verdict in about):
        world.unsure.add(part.table)
    if chance.random() < 0.3:
        command = chance.choice(management.COMMANDS)
        try:
            command(world, chance)
        except OperatorsError as error:
            assert error.remedy, error  # noqa: PT017 - some wait for an answer
            if isinstance(error, ChangedPipelineError):
                assert ways_of(error) or "change" in error.remedy, error  # noqa: PT017
        world.note_epochs(None)
    settle(world, chance, part)


def drawn_part(chance: random.Random, families: tuple[str, ...], table: str) -> Part:
    kind = chance.choice(families)
    return Part(kind, chance.randrange(2), f"op_{table}", table, wide=kind != "widened" and chance.random() < 0.5)
