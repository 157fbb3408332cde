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
        iteration: The number of the round, from 0, after those of the loops that its loop is in; empty outside of loops.

    >>> str(StageKey("clean")), str(StageKey("step", (2,))), StageKey.parse("step@2")
    ('clean', 'step@2', StageKey(stage='step', iteration=(2,)))
    >>> str(StageKey("step", (2, 0)))
    'step@2.0'
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


@dataclass(frozen=True)
class Rounds:
    """The stages of a loop, and the loops within it, in order.

    Attributes:
        loop: The loop's name.
        parts: What each of its rounds consists of.
        limit: After how many rounds it ends though rows go round; None if it does not.
    """

    loop: str
    parts: tuple[StageRecord | Rounds, ...]
    limit: int | None = None

    def own(self) -> tuple[StageRecord, ...]:
        """The stages that are in the loop itself, and in none within it."""
        return tuple(part for part in self.parts if isinstance(part, StageRecord))

    def is_done(self, prepared: Mapping[str, Piece], iteration: tuple[int, ...]) -> bool:
        """Whether all of one round is prepared, loops within it being at rest."""
        return all(
            str(StageKey(part.name, iteration)) in prepared
            if isinstance(part, StageRecord)
            else part.last(prepared, iteration) is not None
            for part in self.parts
        )

    def goes_on(self, prepared: Mapping[str, Piece], iteration: tuple[int, ...]) -> bool:
        """Whether rows of a round go round to the next one, and there is a next one."""
        if self.limit is not None and iteration[-1] + 1 >= self.limit:
            return False
        return any(bool(prepared[str(StageKey(stage.name, iteration))].goes_round) for stage in self.own())

    def last(self, prepared: Mapping[str, Piece], around: tuple[int, ...] = ()) -> int | None:
        """The round in which the loop came to rest: nothing of it goes round; None as long as there is none.

        Args:
            prepared: What is prepared.
            around: The rounds of the loops that it is in.
        """
        number = self._undone(prepared, around, to_rest=True)
        return number if self.is_done(prepared, (*around, number)) else None

    def next(self, prepared: Mapping[str, Piece], around: tuple[int, ...] = ()) -> int:
        """The first round of which not all is prepared."""
        return self._undone(prepared, around)

    def _undone(self, prepared: Mapping[str, Piece], around: tuple[int, ...], *, to_rest: bool = False) -> int:
        number = 0
        while self.is_done(prepared, (*around, number)):
            if to_rest and not self.goes_on(prepared, (*around, number)):
                return number
            number += 1
        return number


def groups(plan: PlanRecord) -> Iterator[StageRecord | Rounds]:
    """The stages of a plan in order; those of one loop, which follow each other, together."""
    return _parts(plan, plan.stages, 0)


def _parts(plan: PlanRecord, stages: Sequence[StageRecord], depth: int) -> Iterator[StageRecord | Rounds]:
    """Stages in loops of some depth, those that are in one of the next depth together."""

    def inner(stage: StageRecord) -> str:
        around = plan.loops_around(stage)
        return around[depth] if len(around) > depth else ""

    for loop, members in itertools.groupby(stages, inner):
        if loop:
            yield Rounds(loop, tuple(_parts(plan, tuple(members), depth + 1)), plan.ends.get(loop))
        else:
            yield from members


def _rounds_of(plan: PlanRecord, loops: tuple[str, ...]) -> Rounds:
    """A loop, by the names of those that it is in and its own."""
    found: Iterator[StageRecord | Rounds] = groups(plan)
    for loop in loops:
        made = next(part for part in found if isinstance(part, Rounds) and part.loop == loop)
        found = iter(made.parts)
    return made


def reads(plan: PlanRecord, prepared: Mapping[str, Piece], key: StageKey) -> tuple[str, ...] | None:
    """What a piece of work reads, as texts of keys; None while a loop that it reads has not come to rest.

    A round reads the stages of its own round, what went round in the one before, and its own stage then (for its state); the
    first round reads what enters the loop. Whoever reads a loop from outside reads all its rounds.
    """
    stage = plan.stage(key.stage)
    around, found = plan.loops_around(stage), list[str]()
    for name in stage.upstream:
        before = plan.stage(name)
        loops = plan.loops_around(before)
        shared = _shared(around, loops)
        if not any(key.iteration[shared:]):  # in the first round of the loops that the other is not in
            rounds = _all_rounds(plan, prepared, before, loops, key.iteration[:shared])
            if rounds is None:
                return None
            found += rounds
    fed = [str(StageKey(name, _round_before(key.iteration))) for name in stage.feedback] if any(key.iteration[-1:]) else []
    earlier = _own_before(plan, prepared, key)
    return tuple(dict.fromkeys((*found, *fed, *([str(earlier)] if earlier else []))))


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """How many loops two stages are both in."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _round_before(iteration: tuple[int, ...]) -> tuple[int, ...]:
    return (*iteration[:-1], iteration[-1] - 1)


def _own_before(plan: PlanRecord, prepared: Mapping[str, Piece], key: StageKey) -> StageKey | None:
    """The piece of the same stage before this one, whose state it goes on with; None in the very first round."""
    depth = next((depth for depth in reversed(range(len(key.iteration))) if key.iteration[depth]), None)
    if depth is None:
        return None
    around, found = plan.loops_around(plan.stage(key.stage)), _round_before(key.iteration[: depth + 1])
    while len(found) < len(around):
        last = _rounds_of(plan, around[: len(found) + 1]).last(prepared, found)
        found = (*found, last or 0)
    return StageKey(key.stage, found)


def _all_rounds(
    plan: PlanRecord, prepared: Mapping[str, Piece], stage: StageRecord, loops: tuple[str, ...], around: tuple[int, ...]
) -> list[str] | None:
    """A stage in all rounds of the loops that it is in, within rounds of the outer ones; None if one is not at rest."""
    if len(around) == len(loops):
        return [str(StageKey(stage.name, around))]
    last = _rounds_of(plan, loops[: len(around) + 1]).last(prepared, around)
    if last is None:
        return None
    found: list[str] = []
    for number in range(last + 1):
        found += _all_rounds(plan, prepared, stage, loops, (*around, number)) or []
    return found


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

    def take_rounds(loop: Rounds, around: tuple[int, ...]) -> bool:
        """Take a loop's rounds until one is missing, or it has come to rest; whether it has."""
        for number in itertools.count():
            now = (*around, number)
            # Also what does not depend on one that is not there.
            done = [take(StageKey(p.name, now)) if isinstance(p, StageRecord) else take_rounds(p, now) for p in loop.parts]
            if not all(done) or not loop.goes_on(valid, now):
                return all(done)
        raise AssertionError  # it counts for ever

    for part in groups(plan):
        take(StageKey(part.name)) if isinstance(part, StageRecord) else take_rounds(part, ())
    return valid


def pieces(plan: PlanRecord, prepared: Mapping[str, Piece]) -> tuple[list[str], list[str]]:
    """All pieces of work of an epoch in order, and those that are not prepared, a loop that is not at rest by its next round."""
    found = [str(key) for part in groups(plan) for key in _pieces_of(part, prepared, ())]
    return found, [name for name in found if name not in prepared]


def _pieces_of(part: StageRecord | Rounds, prepared: Mapping[str, Piece], around: tuple[int, ...]) -> Iterator[StageKey]:
    if isinstance(part, StageRecord):
        yield StageKey(part.name, around)
        return
    last = part.last(prepared, around)
    for number in range((part.next(prepared, around) if last is None else last) + 1):
        for inner in part.parts:
            yield from _pieces_of(inner, prepared, (*around, number))
