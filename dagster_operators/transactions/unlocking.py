"""Taking a pipeline from a run that hangs, and letting it go after one that failed: others need not wait for the lease."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster_operators.transactions.lease import Lease

if TYPE_CHECKING:
    from dagster_operators.transactions.coordinator import Coordinator
    from dagster_operators.transactions.owner import Owner


def unlock(coordinator: Coordinator, owner: Owner) -> Owner | None:
    """Take the pipeline from whoever is at work on it, and leave it free: what that run writes is refused from here on.

    Returns:
        From whom it was taken; None when it was free.
    """
    taken = coordinator.owner_at_work()
    if taken is not None:
        Lease(coordinator.root, 0).release(coordinator.view().generation)
        coordinator.open(owner)
        coordinator.close()
    return taken


def let_go(coordinator: Coordinator, owner: Owner) -> None:
    """Say that a run which failed is not at work any more, should it be the owner. Steps of it that still run take hold again."""
    view = coordinator.view()
    if owner.is_same(view.owner):
        Lease(coordinator.root, 0).release(view.generation)
