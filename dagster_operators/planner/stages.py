"""Cutting a dataflow into stages.

An operator joins the stage of the operator before it when that operator's main output has no other consumer and goes to no table
or sink, neither asks for a new stage, and the stage does not get a second stateful operator; batch operators follow each other in
one stage when they have the same key. So a stage is a tree of operators with one main output, and perhaps streams of other ports
beside it, and every stream that is read twice is computed once. (The rule is Arroyo's and Flink's chaining rule; a union may
chain too, since a stage here is one Spark job and not one task.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from dagster_operators.errors import PipelineError
from dagster_operators.graph.dataflow import Check, Dataflow, Node, Table
from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.user_functions import contents_of


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
        operators: The names of its operators, in topological order.
        inputs: The streams of other stages that it reads.
        upstream: The stages of those streams.
        outputs: What it writes, the main output of its last operator first.
        fingerprint: Changes when the stage would compute something else.
    """

    name: str
    operators: tuple[str, ...]
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
    """The stages of a dataflow in topological order; operators that lead to no table are left out.

    Raises:
        PipelineError: The pipeline has no table.
    """
    if not dataflow.tables:
        raise PipelineError("the pipeline writes no table", pipeline=dataflow.name, remedy="end a stream with to_table(...)")
    return tuple(_Cut(dataflow).stages())


class _Cut:
    """One dataflow on its way into stages."""

    def __init__(self, dataflow: Dataflow) -> None:
        self._dataflow = dataflow
        self._needed = _needed(dataflow)
        self._operators = {stream.operator for stream in self._needed}
        self._group: dict[str, tuple[str, ...]] = {}

    def stages(self) -> Iterator[Stage]:
        for node in self._dataflow:
            if node.name in self._operators:
                self._place(node)
        # By their last operators: the first one of a stage may come before what a later one reads of another stage.
        finished = {members[-1]: members for members in self._group.values()}
        for name in self._dataflow.nodes:
            if name in finished:
                yield self._stage(finished[name])

    def _place(self, node: Node) -> None:
        members: tuple[str, ...] = (node.name,)
        for stream in dict.fromkeys(node.inputs):
            before = self._group[stream.operator]
            if self._chains(node, stream) and not self._two_states(node, before, members):
                members = (*before, *members)
        ordered = tuple(other for other in self._dataflow.nodes if other in members)
        self._group.update(dict.fromkeys(ordered, ordered))

    def _chains(self, node: Node, stream: StreamRef) -> bool:
        consumers = [other for other in self._dataflow.consumers(stream) if other.name in self._operators]
        alone = len(consumers) == 1 and node.inputs.count(stream) == 1 and stream.is_main
        fits = node.operator.chains_after(self._dataflow.nodes[stream.operator].operator)
        return node.operator.chain and alone and fits and not self._dataflow.ends_at(stream)

    def _two_states(self, node: Node, before: tuple[str, ...], members: tuple[str, ...]) -> bool:
        """Whether the stage would keep two states."""
        if node.operator.batch and self._dataflow.nodes[before[-1]].operator.batch:
            return False
        return self._stateful(members) and self._stateful(before)

    def _stateful(self, names: tuple[str, ...]) -> bool:
        nodes = [self._dataflow.nodes[name] for name in names]
        return any(node.operator.keeps_state(self._dataflow.input_types(node)) for node in nodes)

    def _written(self, members: tuple[str, ...]) -> Iterator[StreamRef]:
        """The streams that a stage writes: the main output of its last operator, and other ports that somebody asked for."""
        yield StreamRef(members[-1])
        yield from (stream for stream in self._dataflow.side_streams if stream.operator in members and stream in self._needed)

    def _name(self, stream: StreamRef) -> str:
        table = self._dataflow.table_of(stream)
        if table:
            return table.name
        name, taken = self._dataflow.name_of(stream), {name.lower() for name in self._dataflow.tables}
        return name if name.lower() not in taken else f"{name}_stream"

    def _stage(self, members: tuple[str, ...]) -> Stage:
        dataflow = self._dataflow
        inputs = [dataflow.nodes[name].inputs for name in members]
        outside = tuple(dict.fromkeys(stream for streams in inputs for stream in streams if stream.operator not in members))
        upstream = tuple(dict.fromkeys(self._name(StreamRef(self._group[stream.operator][-1])) for stream in outside))
        outputs = tuple(Output(stream, self._name(stream), dataflow.table_of(stream)) for stream in self._written(members))
        parts = [dataflow.nodes[name].operator.fingerprint() for name in members]
        tables = [(output.name, sorted(map(_check, output.table.checks.items()))) for output in outputs if output.table]
        sinks = [(sink.name, str(output.ref), sink.config) for output in outputs for sink in dataflow.sinks_of(output.ref)]
        written = [(str(output.ref), output.name) for output in outputs]
        text = repr((members, parts, [[str(stream) for stream in streams] for streams in inputs], written, tables, sinks))
        fingerprint = hashlib.sha256(text.encode()).hexdigest()[:16]
        return Stage(outputs[0].name, members, outside, upstream, outputs, fingerprint)


def _needed(dataflow: Dataflow) -> set[StreamRef]:
    """The streams that lead to a table or a sink."""
    needed: set[StreamRef] = set()
    waiting = [table.stream for table in dataflow.tables.values()] + [sink.stream for sink in dataflow.sinks.values()]
    while waiting:
        stream = waiting.pop()
        if stream not in needed:
            needed.add(stream)
            waiting.extend(dataflow.nodes[stream.operator].inputs)
    return needed


def _check(item: tuple[str, Check]) -> tuple[object, ...]:
    name, check = item
    functions = contents_of(check.expression)
    return (name, check.expression, check.blocking, *sorted(functions.items()))
