"""Which batch operators share a stage: those between which no rows need to move.

They become the programs of one subtask. A stream may have several readers there, and an operator several inputs; all readers of a
stream stay, or none does, so that no stream is written and handed on at once, except those of tables, which end their stage.
"""

from __future__ import annotations

from dagster_operators.errors import PipelineError
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.batch_operator import BatchOperator
from dagster_operators.planner.groups import Group, Groups
from dagster_operators.planner.physical_plan import PhysicalNode, PhysicalPlan


def stays_in_workers(plan: PhysicalPlan, groups: Groups, node: PhysicalNode, stream: StreamRef) -> bool:
    """Whether a batch operator may share a stage with the one before it, of which it reads a stream."""
    before, own = groups.of(stream.operator), groups.of(node.name)
    if before is own:
        return True
    if plan.ends_at(stream) or not all(_reads_on_the_spot(plan, plan.nodes[name], stream) for name in plan.consumers[stream]):
        return False
    if before.stateful and own.stateful:
        return False
    if (before.ordered or own.ordered) and not _reads_nothing_else(node, before, own):
        return False
    return len(own.reads) == 1 or not groups.reads_itself(before, own, stream)


def _reads_on_the_spot(plan: PhysicalPlan, reader: PhysicalNode, stream: StreamRef) -> bool:
    """Whether the rows of a stream need not move to get to an operator."""
    source, operator = plan.nodes[stream.operator], reader.operator
    if not (reader.chain and isinstance(operator, BatchOperator) and isinstance(source.operator, BatchOperator)):
        return False
    if operator.wants_order or source.operator.holds_time:  # a held time counts for all subtasks, so it goes by the manifest
        return False
    lies = source.inputs[0].exchange
    return all(edge.exchange == lies for edge in reader.inputs if edge.stream == stream)


def _reads_nothing_else(node: PhysicalNode, before: Group, own: Group) -> bool:
    """Whether all that a node reads is of a group: rows that come from elsewhere would not be in that group's order."""
    return own.members == [node.name] and own.reads <= set(before.members)


def check_together(plan: PhysicalPlan, groups: Groups) -> None:
    """Refuse a plan in which parts of an operator that share something would be in different stages.

    Raises:
        PipelineError: With the operator.
    """
    for node in plan:
        if isinstance(node.operator, BatchOperator) and node.operator.belongs_together:
            own = groups.of(node.name)
            apart = next(
                (other.name for other in plan if other.logical == node.logical and groups.of(other.name) is not own), None
            )
            if apart is not None:
                raise PipelineError(
                    f"{node.name!r} shares a handler with {apart!r}, and rows would have to move between them",
                    pipeline=plan.pipeline, operator=node.logical,
                    remedy="let the exchange of each part be that of the part it reads, and let no part but the first be ordered",
                )  # fmt: skip
