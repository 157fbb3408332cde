"""The turn of one thread with a pipeline object, which is one owner to the ledger however many threads use it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from dagster_operators.errors import PipelineBusyError


class Turn:
    """Lets the threads that run, rebuild or repair by one object do so one after another. A copy has a turn of its own."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __reduce__(self) -> tuple[type[Turn], tuple[()]]:
        return Turn, ()

    @contextmanager
    def taken(self, pipeline: str, wait_seconds: float | None = None) -> Iterator[float]:
        """The turn of this thread, with the seconds that are left to wait for other runs.

        Args:
            pipeline: The pipeline's name.
            wait_seconds: How long to wait; None where the caller has no such argument.

        Raises:
            PipelineBusyError: Another thread has it, and still after ``wait_seconds``.

        >>> turn = Turn()
        >>> with turn.taken("p") as left, turn.taken("p", wait_seconds=9) as inner:
        ...     left, inner > 8
        (0, True)
        """
        started, longest = time.monotonic(), wait_seconds or 0
        if not self._lock.acquire(timeout=max(0.0, min(longest, threading.TIMEOUT_MAX))):
            wait = "call it again when that one has ended" if wait_seconds is None else "wait for it to end (wait_seconds)"
            raise PipelineBusyError(
                "another thread is at work with this pipeline object", pipeline=pipeline,
                remedy=f"{wait}, or do all in one thread",
            )  # fmt: skip
        try:
            yield max(0, longest - (time.monotonic() - started))
        finally:
            self._lock.release()
