"""Operators and sources that had another name in earlier epochs."""

from __future__ import annotations

from dagster_operators.errors import PipelineError
from dagster_operators.graph.dataflow import Dataflow, check_name


def renamed(dataflow: Dataflow, operator: str, before: str) -> None:
    """Say what an operator or source was called before, so that it goes on with its state or position.

    Args:
        dataflow: The pipeline's graph.
        operator: The operator.
        before: Its name in earlier epochs.

    Raises:
        PipelineError: The operator has no name of its own, or another one was called so, too.
    """
    check_name("operator", before, pipeline=dataflow.name, operator=operator)
    if operator in dataflow.automatic:
        raise PipelineError(
            f"the operator is said to be renamed from {before!r}, and has no name now", pipeline=dataflow.name, operator=operator,
            remedy="give it one: name=...",
        )  # fmt: skip
    other = next((name for name, earlier in dataflow.renamed.items() if earlier == before), None)
    if other is not None:
        raise PipelineError(
            f"{other!r} is said to be renamed from {before!r} already", pipeline=dataflow.name, operator=operator,
            remedy="leave renamed_from out of one of them",
        )  # fmt: skip
    dataflow.renamed[operator] = before
