"""What did not run for some epochs: since when, and whether rows came meanwhile that are missing in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.slice import JSON
from dagster_operators.operators.relational.source import Source
from dagster_operators.plans.compared import ComparedPlans
from dagster_operators.plans.logical_plan import LogicalPlan
from dagster_operators.plans.matching import Matching, matched

Positions = Mapping[str, tuple[JSON, str]]
"""Where each source stands, with what gives the position its meaning."""


@dataclass(frozen=True)
class Pause:
    """Something that an epoch before the last one ran, and the last one did not.

    Attributes:
        epoch: The last epoch that ran it.
        former: What it was called then.
        missed: Whether its sources went on since: rows came that are not in it.
        changed: What else is not as it was then; empty if nothing is.
        means_another: Whether its state would mean something else.
        identity: What its state is addressed by; empty for tables.
    """

    epoch: int
    former: str
    missed: bool
    changed: str = ""
    means_another: bool = False
    identity: str = ""

    @property
    def harmless(self) -> bool:
        """Whether it can go on as if there had been no pause."""
        return not (self.missed or self.changed or self.means_another)


@dataclass(frozen=True)
class Pauses:
    """All that was paused, by the names of now.

    Attributes:
        operators: Operators that have state.
        ends: Tables and sinks, as ``table totals``.
    """

    operators: Mapping[str, Pause] = field(default_factory=dict)
    ends: Mapping[str, Pause] = field(default_factory=dict)


@dataclass(frozen=True)
class PastEpoch:
    """A completed epoch.

    Attributes:
        epoch: Its number.
        plan: What it ran.
        positions: Where its sources stood at its end.
        identities: What the state of operators was addressed by, where that was not their name.
    """

    epoch: int
    plan: LogicalPlan
    positions: Positions = field(default_factory=dict)
    identities: Mapping[str, str] = field(default_factory=dict)


def find_pauses(
    after: LogicalPlan,
    past: Iterable[PastEpoch],
    now: Positions,
    operators: Mapping[str, Callable[[str], bool]],
    ends: Collection[str],
) -> Pauses:
    """Since when operators, tables and sinks did not run.

    Args:
        after: What the next epoch is to run.
        past: Completed epochs, the last one first; of each plan the last epoch is enough.
        now: Where the sources of ``after`` stand.
        operators: Those of ``after`` that the last epoch did not run, with whether the state under a name may be theirs.
        ends: The tables and sinks of ``after`` that the last epoch did not have, as ``table totals``.
    """
    found, found_ends = dict[str, Pause](), dict[str, Pause]()
    for epoch in past:
        then = _Then(epoch, after, now)
        for name, may_have in operators.items():
            pause = then.of_operator(name) if name not in found else None
            if pause and may_have(pause.identity):
                found[name] = pause
        found_ends |= {name: pause for name in ends if name not in found_ends and (pause := then.of_end(name))}
        if len(found) == len(operators) and len(found_ends) == len(ends):
            break
    return Pauses(found, found_ends)


class _Then:
    """A past epoch beside the plan of now."""

    def __init__(self, epoch: PastEpoch, after: LogicalPlan, now: Positions) -> None:
        self._epoch = epoch
        self._matching: Matching = matched(epoch.plan, after)
        self._compared = ComparedPlans(self._matching)
        self._now = now

    def of_operator(self, name: str) -> Pause | None:
        former = self._matching.operators.get(name)
        if former is None or former not in self._matching.before.running:
            return None
        changed = self._compared.changed_input(name, former) or self._compared.changed_rows(name, former)
        another = self._compared.means_another(name, former)
        identity = self._epoch.identities.get(former, former)
        return Pause(self._epoch.epoch, former, self._missed(name), changed, another, identity)

    def of_end(self, end: str) -> Pause | None:
        ends = self._matching.before.streams_of_ends
        if end not in ends:
            return None
        stream, earlier = self._matching.after.streams_of_ends[end], ends[end]
        same = (self._matching.after.up[stream.operator], stream.port) == (
            self._matching.before.up[earlier.operator],
            earlier.port,
        )
        changed = "" if same else "what is computed before it changed"
        another = self._compared.means_another(stream.operator, earlier.operator) if self._is_same(stream, earlier) else True
        return Pause(self._epoch.epoch, end.partition(" ")[2], self._missed(stream.operator), changed, another)

    def _is_same(self, stream: StreamRef, earlier: StreamRef) -> bool:
        return self._matching.operators.get(stream.operator) == earlier.operator

    def _missed(self, name: str) -> bool:
        """Whether a source before an operator went on since that epoch."""
        nodes = self._matching.after.nodes
        sources = [one for one in self._matching.after.upstream([name]) if nodes[one].operator.kind == Source.kind]
        return any(self._now.get(source) != self._position_then(source) for source in sources)

    def _position_then(self, source: str) -> tuple[JSON, str] | None:
        former = self._matching.operators.get(source)
        return None if former is None else self._epoch.positions.get(former)
