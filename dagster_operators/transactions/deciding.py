"""Recording what was decided about a pipeline that changed, and deleting what left it."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from dataclasses import replace

from dagster_operators.errors import LedgerError
from dagster_operators.storage.uri import public_uri
from dagster_operators.transactions.commit import roll_forward
from dagster_operators.transactions.deleting import delete
from dagster_operators.transactions.effects import ReadLedger
from dagster_operators.transactions.records import Decide
from dagster_operators.transactions.steps import RunContext, Steps, append, fence, unless_fenced
from dagster_operators.transactions.view import LedgerView


def settle(run: RunContext, replaced: Collection[str] = ()) -> Steps[LedgerView]:
    """Carry out the epoch that is decided, if one is, so that the ledger says what there is.

    With what the last one no longer needed: its run may have died in between, and the epoch that comes next may not know of it.
    Files of datasets that are ``replaced`` as a whole next may be lost.
    """
    view: LedgerView = yield ReadLedger()
    fence(view, run)
    view = yield from roll_forward(run, view, replaced=replaced)
    if view.open_begin is None and view.last_plan is not None and view.last_plan.deleted:
        yield from delete(run, view, view.last_plan.deleted)
        view = yield ReadLedger()
    return view


def decide(run: RunContext, decision: Decide) -> Steps[Decide]:
    """Record a decision, which the next epoch carries out; a later one about the same question takes its place."""
    return (yield from unless_fenced(run, _decide(run, decision)))


def _decide(run: RunContext, decision: Decide) -> Steps[Decide]:
    view = yield from settle(run)
    made = replace(decision, generation=run.generation, epoch=view.last_epoch)
    yield from append(view, run, lambda now: None if made in now.decisions[-1:] else made)
    return made


def require_none_waiting(view: LedgerView) -> None:
    """An epoch that goes elsewhere would be the one with which a decision ends, and does not carry it out.

    Raises:
        LedgerError: Something was decided that waits for the next epoch.
    """
    waiting = sorted({subject for subject, _ in view.decided})
    if waiting:
        raise LedgerError(
            f"what was decided about {waiting[0]} takes effect with the pipeline's next epoch, and would be forgotten",
            pipeline=view.name, epoch=view.last_epoch,
            remedy=f"take it back: pipeline.withdraw({waiting[0]!r}); or let the next epoch carry it out first",
        )  # fmt: skip


def drop(run: RunContext, datasets: tuple[str, ...]) -> Steps[None]:
    """Forget datasets, then delete them; what is forgotten already is deleted again, should a run have ended in between."""
    view = yield from unless_fenced(run, settle(run))
    if not (yield from delete(run, view, datasets)):
        raise LedgerError(
            f"not deleted, since another epoch has it or it has epochs that the ledger does not know: {', '.join(datasets)}",
            pipeline=view.name, epoch=view.last_epoch,
            remedy=f"have `{shlex.join(['dagster-operators', 'status', public_uri(run.root)])}` say what is wrong, repair that, "
            "and drop again",
        )  # fmt: skip
