"""Which columns a physical operator hands on unchanged."""

from __future__ import annotations

from dataclasses import replace

from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.operators.physical import HandOn
from dagster_operators.optimizer.properties.fields import Forwarding
from dagster_operators.planner.physical_plan import PhysicalNode


def forwarding_of(dataflow: Dataflow, node: PhysicalNode) -> Forwarding:
    """The columns of its first input that an operator of a plan hands on, in lower case; none of a part of a logical operator.

    Args:
        dataflow: What the plan was made of.
        node: The operator.
    """
    if isinstance(node.operator, HandOn):
        return Forwarding.everything()
    if not is_whole(dataflow, node):
        return Forwarding()
    logical = dataflow.nodes[node.logical]
    forwarding = logical.operator.forwards(dataflow.input_types(logical))
    moves = {str(target).lower(): str(source).lower() for source, target in forwarding.moves}
    return replace(forwarding, moves=tuple((source, target) for target, source in moves.items()))


def is_whole(dataflow: Dataflow, node: PhysicalNode) -> bool:
    """Whether a physical operator does all the work of its logical one.

    Args:
        dataflow: What the plan was made of.
        node: The physical operator.
    """
    logical = dataflow.nodes[node.logical]
    return node.name == node.logical and [edge.stream for edge in node.inputs] == list(logical.inputs)
