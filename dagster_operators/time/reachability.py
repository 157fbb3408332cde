"""Which times can still come where: the frontiers of a graph's inputs and outputs, from the times that are held in it.

(The task is that of timely dataflow's ``timely/src/progress/reachability.rs``, which works on changes. Here the answer is found
anew when it is asked for, once per epoch: without loops by one pass in topological order, in time linear in the graph.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, TypeAlias

from dagster_operators.errors import PipelineError
from dagster_operators.time.antichain import insert_into
from dagster_operators.time.components import components, in_loop
from dagster_operators.time.frontier import Frontier
from dagster_operators.time.loops import check_loops
from dagster_operators.time.summary import IDENTITY, results_in
from dagster_operators.time.timestamp import Time


@dataclass(frozen=True, slots=True)
class InputOf:
    """The location where rows enter a node of a graph.

    >>> InputOf("count"), InputOf("join", 1)
    (InputOf(node='count', port=0), InputOf(node='join', port=1))
    """

    node: str
    port: str | int = 0


@dataclass(frozen=True, slots=True)
class OutputOf:
    """The location where rows leave a node of a graph.

    >>> OutputOf("count"), OutputOf("split", "rejects")
    (OutputOf(node='count', port=0), OutputOf(node='split', port='rejects'))
    """

    node: str
    port: str | int = 0


Location: TypeAlias = InputOf | OutputOf


class Reachability:
    """A graph of nodes with ports, ready to be asked for frontiers.

    Args:
        summaries: For each way through a node, from one of its inputs to one of its outputs, what it does to times; several
            where rows take different ways. Without an entry no row gets from that input to that output.
        edges: Which outputs go to which inputs.

    Raises:
        PipelineError: A way leads from one node into another, or a loop does not advance time.

    >>> from dagster_operators.time import Antichain
    >>> ring = Reachability(
    ...     {
    ...         (InputOf("a"), OutputOf("a")): [0],
    ...         (InputOf("b"), OutputOf("b")): [0],
    ...         (InputOf("c"), OutputOf("c")): [1],
    ...     },
    ...     [(OutputOf("a"), InputOf("b")), (OutputOf("b"), InputOf("c")), (OutputOf("c"), InputOf("a"))],
    ... )
    >>> frontiers = ring.frontiers({OutputOf("a"): [17]})
    >>> [frontiers[InputOf(node)] for node in "abc"]
    [Frontier([18]), Frontier([17]), Frontier([17])]
    """

    def __init__(
        self, summaries: Mapping[tuple[InputOf, OutputOf], Iterable[Any]], edges: Iterable[tuple[OutputOf, InputOf]]
    ) -> None:
        self._index: dict[Location, int] = {}
        self._links: dict[int, list[tuple[int, Any]]] = {}
        for (before, after), ways in summaries.items():
            if before.node != after.node:
                raise PipelineError(f"a summary leads from {before} to {after}", operator=after.node, remedy="use an edge")
            links, location = self._links_of(before), self._number(after)
            links.extend((location, way) for way in ways)
        for output, input_ in edges:
            self._links_of(output).append((self._number(input_), IDENTITY))
        check_loops(self._links, [location.node for location in self._index])
        graph = {location: [after for after, _ in links] for location, links in self._links.items()}
        self._order = [(component, in_loop(component, graph)) for component in components(graph)]

    def frontiers(self, held: Mapping[Location, Iterable[Time]]) -> dict[Location, Frontier]:
        """The frontier of every location: the times that may still pass there.

        Args:
            held: The times at which rows may come forth at a location: that sources have not finished, that operators hold at
                their outputs, and of rows that wait at inputs.

        Raises:
            PipelineError: The graph has no such location.
            TimestampError: A time does not fit the summaries on its way.

        >>> graph = Reachability({(InputOf("late"), OutputOf("late")): [5]}, [(OutputOf("a"), InputOf("late"))])
        >>> graph.frontiers({OutputOf("a"): [17]})[OutputOf("late")]
        Frontier([22])
        """
        times: list[list[Any]] = [[] for _ in self._index]
        for location, elements in held.items():
            if location not in self._index:
                raise PipelineError(
                    f"the graph has no {location}", operator=location.node, remedy="hold times where the graph has an edge"
                )
            for element in elements:
                insert_into(times[self._index[location]], element)
        for component, loop in self._order:
            self._spread(component, times, set(component) if loop else frozenset())
        return {location: Frontier(times[number]) for location, number in self._index.items()}

    def _spread(self, component: list[int], times: list[list[Any]], again: AbstractSet[int]) -> None:
        """Hand on the times of locations to those after them, and from those to be visited again what they get by that."""
        waiting = deque((location, time) for location in component for time in times[location])
        while waiting:
            location, time = waiting.popleft()
            if again and time not in times[location]:
                continue
            for after, summary in self._links[location]:
                result = results_in(summary, time) if summary is not IDENTITY else time
                if result is not None and insert_into(times[after], result) and after in again:
                    waiting.append((after, result))

    def _number(self, location: Location) -> int:
        number = self._index.setdefault(location, len(self._index))
        self._links.setdefault(number, [])
        return number

    def _links_of(self, location: Location) -> list[tuple[int, Any]]:
        return self._links[self._number(location)]
