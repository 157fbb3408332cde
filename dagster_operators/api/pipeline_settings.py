"""The numbers that a pipeline is given, checked where they are given."""

from __future__ import annotations

from dagster_operators.errors import PipelineError
from dagster_operators.runtime.planning import MOST_SUBTASKS


def check_settings(pipeline: str, lease_seconds: float, parallelism: int | None, concurrent_stages: int | None) -> None:
    """Refuse what is no number, or not one of those that there may be.

    Args:
        pipeline: The pipeline's name.
        lease_seconds: More than 0.
        parallelism: From 1 to :data:`MOST_SUBTASKS`.
        concurrent_stages: 1 or more.

    Raises:
        PipelineError: One of them is wrong.
    """
    for what, number in (("parallelism", parallelism), ("concurrent_stages", concurrent_stages)):
        if number is not None and type(number) is not int:
            raise PipelineError(f"{what} is {number!r}", pipeline=pipeline, remedy="give a whole number, such as 4")
    if not isinstance(lease_seconds, int | float):
        raise PipelineError(
            f"lease_seconds is {lease_seconds!r}", pipeline=pipeline, remedy="give a number of seconds, such as 30"
        )
    if parallelism is not None and not 1 <= parallelism <= MOST_SUBTASKS:
        raise PipelineError(
            f"the parallelism is {parallelism}", pipeline=pipeline, remedy=f"choose a number from 1 to {MOST_SUBTASKS}"
        )
    if concurrent_stages is not None and concurrent_stages < 1:
        raise PipelineError(f"concurrent_stages is {concurrent_stages}", pipeline=pipeline, remedy="choose 1 or more")
    if lease_seconds <= 0:
        raise PipelineError(f"lease_seconds is {lease_seconds}", pipeline=pipeline, remedy="choose more than 0, such as 30")
