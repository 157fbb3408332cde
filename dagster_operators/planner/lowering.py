"""From logical to physical operators: each one that leads to a table or a sink is lowered, the edges get exchanges."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from dagster_operators.catalog.loading import catalog
from dagster_operators.errors import PipelineError, located
from dagster_operators.graph.alternatives import Alternative, Choice, Place
from dagster_operators.graph.dataflow import Dataflow, Node
from dagster_operators.graph.exchange import FORWARD
from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.traits import Trait
from dagster_operators.operators.loops.edges import LoopVariable
from dagster_operators.operators.physical import HandOn, Part, Parts, PhysicalOperator, TableOperator
from dagster_operators.operators.relational.raw_changes import raw_changes
from dagster_operators.planner.inner_loops import check_inner_loop, in_rounds_where_needed, on_engine
from dagster_operators.planner.physical_plan import Edge, PhysicalNode, PhysicalPlan


class Lowered(Protocol):
    """A dataflow with its physical plan."""

    @property
    def dataflow(self) -> Dataflow:
        """The dataflow."""

    @property
    def physical(self) -> PhysicalPlan:
        """The physical plan."""


def lower(dataflow: Dataflow, before: Lowered | None = None) -> PhysicalPlan:
    """The physical plan of a dataflow; operators that lead to no table or sink are left out.

    Args:
        dataflow: The dataflow.
        before: The dataflow that it was made of: an operator that is the same there is not lowered again.

    Raises:
        PipelineError: An operator lowers to parts that do not fit it, or a loop cannot run within a subtask.
    """
    plan = in_rounds_where_needed(_lowered(dataflow, before))
    for loop in plan.loops.values():
        if loop.within_subtask:
            check_inner_loop(plan, loop)
    return plan


def _lowered(dataflow: Dataflow, before: Lowered | None = None) -> PhysicalPlan:
    """The same, with every loop where its author wants it."""
    needed = needed_operators(dataflow)
    places = _places(dataflow)
    known = _unchanged(dataflow, places, before) if before else {}
    nodes: dict[str, PhysicalNode] = {}
    for node in dataflow:
        if node.name in needed:
            parts = known.get(node.name) or tuple(_lower(dataflow, node, places[node.name]))
            _check_part_names(dataflow, parts)
            nodes.update({part.name: part for part in parts})
    names = {StreamRef(name): name for name in nodes} | dict(dataflow.side_streams)
    tables = {table.stream: table for table in dataflow.tables.values()}
    sinks = {sink.stream: dataflow.sinks_of(sink.stream) for sink in dataflow.sinks.values()}
    feedback = {variable: stream for variable, stream in dataflow.feedback.items() if variable in needed}
    return PhysicalPlan(dataflow.name, nodes, names, tables, sinks, feedback, dict(dataflow.scopes))


def _places(dataflow: Dataflow) -> Mapping[str, Place]:
    """Where each operator is."""
    raw = raw_changes(dataflow)
    tables = {node.name: dataflow.table_of(StreamRef(node.name)) for node in dataflow}
    return {
        node.name: Place(
            table.name if (table := tables[node.name]) else None, any(stream.operator in raw for stream in node.inputs)
        )
        for node in dataflow
    }


def _unchanged(dataflow: Dataflow, places: Mapping[str, Place], before: Lowered) -> Mapping[str, tuple[PhysicalNode, ...]]:
    """The physical operators of those that are the same in another dataflow, read the same types and are in the same place."""
    if dataflow.choices is not before.dataflow.choices:
        return {}
    there, nodes = _places(before.dataflow), before.dataflow.nodes
    same = {
        node.name
        for node in dataflow
        if nodes.get(node.name) is node
        and places[node.name] == there[node.name]
        and dataflow.input_types(node) == before.dataflow.input_types(node)
    }
    found: dict[str, tuple[PhysicalNode, ...]] = {}
    for part in before.physical:
        if part.logical in same:
            found[part.logical] = (*found.get(part.logical, ()), part)
    return found


def _check_part_names(dataflow: Dataflow, parts: Sequence[PhysicalNode]) -> None:
    for part in parts:
        if part.name != part.logical and part.name in dataflow.nodes:
            raise PipelineError(
                f"a part of the operator needs the name {part.name!r}, which another operator has",
                pipeline=dataflow.name,
                operator=part.logical,
                remedy=f"give {part.name!r} another name",
            )


def check_loops(dataflow: Dataflow) -> None:
    """Refuse a loop that cannot run within a subtask as it is written, before rules give its operators other names.

    Raises:
        PipelineError: With the operator.
    """
    if any(loop.within_subtask for loop in dataflow.scopes.values()):
        lower(dataflow)


def rounds_instead(dataflow: Dataflow) -> Mapping[str, Sequence[str]]:
    """The loops that were to run within a subtask and run in rounds, with the operators on the engine because of which."""
    if not any(loop.within_subtask for loop in dataflow.scopes.values()):
        return {}
    plan = _lowered(dataflow)
    found = {name: on_engine(plan, loop) for name, loop in plan.loops.items() if loop.within_subtask}
    return {name: operators for name, operators in found.items() if operators}


def with_rounds(dataflow: Dataflow) -> Dataflow:
    """The dataflow with those loops in rounds, so that they stay so whatever rules make of their operators."""
    found = rounds_instead(dataflow)
    if not found:
        return dataflow
    made = copy.copy(dataflow)
    made.scopes = {name: replace(loop, within_subtask=False) if name in found else loop for name, loop in dataflow.scopes.items()}
    return made


def needed_operators(dataflow: Dataflow) -> set[str]:
    """The operators that lead to a table or a sink."""
    needed: set[str] = set()
    ends = [table.stream for table in dataflow.tables.values()] + [sink.stream for sink in dataflow.sinks.values()]
    waiting = [stream.operator for stream in ends]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(stream.operator for stream in dataflow.nodes[name].inputs)
            waiting.extend(stream.operator for stream in _fed(dataflow, name))
    return needed


def _fed(dataflow: Dataflow, operator: str) -> Sequence[StreamRef]:
    """What goes round to a loop variable."""
    if not isinstance(dataflow.nodes[operator].operator, LoopVariable):
        return ()
    if operator not in dataflow.feedback:
        raise PipelineError(
            "nothing goes round to the loop variable", pipeline=dataflow.name, operator=operator,
            loop=dataflow.nodes[operator].scope, remedy="give it its rows: loop.feed(variable, rows)",
        )  # fmt: skip
    return (dataflow.feedback[operator],)


def _lower(dataflow: Dataflow, node: Node, place: Place) -> Iterator[PhysicalNode]:
    types = dataflow.input_types(node)
    ports = node.operator.inputs(types)
    way, choice = _choose(dataflow, node, place)
    asked = tuple(port.exchange for port in ports)
    with located(pipeline=dataflow.name):
        exchanges = way.exchanges_at(node.operator, asked)
    edges = tuple(Edge(stream, exchange) for stream, exchange in zip(node.inputs, exchanges, strict=True))
    parts = _parts(dataflow, node, way.lowered)
    names = {part.name: f"{node.name}_{part.name}" for part in parts[:-1]} | {parts[-1].name: node.name}
    fingerprint = node.operator.fingerprint()
    if exchanges != asked or not (choice is None or choice.preferred):
        fingerprint += f"/by {way.name}: {', '.join(map(repr, exchanges))}"
    repeats = Trait.REPEATABLE in node.operator.traits
    for part in parts:
        inputs = tuple(
            edges[place] if isinstance(place, int) else Edge(StreamRef(names[place]), part.exchanges.get(place, FORWARD))
            for place in part.inputs
        )
        own = fingerprint if part is parts[-1] else f"{fingerprint}/{part.name}"
        chain = node.operator.chain or any(isinstance(place, str) for place in part.inputs)  # what is said of its first ones
        yield PhysicalNode(
            names[part.name], node.name, part.operator, inputs, chain, own,
            choice if part is parts[-1] else None, node.scope, repeats,
        )  # fmt: skip


def way_now(dataflow: Dataflow, operator: str) -> str | None:
    """The name of the way that an operator would go by what is known now; None if it has one only."""
    _, choice = _choose(dataflow, dataflow.nodes[operator], _places(dataflow)[operator])
    return choice.taken if choice else None


def _choose(dataflow: Dataflow, node: Node, place: Place) -> tuple[Alternative, Choice | None]:
    """What an operator lowers to, of all that its rules offer."""
    offered: list[Alternative] = []
    for rule, lowered in catalog().lower(node.operator, dataflow.input_types(node)).items():
        several = isinstance(lowered, Sequence) and len(lowered) > 0 and all(isinstance(one, Alternative) for one in lowered)
        offered += lowered if several else [Alternative(rule, lowered)]
    with located(pipeline=dataflow.name):
        return dataflow.choices.choose(
            node.operator, place, offered, lambda way: node.operator.holds_time or _has_state(way.lowered)
        )


def _has_state(lowered: Any) -> bool:
    """Whether what an operator lowers to keeps something from one epoch to the next."""
    if isinstance(lowered, Parts):
        return any(_has_state(part.operator) for part in lowered.parts)
    if isinstance(lowered, TableOperator) and lowered.remembers:
        return True
    return isinstance(lowered, PhysicalOperator) and bool(lowered.states)


def _parts(dataflow: Dataflow, node: Node, lowered: Any) -> Sequence[Part]:
    """What an operator lowers to, checked: its inputs are each read, and its last part puts out its rows."""
    everything = tuple(range(len(node.inputs)))
    if isinstance(lowered, TableOperator) and dataflow.table_of(StreamRef(node.name)) is None:
        raise PipelineError(
            f"the state of {node.operator.label} is the table that its rows go to, and they go to none",
            pipeline=dataflow.name,
            operator=node.name,
            remedy="offer it as an alternative that needs RowsGoToTable(), beside one with a state of its own",
        )
    if isinstance(lowered, PhysicalOperator):
        return (Part(node.name, lowered, everything),)
    if isinstance(lowered, Parts):
        read = {place for part in lowered.parts for place in part.inputs}
        known = {*everything, *(part.name for part in lowered.parts)}
        different = len({part.name for part in lowered.parts}) == len(lowered.parts)
        if lowered.parts and different and set(everything) <= read <= known:
            return lowered.parts
    elif lowered == () and len(node.inputs) == 1:
        return (Part(node.name, HandOn(), everything),)
    raise PipelineError(
        f"{node.operator.label} lowers to something that does not fit it: {lowered!r}",
        pipeline=dataflow.name,
        operator=node.name,
        remedy="return a physical operator, Parts with names of their own that read each input, () to hand its one input on, "
        "or alternatives of these",
    )
