"""Runs a test's pipeline in processes of their own, each of which is killed at a failpoint."""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path

from dagster_operators.transactions.failpoints import VARIABLE
from tests.forked import PROCESSES

REPOSITORY = Path(__file__).parents[2]


def run_and_kill(module: str, calls: Iterable[str], failpoints: Iterable[str], place: Path, seconds: float = 200) -> None:
    """Make calls on what a module has, each in a process that must be killed at its failpoint.

    Args:
        module: By its name, so that the code that is shipped is the same as that of the test.
        calls: As ``build('root').run_until_caught_up()``, one for each failpoint.
        failpoints: Where each process is killed.
        place: Below it workers keep their copies of state.
        seconds: How long a process may take to get there.
    """
    printed = place / "printed"
    for call, failpoint in zip(calls, failpoints, strict=True):
        environment = {**os.environ, VARIABLE: failpoint, "DAGSTER_OPERATORS_CACHE": str(place / "cache")}
        process = PROCESSES.Process(target=_call, args=(module, call, environment, str(printed)))
        process.start()
        try:
            process.join(seconds)
            assert process.exitcode == -signal.SIGKILL, (failpoint, process.exitcode, printed.read_text(errors="replace")[-2000:])
        finally:
            if process.is_alive():
                process.kill()
                process.join()


def _call(module: str, call: str, environment: Mapping[str, str], printed: str) -> None:
    """What the process does: in the environment of the test, which is another one than that of the server it was forked from."""
    os.environ.clear()
    os.environ.update(environment)
    log = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.chdir(REPOSITORY)
    eval(f"module.{call}", {"module": importlib.import_module(module)})  # noqa: S307 - the test's own words
