"""A physical plan: what does the work, in which order, and how rows get from one to the next; stages are cut from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dagster_operators.graph.alternatives import Choice
from dagster_operators.graph.exchange import Exchange
from dagster_operators.graph.outputs import SinkOutput, Table
from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.scope import OUTSIDE, Scope
from dagster_operators.operators.physical import PhysicalOperator, TableOperator


@dataclass(frozen=True)
class Edge:
    """A way into an operator.

    Attributes:
        stream: Where the rows come from.
        exchange: Which of them must meet.
        is_met: Whether they lie so already, so that nothing moves.
        is_unique: Whether no two of them are equal in the columns that the operator asks for.
    """

    stream: StreamRef
    exchange: Exchange
    is_met: bool = False
    is_unique: bool = False


@dataclass(frozen=True)
class PhysicalNode:
    """A physical operator with its place in the plan.

    Attributes:
        name: Unique in the plan: that of the logical operator, for further parts of it with a name of their own behind it.
        logical: The name of the logical operator that it works for.
        operator: What does the work.
        inputs: The ways in.
        chain: Whether it may share a stage with the operator before it, as its author said.
        fingerprint: Changes when it would compute something else.
        choice: Which way of doing its work was taken, where the logical operator has several.
        scope: The loop that it is in.
        repeats: Whether it gives the same rows again for the same rows.
    """

    name: str
    logical: str
    operator: PhysicalOperator[Any]
    inputs: tuple[Edge, ...]
    chain: bool
    fingerprint: str
    choice: Choice | None = None
    scope: str = OUTSIDE
    repeats: bool = True


@dataclass(frozen=True)
class PhysicalPlan:
    """The physical operators of a pipeline that lead to a table or a sink.

    Attributes:
        pipeline: The pipeline's name.
        nodes: By name, in topological order.
        names: What the streams are called that leave a stage or may.
        tables: The tables, by the stream that goes to them.
        sinks: The sinks, by the stream that goes to them.
        feedback: The streams that go round, by the loop variable that has their rows in the next round.
        loops: The loops, by name.
    """

    pipeline: str
    nodes: Mapping[str, PhysicalNode]
    names: Mapping[StreamRef, str]
    tables: Mapping[StreamRef, Table]
    sinks: Mapping[StreamRef, tuple[SinkOutput, ...]] = field(default_factory=dict)
    feedback: Mapping[str, StreamRef] = field(default_factory=dict)
    loops: Mapping[str, Scope] = field(default_factory=dict)

    def __iter__(self) -> Iterator[PhysicalNode]:
        return iter(self.nodes.values())

    @cached_property
    def consumers(self) -> Mapping[StreamRef, tuple[str, ...]]:
        """The nodes that read each stream, once for each input."""
        found: dict[StreamRef, tuple[str, ...]] = {}
        for node in self:
            for edge in node.inputs:
                found[edge.stream] = (*found.get(edge.stream, ()), node.name)
        return found

    @cached_property
    def side_streams(self) -> Mapping[str, tuple[StreamRef, ...]]:
        """Of each node the streams of ports other than the main one that somebody reads."""
        read = {*self.consumers, *self.tables, *self.sinks, *self.feedback.values()}
        found: dict[str, tuple[StreamRef, ...]] = {}
        for stream in self.names:
            if not stream.is_main and stream in read:
                found[stream.operator] = (*found.get(stream.operator, ()), stream)
        return found

    def own_table(self, node: str) -> str | None:
        """The dataset of the table that is a node's state; None if its state is its own, or it has none."""
        operator = self.nodes[node].operator
        if not isinstance(operator, TableOperator) or not operator.remembers:
            return None
        return f"tables/{self.tables[StreamRef(node)].name}"

    def ends_at(self, stream: StreamRef) -> bool:
        """Whether a stream goes to a table or a sink, or into the next round of a loop whose rounds are written."""
        return stream in self.tables or stream in self.sinks or stream in self._kept_for_next_round

    @cached_property
    def _kept_for_next_round(self) -> frozenset[StreamRef]:
        scopes = {name: self.loops.get(self.nodes[name].scope) for name in self.feedback}
        within = {name for name, loop in scopes.items() if loop is not None and loop.within_subtask}
        return frozenset(stream for name, stream in self.feedback.items() if name not in within)

    def name_of(self, stream: StreamRef) -> str:
        """What a stream is called where it leaves its stage: by its table, if it goes to one."""
        if stream in self.tables:
            return self.tables[stream].name
        name = self.names.get(stream, str(stream))
        return f"{name}_stream" if name.lower() in self._taken else name

    @cached_property
    def _taken(self) -> frozenset[str]:
        return frozenset(table.name.lower() for table in self.tables.values())
