"""Settings of operators that their author does not say: they stay as the last completed epoch had them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dagster_operators.errors import PlanError
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.operator import LogicalOperator
from dagster_operators.graph.ports import StreamRef
from dagster_operators.runtime.kept_plans import KeptPlans
from dagster_operators.transactions.coordinator import Coordinator

if TYPE_CHECKING:
    from dagster_operators.plans.logical_plan import LogicalPlan


def go_on(dataflow: Dataflow, coordinator: Coordinator, kept: KeptPlans, known: str) -> str:
    """Give operators the settings of the last completed epoch where their author says nothing.

    Args:
        dataflow: The graph, which is changed.
        coordinator: Knows the ledger.
        kept: The plans of the storage root.
        known: The plan that they were given the settings of already; nothing if there is none.

    Returns:
        The plan that they have the settings of now.
    """
    asked = [node for node in dataflow if type(node.operator).going_on is not LogicalOperator.going_on]
    last = coordinator.view().last_complete if asked else None
    if last is None or not last.logical_plan or last.logical_plan == known:
        return known
    plan = kept.find(last.logical_plan)
    before = {node.name: node for node in plan.nodes} if plan else {}
    former = former_names(plan, dataflow) if plan else {}
    for node in asked:
        was = before.get(former.get(node.name, ""))
        if was is not None:
            streams = [StreamRef(former.get(one.operator, f"new {one.operator}"), one.port) for one in node.inputs]
            operator = node.operator.going_on(was.operator, [*map(str, was.inputs)], [*map(str, streams)])
            dataflow.nodes[node.name] = replace(node, operator=operator)
    return last.logical_plan


def former_names(before: LogicalPlan, dataflow: Dataflow) -> Mapping[str, str]:
    """What the operators were called in the last completed epoch."""
    from dagster_operators.plans.logical_plan import LogicalPlan
    from dagster_operators.plans.matching import matched

    try:
        return matched(before, LogicalPlan.of(dataflow).without_rows()).operators
    except PlanError:  # an operator is not registered
        return {node.name: dataflow.renamed.get(node.name, node.name) for node in dataflow}
