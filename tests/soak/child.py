"""A process that runs a program's epochs, to be killed."""

from __future__ import annotations

import os
from dataclasses import replace

from dagster_operators.runtime.engine import Spark
from dagster_operators.transactions.failpoints import VARIABLE
from tests.crash.processes import KILLED
from tests.crash.worker import _die_with_the_tests
from tests.forked import PROCESSES
from tests.soak.families import Place, Program


def run_and_kill(program: Program, place: Place, engine: Spark, where: str | float) -> bool:
    """Whether a process was killed at a failpoint, or after so many seconds; one that gets to its end has to end well.

    Args:
        program: What it runs, until it is caught up.
        place: Its folders.
        engine: Where it runs.
        where: The failpoint, or how many seconds.
    """
    child = PROCESSES.Process(target=_run, args=(program, place, engine, where, dict(os.environ)), daemon=True)
    child.start()
    child.join(where + 2 if isinstance(where, float) else 200)
    if child.exitcode is None:
        assert isinstance(where, float), f"still running, {place.log.read_text(errors='replace')[-2000:]}"
        child.kill()
        child.join()
    assert child.exitcode in {0, KILLED}, (child.exitcode, place.log.read_text(errors="replace")[-3000:])
    return child.exitcode == KILLED


def _run(program: Program, place: Place, engine: Spark, where: str | float, environment: dict[str, str]) -> None:
    _die_with_the_tests()
    os.environ.clear()
    os.environ.update(environment)
    file = os.open(place.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    if isinstance(where, str):
        os.environ[VARIABLE] = where
    free = {name: value for name, value in engine.config.items() if "plugin" not in name and "connect" not in name}
    program.build(place, replace(engine, config=free)).run_until_caught_up()  # the port is taken by the tests' own Java process
