"""Runs a test's pipeline in processes of their own, each of which is killed at a failpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from dagster_operators.transactions.failpoints import VARIABLE

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
    for call, failpoint in zip(calls, failpoints, strict=True):
        environment = {**os.environ, VARIABLE: failpoint, "DAGSTER_OPERATORS_CACHE": str(place / "cache")}
        code = f"import {module} as module; module.{call}"
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=REPOSITORY, env=environment, capture_output=True, timeout=seconds, check=False
        )
        assert done.returncode == -signal.SIGKILL, (failpoint, done.stderr[-2000:])
