"""Which epoch a run works on. Its tags say so: nothing goes from op to op, so no I/O manager of the location is ever asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dagster_operators.errors import LedgerError
from dagster_operators.orchestration.keys import EPOCH_TAG

if TYPE_CHECKING:
    import dagster as dg

    from dagster_operators.transactions.plan import EpochHandle

_NOTHING_NEW: Final = "none"


def begin_tag(pipeline: str) -> str:
    """The run tag with the id of the begin record of a pipeline's epoch; one run may be of several pipelines.

    >>> begin_tag("flights")
    'dagster_operators/begin_id.flights'
    """
    return f"dagster_operators/begin_id.{pipeline}"


def remember(context: dg.OpExecutionContext, pipeline: str, handle: EpochHandle) -> None:
    """Note the epoch that the run has begun, for its other ops and for runs that re-execute it."""
    context.instance.add_run_tags(context.run_id, {begin_tag(pipeline): handle.begin_id, EPOCH_TAG: str(handle.epoch)})


def remember_none(context: dg.OpExecutionContext, pipeline: str, after: int | None = None) -> None:
    """Note that the run begins no epoch, and after which one it found nothing new; None if it did not look."""
    looked = {} if after is None else {_nothing_tag(pipeline): str(after)}
    context.instance.add_run_tags(context.run_id, {begin_tag(pipeline): _NOTHING_NEW, **looked})


def found_nothing(run: dg.DagsterRun, pipeline: str, after: int) -> bool:
    """Whether a run looked for news of a pipeline after an epoch, and there were none."""
    return run.tags.get(begin_tag(pipeline)) == _NOTHING_NEW and run.tags.get(_nothing_tag(pipeline)) == str(after)


def _nothing_tag(pipeline: str) -> str:
    return f"dagster_operators/nothing_after.{pipeline}"


def begin_id_of(context: dg.OpExecutionContext, pipeline: str) -> str | None:
    """The id of the begin record of the run's epoch; None if its sources held nothing new.

    Of a re-executed run the begin may have been another one's.

    Raises:
        LedgerError: Neither the run nor one that it re-executes has begun an epoch.
    """
    run_id: str | None = context.run_id
    while run_id is not None:
        run = context.instance.get_run_by_id(run_id)  # as it is now: the op that began may be in another process
        if run is None:
            break
        if (begun := run.tags.get(begin_tag(pipeline))) is not None:
            return None if begun == _NOTHING_NEW else begun
        run_id = run.parent_run_id
    raise LedgerError("no run is known that began the epoch", run_id=context.run_id, remedy="start a new run of all its steps")
