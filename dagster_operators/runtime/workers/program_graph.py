"""Which programs a subtask has, who reads whose rows, and in which order they are called. No Arrow, no state: data only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from dagster_operators.errors import PipelineError


@dataclass(frozen=True)
class Edge:
    """One program reads what another puts out.

    Attributes:
        source: Who puts out.
        port: At which output.
        target: Who reads.
        input: At which of its inputs.
        feedback: Whether the edge closes a loop: its rows wait until the batch that caused them is through.
        loop: The name of that loop.
        limit: How many rounds rows may take in it; by default as many as the subtask allows.
        ends: Whether rows that would take more are dropped.
    """

    source: str
    port: str
    target: str
    input: int = 0
    feedback: bool = False
    loop: str | None = None
    limit: int | None = None
    ends: bool = False


Target: TypeAlias = tuple[str, int]
"""A program and one of its inputs."""


class ProgramGraph:
    """The programs of a subtask.

    Args:
        inputs: How many inputs each program has; the programs in an order in which rows pass through them.
        edges: Who reads whom. An input may have several edges: it gets the rows of all of them.
        entries: The inputs that get rows from outside.

    Attributes:
        groups: The programs in the order in which time passes: one after another, those of a loop together.

    Raises:
        PipelineError: An edge goes back and is no feedback, there is no such program, or an input gets no rows.

    >>> edges = [Edge("a", "main", "b"), Edge("a", "main", "c", 0), Edge("b", "main", "c", 1)]
    >>> graph = ProgramGraph({"a": 1, "b": 1, "c": 2}, edges, entries=[("a", 0)])
    >>> graph.groups
    (('a',), ('b',), ('c',))
    >>> [edge.target for edge in graph.readers("a", "main")]
    ['b', 'c']
    """

    def __init__(self, inputs: Mapping[str, int], edges: Iterable[Edge], entries: Iterable[Target]) -> None:
        self.inputs = dict(inputs)
        self.edges = tuple(edges)
        self.entries = frozenset(entries)
        self._place = {name: place for place, name in enumerate(inputs)}
        self._check()
        readers: dict[tuple[str, str], list[Edge]] = defaultdict(list)
        for edge in sorted(self.edges, key=lambda edge: (self._place[edge.target], edge.input)):
            readers[edge.source, edge.port].append(edge)
        self._readers = {key: tuple(found) for key, found in readers.items()}
        self.groups = self._grouped()

    def readers(self, source: str, port: str) -> tuple[Edge, ...]:
        """The edges that take the rows of a port, in the order in which their programs are called."""
        return self._readers.get((source, port), ())

    def ports_read(self, source: str) -> frozenset[str]:
        """The ports of a program that another one reads."""
        return frozenset(port for name, port in self._readers if name == source)

    def sources(self, target: str, index: int) -> tuple[Edge, ...]:
        """The edges into an input that decide its time: all but feedback, behind which no time can be that is not before it."""
        return tuple(edge for edge in self.edges if (edge.target, edge.input) == (target, index) and not edge.feedback)

    def _check(self) -> None:
        for edge in self.edges:
            for name in (edge.source, edge.target):
                if name not in self._place:
                    raise PipelineError(f"there is no program {name!r}", remedy=f"there are: {', '.join(self._place)}")
            if not edge.feedback and self._place[edge.source] >= self._place[edge.target]:
                raise PipelineError(
                    f"{edge.target!r} reads {edge.source!r}, which comes after it",
                    operator=edge.target,
                    remedy="order the programs so that rows pass from first to last; an edge that goes back is feedback",
                )
        fed = self.entries | {(edge.target, edge.input) for edge in self.edges}
        for name, count in self.inputs.items():
            for index in range(count):
                if (name, index) not in fed:
                    raise PipelineError(f"input {index} gets no rows", operator=name, remedy="connect it")
            if count and all(not self._timed(name, index) for index in range(count)):
                raise PipelineError("only feedback leads to it", operator=name, remedy="begin the loop with rows from outside it")

    def _timed(self, name: str, index: int) -> bool:
        return (name, index) in self.entries or bool(self.sources(name, index))

    def _grouped(self) -> tuple[tuple[str, ...], ...]:
        """Loops as stretches of the order; what lies within a stretch without being of the loop is called with it."""
        names = tuple(self._place)
        back: dict[int, int] = {}
        for edge in self.edges:
            if edge.feedback:
                low, high = sorted((self._place[edge.source], self._place[edge.target]))
                back[low] = max(high, back.get(low, low))
        groups: list[tuple[str, ...]] = []
        begin = end = 0
        for place in range(len(names)):
            end = max(end, back.get(place, place))
            if place == end:
                groups.append(names[begin : end + 1])
                begin = end = place + 1
        return tuple(groups)


def chain(names: Sequence[str], port: str) -> tuple[Edge, ...]:
    """Edges that make each program read a port of the one before.

    >>> [(edge.source, edge.target) for edge in chain(["a", "b", "c"], "main")]
    [('a', 'b'), ('b', 'c')]
    """
    return tuple(Edge(before, port, after) for before, after in pairwise(names))
