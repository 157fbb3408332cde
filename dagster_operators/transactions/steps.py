"""What all parts of the protocol are made of: generators of effects, fencing, and appends whose outcome is sure."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from dagster_operators.errors import FencedError, ForeignWriteError, OperatorsError, RestoredTableError, StorageError
from dagster_operators.transactions.effects import Append, Conflict, Effect, ReadLedger, TellVersions
from dagster_operators.transactions.records import Record
from dagster_operators.transactions.view import LedgerView

T = TypeVar("T")
Steps: TypeAlias = Generator[Effect, Any, T]
"""A part of the protocol: yields effects, is sent their results (or thrown their errors), returns a ``T``."""


@dataclass(frozen=True)
class RunContext:
    """Under what a run works: the pipeline's name, its root, the run's generation, the names of external participants."""

    pipeline: str
    root: str
    generation: int
    participants: tuple[str, ...] = ()


def fence(view: LedgerView, run: RunContext) -> None:
    """Refuse a run that another one has taken over from."""
    if view.generation != run.generation:
        raise FencedError(
            f"another run has taken over: {view.owner}",
            pipeline=run.pipeline,
            generation=run.generation,
            current_generation=view.generation,
            remedy="let that run go on; start a new one if it has ended",
        )


def unless_fenced(run: RunContext, steps: Steps[T]) -> Steps[T]:
    """Perform the steps; what goes wrong in them after another run has taken over is that run's doing, so it is told first."""
    try:
        return (yield from steps)
    except FencedError:
        raise
    except OperatorsError as error:
        now: LedgerView = yield ReadLedger()
        fence(now, run)
        yield from tell_who_wrote(error)
        raise


def tell_who_wrote(error: OperatorsError) -> Steps[None]:
    """Have the error about a table that somebody else wrote or put back say who wrote what and when, as its log knows."""
    if isinstance(error, ForeignWriteError | RestoredTableError) and "found_version" in error.where:
        written_over = error.found_version == error.expected_version
        told: str = yield TellVersions(error.table, error.expected_version - written_over)
        error.problem += told and f": {told}"


def sure(effect: Append) -> Steps[Any]:
    """Append a record; when that fails, look whether it is there all the same, as after an answer that was lost.

    The result is the effect's own.

    Raises:
        StorageError: It is not there, or that cannot be seen either.
    """
    try:
        result: LedgerView | Conflict = yield effect
    except StorageError:
        now: LedgerView = yield ReadLedger()
        if effect.record not in now.records:
            raise
        return now
    return result


def append(view: LedgerView, run: RunContext, make: Callable[[LedgerView], Record | None]) -> Steps[LedgerView]:
    """Append what ``make`` gives for the view; after a conflict look again. ``make`` gives None when nothing is left to do."""
    while True:
        fence(view, run)
        record = make(view)
        if record is None:
            return view
        result = yield from sure(Append(record, view.version))
        if isinstance(result, LedgerView):
            return result
        view = result.view
