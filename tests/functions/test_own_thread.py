"""A thread of one's own for calls that may never return: nobody waits for it who need not."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dagster_operators.functions.own_thread import OwnThread


@contextmanager
def held() -> Iterator[threading.Lock]:
    lock = threading.Lock()
    lock.acquire()
    try:
        yield lock
    finally:
        lock.release()


def test_a_thread_that_was_left_behind_is_not_asked_again() -> None:
    thread = OwnThread()
    with held() as lock:

        def waiting() -> None:
            thread.give_up(TimeoutError("it takes too long"))
            lock.acquire()

        with pytest.raises(TimeoutError, match="it takes too long"):
            thread.call(waiting)
        with pytest.raises(RuntimeError, match="left behind: make another one"):
            thread.call(max, 1, 2)
        assert OwnThread().call(max, 1, 2) == 2
        thread.close()


def test_who_is_interrupted_leaves_the_thread_behind_and_does_not_wait_for_it_at_the_end() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored where the tests run in a shell's background
    try:
        _is_interrupted()
    finally:
        signal.signal(signal.SIGINT, before)


def _is_interrupted() -> None:
    thread, caller = OwnThread(), threading.get_ident()
    with held() as lock:

        def waiting() -> None:
            signal.pthread_kill(caller, signal.SIGINT)
            lock.acquire()

        with pytest.raises(KeyboardInterrupt):
            thread.call(waiting)
        assert thread.is_lost
        thread.close()  # without waiting for the lock
