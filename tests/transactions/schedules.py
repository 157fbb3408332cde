"""Random schedules of several runs of the protocol on the model world: longer ones than can all be walked through."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dagster_operators.errors import FencedError, LedgerError, StorageError
from dagster_operators.transactions import effects as fx
from dagster_operators.transactions.plan import PlanRecord
from dagster_operators.transactions.view import LedgerView
from tests.transactions import invariants, model_world
from tests.transactions.explorer import VISIBLE, Exploration, Run
from tests.transactions.invariants import check
from tests.transactions.model_world import Model, World

FAULTY: Final = 0.1
"""How often something goes wrong at a step that others could notice, as long as it may."""

DIES: Final = "dies before it"
LOST: Final = "does not get the answer"

STAYS: Final = (0.0, 0.8, 0.97)
"""How often the run goes on that was at it, one for each schedule: a run that stands still long while others go on finds most."""


@dataclass(frozen=True)
class Turn:
    """A step of a schedule: which run takes it, and what goes wrong at which effect, up to which the run goes on."""

    run: str
    fault: str = ""
    at: str = ""


@dataclass
class _Live:
    """A run at work."""

    run: Run
    steps: Any
    effect: Any
    results: list[Any] = field(default_factory=list)


class Schedule(Exploration):
    """Runs that take turns as chance has it; each of them may die before a step, or not get the answer to one, and come again.

    Args:
        plans: The plan of each run.
        epochs: How many epochs the source has data for.
        faults: How often something may go wrong.
        seed: Of the choices.
        model: What performs effects.
        turns: The turns to take, instead of choosing them by chance. Turns of runs that have ended are skipped; after the last
            turn the runs go on to their ends without faults.

    Attributes:
        taken: The turns that were taken, each with what was done.
    """

    def __init__(
        self,
        plans: tuple[PlanRecord, ...],
        *,
        epochs: int,
        faults: int = 0,
        seed: int = 0,
        model: type[Model] = Model,
        turns: Sequence[Turn] | None = None,
    ) -> None:
        super().__init__(plans, epochs=epochs, model=model, sink=any("+sink" in stage.fingerprint for stage in plans[0].stages))
        self._model = self.model(epochs)
        self._chance, self._left = random.Random(seed), faults  # noqa: S311 - the same schedule each time
        self.turns, self.taken = turns, list[tuple[Turn, str]]()

    def go(self) -> int:
        """Go on until all runs have ended, then let a fresh one bring it to an end; how many steps that took."""
        world, place, stays = World(), 0, self._chance.choice(STAYS)
        alive = [self._live(Run(str(index))) for index in range(len(self.plans))]
        told = list(reversed(self.turns or ()))
        while alive:
            if self.turns is None:
                place, fault = self._chosen(alive, place, stays)
            else:
                place, fault = _told(alive, place, told)
            done = alive[place].effect.name
            self.taken.append((Turn(alive[place].run.name, fault, done if fault else ""), done))
            before, (world, after) = world, self._turn(world, alive[place], fault)
            alive[place : place + 1] = after
            if world is not before:
                check(world, sink=self.sink)
        self._check(world)
        return len(self.taken)

    def _chosen(self, alive: Sequence[_Live], place: int, stays: float) -> tuple[int, str]:
        """Which run takes the next turn, and what goes wrong, as chance has it."""
        if place >= len(alive) or self._chance.random() > stays:
            place = self._chance.randrange(len(alive))
        faulty = bool(self._left) and isinstance(alive[place].effect, VISIBLE) and self._chance.random() < FAULTY
        self._left -= faulty
        return place, "" if not faulty else DIES if self._chance.random() < 1 / 2 else LOST

    def _live(self, run: Run) -> _Live:
        steps = self._session_of(run, side_by_side=False)
        return _Live(run, steps, next(steps))

    def _again(self, live: _Live) -> list[_Live]:  # type: ignore[override]
        return [self._live(Run(live.run.name, live.run.incarnation + 1))]

    def _turn(self, world: World, live: _Live, fault: str) -> tuple[World, list[_Live]]:
        """A step of a run: the world after it, and the run, or the one that takes its place."""
        if fault == DIES:
            return world, self._again(live)
        if isinstance(live.effect, fx.MakeId):
            live.run = Run(live.run.name, live.run.incarnation, ids=live.run.ids + 1)
        world, result = self._perform(world, live.effect, live.run)
        if fault == LOST:
            result = StorageError("the answer was lost")
        live.results.append(result)
        try:
            live.effect = live.steps.throw(result) if isinstance(result, Exception) else live.steps.send(result)
        except StopIteration:
            return world, []
        except StorageError:
            return world, self._again(live)
        except (FencedError, LedgerError) as error:
            generations = [one.generation for one in live.results if isinstance(one, LedgerView) and one.generation]
            owner = world.view().owner
            others = owner is not None and owner.run_id != f"{live.run.name}-{live.run.incarnation}"
            assert others or world.view().generation > min(generations, default=0), f"a run failed alone: {error!r}"  # noqa: PT017
            return world, []
        return world, [live]


def _told(alive: Sequence[_Live], place: int, turns: list[Turn]) -> tuple[int, str]:
    """Which run takes the next turn, and what goes wrong, as it was told, the last first; then a run goes on that is at it."""
    names = [live.run.name for live in alive]
    while turns:
        turn = turns[-1]
        if turn.run not in names:
            turns.pop()
            continue
        found = names.index(turn.run)
        fault = turn.fault if turn.at == alive[found].effect.name else ""
        if fault == turn.fault:
            turns.pop()
        return found, fault
    return min(place, len(alive) - 1), ""


def forget() -> None:
    """Let go of what is remembered of the worlds of schedules that are over."""
    model_world.forget()
    invariants.forget()
