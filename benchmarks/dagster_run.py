"""A Dagster run in a process of its own: the flights job's epoch of a day on embedded Spark, from the command to its end.

Both sides run ``dagster job execute``: one as a process that ends after its run (the default), with an archive of Spark's
classes behind the second run, the other one as a process that lasts. They take turns, each on data and an instance of its own.
Processor time is that of all processes that a run started, until the last of them ended: Java outlives Python by a moment.

What was learnt, in processor seconds of a first epoch beside 45 of Java's defaults, at a load of 10 to 20 on two cores:

- Without the second compiler 26. The serial collector gives nothing more. With the archive, too, 22.
- With the second compiler only for code that is forty times as hot as by default 33, with the archive 29: to leave it out is
  better, as long as an epoch is small. Ten million rows in a fresh process took 30 instead of 36.
- To write the archive takes 10, once, after Python has ended.
- Without generated code, a tenth less (measured by others): not done, since Spark's two ways do not agree in all answers.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path
from typing import Final

from benchmarks.harness import Claim, Spread, at_most, workplace
from jobs.feed import drop_days, drop_weather, write_reference

REPEATS: Final = 3
WARM_UP: Final = 2
"""Runs that are not measured: the first one marks the cache of archives, the second one writes the archive."""
GOAL: Final = 1.0
_FIRST: Final = date(2013, 1, 1)
_ADOPT_CHILDREN: Final = 36
"""``PR_SET_CHILD_SUBREAPER``: processes whose parent has ended are this process's."""


class _Side:
    """Runs of the job over data of its own, with settings of the environment."""

    def __init__(self, place: Path, environment: Mapping[str, str]) -> None:
        self._place = place
        home = place / "dagster"
        home.mkdir(parents=True)
        (home / "dagster.yaml").touch()
        write_reference(place / "reference")
        paths = {"FLIGHTS_DATA": str(place), "DAGSTER_HOME": str(home)}
        self._environment = {**os.environ, "DAGSTER_OPERATORS_ENGINE": "spark", **environment, **paths}
        self._days = 0
        self.seconds: list[float] = []
        self.processor: list[float] = []

    def run(self) -> None:
        """The run over the next day."""
        day = _FIRST + timedelta(days=self._days)
        self._days += 1
        drop_weather(self._place / "reports", day, 1)
        drop_days(self._place / "landing", day, 1)
        before, began = _processor(), time.perf_counter()
        command = [sys.executable, "-m", "dagster", "job", "execute", "-f", "definitions.py", "-j", "flights_epoch"]
        subprocess.run(command, env=self._environment, check=True, capture_output=True)  # noqa: S603 - our own Python
        self.seconds.append(time.perf_counter() - began)
        with suppress(ChildProcessError):
            while True:
                os.wait()
        self.processor.append(_processor() - before)


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(repeats: int = REPEATS) -> list[Claim]:
    """The claims, of seconds and of processor time."""
    ctypes.CDLL(None).prctl(_ADOPT_CHILDREN, 1, 0, 0, 0)
    with workplace() as place:
        archives = {"DAGSTER_OPERATORS_JAVA_ARCHIVES": str(place / "archives")}
        brief = _Side(place / "brief", archives)
        lasting = _Side(place / "lasting", {"DAGSTER_OPERATORS_PROCESS": "lasting", "DAGSTER_OPERATORS_JAVA_ARCHIVES": "no"})
        for _ in range(WARM_UP + repeats):
            brief.run()
            lasting.run()
    return [
        _claim("dagster_run_seconds", brief.seconds, lasting.seconds),
        _claim("dagster_run_processor", brief.processor, lasting.processor),
    ]


def _claim(name: str, brief: Sequence[float], lasting: Sequence[float]) -> Claim:
    sides = {"brief": brief, "lasting": lasting}
    details = {side: Spread.of(taken[WARM_UP:]).__dict__ for side, taken in sides.items()}
    first = {f"{side}_first": taken[:WARM_UP] for side, taken in sides.items()}
    return at_most(name, brief[WARM_UP:], lasting[WARM_UP:], goal=GOAL, details={**details, **first})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=REPEATS)
    for claim in measure(parser.parse_args().repeats):
        claim.report()
