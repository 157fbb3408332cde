"""A table computed anew over a year of flights beside a plain batch job over the same files: at most 1.3 times as long.

The pipeline has read 336,776 flights in daily epochs; what is measured is ``pipeline.rebuild`` of the statistics of its routes,
until the table is taken over, and what a batch job takes that reads all files and writes the same table as Parquet. No epochs run
meanwhile, so none are to be taken off. ``--days 20`` takes the first days only, ``--engine`` the engine.

What was learnt: all of the year is one epoch already. Beside its query it analysed the operators of the part again (of 60
days 0.3 s of 2.0 s, with a profiler, on a busy machine), read the begin records of all epochs (0.1 s of it), and looked at
all files before for each further one, twice (for a year 51 ms of processor time, now 1). None of this is done any more. What
is left are two writes, of the state and of the table, beside one, and that whole rows are read and checked where the batch
job reads three columns.
"""

from __future__ import annotations

import argparse
import shutil
from datetime import date
from pathlib import Path
from typing import Final

import dagster_operators as do
from benchmarks.events import engine
from benchmarks.harness import Claim, Spread, alternately, at_most, workplace
from jobs.feed import FLIGHTS_SCHEMA, drop_days

DAYS: Final = 365
REPEATS: Final = 5
GOAL: Final = 1.3
FLEW: Final = "dep_delay IS NOT NULL"


def routes(root: Path, landing: Path, on: str) -> do.Pipeline:
    """Flights that left -> statistics of each route -> table ``routes``, one daily file an epoch."""
    pipeline = do.Pipeline("routes", root=str(root), engine=engine(on))
    files = do.FileSource(str(landing), format="csv", schema=FLIGHTS_SCHEMA, max_files=1)
    flights = pipeline.source("flights", files, event_time="sched_dep", lateness="1 hour")
    per_route = flights.filter(FLEW).key_by("origin", "dest").aggregate(
        flights="count(*)", mean_delay="avg(dep_delay)", worst="max(dep_delay)"
    )  # fmt: skip
    per_route.to_table("routes")
    return pipeline


def measure(on: str, days: int, repeats: int) -> Claim:
    """The claim; the first repeat of each side is not counted."""
    with workplace() as place:
        files = drop_days(place / "landing", date(2013, 1, 1), days)
        pipeline = routes(place / "root", place / "landing", on)
        epochs = len(pipeline.run_until_caught_up())
        before = sorted(pipeline.read("routes").collect())

        def batch() -> None:
            rows = engine(on).session().read.schema(FLIGHTS_SCHEMA).option("header", "true").csv([str(file) for file in files])
            made = rows.filter(FLEW).groupBy("origin", "dest")
            statistics = {"flights": "count(*)", "mean_delay": "avg(dep_delay)", "worst": "max(dep_delay)"}
            from pyspark.sql import functions as F

            made.agg(*(F.expr(text).alias(name) for name, text in statistics.items())).write.parquet(str(place / "batch"))

        ours, plain = alternately(
            1 + repeats, lambda: pipeline.rebuild("routes"), batch,
            before=[lambda: None, lambda: shutil.rmtree(place / "batch", ignore_errors=True)],
        )  # fmt: skip
        same = [(row.origin, row.dest, row.flights, row.worst) for row in before] == [
            (row.origin, row.dest, row.flights, row.worst) for row in sorted(pipeline.read("routes").collect())
        ]
        details = {
            "epochs": epochs, "same_rows": same, "seconds": Spread.of(ours[1:]).__dict__,
            "batch_seconds": Spread.of(plain[1:]).__dict__,
        }  # fmt: skip
        return at_most(f"rebuild_flights_{on}", ours[1:], plain[1:], goal=GOAL, details=details)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", choices=["spark", "sail"], default="spark")
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    given = parser.parse_args()
    measure(given.engine, given.days, given.repeats).report()
