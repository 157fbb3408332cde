"""Where an operator may hold capabilities from epoch to epoch: made at its beginning, told of and written at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dagster_operators.errors import PipelineError
from dagster_operators.graph.state_tables import StateTable
from dagster_operators.operators.frontier.capability import Capability, Outlet
from dagster_operators.operators.frontier.capability_set import CapabilitySet
from dagster_operators.operators.frontier.declared import NotifyState, StashState, ValueState
from dagster_operators.operators.frontier.kept import Hold, Kept
from dagster_operators.operators.frontier.notificator import FrontierNotificator
from dagster_operators.operators.frontier.spread_stash import SPREAD, SpreadStash
from dagster_operators.operators.frontier.stash import Stash

if TYPE_CHECKING:
    from dagster_operators.operators.frontier.definition import State


class Found(dict[str, Any]):
    """What an operator declared, by name; asked for anything else, it says what there is.

    >>> Found({"stash": 1})["stahs"]
    Traceback (most recent call last):
    dagster_operators.errors.PipelineError: no state 'stahs' is declared. To do: declare it where the operator is ...
    """

    def __missing__(self, name: str) -> Any:
        told = ", ".join(self) or "none"
        raise PipelineError(
            f"no state {name!r} is declared",
            remedy=f"declare it where the operator is built: state={{{name!r}: ...}}; declared: {told}",
        )


class Places:
    """What an operator declared, as it finds it.

    Args:
        declared: What it declared.
        state: Its state tables.
        outlets: Its outputs.
        kept: What was held before.

    Attributes:
        found: What it declared, by name.
    """

    def __init__(self, declared: State, state: Mapping[str, Any], outlets: Sequence[Outlet], kept: Kept | None) -> None:
        self._state = state
        self._outlets = outlets
        self._kept = kept
        self.found = Found({name: self._made(name, what) for name, what in declared.items()})

    def _made(self, name: str, what: Any) -> Any:
        if isinstance(what, StateTable | ValueState):
            return self._state[name]
        if isinstance(what, StashState):
            return self._stash(name)
        holds = [] if self._kept is None else self._kept.holds(name)
        if isinstance(what, NotifyState):
            return self._notificator(holds)
        return CapabilitySet(Capability(hold.time, self._outlets[hold.output]) for hold in holds)

    def _stash(self, name: str) -> Stash:
        if self._kept is None or f"{name}{SPREAD}" not in self._state:
            return Stash.of(self._state[name], self._outlets)
        return SpreadStash(self._state[name], self._state[f"{name}{SPREAD}"], self._outlets, self._kept)

    def _notificator(self, holds: Sequence[Hold]) -> FrontierNotificator:
        notificator = FrontierNotificator()
        for hold in holds:
            capability = Capability(hold.time, self._outlets[hold.output])
            for _ in range(hold.requests):
                notificator.notify_at(capability)
        return notificator

    def holds(self) -> list[Hold]:
        """What is held in all of them."""
        return [hold for name, place in self.found.items() for hold in _holds(name, place)]

    def undeclared(self, initial: Sequence[Hold]) -> list[tuple[Outlet, Any]]:
        """The times that are held neither in one of them nor by the initial capabilities, with the output."""
        known = Counter((hold.output, hold.time) for hold in [*self.holds(), *initial])
        return [
            (outlet, time)
            for outlet in self._outlets
            for time, count in outlet.counts.items()
            if count > known[outlet.number, time]
        ]

    def save(self, initial: Sequence[Hold]) -> None:
        """Write what is held, and the rows that wait."""
        for place in self.found.values():
            if isinstance(place, Stash):
                place.save()
        if self._kept is not None:
            of_stashes = {name for name, place in self.found.items() if isinstance(place, Stash)}
            self._kept.save(hold for hold in [*self.holds(), *initial] if hold.place not in of_stashes)


def _holds(name: str, place: Any) -> list[Hold]:
    if isinstance(place, FrontierNotificator):
        requests = place.requests()
        return [Hold(name, each.capability.outlet.number, each.capability.time, each.count) for each in requests]
    if isinstance(place, Stash):
        return [Hold(name, each.outlet.number, each.time) for each in place.capabilities()]
    return [Hold(name, each.outlet.number, each.time) for each in place] if isinstance(place, CapabilitySet) else []
