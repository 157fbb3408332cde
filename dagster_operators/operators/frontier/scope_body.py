"""The operators within a scope, and how they hang together: data alone.

A source of rows within a scope is the name of an operator and the number of one of its outputs; ``ENTER`` and ``FEEDBACK`` stand
for what comes from outside and what went around.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dagster_operators.graph.state_tables import StateTable
from dagster_operators.operators.frontier.declared import StashState, ValueState
from dagster_operators.time.product import Product
from dagster_operators.time.reachability import InputOf, OutputOf, Reachability
from dagster_operators.time.summary import IDENTITY
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.operators.frontier.definition import Definition

ENTER: Final = "enter"
FEEDBACK: Final = "feedback"
LEAVE: Final = "leave"

Source: TypeAlias = tuple[str, int]
"""An operator's name and the number of one of its outputs."""


class ScopeNode:
    """An operator within a scope.

    Args:
        name: Its name there.
        definition: What it is made of.
        inputs: For each of its inputs the sources of its rows.
        depth: In how many scopes with rounds it is within this one.

    Attributes:
        exchanged: The inputs that ask for the rows of the keys that rows enter by, where a scope has these in several subtasks.
    """

    depth = 0
    exchanged: tuple[int, ...] = ()

    def __init__(self, name: str, definition: Definition, inputs: Sequence[Sequence[Source]], depth: int = 0) -> None:
        if depth:
            self.depth = depth
        self.name = name
        self.definition = definition
        self.inputs = tuple(tuple(sources) for sources in inputs)

    @property
    def keeps_by_key(self) -> bool:
        """Whether it keeps rows that belong to one subtask each."""
        return any(
            isinstance(kept, StashState | ValueState) or (isinstance(kept, StateTable) and kept.kind != "global")
            for kept in self.definition.state.values()
        )


class ScopeBody:
    """What is within a scope.

    Args:
        nodes: The operators, each behind those that it reads, but for what goes around.
        feedbacks: For each way around by how much it advances time, and its sources. The ways into scopes within and out of
            them are here, too, and what goes around there: with their summaries.
        leaves: For each output of the scope its sources.
        entries: How many streams enter.
        iterative: Whether times within are of two parts, the time outside and the round, of which feedback advances the second.
        limit: How often rows may go around.
        likes: A source with the same columns, of those feedbacks whose columns are not those of what enters first.
    """

    likes: Mapping[int, Source] = MappingProxyType({})

    def __init__(
        self,
        nodes: Sequence[ScopeNode],
        feedbacks: Sequence[tuple[Any, Sequence[Source]]],
        leaves: Sequence[Sequence[Source]],
        *,
        entries: int,
        iterative: bool,
        limit: int,
        likes: Mapping[int, Source] | None = None,
    ) -> None:
        if likes:
            self.likes = dict(likes)
        self.nodes = tuple(nodes)
        self.feedbacks = tuple((step, tuple(sources)) for step, sources in feedbacks)
        self.leaves = tuple(tuple(sources) for sources in leaves)
        self.entries = entries
        self.iterative = iterative
        self.limit = limit

    def prefixed(self) -> list[tuple[str, Definition]]:
        """The operators, each with what the names of its state tables begin with."""
        return [(f"{node.name}__", node.definition) for node in self.nodes]

    def summary(self, number: int) -> Any:
        """What a way around does to times."""
        step = self.feedbacks[number][0]
        return Product(IDENTITY, step) if self.iterative and type(step) is int else step

    def inside(self, time: Any, depth: int = 0) -> Any:
        """A time from outside, within the scope, and within scopes in it."""
        for _ in range(depth + self.iterative):
            time = Product(time, 0)
        return time

    def outside(self, time: Any) -> Any:
        """A time of the scope, as it is outside."""
        return time.outer if self.iterative else time

    def edges(self) -> Iterator[tuple[Source, tuple[str, int]]]:
        """All pairs of a source and the input that reads it."""
        for node in self.nodes:
            for number, sources in enumerate(node.inputs):
                yield from ((source, (node.name, number)) for source in sources)
        for number, (_, sources) in enumerate(self.feedbacks):
            yield from ((source, (FEEDBACK, number)) for source in sources)
        for number, sources in enumerate(self.leaves):
            yield from ((source, (LEAVE, number)) for source in sources)

    def everywhere(self, entries: Collection[int]) -> frozenset[Source]:
        """The sources of which every subtask has all rows: they are made of nothing but rows that enter everywhere.

        Args:
            entries: The numbers of the streams whose rows do.
        """
        made_of = {(FEEDBACK, number): sources for number, (_, sources) in enumerate(self.feedbacks)}
        for node in self.nodes:
            if not node.keeps_by_key:
                before = tuple(source for sources in node.inputs for source in sources)
                made_of |= {(node.name, number): before for number in range(len(node.definition.ports))}
        found = {(ENTER, number) for number in entries} | made_of.keys()
        while left := {source for source in found & made_of.keys() if not found.issuperset(made_of[source])}:
            found -= left
        return frozenset(found)

    def reachability(self) -> Reachability:
        """Which times can come where.

        Raises:
            PipelineError: A way around does not advance time.
        """
        ways: dict[tuple[InputOf, OutputOf], list[Any]] = {}
        for node in self.nodes:
            outputs = range(len(node.definition.ports))
            for number in range(len(node.inputs)):
                for output, summaries in enumerate(node.definition.summaries_of(number) or [[IDENTITY] for _ in outputs]):
                    if summaries:
                        ways[InputOf(node.name, number), OutputOf(node.name, output)] = list(summaries)
        for number in range(len(self.feedbacks)):
            ways[InputOf(FEEDBACK, number), OutputOf(FEEDBACK, number)] = [self.summary(number)]
        return Reachability(ways, [(OutputOf(*source), InputOf(*reader)) for source, reader in self.edges()])

    def input_schemas(self, entries: Sequence[pa.Schema]) -> list[list[pa.Schema]]:
        """The columns of each input of each operator, for those of what enters; what goes around has those of the first."""
        known: dict[Source, pa.Schema] = {(ENTER, number): schema for number, schema in enumerate(entries)}
        alone = range(len(self.feedbacks))
        known |= {(FEEDBACK, number): entries[0] for number in alone if number not in self.likes}
        found = []
        for node in self.nodes:
            own = [known[self._like(sources[0])] for sources in node.inputs]
            for number, schema in enumerate(node.definition.schemas):
                known[node.name, number] = own[0] if schema is None else Schema.of(schema).to_arrow()
                for field in Schema.from_ddl(node.definition.adds).to_arrow() if node.definition.adds else ():
                    known[node.name, number] = known[node.name, number].append(field)
            found.append(own)
        return found

    def _like(self, source: Source) -> Source:
        """A source that is no way into a scope or out of one, with the same columns."""
        while source[0] == FEEDBACK and source[1] in self.likes:
            source = self.likes[source[1]]
        return source
