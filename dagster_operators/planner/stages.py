"""Cutting a dataflow into stages.

An operator joins the stage of the operator before it when that operator has no other consumer and goes to no table or sink,
neither asks for a new stage, and the stage does not get a second stateful operator; batch operators follow each other in one
stage when they have the same key. So a stage is a tree of operators with one main output (and perhaps side outputs), and every
stream that is read twice is computed once. (The rule is Arroyo's and Flink's chaining rule; a union may chain too, since a stage
here is one Spark job and not one task.)
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from dagster_operators.errors import PipelineError
from dagster_operators.graph.dataflow import Check, Dataflow, Node, Table
from dagster_operators.graph.side_output import SideOutput
from dagster_operators.graph.user_functions import contents_of


@dataclass(frozen=True)
class Output:
    """A stream that a stage writes.

    Attributes:
        node: The operator, or side output, whose rows it has.
        name: The table it goes to, or a name of its own.
        table: The table, if any.
    """

    node: str
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
        inputs: The operators of other stages whose output it reads.
        upstream: The stages of those operators.
        outputs: What it writes, the main output first.
        fingerprint: Changes when the stage would compute something else.
    """

    name: str
    operators: tuple[str, ...]
    inputs: tuple[str, ...]
    upstream: tuple[str, ...]
    outputs: tuple[Output, ...]
    fingerprint: str

    @property
    def main(self) -> Output:
        """The output of its last operator."""
        return self.outputs[0]

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables that it writes."""
        return tuple(output.table for output in self.outputs if output.table)

    def output(self, node: str) -> Output | None:
        """What the stage writes of an operator's or side output's rows; None when those stay within the stage."""
        return next((output for output in self.outputs if output.node == node), None)


def cut_stages(dataflow: Dataflow) -> tuple[Stage, ...]:
    """The stages of a dataflow in topological order; operators that lead to no table are left out.

    Raises:
        PipelineError: The pipeline has no table.
    """
    if not dataflow.tables:
        raise PipelineError("the pipeline writes no table", pipeline=dataflow.name, remedy="end a stream with to_table(...)")
    needed = _needed(dataflow)
    group: dict[str, tuple[str, ...]] = {}
    for node in dataflow:
        if node.name not in needed:
            continue
        members: tuple[str, ...] = (node.name,)
        for name in dict.fromkeys(node.inputs):
            if _chains(dataflow, needed, node, name) and not _two_states(dataflow, node, group[name], members):
                members = (*group[name], *members)
        ordered = tuple(other for other in dataflow.nodes if other in members)
        group.update(dict.fromkeys(ordered, ordered))
    # By their last operators: the first one of a stage may come before what a later one reads of another stage.
    finished = {_main(dataflow, members): members for members in group.values()}
    return tuple(_stage(dataflow, group, finished[name]) for name in dataflow.nodes if name in finished)


def _needed(dataflow: Dataflow) -> set[str]:
    needed: set[str] = set()
    waiting = [table.node for table in dataflow.tables.values()] + [sink.node for sink in dataflow.sinks.values()]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(dataflow.nodes[name].inputs)
    return needed


def _is_side(dataflow: Dataflow, name: str) -> bool:
    return isinstance(dataflow.nodes[name].operator, SideOutput)


def _chains(dataflow: Dataflow, needed: set[str], node: Node, before: str) -> bool:
    if _is_side(dataflow, node.name):
        return True
    consumers = [
        other.name for other in dataflow.consumers(before) if other.name in needed and not _is_side(dataflow, other.name)
    ]
    alone = len(consumers) == 1 and node.inputs.count(before) == 1 and not _is_side(dataflow, before)
    fits = node.operator.chains_after(dataflow.nodes[before].operator)
    return node.operator.chain and alone and fits and not dataflow.ends_at(before)


def _two_states(dataflow: Dataflow, node: Node, before: tuple[str, ...], members: tuple[str, ...]) -> bool:
    """Whether the stage would keep two states."""
    if node.operator.batch and dataflow.nodes[_main(dataflow, before)].operator.batch:
        return False
    return _stateful(dataflow, members) and _stateful(dataflow, before)


def _stateful(dataflow: Dataflow, names: tuple[str, ...]) -> bool:
    nodes = [dataflow.nodes[name] for name in names]
    return any(node.operator.keeps_state([dataflow.nodes[name].type for name in node.inputs]) for node in nodes)


def _main(dataflow: Dataflow, members: tuple[str, ...]) -> str:
    return next(name for name in reversed(members) if not _is_side(dataflow, name))


def _name(dataflow: Dataflow, node: str) -> str:
    table = dataflow.table_of(node)
    if table:
        return table.name
    taken = {name.lower() for name in dataflow.tables}
    return node if node.lower() not in taken else f"{node}_stream"


def _check(item: tuple[str, Check]) -> tuple[object, ...]:
    name, check = item
    functions = contents_of(check.expression)
    return (name, check.expression, check.blocking, *sorted(functions.items()))


def _stage(dataflow: Dataflow, groups: dict[str, tuple[str, ...]], members: tuple[str, ...]) -> Stage:
    outside = dict.fromkeys(name for member in members for name in dataflow.nodes[member].inputs if name not in members)
    upstream = tuple(dict.fromkeys(_name(dataflow, _main(dataflow, groups[name])) for name in outside))
    written = (_main(dataflow, members), *(name for name in members if _is_side(dataflow, name)))
    outputs = tuple(Output(node, _name(dataflow, node), dataflow.table_of(node)) for node in written)
    parts = [dataflow.nodes[name].operator.fingerprint() for name in members]
    tables = [(output.name, sorted(map(_check, output.table.checks.items()))) for output in outputs if output.table]
    sinks = [(sink.name, output.node, sink.config) for output in outputs for sink in dataflow.sinks_of(output.node)]
    text = repr((members, parts, tuple(outside), [dataflow.nodes[name].inputs for name in members], tables, *sinks))
    fingerprint = hashlib.sha256(text.encode()).hexdigest()[:16]
    return Stage(outputs[0].name, members, tuple(outside), upstream, outputs, fingerprint)
