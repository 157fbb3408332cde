"""The work of an epoch piece by piece: a stage, or one round of a stage that is in a loop; and which piece reads which.

Everything here follows from the plan and from what is prepared, by pure functions: that a loop has come to rest is seen in the
ledger alone, so a run that takes an epoch up goes on with the round that was not done.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from dagster_operators.transactions.plan import PlanRecord, StageRecord


@dataclass(frozen=True, order=True)
class StageKey:
    """A stage of an epoch, in a loop in one of its rounds. Its text stands for it in the ledger, manifests and file names.

    Attributes:
        stage: The stage's name.
        iteration: The number of the round, from 0; empty outside of loops.

    >>> str(StageKey("clean")), str(StageKey("step", (2,))), StageKey.parse("step@2")
    ('clean', 'step@2', StageKey(stage='step', iteration=(2,)))
    """

    stage: str
    iteration: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.stage}@{'.'.join(map(str, self.iteration))}" if self.iteration else self.stage

    @classmethod
    def parse(cls, text: str) -> StageKey:
        """The key that a text stands for.

        >>> StageKey.parse("clean")
        StageKey(stage='clean', iteration=())
        """
        stage, _, rounds = text.partition("@")
        return cls(stage, tuple(int(part) for part in rounds.split(".")) if rounds else ())


class Piece(Protocol):
    """What must be known of a prepared piece of work."""

    @property
    def goes_round(self) -> int:
        """How many of its rows go round to the next round of its loop."""


P = TypeVar("P", bound=Piece)


def groups(plan: PlanRecord) -> Iterator[tuple[StageRecord, ...]]:
    """The stages of a plan in order; those of one loop, which follow each other, together."""
    group: list[StageRecord] = []
    for stage in plan.stages:
        if group and (not stage.loop or stage.loop != group[0].loop):
            yield tuple(group)
            group = []
        group.append(stage)
    if group:
        yield tuple(group)


def last_round(group: Sequence[StageRecord], prepared: Mapping[str, Piece]) -> int | None:
    """The round in which a loop came to rest: nothing of it goes round; None as long as there is none."""
    number = 0
    while all(str(StageKey(stage.name, (number,))) in prepared for stage in group):
        if not any(prepared[str(StageKey(stage.name, (number,)))].goes_round for stage in group):
            return number
        number += 1
    return None


def reads(plan: PlanRecord, prepared: Mapping[str, Piece], key: StageKey) -> tuple[str, ...] | None:
    """What a piece of work reads, as texts of keys; None while a loop that it reads has not come to rest.

    A round reads the stages of its own round, what went round in the one before, and its own stage then (for its state); the
    first round reads what enters the loop. Whoever reads a loop from outside reads all its rounds.
    """
    stage = plan.stage(key.stage)
    found: list[str] = []
    for name in stage.upstream:
        before = plan.stage(name)
        if before.loop and before.loop == stage.loop:
            found.append(str(StageKey(name, key.iteration)))
        elif key.iteration in ((), (0,)):
            rounds = _all_rounds(plan, prepared, before)
            if rounds is None:
                return None
            found += rounds
    if key.iteration and key.iteration != (0,):
        earlier = (key.iteration[0] - 1,)
        found += [str(StageKey(name, earlier)) for name in dict.fromkeys((*stage.feedback, stage.name))]
    return tuple(found)


def _all_rounds(plan: PlanRecord, prepared: Mapping[str, Piece], stage: StageRecord) -> list[str] | None:
    if not stage.loop:
        return [stage.name]
    last = last_round([other for other in plan.stages if other.loop == stage.loop], prepared)
    return None if last is None else [str(StageKey(stage.name, (number,))) for number in range(last + 1)]


def valid_pieces(plan: PlanRecord, choose: Callable[[StageKey, tuple[str, ...], Mapping[str, P]], P | None]) -> dict[str, P]:
    """The valid prepared pieces of an epoch, each found behind those that it reads.

    Args:
        plan: The plan.
        choose: Gives the valid one for a key, from the texts of the keys that it reads and what is valid of them.
    """
    valid: dict[str, P] = {}

    def take(key: StageKey) -> bool:
        wanted = reads(plan, valid, key)
        found = None if wanted is None else choose(key, wanted, valid)
        if found is not None:
            valid[str(key)] = found
        return found is not None

    for group in groups(plan):
        if not group[0].loop:
            take(StageKey(group[0].name))
            continue
        for number in itertools.count():
            keys = [StageKey(stage.name, (number,)) for stage in group]
            done = [take(key) for key in keys]  # also what does not depend on one that is not there
            if not all(done) or not any(valid[str(key)].goes_round for key in keys):
                break
    return valid


def pieces(plan: PlanRecord, prepared: Mapping[str, Piece]) -> tuple[list[str], list[str]]:
    """All pieces of work of an epoch in order, and those that are not prepared, a loop that is not at rest by its next round."""
    found: list[str] = []
    missing: list[str] = []
    for group in groups(plan):
        if not group[0].loop:
            names = [group[0].name]
        else:
            last = last_round(group, prepared)
            rounds = range(_next_round(group, prepared) + 1 if last is None else last + 1)
            names = [str(StageKey(stage.name, (number,))) for number in rounds for stage in group]
        found += names
        missing += [name for name in names if name not in prepared]
    return found, missing


def _next_round(group: Sequence[StageRecord], prepared: Mapping[str, Piece]) -> int:
    number = 0
    while all(str(StageKey(stage.name, (number,))) in prepared for stage in group):
        number += 1
    return number
