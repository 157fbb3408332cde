"""A program of data sets as the optimizer sees it: operators, and the edges between them.

Operators are built from the sources on, each with the estimate of its rows. A program is read by one optimization at a time:
the numbers of parts of unions, and what is in an iteration, are found on the way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Final

from dagster_operators.errors import PipelineError
from dagster_operators.optimizer.estimates import UNKNOWN, Estimate
from dagster_operators.optimizer.properties.distribution import Distribution
from dagster_operators.optimizer.properties.fields import NOTHING_FORWARDED, FieldSet, Forwarding
from dagster_operators.optimizer.properties.local_order import UNORDERED, LocalOrder
from dagster_operators.optimizer.strategies import Ship, Temp

if TYPE_CHECKING:
    from dagster_operators.optimizer.descriptors import Descriptor

SOLUTION_SET: Final = "Solution Set"
MOST_ROUNDS: Final = 100
"""Of so many rounds no more are counted in costs."""


class Edge:
    """A way from an operator to one that reads it.

    Attributes:
        source: Where the rows come from.
        target: Who reads them.
        ship: How they move, where the user or a union says so.
        temp: Whether they are kept for the rounds of an iteration.
    """

    def __init__(self, source: Node, target: Node, ship: Ship | None = None) -> None:
        self.source = source
        self.target = target
        self.ship = ship
        self.temp = Temp.NONE
        source.outgoing.append(self)


class Node:
    """An operator.

    Args:
        kind: What plans show it as, such as ``Map``.
        name: What the user calls it.
        inputs: What it reads.
        parallelism: How many parts its rows are in.
        descriptors: The ways of running it.
        estimate: How much it gives.
        forwarding: For each input, the fields that it hands on.
        forwarding_in_order: For each input, the fields that it hands on in the order in which they come.
        broadcasts: The data sets that each part has, by name.
        unique: Sets of fields in which no two of its rows are equal.
        ships: For each input, how its rows move, where the user says so.
        work: What is done to the rows, for whoever runs the plan.

    Attributes:
        outgoing: The edges to its readers.
        is_dynamic: Whether its rows are others in each round of the iteration that it is in.
        weight: How many rounds are expected, where they are.
        function: The kind of the user's function that it calls; empty where it calls none.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        inputs: Sequence[Node] = (),
        *,
        parallelism: int,
        descriptors: Sequence[Descriptor] = (),
        estimate: Estimate = UNKNOWN,
        forwarding: Sequence[Forwarding] = (),
        forwarding_in_order: Sequence[Forwarding] = (),
        broadcasts: Mapping[str, Node] | None = None,
        unique: Sequence[FieldSet] = (),
        ships: Sequence[Ship | None] = (),
        work: object | None = None,
    ) -> None:
        self.kind = kind
        self.name = name
        self.parallelism = parallelism
        self.descriptors = tuple(descriptors)
        self.estimate = estimate
        self.forwarding = tuple(forwarding) or (NOTHING_FORWARDED,) * len(inputs)
        self.forwarding_in_order = tuple(forwarding_in_order) or self.forwarding
        self.unique = tuple(unique)
        self.work = work
        self.function = ""
        self.outgoing: list[Edge] = []
        self.is_dynamic = False
        self.weight = 1
        fixed = tuple(ships) or (None,) * len(inputs)
        self.inputs = tuple(Edge(node, self, ship) for node, ship in zip(inputs, fixed, strict=True))
        self.broadcasts = {key: Edge(node, self, Ship.BROADCAST) for key, node in (broadcasts or {}).items()}

    @property
    def edges(self) -> tuple[Edge, ...]:
        """All ways in."""
        return (*self.inputs, *self.broadcasts.values())

    @property
    def readers(self) -> int:
        """How many edges lead out of it."""
        return len(self.outgoing)

    @property
    def is_branching(self) -> bool:
        """Whether it has several readers."""
        return len(self.outgoing) > 1

    @property
    def ends_of_round(self) -> tuple[Node, ...]:
        """What leaves a round, of an iteration."""
        return ()

    def __repr__(self) -> str:
        return f"{self.kind} {self.name}"


class Source(Node):
    """What a program reads.

    Args:
        name: What the user calls it.
        parallelism: How many parts it is read in.
        estimate: How much it has.
        is_files: Whether bytes are read from a disk for it.
        distribution: How its rows lie over the parts.
        order: How they lie within each.
        unique: Sets of fields in which no two of its rows are equal.
    """

    def __init__(
        self,
        name: str,
        *,
        parallelism: int,
        estimate: Estimate = UNKNOWN,
        is_files: bool = False,
        distribution: Distribution | None = None,
        order: LocalOrder = UNORDERED,
        unique: Sequence[FieldSet] = (),
    ) -> None:
        super().__init__("Data Source", name, parallelism=parallelism, estimate=estimate, unique=unique)
        self.is_files = is_files
        self.distribution = distribution or Distribution()
        self.order = order


