"""Pictures of the plans by which an epoch's programs of data sets ran."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from dagster_operators.errors import PipelineError
from dagster_operators.optimizer.drawing.drawn import DrawnNode, from_json
from dagster_operators.optimizer.drawing.picture import picture

if TYPE_CHECKING:
    from dagster_operators.transactions.coordinator import Coordinator


def plans_of_last_epoch(coordinator: Coordinator) -> Mapping[str, tuple[DrawnNode, ...]]:
    """The plans by which operators worked in the last epoch that computed something, by the operator's name.

    Args:
        coordinator: Access to the pipeline's ledger.
    """
    decision = coordinator.view().last_decision
    manifests = () if decision is None else decision.manifests
    return {name: from_json(text) for manifest in manifests for name, text in manifest.plans.items()}


def picture_of_last_epoch(coordinator: Coordinator, operators: Collection[str] | None = None) -> str:
    """The plans of the last epoch as SVG.

    Args:
        coordinator: Access to the pipeline's ledger.
        operators: The operators whose plans are drawn; all by default.

    Raises:
        PipelineError: No plan is kept of an operator.
    """
    plans = plans_of_last_epoch(coordinator)
    unknown = [name for name in operators or () if name not in plans]
    if unknown or not plans:
        of = f"the operator {unknown[0]!r}" if unknown else "any operator"
        raise PipelineError(
            f"the last epoch has no plan of {of} to draw", pipeline=coordinator.pipeline,
            remedy=f"name one of: {', '.join(plans)}" if plans else "run an epoch of a pipeline with a program of data sets",
        )  # fmt: skip
    return picture({name: nodes for name, nodes in plans.items() if operators is None or name in operators})
