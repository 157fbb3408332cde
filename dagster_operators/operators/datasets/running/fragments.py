"""Fragments of a plan: the operators that work on a part in one task, since no row leaves its part between them.

An operator is a level above those whose rows are written down before it reads them. A fragment has operators of a single level:
so fragments never wait for each other in a circle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dagster_operators.operators.datasets.drivers.driver import Work
from dagster_operators.operators.datasets.running.claim_checks import Claims
from dagster_operators.operators.datasets.running.rounds_of_plan import channels_into
from dagster_operators.optimizer.candidates import Candidate, Channel
from dagster_operators.optimizer.program import Placeholder, Sink, Source, Union
from dagster_operators.optimizer.properties.fields import Fields
from dagster_operators.optimizer.properties.ordering import Ordering
from dagster_operators.optimizer.strategies import DriverStrategy, Ship

READ: Final = DriverStrategy("READ")
"""Hands on rows that were written down: of a source, a placeholder of a round, or the result of an iteration."""

JOINED: Final = DriverStrategy("JOIN_UNION")
"""Hands on the rows of several inputs."""

WRITE: Final = DriverStrategy("WRITE")
"""Hands on rows to a sink."""

UPDATE: Final = DriverStrategy("UPDATE_SOLUTION_SET")
"""Takes changes into the rows of a solution set, by their key."""


@dataclass(frozen=True)
class Incoming:
    """Where the rows of an input come from: a step of the same fragment, or a data set that was written down.

    Attributes:
        step: The step's number; None where the rows were written down.
        stored: The number of the data set that was written down.
        everything: Whether each part reads the rows of all parts.
        order: The order in which the rows of a part are sorted before.
    """

    step: int | None = None
    stored: int | None = None
    everything: bool = False
    order: Ordering | None = None


@dataclass(frozen=True)
class Outgoing:
    """Where rows of a step go.

    Attributes:
        stored: The number of the data set that they are written down as.
        step: The step.
        ship: How they move.
        parts: To how many parts.
        keys: The fields by which they move.
        ordering: The order of the ranges by which they move.
        partitioner: The user's function by which they move.
        boundaries: The user's boundaries of ranges.
        reader: The operator that reads them, for errors.
        bounds: The keys at which the second range, the third and so on begin; None before the keys are known.
    """

    stored: int
    step: int
    ship: Ship
    parts: int
    keys: Fields | None = None
    ordering: Ordering | None = None
    partitioner: object | None = None
    boundaries: object | None = None
    reader: str = ""
    bounds: tuple[tuple[Any, ...], ...] | None = None


@dataclass(frozen=True)
class FragmentStep:
    """An operator of a fragment.

    Attributes:
        number: Its number.
        name: The name that errors and functions have.
        strategy: How its work is done.
        work: The work.
        inputs: Where its rows come from.
        broadcasts: The numbers of the broadcast data sets, by name.
        in_round: Whether it is within an iteration.
        claims: What is taken for granted of its rows because its author declares it.
    """

    number: int
    name: str
    strategy: DriverStrategy
    work: Work
    inputs: tuple[Incoming, ...]
    broadcasts: Mapping[str, int] = field(default_factory=dict)
    in_round: bool = False
    claims: Claims | None = None


@dataclass(frozen=True)
class Fragment:
    """Operators that work on a part in one task.

    Attributes:
        steps: Each behind those that it reads.
        outgoing: Where rows leave it.
        parallelism: The number of parts.
        level: Fragments of lower levels come before.
    """

    steps: tuple[FragmentStep, ...]
    outgoing: tuple[Outgoing, ...]
    parallelism: int
    level: int


@dataclass
class Layout:
    """Candidates as fragments.

    Attributes:
        fragments: By level.
        stored: The number of the data set that a candidate's rows are written down as, where others need them as they lie.
    """

    fragments: list[Fragment]
    stored: dict[int, int]


class Numbers:
    """Numbers of data sets that are written down, each once."""

    def __init__(self) -> None:
        self._next = 0

    def new(self) -> int:
        """The next number."""
        self._next += 1
        return self._next


class Fragmenting:
    """Makes fragments of candidates.

    Args:
        candidates: Each behind those that it reads.
        numbers: Gives numbers of data sets.
        read: The numbers of data sets that are there already, by candidate: sources, placeholders and results of iterations.
        kept: The candidates whose rows are needed as they lie, by whoever asks.
        leaving: Channels to candidates outside of these, such as inputs of iterations, with the parallelism there.
        channels: The numbers of the data sets of channels from outside.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        numbers: Numbers,
        read: Mapping[int, int],
        *,
        kept: Iterable[Candidate] = (),
        leaving: Iterable[tuple[Channel, int]] = (),
        channels: Mapping[int, int] | None = None,
    ) -> None:
        self._candidates = {id(candidate): candidate for candidate in candidates}
        self._numbers = numbers
        self._read = read
        self._kept = list(kept)
        self._leaving = list(leaving)
        self.channels: dict[int, int] = dict(channels or {})
        """The number of the data set of each channel whose rows are written down."""
        self._stored: dict[int, int] = {}
        self._outgoing: dict[int, list[Outgoing]] = {}
        self._shared: dict[tuple[Any, ...], int] = {}
        self._levels: dict[int, int] = {}
        self._of: dict[int, int] = {}

    def layout(self) -> Layout:
        """The fragments."""
        for candidate in self._candidates.values():
            self._levels[id(candidate)] = self._level(candidate)
            self._of[id(candidate)] = id(candidate)
        for candidate in self._candidates.values():
            for channel in candidate.inputs:
                if self._together(candidate, channel):
                    self._unite(id(candidate), id(channel.source))
        for candidate in self._candidates.values():
            apart = [channel for channel in self._ways(candidate) if not self._together(candidate, channel)]
            for channel in (*apart, *candidate.broadcasts):
                self._write_down(channel, candidate.parallelism, candidate.node.name)
        for channel, parallelism in self._leaving:
            self._write_down(channel, parallelism, channel.source.node.name)
        for candidate in self._kept:
            self._keep(candidate)
        return Layout(self._fragments(), self._stored)

    def _ways(self, candidate: Candidate) -> Sequence[Channel]:
        return () if id(candidate) in self._read else candidate.inputs

    def _level(self, candidate: Candidate) -> int:
        levels = [0]
        if candidate.loop is not None:  # it waits for all that its rounds read, so that no fragment reads it and is read by it
            before = [channel.source for channel in (*candidate.inputs, *channels_into(candidate))]
            levels += [self._levels[id(source)] + 1 for source in before if id(source) in self._levels]
        for channel in (*self._ways(candidate), *candidate.broadcasts):
            if id(channel.source) in self._levels:
                cut = channel.ship.is_exchange or channel in candidate.broadcasts or not self._fits(candidate, channel)
                levels.append(self._levels[id(channel.source)] + cut)
        return max(levels)

    def _fits(self, candidate: Candidate, channel: Channel) -> bool:
        source = channel.source
        return id(source) in self._candidates and source.parallelism == candidate.parallelism

    def _together(self, candidate: Candidate, channel: Channel) -> bool:
        """Whether both ends of a channel are in one fragment."""
        same = self._levels.get(id(channel.source)) == self._levels[id(candidate)]
        reads = id(candidate) in self._read
        return not reads and not channel.ship.is_exchange and self._fits(candidate, channel) and same

    def _unite(self, first: int, second: int) -> None:
        ends = self._head(first), self._head(second)
        self._of[max(ends)] = min(ends)

    def _head(self, number: int) -> int:
        while self._of[number] != number:
            number = self._of[number]
        return number

    def _write_down(self, channel: Channel, parts: int, reader: str) -> None:
        if id(channel.source) not in self._candidates or id(channel) in self.channels:
            return
        ordering = channel.ordering if channel.ship is Ship.RANGE else None
        by = (channel.ship, parts, channel.keys, ordering, channel.partitioner, channel.boundaries)
        same = (id(channel.source), *by[:4], id(channel.partitioner), id(channel.boundaries))
        if same not in self._shared:
            number = self._shared[same] = self._numbers.new()
            out = Outgoing(number, id(channel.source), *by, reader)
            self._outgoing.setdefault(id(channel.source), []).append(out)
        self.channels[id(channel)] = self._shared[same]

    def _keep(self, candidate: Candidate) -> None:
        if id(candidate) not in self._stored:
            number = self._stored[id(candidate)] = self._numbers.new()
            out = Outgoing(number, id(candidate), Ship.FORWARD, candidate.parallelism, reader=candidate.node.name)
            self._outgoing.setdefault(id(candidate), []).append(out)

    def _fragments(self) -> list[Fragment]:
        members: dict[int, list[Candidate]] = {}
        for number, candidate in self._candidates.items():
            members.setdefault(self._head(number), []).append(candidate)
        fragments = [self._fragment(group) for group in members.values()]
        return sorted(fragments, key=lambda fragment: fragment.level)

    def _fragment(self, group: Sequence[Candidate]) -> Fragment:
        numbers = {id(candidate): number for number, candidate in enumerate(group)}
        steps = tuple(self._step(candidate, numbers) for candidate in group)
        outgoing = [
            Outgoing(**{**vars(out), "step": numbers[id(candidate)]})
            for candidate in group for out in self._outgoing.get(id(candidate), ())
        ]  # fmt: skip
        return Fragment(steps, tuple(outgoing), group[0].parallelism, self._levels[id(group[0])])

    def _step(self, candidate: Candidate, numbers: Mapping[int, int]) -> FragmentStep:
        node = candidate.node
        work = node.work if isinstance(node.work, Work) else Work()
        broadcasts = {channel.name: self.channels[id(channel)] for channel in candidate.broadcasts}
        number = numbers[id(candidate)]
        if id(candidate) in self._read:
            inputs: tuple[Incoming, ...] = (Incoming(stored=self._read[id(candidate)]),)
            return FragmentStep(number, node.name or node.kind, READ, work, inputs)
        claims = Claims.of(candidate) if work.declares_forwarded and not candidate.title else None
        strategy = candidate.driver
        if isinstance(node, Union):
            strategy = JOINED
        elif isinstance(node, Sink):
            strategy = WRITE
        inputs = tuple(self._incoming(channel, numbers, candidate) for channel in candidate.inputs)
        return FragmentStep(number, node.name or node.kind, strategy, work, inputs, broadcasts, node.is_dynamic, claims)

    def _incoming(self, channel: Channel, numbers: Mapping[int, int], candidate: Candidate) -> Incoming:
        order = channel.local_ordering if channel.local.dams else None
        if self._together(candidate, channel):
            return Incoming(step=numbers[id(channel.source)], order=order)
        return Incoming(stored=self.channels[id(channel)], everything=channel.ship is Ship.BROADCAST, order=order)


def reads_what_is_there(candidate: Candidate) -> bool:
    """Whether a candidate's rows are there before its fragment runs."""
    return isinstance(candidate.node, Source | Placeholder) or candidate.loop is not None
