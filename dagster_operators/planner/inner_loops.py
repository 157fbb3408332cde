"""Loops that run within a subtask: rows go round in the worker that has them, and nothing is written in between.

All operators of such a loop are programs of one stage. What leads in, round or together in it (``enter``, the loop variable,
unions) does nothing there: its readers get the rows from where they are made. That works only if no rows need to move. A loop
with operators on the engine, which no subtask can run, goes in rounds of stages, as loops do that nothing is said of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from dagster_operators.errors import PipelineError
from dagster_operators.graph.exchange import FORWARD
from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.scope import Scope
from dagster_operators.operators.batch_operator import BatchOperator
from dagster_operators.operators.loops.edges import EnterRows, FedBackRows
from dagster_operators.operators.physical import HandOn
from dagster_operators.operators.relational.union import UnionByName
from dagster_operators.planner.physical_plan import Edge, PhysicalNode, PhysicalPlan

_HANDING_ON = (EnterRows, FedBackRows, HandOn, UnionByName)


@dataclass(frozen=True)
class Way:
    """Where rows of a stream are made.

    Attributes:
        stream: As what.
        loop: The loop in which they go round on the way.
    """

    stream: StreamRef
    loop: Scope | None = None


def inner_loop(plan: PhysicalPlan, node: PhysicalNode) -> Scope | None:
    """The loop that a node is in, if that runs within a subtask."""
    loop = plan.loops.get(node.scope)
    return loop if loop is not None and loop.within_subtask else None


def only_hands_on(plan: PhysicalPlan, node: PhysicalNode) -> bool:
    """Whether a node does nothing in such a loop, so that its readers read what it reads."""
    return inner_loop(plan, node) is not None and isinstance(node.operator, _HANDING_ON)


def on_engine(plan: PhysicalPlan, loop: Scope) -> tuple[str, ...]:
    """The operators of a loop that run on the engine, so that rows cannot go round within a subtask."""
    nodes = [node for node in plan if node.scope == loop.name and not isinstance(node.operator, (BatchOperator, *_HANDING_ON))]
    return tuple(dict.fromkeys(node.logical for node in nodes))


def in_rounds_where_needed(plan: PhysicalPlan) -> PhysicalPlan:
    """The plan with its loops that are to run within a subtask and have operators on the engine in rounds of stages."""
    loops = {
        name: replace(loop, within_subtask=False) if loop.within_subtask and on_engine(plan, loop) else loop
        for name, loop in plan.loops.items()
    }
    return replace(plan, loops=loops)


def ways(plan: PhysicalPlan, stream: StreamRef, passed: frozenset[str] = frozenset()) -> Iterator[Way]:
    """Where the rows of a stream are made, seen through all that only hands them on.

    Raises:
        PipelineError: Rows would go round without passing an operator.
    """
    node = plan.nodes[stream.operator]
    if not only_hands_on(plan, node):
        yield Way(stream)
    elif not isinstance(node.operator, FedBackRows):
        for edge in node.inputs:
            yield from ways(plan, edge.stream, passed)
    elif node.name in passed:
        raise _error(plan, node, "what is fed to the loop variable is the variable itself", "put an operator in between")
    else:
        for way in ways(plan, plan.feedback[node.name], passed | {node.name}):
            yield replace(way, loop=inner_loop(plan, node))


def leaves(plan: PhysicalPlan, nodes: Collection[str], stream: StreamRef) -> bool:
    """Whether rows of a stream leave the stage that has these nodes."""
    return plan.ends_at(stream) or any(name not in nodes for name in plan.consumers.get(stream, ()))


def check_inner_loop(plan: PhysicalPlan, loop: Scope) -> None:
    """Refuse a loop that cannot run within a subtask.

    Raises:
        PipelineError: With the operator for which rows would have to leave the subtask.
    """
    nodes = [node for node in plan if node.scope == loop.name]
    for node in nodes:
        _check_node(plan, node)
    own = {node.name for node in nodes}
    edges = [(node, edge, _is_inside(plan, edge, own)) for node in nodes if not only_hands_on(plan, node) for edge in node.inputs]
    lies = next((edge.exchange for _, edge, inside in edges if not inside), FORWARD)
    for node, edge, inside in edges:
        if edge.exchange != lies and not (inside and edge.exchange == FORWARD):
            raise _error(
                plan, node, f"its exchange is {edge.exchange}, that of rows that enter the loop {lies}",
                "key all operators of the loop by columns of the same names",
            )  # fmt: skip


def _is_inside(plan: PhysicalPlan, edge: Edge, own: Collection[str]) -> bool:
    """Whether all rows that come by an edge are made in the loop."""
    return {way.stream.operator for way in ways(plan, edge.stream)} <= set(own)


def _check_node(plan: PhysicalPlan, node: PhysicalNode) -> None:
    if isinstance(node.operator, BatchOperator):
        if node.operator.wants_order:
            raise _error(plan, node, "it wants its rows in an order or numbered", "let it do so before the loop")
        if not node.chain:
            raise _error(plan, node, "it asks for a stage of its own", "leave chain=False out")
    elif any(plan.nodes[name].scope != node.scope for name in plan.consumers.get(StreamRef(node.name), ())):
        raise _error(plan, node, "it makes no rows of its own that could leave the loop", "let the rows of an operator leave")


def _error(plan: PhysicalPlan, node: PhysicalNode, problem: str, remedy: str) -> PipelineError:
    return PipelineError(
        f"the loop cannot run within a subtask: {problem}", pipeline=plan.pipeline, operator=node.logical, loop=node.scope,
        remedy=f"{remedy}; or leave within_subtask=True out",
    )  # fmt: skip
