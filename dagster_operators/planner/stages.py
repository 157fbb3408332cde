"""Cutting a physical plan into stages.

An operator joins the stage of the operator before it when that operator's main output has no other consumer and goes to no table
or sink, neither asks for a new stage, and the stage does not get a second operator with state; batch operators follow each other
in one stage when they have the same key. So a stage is a tree of operators with one main output, and perhaps streams of other
ports beside it, and every stream that is read twice is computed once. (The rule is Arroyo's and Flink's chaining rule; a union
may chain too, since a stage here is one Spark job and not one task.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from dagster_operators.errors import PipelineError
from dagster_operators.graph.dataflow import Check, Dataflow, Table
from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.user_functions import contents_of
from dagster_operators.planner.lowering import lower
from dagster_operators.planner.physical_plan import PhysicalNode, PhysicalPlan


@dataclass(frozen=True)
class Output:
    """A stream that a stage writes.

    Attributes:
        ref: The stream.
        name: The table it goes to, or a name of its own.
        table: The table, if any.
    """

    ref: StreamRef
    name: str
    table: Table | None

    @property
    def dataset(self) -> str:
        """Where in the storage root its rows go."""
        return f"tables/{self.name}" if self.table else self.stream

    @property
    def stream(self) -> str:
        """Where its rows go if it is no table, or if some of them are marks of deleted rows."""
        return f"streams/{self.name}"


@dataclass(frozen=True)
class Stage:
    """A tree of operators that runs as one Dagster op.

    Attributes:
        name: The table it writes, or the operator it ends with.
        operators: The names of the logical operators that it does the work of, in topological order.
        nodes: The names of its physical operators, in topological order.
        inputs: The streams of other stages that it reads.
        upstream: The stages of those streams.
        outputs: What it writes, the main output of its last operator first.
        fingerprint: Changes when the stage would compute something else.
    """

    name: str
    operators: tuple[str, ...]
    nodes: tuple[str, ...]
    inputs: tuple[StreamRef, ...]
    upstream: tuple[str, ...]
    outputs: tuple[Output, ...]
    fingerprint: str

    @property
    def main(self) -> Output:
        """The main output of its last operator."""
        return self.outputs[0]

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables that it writes."""
        return tuple(output.table for output in self.outputs if output.table)

    def output(self, stream: StreamRef) -> Output | None:
        """What the stage writes of a stream; None when its rows stay within the stage."""
        return next((output for output in self.outputs if output.ref == stream), None)


def cut_stages(dataflow: Dataflow) -> tuple[Stage, ...]:
    """The stages of a dataflow in topological order; operators that lead to no table or sink are left out.

    Raises:
        PipelineError: The pipeline has no table.
    """
    return cut(lower(dataflow))


def cut(plan: PhysicalPlan) -> tuple[Stage, ...]:
    """The stages of a physical plan, in topological order.

    Raises:
        PipelineError: The pipeline has no table.
    """
    if not plan.tables:
        raise PipelineError("the pipeline writes no table", pipeline=plan.pipeline, remedy="end a stream with to_table(...)")
    return tuple(_Cut(plan).stages())


@dataclass
class _Group:
    """The nodes of a stage to be.

    Attributes:
        members: Their names.
        exclusive: Whether one of them is the only one of its kind that a stage may have.
    """

    members: list[str]
    exclusive: bool


class _Cut:
    """One plan on its way into stages."""

    def __init__(self, plan: PhysicalPlan) -> None:
        self._plan = plan
        self._place = {name: place for place, name in enumerate(plan.nodes)}
        self._group: dict[str, _Group] = {}

    def stages(self) -> Iterator[Stage]:
        for node in self._plan:
            self._join(node)
        groups = {id(group): group for group in self._group.values()}.values()
        for group in groups:
            group.members.sort(key=self._place.__getitem__)
        # By their last operators: the first one of a stage may come before what a later one reads of another stage.
        for group in sorted(groups, key=lambda group: self._place[group.members[-1]]):
            yield self._stage(tuple(group.members))

    def _join(self, node: PhysicalNode) -> None:
        """Put a node into one stage with each node before it that it may share a stage with."""
        own = self._group[node.name] = _Group([node.name], node.operator.exclusive)
        for stream in dict.fromkeys(edge.stream for edge in node.inputs):
            before, last = self._group[stream.operator], self._plan.nodes[stream.operator].operator
            both_in_workers = node.operator.in_workers and last.in_workers
            if self._chains(node, stream) and (both_in_workers or not (own.exclusive and before.exclusive)):
                own = self._unite(before, own)

    def _unite(self, first: _Group, second: _Group) -> _Group:
        large, small = (first, second) if len(first.members) >= len(second.members) else (second, first)
        large.members += small.members
        large.exclusive = large.exclusive or small.exclusive
        self._group.update(dict.fromkeys(small.members, large))
        return large

    def _chains(self, node: PhysicalNode, stream: StreamRef) -> bool:
        alone = len(self._plan.consumers[stream]) == 1 and stream.is_main and not self._plan.ends_at(stream)
        return node.chain and alone and node.operator.chains_after(self._plan.nodes[stream.operator].operator)

    def _stage(self, members: tuple[str, ...]) -> Stage:
        plan, own = self._plan, set(members)
        nodes = [plan.nodes[name] for name in members]
        inputs = [[edge.stream for edge in node.inputs] for node in nodes]
        outside = tuple(dict.fromkeys(stream for streams in inputs for stream in streams if stream.operator not in own))
        upstream = tuple(dict.fromkeys(self._name(self._group[stream.operator]) for stream in outside))
        written = (StreamRef(members[-1]), *(stream for name in members for stream in plan.side_streams.get(name, ())))
        outputs = tuple(Output(stream, plan.name_of(stream), plan.tables.get(stream)) for stream in written)
        tables = [(output.name, sorted(map(_check, output.table.checks.items()))) for output in outputs if output.table]
        sinks = [(sink.name, str(output.ref), sink.config) for output in outputs for sink in plan.sinks.get(output.ref, ())]
        streams = [(str(output.ref), output.name) for output in outputs]
        text = repr((
            members, [node.fingerprint for node in nodes], [list(map(str, refs)) for refs in inputs], streams, tables, sinks
        ))  # fmt: skip
        return Stage(
            name=outputs[0].name,
            operators=tuple(dict.fromkeys(node.logical for node in nodes)),
            nodes=members,
            inputs=outside,
            upstream=upstream,
            outputs=outputs,
            fingerprint=hashlib.sha256(text.encode()).hexdigest()[:16],
        )

    def _name(self, group: _Group) -> str:
        return self._plan.name_of(StreamRef(group.members[-1]))


def _check(item: tuple[str, Check]) -> tuple[object, ...]:
    name, check = item
    functions = contents_of(check.expression)
    return (name, check.expression, check.blocking, *sorted(functions.items()))
