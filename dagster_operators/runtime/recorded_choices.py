"""The choices among ways of doing an operator's work, as the ledger has them of an epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dagster_operators.graph.alternatives import PREFERRED, Preferred
from dagster_operators.graph.choices import NOTHING_RECORDED, Recorded
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.runtime.going_on import former_names
from dagster_operators.runtime.kept_plans import KeptPlans
from dagster_operators.transactions.plan import PlanRecord

if TYPE_CHECKING:
    from dagster_operators.plans.logical_plan import LogicalPlan


def recorded_choices(dataflow: Dataflow, plan: PlanRecord, kept: KeptPlans, *, begun: bool) -> Recorded:
    """The choices of a plan, by the names that operators have now.

    Args:
        dataflow: The pipeline.
        plan: The plan of an epoch.
        kept: The logical plans of the storage root.
        begun: Whether the epoch is open.
    """
    if not plan.choices and isinstance(dataflow.cost_model, Preferred):  # there, all went the preferred way
        if dataflow.cost_model is PREFERRED or not begun:
            return NOTHING_RECORDED
        return Recorded({}, frozenset(node.name for node in dataflow), begun)
    logical = kept.find(plan.logical) if plan.logical else None
    names = (
        former_names(logical, dataflow)
        if logical
        else {node.name: dataflow.renamed.get(node.name, node.name) for node in dataflow}
    )
    there = _operators(plan, logical)
    taken = {name: plan.choices[former] for name, former in names.items() if former in plan.choices}
    return Recorded(taken, frozenset(name for name, former in names.items() if former in there), begun)


def _operators(plan: PlanRecord, logical: LogicalPlan | None) -> frozenset[str]:
    """The operators of an epoch, by the names that they had."""
    if logical is not None:
        return frozenset(node.name for node in logical.nodes)
    names: Mapping[str, str] = {address: name for name, address in plan.identities.items()}
    return frozenset(names.get(address, address) for address in plan.operators)
