"""Runs pipelines an epoch at a time, whenever it is told to; the code is that of the checkout on ``PYTHONPATH``.

Reads the name of a pipeline from each line of standard input, runs an epoch of it, and writes what that took as a line of JSON.
It is run as a file and not as a module, so that it works on checkouts from before it was written.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psutil

FIRST = date(2013, 1, 1)


def main() -> None:
    """Prepare the input, then serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--days", type=int, help="of flights, if these are asked for")
    parser.add_argument("--events", type=Path, help="of Nexmark, if its queries are asked for")
    parser.add_argument("--concurrent-stages", type=int)
    arguments = parser.parse_args()
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the engine prints is no answer
    pipelines: dict[str, Any] = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in pipelines:
            pipelines[name] = _MADE.get(name, partial(_query, name))(arguments)
        print(json.dumps(_epoch(pipelines[name])), file=told, flush=True)


def _flights(arguments: argparse.Namespace) -> Any:
    from jobs.feed import drop_days, drop_weather, write_reference
    from jobs.flights import build

    folder = arguments.folder
    write_reference(folder / "reference")
    drop_weather(folder / "reports", FIRST, arguments.days)
    drop_days(folder / "landing", FIRST, arguments.days)
    settings = {"concurrent_stages": arguments.concurrent_stages} if arguments.concurrent_stages else {}
    return build(folder, **settings)


def _flights_by_hand(arguments: argparse.Namespace) -> Any:
    from benchmarks.flights_foreach_batch import FlightsForeachBatch
    from dagster_operators.runtime.engine import Spark
    from jobs.feed import drop_days, drop_weather, write_reference

    class DayByDay(FlightsForeachBatch):
        """A batch takes all that has landed, so each day lands before its own."""

        day = FIRST

        def prepare(self) -> None:
            drop_weather(arguments.folder / "reports", self.day, 1)
            drop_days(arguments.folder / "landing", self.day, 1)
            self.day += timedelta(days=1)

    write_reference(arguments.folder / "reference")
    return DayByDay(Spark().session(), arguments.folder)


def _query(name: str, arguments: argparse.Namespace) -> Any:
    import dagster_operators as do
    from jobs.nexmark.queries import QUERIES, Events

    pipeline = do.Pipeline(name, root=str(arguments.folder / name))
    QUERIES[name](Events(pipeline, arguments.events)).to_table(name)
    return pipeline


def _epoch(pipeline: Any) -> dict[str, Any]:
    if hasattr(pipeline, "prepare"):
        pipeline.prepare()
    jobs, worked = _jobs(pipeline), _processor_seconds()
    started = time.perf_counter()
    result = pipeline.run_epoch()
    seconds = time.perf_counter() - started
    return {
        "seconds": seconds,
        "processor": _processor_seconds() - worked,
        "jobs": _jobs(pipeline) - jobs,
        "stages": dict(result.seconds),
        "rows": sum(result.rows.values()),
    }


def _processor_seconds() -> float:
    """Of this process and those it has started."""
    children = psutil.Process().children(recursive=True)  # counted in hundredths of a second, our own process exactly
    return time.process_time() + float(sum(sum(process.cpu_times()[:2]) for process in children))


def _jobs(pipeline: Any) -> int:
    """How many jobs embedded Spark has begun."""
    session = pipeline.session if hasattr(pipeline, "session") else pipeline.epochs.session
    if not hasattr(session, "_sc"):
        return 0
    session._sc._jsc.sc().listenerBus().waitUntilEmpty()  # noqa: SLF001 - nothing public waits for it
    return 1 + max(session.sparkContext.statusTracker().getJobIdsForGroup(None), default=-1)  # it forgets old ones


_MADE = {"flights": _flights, "flights_by_hand": _flights_by_hand}


if __name__ == "__main__":
    main()
