"""Cutting a dataflow into stages.

An operator joins the stage of the operator before it when that operator has no other consumer and goes to no table, neither asks
for a new stage, and the stage does not get a second stateful operator. So a stage is a tree of operators with one output, and
every stream that is read twice is computed once. (The rule is Arroyo's and Flink's chaining rule; a union may chain too, since a
stage here is one Spark job and not one task.)
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from dagster_operators.errors import PipelineError
from dagster_operators.graph.dataflow import Dataflow, Node, Table


@dataclass(frozen=True)
class Stage:
    """A tree of operators that runs as one Dagster op.

    Attributes:
        name: The table it writes, or the operator it ends with.
        operators: The names of its operators, in topological order; the last one's output is the stage's.
        inputs: The operators of other stages whose output it reads.
        upstream: The stages of those operators.
        table: The table that its output goes to, if any.
        fingerprint: Changes when the stage would compute something else.
    """

    name: str
    operators: tuple[str, ...]
    inputs: tuple[str, ...]
    upstream: tuple[str, ...]
    table: Table | None
    fingerprint: str

    @property
    def output(self) -> str:
        """The operator whose output the stage writes."""
        return self.operators[-1]

    @property
    def dataset(self) -> str:
        """Where in the storage root its output goes."""
        return f"tables/{self.table.name}" if self.table else f"streams/{self.name}"


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
            if _chains(dataflow, needed, node, name) and not (_stateful(dataflow, members) and _stateful(dataflow, group[name])):
                members = (*group[name], *members)
        ordered = tuple(other for other in dataflow.nodes if other in members)
        group.update(dict.fromkeys(ordered, ordered))
    finished = dict.fromkeys(group[name] for name in dataflow.nodes if name in needed)
    return tuple(_stage(dataflow, group, members) for members in finished if group[members[-1]] == members)


def _needed(dataflow: Dataflow) -> set[str]:
    needed: set[str] = set()
    waiting = [table.node for table in dataflow.tables.values()]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(dataflow.nodes[name].inputs)
    return needed


def _chains(dataflow: Dataflow, needed: set[str], node: Node, before: str) -> bool:
    consumers = [other.name for other in dataflow.consumers(before) if other.name in needed]
    alone = len(consumers) == 1 and node.inputs.count(before) == 1
    return node.operator.chain and alone and dataflow.table_of(before) is None


def _stateful(dataflow: Dataflow, names: tuple[str, ...]) -> bool:
    return any(dataflow.nodes[name].operator.stateful for name in names)


def _name(dataflow: Dataflow, members: tuple[str, ...]) -> str:
    table = dataflow.table_of(members[-1])
    if table:
        return table.name
    taken = {name.lower() for name in dataflow.tables}
    return members[-1] if members[-1].lower() not in taken else f"{members[-1]}_stream"


def _stage(dataflow: Dataflow, groups: dict[str, tuple[str, ...]], members: tuple[str, ...]) -> Stage:
    outside = dict.fromkeys(name for member in members for name in dataflow.nodes[member].inputs if name not in members)
    upstream = tuple(_name(dataflow, groups[name]) for name in outside)
    table = dataflow.table_of(members[-1])
    parts = [dataflow.nodes[name].operator.fingerprint() for name in members]
    checks = sorted((name, check.expression, check.blocking) for name, check in table.checks.items()) if table else []
    text = repr((members, parts, tuple(outside), [dataflow.nodes[name].inputs for name in members], table and table.name, checks))
    fingerprint = hashlib.sha256(text.encode()).hexdigest()[:16]
    return Stage(_name(dataflow, members), members, tuple(outside), upstream, table, fingerprint)
