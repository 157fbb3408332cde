"""The past of a pipeline: its completed epochs, the plans that they ran, and what changed between them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

from dagster_operators.errors import UnknownEpochError
from dagster_operators.runtime.kept_plans import KeptPlans
from dagster_operators.transactions.records import Complete

if TYPE_CHECKING:
    from dagster_operators.plans.diff import PlanDiff
    from dagster_operators.plans.logical_plan import LogicalPlan


class History(list[Complete]):
    """The completed epochs, oldest first, with the plan of each.

    Args:
        epochs: The epochs.
        plans: The plans that the storage root keeps.
    """

    def __init__(self, epochs: Iterable[Complete], plans: KeptPlans) -> None:
        super().__init__(epochs)
        self._plans = plans

    def plan(self, epoch: int) -> LogicalPlan:
        """What the pipeline was in an epoch, without rows that sources hold themselves; nothing of the user's is imported.

        Raises:
            UnknownEpochError: The epoch was never completed, or no plan of it was kept.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> source = MemorySource([[(1,)], [(2,)]], schema="v long")
        >>> for condition in ("v > 0", "v > 1"):
        ...     pipeline = Pipeline("p", root=folder.name, engine="sail")
        ...     kept = pipeline.source("rows", source).filter(condition, name="big").to_table("kept")
        ...     result = pipeline.run_epoch()
        >>> [pipeline.history().plan(epoch).node("big").operator.condition for epoch in (1, 2)]
        ['v > 0', 'v > 1']
        >>> folder.cleanup()
        """
        found = next((complete for complete in self if complete.epoch == epoch), None)
        if found is None:
            known = f"there are {self[0].epoch} to {self[-1].epoch}" if self else "there is none yet"
            raise UnknownEpochError(
                f"there is no completed epoch {epoch}; {known}",
                epoch=epoch,
                remedy="name one of these" if self else "run an epoch first",
            )
        if not found.logical_plan:
            raise UnknownEpochError(
                f"no plan was kept of epoch {epoch}: an older version of the package ran it, or an operator was not registered",
                epoch=epoch, remedy="ask for later epochs",
            )  # fmt: skip
        return self._plans.read(found.logical_plan)

    def diff(self, before: int, after: int) -> PlanDiff:
        """What changed in the pipeline between two epochs.

        Args:
            before: The earlier epoch.
            after: The later epoch.

        Raises:
            UnknownEpochError: One was never completed, or no plan of it was kept.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> source = MemorySource([[(1,)], [(2,)]], schema="v long")
        >>> for condition in ("v > 0", "v > 1"):
        ...     pipeline = Pipeline("p", root=folder.name, engine="sail")
        ...     kept = pipeline.source("rows", source).filter(condition, name="big").to_table("kept")
        ...     result = pipeline.run_epoch()
        >>> print(pipeline.history().diff(1, 2))
        ~ big: condition was 'v > 0', is 'v > 1'
        >>> folder.cleanup()
        """
        from dagster_operators.plans.diff import diff

        return diff(self.plan(before), self.plan(after))

    def changes(self) -> dict[int, PlanDiff]:
        """The epochs that ran another plan than the one before them, with what changed; epochs without a plan are passed over.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> source = MemorySource([[(1,)], [(2,)]], schema="v long")
        >>> for condition in ("v > 0", "v > 1"):
        ...     pipeline = Pipeline("p", root=folder.name, engine="sail")
        ...     kept = pipeline.source("rows", source).filter(condition, name="big").to_table("kept")
        ...     result = pipeline.run_epoch()
        >>> list(pipeline.history().changes())
        [2]
        >>> folder.cleanup()
        """
        known = [complete for complete in self if complete.logical_plan]
        pairs = [(old, new) for old, new in pairwise(known) if old.logical_plan != new.logical_plan]
        return {new.epoch: self.diff(old.epoch, new.epoch) for old, new in pairs}
