"""Runs that end in the middle, disks that are full, and runs that meet."""

from __future__ import annotations

import errno
import os
import random
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Final

import dagster_operators as do
from dagster_operators.errors import FencedError, OperatorsError, PipelineBusyError, StageFailedError
from dagster_operators.transactions.failpoints import watch
from tests.soak.child import run_and_kill
from tests.soak.world import World

PLACES: Final = (
    "before:append_generation", "before:append_begin", "after:append_begin", "stage:half_files", "stage:files_written",
    "before:write_manifest", "after:append_prepared", "before:append_decision", "after:append_decision", "before:commit_table:1",
    "after:commit_table:2", "before:commit_participant", "after:commit_participant", "before:append_complete",
    "after:append_complete", "before:fold_ledger", "after:fold_ledger", "before:delete_attempts",
)  # fmt: skip
"""Where something may happen to a run."""


class DiedError(Exception):
    """A run ends here."""


class Turn:
    """Does something when a place is reached for the n-th time, once."""

    def __init__(self, chance: random.Random) -> None:
        self.place, self.times = chance.choice(PLACES), chance.randrange(1, 4)

    def comes(self, name: str) -> bool:
        self.times -= name == self.place
        return name == self.place and not self.times


def death(world: World, chance: random.Random) -> None:
    """A run ends within an epoch, in this process."""
    world.arrive(chance)
    turn, pipeline = Turn(chance), world.pipeline()

    def reached(name: str) -> None:
        if turn.comes(name):
            raise DiedError(name)

    with watch(reached), suppress(DiedError, StageFailedError):
        pipeline.run_epoch()


def kill(world: World, chance: random.Random) -> None:
    """A process of its own is killed within an epoch, or has ended before."""
    world.arrive(chance)
    turn = Turn(chance)
    where = f"{turn.place}#{turn.times}" if chance.random() < 0.7 else chance.uniform(0, 2)
    run_and_kill(world.program, world.place, world.engine, where)


def full_disk(world: World, chance: random.Random) -> None:
    """The disk of the root is full from somewhere in an epoch on; then there is space again."""
    world.arrive(chance)
    turn, pipeline = Turn(chance), world.pipeline()

    def reached(name: str) -> None:
        if turn.comes(name):
            if world.disk is None:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            world.disk.fill()

    try:
        with watch(reached):
            pipeline.run_epoch()
    except OperatorsError as error:
        assert error.remedy, error  # noqa: PT017 - it may run to its end as well
    except OSError:
        assert world.disk is None
    finally:
        if world.disk is not None:
            world.disk.free()


def race(world: World, chance: random.Random) -> None:
    """Two runs begin at the same time."""
    world.arrive(chance)
    runs, patience = [world.pipeline(), world.pipeline()], chance.choice((0, 30))
    with ThreadPoolExecutor(2) as threads:
        for future in [threads.submit(run.run_epoch, wait_seconds=patience) for run in runs]:
            _joined(future)


def stale_run(world: World, chance: random.Random) -> None:
    """A run stops within an epoch; another takes over from it, and only then the first goes on."""
    world.arrive(chance)
    turn, stopped, goes_on = Turn(chance), threading.Event(), threading.Event()
    first = world.pipeline()

    def reached(name: str) -> None:
        if turn.comes(name):
            stopped.set()
            goes_on.wait(100)

    def run() -> None:
        try:
            first.run_epoch()
        finally:
            stopped.set()

    with ThreadPoolExecutor(1) as threads, watch(reached):
        future = threads.submit(run)
        stopped.wait(100)
        try:
            do.StoredPipeline(str(world.place.root)).unlock()
            world.pipeline().run_epoch()
        finally:
            goes_on.set()
        _joined(future)


def _joined(future: Future[object]) -> None:
    """The end of a run that another one may have kept from its work."""
    with suppress(PipelineBusyError, FencedError):
        future.result()
