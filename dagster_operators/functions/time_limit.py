"""A limit for how long Python of the user's may run: a thread watches, and interrupts it."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final

_LOOKS: Final = 0.2
"""Seconds between two looks."""

_PATIENCE: Final = 1.0
"""Seconds after which what was interrupted and still runs is stuck."""

WATCHER: Final = "dagster_operators time limits"
"""The name of the thread that watches."""


class TimeIsOverError(TimeoutError):
    """What was called did not return in time."""


class _TimeIsOver(BaseException):
    """Is raised in the thread whose time is over."""


class TimeLimit:
    """Interrupts what runs within it once it has taken too long, by an exception at its next step in Python.

    What waits in native code (a read, a sleep) is interrupted when that returns; of that ``on_stuck`` is told.

    Args:
        seconds: How long it may take.
        on_stuck: Called once, by the thread that watches, if what was interrupted still runs a second later.

    >>> limit = TimeLimit(0.3)
    >>> limit.call(max, 1, 2)
    2
    >>> def endless():
    ...     while True:
    ...         pass
    >>> limit.call(endless)
    Traceback (most recent call last):
    dagster_operators.functions.time_limit.TimeIsOverError: it did not return within 0.3 seconds
    >>> limit.close()
    """

    def __init__(self, seconds: float, on_stuck: Callable[[], None] | None = None) -> None:
        self._seconds = seconds
        self._on_stuck = on_stuck
        self._interrupted = 0.0
        self._deadline: float | None = None
        self._thread = 0
        self._fired = False
        self._lock = threading.Lock()
        self._is_watched = False

    def call(self, function: Callable[..., Any], *given: Any) -> Any:
        """What a function returns, if it does so in time.

        Raises:
            TimeIsOverError: The time was over.
        """
        found = None
        try:
            try:
                self._begin()
                found = function(*given)
            finally:
                self._end()
        except _TimeIsOver:  # from the function, or just as it had returned
            self._end()
        if self._fired:
            raise TimeIsOverError(f"it did not return within {self._seconds:g} seconds")
        return found

    def call_within(self, seconds: float, function: Callable[..., Any], *given: Any) -> Any:
        """The same with another limit.

        >>> limit = TimeLimit(0.001)
        >>> limit.call_within(5, time.sleep, 0.01)
        >>> limit.close()
        """
        own, self._seconds = self._seconds, seconds
        try:
            return self.call(function, *given)
        finally:
            self._seconds = own

    def _begin(self) -> None:
        if not self._is_watched:
            self._is_watched = True
            _WATCHER.add(self)
        with self._lock:
            self._thread, self._fired, self._deadline = threading.get_ident(), False, time.monotonic() + self._seconds

    def _end(self) -> None:
        with self._lock:
            self._deadline = None
        if not self._fired:
            return
        # What may not have come through yet comes now. Were it taken back (SetAsyncExc with NULL), CPython would look for it at
        # each step of the process from then on, and 3.11 would never get beyond the next one that is profiled or debugged.
        with suppress(_TimeIsOver):
            interrupt(self._thread)
            while True:
                time.sleep(0)

    def close(self) -> None:
        """Have it watched no longer."""
        self._is_watched = False
        _WATCHER.remove(self)

    @property
    def seconds(self) -> float:
        """How long what is called may take."""
        return self._seconds

    @property
    def period(self) -> float:
        """Seconds between two looks, at most."""
        return min(_LOOKS, self._seconds)

    def look(self) -> None:
        """Interrupt what takes too long."""
        with self._lock:
            if self._deadline is not None and time.monotonic() > self._deadline:
                now = time.monotonic()
                self._interrupted = self._interrupted if self._fired else now
                self._fired, self._deadline = True, now + _LOOKS  # in case that it is caught
                interrupt(self._thread)
                if self._on_stuck is not None and now > self._interrupted + _PATIENCE:
                    self._on_stuck()
                    self._on_stuck = None


class _Watcher:
    """The thread that watches all limits of the process: with one for each, thousands of them kept each other from work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._limits: set[TimeLimit] = set()
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def add(self, limit: TimeLimit) -> None:
        with self._lock:
            self._limits.add(limit)
            if self._thread is None or not self._thread.is_alive():  # a process that was forked has no thread
                self._thread = threading.Thread(target=self._run, name=WATCHER, daemon=True)
                self._thread.start()
            elif limit.period < _LOOKS:
                self._wake.put(None)

    def remove(self, limit: TimeLimit) -> None:
        with self._lock:
            self._limits.discard(limit)
            if not self._limits:
                self._wake.put(None)

    def _run(self) -> None:
        while True:
            with self._lock:
                limits = [*self._limits]
                if not limits:
                    self._thread = None
                    return
            for limit in limits:
                limit.look()
            with suppress(Empty):
                self._wake.get(timeout=min(limit.period for limit in limits))


_WATCHER: Final = _Watcher()


def interrupt(thread: int) -> None:
    """Have it raised in a thread at its next step; what has not been raised there yet is replaced."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_TimeIsOver))
