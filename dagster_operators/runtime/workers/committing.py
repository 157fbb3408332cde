"""Operators that act after the decision (``is_committing``), as participants of the epoch's commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dagster_operators.errors import OperatorFailedError, OperatorsError, PipelineError
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.operators.arrow.apply import Apply, fresh
from dagster_operators.operators.arrow.arrow_operator import ArrowOperator
from dagster_operators.time.watermark import MIN_WATERMARK
from dagster_operators.transactions.coordinator import Coordinator

_SUBTASKS = "subtasks"


class CommittingOperator:
    """Calls ``handle_commit`` in the committing process with what the epoch's subtasks left.

    What was left lies in the epoch's manifest, so nothing has to be prepared, and nothing is there to be dropped.

    Args:
        name: The operator's name.
        operator: The operator.
    """

    def __init__(self, name: str, operator: ArrowOperator) -> None:
        self.name = name
        self._operator = operator

    def prepare(self, epoch: int, commit_data: Any, generation: int) -> None:
        """Nothing: the manifest holds it."""

    def commit(self, epoch: int, commit_data: Any) -> None:
        """Call the operator."""
        operator = fresh(self._operator)
        try:
            operator.handle_commit(epoch, commit_data[_SUBTASKS], _Outside(self.name, epoch))
        except OperatorsError as error:
            raise error.at(operator=self.name, epoch=epoch) from error
        except Exception as error:
            raise OperatorFailedError(
                f"handle_commit raised {type(error).__name__}: {error}",
                operator=self.name,
                epoch=epoch,
                hook="handle_commit",
                retry=True,
                remedy="the epoch is decided and is committed again by the next run; see to it that it can be",
            ) from error

    def abort(self, epoch: int, generation: int) -> None:
        """Nothing was done yet."""

    def recover(self, decided_epoch: int, generation: int) -> None:
        """Nothing is kept outside of the manifest."""


class _Outside:
    """The context of a call outside of an epoch's work: there is no state, and no row can be put out."""

    def __init__(self, operator: str, epoch: int) -> None:
        self.operator = operator
        self.epoch = epoch
        self.subtask, self.parallelism, self.watermark = 0, 1, MIN_WATERMARK

    def __getattr__(self, name: str) -> Any:
        raise PipelineError(f"handle_commit has no {name}", operator=self.operator, remedy="leave what it needs with ctx.commit")


def join_operators(dataflow: Dataflow, coordinator: Coordinator) -> None:
    """Let the committing operators of a dataflow take part in its commits."""
    found = {
        participant_name(node.name): CommittingOperator(node.name, node.operator.arrow)
        for node in dataflow
        if isinstance(node.operator, Apply) and node.operator.arrow.is_committing
    }
    coordinator.join({name: operator for name, operator in found.items() if name not in coordinator.participants})


def participant_name(operator: str) -> str:
    """What an operator is called among the participants, where sinks have names of their own."""
    return f"operator:{operator}"


def commit_data_of(commit_data: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What the subtasks of operators left, as the manifest keeps it."""
    return {participant_name(name): {_SUBTASKS: dict(subtasks)} for name, subtasks in commit_data.items()}
