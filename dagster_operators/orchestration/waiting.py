"""A run that finds another one at work on its pipeline waits for it, so long in all, says so in its log, and then gives up."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from dagster_operators.errors import PipelineBusyError

if TYPE_CHECKING:
    import dagster as dg

T = TypeVar("T")

_LOOKS_EVERY: Final = 0.5

_SHORT: Final = 10
"""Fewer seconds are told with a tenth of them."""


def waiting(context: dg.OpExecutionContext, pipeline: str, wait_seconds: float, work: Callable[[float], T]) -> T:
    """Do work that needs the pipeline for itself.

    Args:
        context: The step's; its log says for whom it waits.
        pipeline: The pipeline's name.
        wait_seconds: How long to wait for another run to end.
        work: What is done, given how many seconds it may wait itself: none at first, so that the log can say so.

    Raises:
        PipelineBusyError: The other run is still at work. It says who that is, in which state, and what to do.
    """
    started = time.monotonic()
    try:
        return work(0.0)
    except PipelineBusyError as error:
        if wait_seconds <= 0:
            raise _told(error, context, pipeline, 0.0) from None
        other = error.where.get("owner", error.problem)
        context.log.info("%s is at work on %s: waiting for it, up to %s s.", other, pipeline, _seconds(wait_seconds))
    try:
        return work(wait_seconds)
    except PipelineBusyError as error:
        raise _told(error, context, pipeline, time.monotonic() - started) from None


def once_free(work: Callable[[], T]) -> Callable[[float], T]:
    """Work that does not wait itself, tried until the pipeline is free."""

    def tried(wait_seconds: float) -> T:
        deadline = time.monotonic() + wait_seconds
        while True:
            try:
                return work()
            except PipelineBusyError:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise
                time.sleep(min(_LOOKS_EVERY, left))

    return tried


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f}".removesuffix(".0") if seconds < _SHORT else f"{seconds:.0f}"


def _told(error: PipelineBusyError, context: dg.OpExecutionContext, pipeline: str, waited: float) -> PipelineBusyError:
    """The error with what Dagster knows of the other run, how long was waited, and what helps under Dagster."""
    problem = f"{error.problem}; waited {_seconds(waited)} s for it" if waited else error.problem
    other = context.instance.get_run_by_id(error.where.get("run_id", ""))
    state = f"{other.status.value.lower()} ({other.job_name})" if other else None
    hangs = "; if it hangs, take the pipeline from it (the command unlock)" if "owner" in error.where else ""
    remedy = (
        f"{error.remedy}{hangs}; build_definitions(wait_seconds=...) has runs wait longer, "
        f"and a limit of 1 for the pool {pipeline!r} has them queue"
    )
    return PipelineBusyError(problem, remedy=remedy, **{**error.where, "state": state})
