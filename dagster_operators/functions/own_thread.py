"""Calls in a thread of their own, so that who waits for one can be let go when what it calls never returns."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeAlias

_Answers: TypeAlias = "SimpleQueue[tuple[Any, BaseException | None]]"


class OwnThread:
    """A thread that makes calls, one after another.

    Python that waits in native code (a read, a lock, a sleep) cannot be interrupted. Who has it called here can be: it is told
    an error instead, and the thread is left behind; it ends once what it waits for returns.

    Attributes:
        is_lost: Whether the thread was left behind.

    >>> thread = OwnThread()
    >>> thread.call(max, 1, 2)
    2
    >>> def waiting(lock):
    ...     thread.give_up(TimeoutError("it takes too long"))
    ...     lock.acquire()
    >>> held = threading.Lock()
    >>> held.acquire(), thread.call(waiting, held)
    Traceback (most recent call last):
    TimeoutError: it takes too long
    >>> held.release(), thread.is_lost, thread.close()
    (None, True, None)
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[..., Any], tuple[Any, ...], _Answers] | None] = SimpleQueue()
        self._answers: _Answers = SimpleQueue()
        self._thread: threading.Thread | None = None
        self.is_lost = False

    def call(self, function: Callable[..., Any], *given: Any) -> Any:
        """What a function returns; what it raises is raised.

        Who is interrupted while waiting leaves the thread behind: else its answer would be taken for that of the next call.

        Raises:
            RuntimeError: The thread was left behind.
        """
        if self.is_lost:
            raise RuntimeError("the thread was left behind: make another one")
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        try:
            self._calls.put((function, given, self._answers))
            found, error = self._answers.get()
        except BaseException as interrupted:
            self.give_up(interrupted)
            raise
        if error is not None:
            raise error
        return found

    def give_up(self, error: BaseException) -> None:
        """Have the call that is being made raise an error, and the thread be left behind."""
        if not self.is_lost:
            self.is_lost = True
            answers, self._answers = self._answers, SimpleQueue()
            self._calls.put(None)
            answers.put((None, error))

    def close(self) -> None:
        """Let the thread end."""
        if self._thread is not None and not self.is_lost:
            self._calls.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (asked := self._calls.get()) is not None:
            function, given, answers = asked
            try:
                found: tuple[Any, BaseException | None] = (function(*given), None)
            except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
                found = (None, error)
            answers.put(found)
            del function, given, answers, asked, found  # nothing is kept while it waits
