"""What a pipeline was in an epoch, as its storage root tells: the plan that it keeps, and the stages that the epoch ran."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dagster_operators.plans import shown
from dagster_operators.transactions.stage_keys import StageKey

if TYPE_CHECKING:
    from dagster_operators.plans.logical_plan import LogicalPlan
    from dagster_operators.transactions.records import Complete


@dataclass(frozen=True)
class StoredPlan:
    """What a pipeline was in an epoch. As text a line for each operator, table, sink and stage.

    Attributes:
        epoch: The epoch.
        plan: Its plan; nothing of the user's is imported for it.
        stages: For how many seconds each stage was at work, in the last epoch up to this one that computed something by the plan.
        state: The state tables of its operators.
    """

    epoch: int
    plan: LogicalPlan
    stages: Mapping[str, float] = field(default_factory=dict)
    state: tuple[str, ...] = ()

    @classmethod
    def of(cls, epochs: Sequence[Complete], epoch: Complete, plan: LogicalPlan) -> StoredPlan:
        """That of an epoch.

        Args:
            epochs: The completed epochs up to it.
            epoch: The epoch.
            plan: What it ran.
        """
        computed = (one for one in reversed(epochs) if one.logical_plan == epoch.logical_plan and not one.transition)
        seconds, stages = next((one.seconds for one in computed), {}), dict[str, float]()
        for key, took in seconds.items():  # the rounds of a loop are one stage
            stage = StageKey.parse(key).stage
            stages[stage] = round(stages.get(stage, 0.0) + took, 3)
        return cls(epoch.epoch, plan, stages, tuple(sorted(name for name in epoch.versions if name.startswith("state/"))))

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {"epoch": self.epoch, **shown.as_json(self.plan), "stages": dict(self.stages), "state": list(self.state)}

    def lines(self, *, details: bool = False) -> Iterator[str]:
        """For people.

        Args:
            details: With each operator's traits and signature.
        """
        yield f"epoch {self.epoch}"
        yield from shown.as_text(self.plan, details=details).splitlines()
        yield from (f"  {name}" for name in self.state)
        yield from (f"  stage {name}: {seconds:.2f} s" for name, seconds in self.stages.items())

    def __str__(self) -> str:
        return "\n".join(self.lines())
