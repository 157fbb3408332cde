"""Runs the flights job an epoch at a time, whenever it is told to; the code is that of the checkout on ``PYTHONPATH``.

Reads lines from standard input; after each it runs an epoch, and writes what that took as a line of JSON. It is run as a file and
not as a module, so that it works on checkouts from before it was written.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

import psutil

from jobs.feed import drop_days, drop_weather, write_reference
from jobs.flights import build

FIRST = date(2013, 1, 1)


def main() -> None:
    """Prepare the input, then serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("days", type=int)
    parser.add_argument("--concurrent-stages", type=int)
    arguments = parser.parse_args()
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the engine prints is no answer
    folder = arguments.folder
    write_reference(folder / "reference")
    drop_weather(folder / "reports", FIRST, arguments.days)
    drop_days(folder / "landing", FIRST, arguments.days)
    settings = {"concurrent_stages": arguments.concurrent_stages} if arguments.concurrent_stages else {}
    pipeline = build(folder, **settings)
    for _ in sys.stdin:
        print(json.dumps(_epoch(pipeline)), file=told, flush=True)


def _epoch(pipeline: Any) -> dict[str, Any]:
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
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return float(sum(sum(process.cpu_times()[:2]) for process in processes))


def _jobs(pipeline: Any) -> int:
    """How many jobs embedded Spark has begun."""
    session = pipeline.epochs.session
    if not hasattr(session, "_sc"):
        return 0
    context = session._sc._jsc.sc()  # noqa: SLF001 - nothing public counts them
    context.listenerBus().waitUntilEmpty()
    return int(context.statusStore().jobsList(None).size())


if __name__ == "__main__":
    main()
