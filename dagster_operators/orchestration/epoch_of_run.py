"""Which epoch a run works on. Its tags say so: nothing goes from op to op, so no I/O manager of the location is ever asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dagster_operators.errors import LedgerError
from dagster_operators.orchestration.keys import EPOCH_TAG

if TYPE_CHECKING:
    import dagster as dg

    from dagster_operators.transactions.plan import EpochHandle

BEGIN_TAG: Final = "dagster_operators/begin_id"
"""The run tag with the id of the epoch's begin record."""


def remember(context: dg.OpExecutionContext, handle: EpochHandle) -> None:
    """Note the epoch that the run has begun, for its other ops and for runs that re-execute it."""
    context.instance.add_run_tags(context.run_id, {EPOCH_TAG: str(handle.epoch), BEGIN_TAG: handle.begin_id})


def begin_id_of(context: dg.OpExecutionContext) -> str:
    """The id of the begin record of the run's epoch; of a re-executed run, whose begin may have been another one's.

    Raises:
        LedgerError: Neither the run nor one that it re-executes has begun an epoch.
    """
    run_id: str | None = context.run_id
    while run_id is not None:
        run = context.instance.get_run_by_id(run_id)  # as it is now: the op that began may be in another process
        if run is None:
            break
        if BEGIN_TAG in run.tags:
            return run.tags[BEGIN_TAG]
        run_id = run.parent_run_id
    raise LedgerError("no run is known that began the epoch", run_id=context.run_id, remedy="start a new run of all its steps")
