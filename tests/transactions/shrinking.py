"""A schedule that fails, made as short as it gets: delta debugging over its turns."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from dagster_operators.transactions.plan import PlanRecord
from tests.transactions.schedules import Schedule, Turn

MOST: Final = 2_000
"""So many schedules are tried."""


class Shrunk:
    """The shortest schedule found that fails as another one did.

    Args:
        schedule: The one that failed.
        error: How.

    Attributes:
        schedule: The shortest one, which has been gone through.
        error: How that fails.
        tried: How many schedules were tried.
    """

    def __init__(self, schedule: Schedule, error: BaseException) -> None:
        self.schedule, self.error, self.tried = schedule, error, 0
        self._kind = _kind(error)
        size = None
        while size != self._size(self.schedule):
            size = self._size(self.schedule)
            self._fewer_runs()
            self._fewer_faults()
            self._fewer_turns()
            self._in_a_row()

    def __str__(self) -> str:
        told = self.schedule
        shape = f"{len(_switches(told))} changes between {len(told.plans)} runs, {self.faults} faults, {told.epochs} epochs"
        lines = (f"  run {name}: {', '.join(done)}" for name, done in _switches(told))
        return "\n".join([f"shrunk to {shape} ({self.tried} tried):", *lines, f"  {self.error!r}"])

    @property
    def faults(self) -> int:
        """How often something goes wrong in it."""
        return sum(bool(turn.fault) for turn, _ in self.schedule.taken)

    @property
    def _turns(self) -> list[Turn]:
        return [turn for turn, _ in self.schedule.taken]

    def _size(self, schedule: Schedule) -> tuple[int, ...]:
        """What is to become less, the first of it first."""
        faults = sum(bool(turn.fault) for turn, _ in schedule.taken)
        return len(schedule.plans), schedule.epochs, faults, len(_switches(schedule)), len(schedule.taken)

    def _fails(self, turns: Sequence[Turn], plans: tuple[PlanRecord, ...] = (), epochs: int | None = None) -> bool:
        """Whether these turns fail in the same way, and are less; then they are the schedule from here on."""
        if self.tried >= MOST:
            return False
        self.tried += 1
        was = self.schedule
        made = Schedule(plans or was.plans, epochs=epochs or was.epochs, model=was.model, turns=turns)
        try:
            made.go()
        except BaseException as error:  # noqa: BLE001 - whatever the other one failed with
            if _kind(error) == self._kind and self._size(made) < self._size(was):
                self.schedule, self.error = made, error
                return True
        return False

    def _fewer_runs(self) -> None:
        for gone in reversed(range(len(self.schedule.plans))):
            left = [turn for turn in self._turns if int(turn.run) != gone]
            named = [replace(turn, run=str(int(turn.run) - (int(turn.run) > gone))) for turn in left]
            if rest := self.schedule.plans[:gone] + self.schedule.plans[gone + 1 :]:
                self._fails(named, plans=rest)
        while self.schedule.epochs > 1 and self._fails(self._turns, epochs=self.schedule.epochs - 1):
            pass

    def _fewer_faults(self) -> None:
        for place in range(len(self._turns)):
            now = self._turns
            if place < len(now) and now[place].fault:
                self._fails([*now[:place], Turn(now[place].run), *now[place + 1 :]])

    def _fewer_turns(self) -> None:
        """Leave turns out, many at once at first."""
        size = len(self._turns) // 2
        while size:
            place = 0
            while place < len(self._turns):
                if not self._fails([*self._turns[:place], *self._turns[place + size :]]):
                    place += size
            size //= 2

    def _in_a_row(self) -> None:
        """Let a run go on first where another one had its turns between."""
        for start, length in list(_others(self._turns)):
            now = self._turns
            if start + length < len(now):
                self._fails([*now[:start], *now[start + length :], *now[start : start + length]])


def _switches(schedule: Schedule) -> list[tuple[str, list[str]]]:
    """What each run does until another one has its turn."""
    return [
        (name, [f"{done} ({turn.fault})" if turn.fault else done for turn, done in steps])
        for name, steps in groupby(schedule.taken, key=lambda one: one[0].run)
    ]


def _others(turns: Sequence[Turn]) -> Iterator[tuple[int, int]]:
    """Where a run has its turns between two of another one: the first of them, and how many."""
    place = 0
    for _, group in groupby(turns, key=lambda turn: turn.run):
        length = len(list(group))
        if place:
            yield place, length
        place += length


def _kind(error: BaseException) -> tuple[type[BaseException], str, int]:
    """What a failure is told apart by: its class, and where it was raised."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return type(error), frame.filename, frame.lineno or 0
