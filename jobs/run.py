"""``make run``: drops a month of flights, runs the flights job on it through Dagster, and shows what came of it.

``python -m jobs.run --days 31 --folder data``. What has been dropped and run before is left alone: a second call goes on from
there.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from datetime import date, timedelta
from pathlib import Path

import dagster as dg

import dagster_operators as do
from dagster_operators.runtime.results import result_of
from jobs.feed import drop_days, drop_weather, write_reference
from jobs.flights import build

FIRST = date(2013, 1, 1)
SHOWN = {
    "hourly_delays": "window_start",
    "daily_delays_sliding": "window_start",
    "routes": "flights",
    "flights_weather": "sched_dep",
    "worst_delays": "dep_delay",
    "late_aircraft": "inherited_delay",
    "aircraft_stretches": "legs",
    "late_weather": "hours_late",
}
"""The tables to show, each with the column by which its last rows are chosen."""


def main() -> int:
    """Run the job and print progress and results; 0 when Dagster's run succeeded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=31, help="how many days of 2013, from 1 January")
    parser.add_argument("--folder", type=Path, default=Path("data"), help="where input and tables lie")
    arguments = parser.parse_args()
    folder: Path = arguments.folder.absolute()

    write_reference(folder / "reference")
    drop_weather(folder / "reports", FIRST, arguments.days)
    dropped = drop_days(folder / "landing", FIRST, arguments.days)
    print(f"{len(dropped)} new daily files in {folder / 'landing'}", flush=True)

    pipeline = build(folder)
    defs = do.build_definitions(pipeline)
    job = defs.resolve_job_def("flights_catch_up")
    instance = dg.DagsterInstance.get() if os.environ.get("DAGSTER_HOME") else dg.DagsterInstance.ephemeral()
    done = threading.Event()
    reporter = threading.Thread(target=_report, args=(folder, len(pipeline.history()), done))
    reporter.start()
    try:
        result = job.execute_in_process(
            instance=instance, raise_on_error=False, run_config={"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
        )
    finally:
        done.set()
        reporter.join()
    if not result.success:
        print(f"the run {result.run_id} failed; its log says why: make ui", file=sys.stderr)
        return 1
    _show(pipeline)
    print(f"\nThe tables are plain Delta tables below {folder / 'flights' / 'tables'}.")
    print("See them, their lineage and this run: make ui")
    return 0


def _report(folder: Path, known: int, done: threading.Event) -> None:
    """A line for each epoch as it completes, read from the ledger as anyone may."""
    pipeline = build(folder)
    started = time.monotonic()
    while True:
        last = done.is_set()
        history = pipeline.history()
        for complete in history[known:]:
            day = FIRST + timedelta(days=complete.epoch - 1)
            seconds = time.monotonic() - started
            rows = result_of(complete, ("clean_flights", "hourly_delays", "routes")).rows
            told = ", ".join(f"{count:>4} {table}" for table, count in rows.items())
            print(f"epoch {complete.epoch:>3} ({day})  {told}  {seconds:6.1f} s", flush=True)
            started = time.monotonic()
        known = len(history)
        if last:
            return
        done.wait(0.2)


def _show(pipeline: do.Pipeline) -> None:
    snapshot = pipeline.snapshot()
    for table, order in SHOWN.items():
        rows = snapshot.read(table)
        print(f"\n{table} as of epoch {snapshot.epoch}: {rows.count()} rows")
        rows.orderBy(order, ascending=False).show(5, truncate=False)


if __name__ == "__main__":
    sys.exit(main())
