"""The limit for how long Python of the user's may run."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest

from dagster_operators.functions import time_limit
from dagster_operators.functions.time_limit import TimeIsOverError, TimeLimit


class Late:
    """A lock: as the thread takes it for the second time, what is to interrupt the thread comes through."""

    def __init__(self):
        self.lock, self.taken, self.thread = threading.Lock(), 0, threading.get_ident()

    def __enter__(self):
        if threading.get_ident() == self.thread:
            self.taken += 1
            if self.taken == 2:
                raise time_limit._TimeIsOver
        self.lock.acquire()

    def __exit__(self, *_):
        self.lock.release()


@pytest.fixture
def limit():
    made = TimeLimit(60)
    yield made
    made.close()


@pytest.mark.parametrize("fails", [False, True], ids=["returns", "raises"])
def test_an_interruption_that_comes_as_the_function_is_done_does_not_get_out(limit, fails):
    limit._lock = Late()

    def function():
        limit._fired = True  # as the thread that watches does before it interrupts
        if fails:
            raise ValueError("its own")

    with pytest.raises(TimeIsOverError, match="did not return within 60 seconds"):
        limit.call(function)
    assert limit._lock.taken == 3
    assert limit._deadline is None


def test_an_error_of_its_own_is_what_is_raised(limit):
    with pytest.raises(ValueError, match="invalid literal"):
        limit.call(int, "x")
    assert limit.call(int, "5") == 5


def test_nothing_comes_through_after_the_call():
    limit, end = TimeLimit(0.002), time.monotonic() + 0.5
    try:
        while time.monotonic() < end:
            with suppress(TimeIsOverError):
                limit.call(time.sleep, 0.002)
    finally:
        limit.close()


PROFILED = """
import cProfile
from dagster_operators.functions.time_limit import TimeLimit
limit = TimeLimit(0.05)
def endless():
    while True:
        pass
try:
    limit.call(endless)
except Exception as error:
    print(type(error).__name__)
def work():
    return 3
print(cProfile.Profile().runcall(work))
"""


def test_the_process_can_be_profiled_afterwards():
    """An interruption that was taken back had Python 3.11 look for it for ever, at the first step that a profiler saw."""
    done = subprocess.run([sys.executable, "-c", PROFILED], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["TimeIsOverError", "3"]


def endless():
    while True:
        pass


def test_many_limits_are_watched_by_one_thread():
    limits = [TimeLimit(60) for _ in range(50)]
    try:
        assert [limit.call(int, "5") for limit in limits] == [5] * 50
        watching = [thread for thread in threading.enumerate() if thread.name == time_limit.WATCHER]
        assert 1 <= len(watching) <= 2  # the one of limits that were closed just now may be ending
    finally:
        for limit in limits:
            limit.close()


def test_a_short_limit_is_kept_beside_a_long_one_and_after_it_was_closed(limit):
    limit.call(int, "5")
    short = TimeLimit(0.05)
    for _ in range(2):
        with pytest.raises(TimeIsOverError, match=r"within 0\.05 seconds"):
            short.call(endless)
        short.close()
