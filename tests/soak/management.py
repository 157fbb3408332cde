"""What an operator of a pipeline does between its epochs; none of it changes what the tables come to."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Final

import dagster_operators as do
from dagster_operators.errors import LedgerError, OperatorsError, PipelineError, UnknownEpochError
from dagster_operators.plans.verdict import Level
from tests.soak.families import Part, rebuilt_with
from tests.soak.settling import settle
from tests.soak.world import START, World


def clean(world: World, chance: random.Random) -> None:
    keep = chance.randrange(1, 4)
    world.between_epochs(lambda pipeline: pipeline.clean("0 seconds", keep_epochs=keep))


def compact(world: World, chance: random.Random) -> None:
    world.between_epochs(lambda pipeline: pipeline.compact())


def examine(world: World, chance: random.Random) -> None:
    errors = [str(one) for one in do.StoredPipeline(str(world.place.root)).examine(deep=True) if one.verdict == "error"]
    assert not errors, errors


def repair(world: World, chance: random.Random) -> None:
    """There is nothing to repair."""
    keep = chance.choice(("ours", "theirs"))
    assert world.between_epochs(lambda pipeline: pipeline.repair_all(keep)) == []


def move(world: World, chance: random.Random) -> None:
    world.copy_root()


def rebuild(world: World, chance: random.Random) -> None:
    """A table, or all."""
    parts = [part for part in world.present() if rebuilt_with(part)]
    chosen = parts if chance.random() < 0.3 else [chance.choice(parts)] if parts else []
    if chosen:
        at_once = chance.choice((1, 2, 500))
        tables = [table for part in chosen for table in rebuilt_with(part)]
        world.between_epochs(lambda pipeline: pipeline.rebuild(tables, epochs_at_once=at_once))
        world.unsure -= {part.table for part in chosen}


def rebuild_range(world: World, chance: random.Random) -> None:
    """A range of event time, where a table has such rows that do not depend on other times."""
    parts: list[Part] = [part for part in world.present() if rebuilt_with(part) and part.kind != "late"]
    if not parts:
        return
    begin = START + timedelta(hours=4 + 2 * chance.randrange(2 * world.arrived + 1))
    end = begin + timedelta(hours=2 * chance.randrange(1, 6))
    table = chance.choice(parts).table
    try:
        world.between_epochs(lambda pipeline: pipeline.rebuild(table, between=(begin, end)))
    except PipelineError as error:
        assert error.remedy, error  # noqa: PT017 - some tables have no such range


def rollback(world: World, chance: random.Random) -> None:
    epochs = [epoch.epoch for epoch in world.pipeline().history()]
    if len(epochs) < 2:
        return
    to = chance.choice(epochs[:-1])
    try:
        result = world.between_epochs(lambda pipeline: pipeline.rollback(to, keep_sinks=True))
    except (UnknownEpochError, LedgerError) as error:
        assert error.remedy, error  # noqa: PT017 - it may have been cleaned away, or a table of it dropped
    else:
        world.unsure |= world.edited | world.sinks
        world.ran[result.epoch] = world.ran.get(to)
        if world.ran[result.epoch] and chance.random() < 0.3:  # the program is put back, too: nothing is asked of what ran then
            world.program = world.ran[result.epoch]
            assert [verdict for verdict in world.pipeline().changes() if verdict.level is Level.DECISION] == []
        settle(world, chance)


def reset(world: World, chance: random.Random) -> None:
    """All that is read from the beginning again."""
    if world.arrived and world.pipeline().history():
        try:
            world.between_epochs(lambda pipeline: pipeline.reset("rows", 0, tables="restart", keep_sinks=True))
        except OperatorsError as error:
            assert error.remedy, error  # noqa: PT017 - nothing was read since, or a decision is yet to take effect
        world.unsure |= world.sinks


COMMANDS: Final = (clean, compact, examine, repair, move, rebuild, rebuild_range, rollback, reset)
"""All that may come before what is asked about an edit is answered."""
