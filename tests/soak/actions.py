"""What a soak does to a pipeline, by name; each action draws what it needs from its own number."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final

from tests.soak import edits, faults, management
from tests.soak.world import World


def epoch(world: World, chance: random.Random) -> None:
    world.arrive(chance)
    world.pipeline().run_epoch()


def epochs_of_one_run(world: World, chance: random.Random) -> None:
    pipeline = world.pipeline()
    for _ in range(2):
        world.arrive(chance)
        pipeline.run_epoch()


def arrival(world: World, chance: random.Random) -> None:
    world.arrive(chance)


ACTIONS: Final[Mapping[str, Callable[[World, random.Random], None]]] = {
    "epoch": epoch,
    "two epochs": epochs_of_one_run,
    "arrival": arrival,
    "death": faults.death,
    "kill": faults.kill,
    "full disk": faults.full_disk,
    "race": faults.race,
    "stale run": faults.stale_run,
    "clean": management.clean,
    "compact": management.compact,
    "examine": management.examine,
    "repair": management.repair,
    "move": management.move,
    "rebuild": management.rebuild,
    "rebuild range": management.rebuild_range,
    "rollback": management.rollback,
    "reset": management.reset,
    "add": edits.add,
    "remove": edits.remove,
    "put back": edits.put_back,
    "change": edits.change,
}