class Sink(Node):
    """Where the rows of a data set go."""

    def __init__(self, name: str, source: Node, *, parallelism: int) -> None:
        super().__init__("Data Sink", name, [source], parallelism=parallelism, estimate=source.estimate)


class Union(Node):
    """The rows of two data sets. Its parts are as many as those of its reader, of which it has one."""

    def __init__(self, name: str, first: Node, second: Node, *, estimate: Estimate = UNKNOWN) -> None:
        everything = Forwarding.everything()
        super().__init__("Union", name, [first, second], parallelism=0, estimate=estimate, forwarding=[everything, everything])


class Placeholder(Node):
    """Where rows come into a round: a partial solution, a workset or a solution set."""

    def __init__(self, kind: str, name: str, *, parallelism: int, estimate: Estimate, weight: int) -> None:
        super().__init__(kind, name, parallelism=parallelism, estimate=estimate)
        self.is_dynamic = True
        self.weight = weight


class Joiner(Node):
    """Holds two ends of a program together: sinks, or what leaves a round."""

    def __init__(self, first: Node, second: Node, descriptors: Sequence[Descriptor] = ()) -> None:
        super().__init__("Joiner", "", [first, second], parallelism=1, descriptors=descriptors)


def mark_dynamic(ends: Sequence[Node], weight: int) -> None:
    """Find out which operators of a step give other rows in each round; what they read of others is kept.

    Args:
        ends: What leaves a round.
        weight: How many rounds are expected.

    Raises:
        PipelineError: There is an iteration in the round.
    """
    for node in ordered(ends, into_loops=False):
        dynamic = [edge.source.is_dynamic for edge in node.edges]
        if isinstance(node, Placeholder) or not any(dynamic):
            continue
        if node.ends_of_round:
            raise PipelineError(
                "an iteration is in a round of another one", operator=node.name, remedy="let one iteration come behind the other"
            )
        node.is_dynamic, node.weight = True, weight
        if not all(dynamic):
            for edge in node.inputs:
                if not edge.source.is_dynamic:
                    edge.temp = edge.temp.with_cache()


def ordered(ends: Sequence[Node], *, into_loops: bool = True) -> list[Node]:
    """Operators and all before them, each once, and behind all that it reads.

    Args:
        ends: Where to begin.
        into_loops: Whether what is in an iteration is there too, right before the iteration.
    """
    operators: dict[Node, None] = {}
    waiting = [(node, False) for node in reversed(ends)]
    seen: set[Node] = set()
    while waiting:
        node, ready = waiting.pop()
        if ready:
            operators[node] = None
        elif node not in seen:
            seen.add(node)
            sources = [edge.source for edge in node.edges]
            waiting.append((node, True))
            if into_loops:
                waiting.extend((end, False) for end in reversed(node.ends_of_round))
            waiting.extend((source, False) for source in reversed(sources))
    return list(operators)


def named_sources(ends: Sequence[Node]) -> list[Source]:
    """The sources among operators and all before them, which are given names of their own.

    Args:
        ends: The operators.

    >>> first, second = Source("rows", parallelism=1), Source("rows", parallelism=1)
    >>> [source.name for source in named_sources([first, second])]
    ['rows 0', 'rows 1']
    """
    found = [(number, node) for number, node in enumerate(ordered(ends)) if isinstance(node, Source)]
    for number, source in found:
        source.name = f"{source.name} {number}"
    return [source for _, source in found]


def name_apart(ends: Sequence[Node]) -> None:
    """Give operators of one name names of their own, by which what they did is counted.

    Args:
        ends: The ends of a program.

    >>> rows = Source("rows", parallelism=1)
    >>> first = Node("Map", "Map", [rows], parallelism=1)
    >>> second = Node("Map", "Map", [first], parallelism=1)
    >>> name_apart([second])
    >>> first.name, second.name
    ('Map', 'Map (2)')
    """
    taken = {node.name for node in ordered(ends)}
    met: set[str] = set()
    for node in ordered(ends):
        if isinstance(node, Placeholder | Joiner | Sink) or node.name not in met:
            met.add(node.name)
            continue
        numbers = (f"{node.name} ({number})" for number in count(2))
        node.name = next(name for name in numbers if name not in taken)
        taken.add(node.name)
