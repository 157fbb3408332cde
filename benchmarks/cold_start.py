"""From a fresh process to the first commit on embedded Spark, beside starting Spark and writing one Delta table by hand.

Each repeat starts processes that know nothing: Python, Java and Spark begin anew, tables and ledger are not there yet. The peer
reads a file of 10,000 rows, filters it and writes it as a Delta table; ours does the same as a pipeline; a third side runs the
first epoch of the flights job, all of its nine tables. Time counts from the start of the process until the commit is there;
processor time is that of the process and of the Java that it started, to the same moment.

What was learnt about the first epoch of a process:

- A DataFrame without rows must not be made by PySpark's ``createDataFrame``, which takes pandas, a pickled function and an RDD:
  the first took 3.3 s on a busy machine, each further one 73 ms, and planning makes several for each operator. Made in Java it is
  8 ms (``operators/engine_schema.py``).
- To ask whether Spark still runs is a call to Java of 0.04 ms, and all of ``Spark.session()`` 0.07 ms: nothing is to be had.
- Not tried: an archive of Spark's classes (``-XX:SharedArchiveFile``), which the process that makes it writes as it ends, and
  which would have to be made anew with each Java and Spark; and starting Spark beside the reading of the plan.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Final

from benchmarks.harness import Claim, Spread, at_most, processor_seconds, workplace

REPEATS: Final = 5
GOAL: Final = 1.3
_ROWS: Final = 10_000
_FIRST: Final = date(2013, 1, 1)


def by_hand(folder: Path, root: Path) -> None:
    """Start Spark and write one Delta table."""
    from delta import configure_spark_with_delta_pip
    from pyspark.sql import SparkSession

    from benchmarks.events import KEPT, SCHEMA

    builder: SparkSession.Builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
    for name, value in (
        ("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension"),
        ("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"),
        ("spark.sql.shuffle.partitions", str(os.cpu_count() or 2)),
        ("spark.databricks.delta.snapshotPartitions", "2"),
        ("spark.log.level", "ERROR"),
    ):
        builder = builder.config(name, value)
    session = configure_spark_with_delta_pip(builder).getOrCreate()
    session.read.schema(SCHEMA).parquet(str(folder / "input")).filter(KEPT).write.format("delta").save(str(root / "clean"))


def ours(folder: Path, root: Path) -> None:
    """The same as a pipeline."""
    import dagster_operators as do
    from benchmarks.events import KEPT, SCHEMA

    pipeline = do.Pipeline("cold", root=str(root), engine="spark")
    source = do.FileSource(str(folder / "input"), format="parquet", schema=SCHEMA)
    pipeline.source("events", source, event_time="t").filter(KEPT).to_table("clean")
    pipeline.run_epoch()


def flights(folder: Path, root: Path) -> None:
    """The first epoch of the flights job."""
    from jobs.flights import build

    root.mkdir()
    for name in ("landing", "reports", "reference"):
        (root / name).symlink_to(folder / name)
    build(root).run_epoch()


SIDES: Final[dict[str, Callable[[Path, Path], None]]] = {"by_hand": by_hand, "ours": ours, "flights": flights}


def measure(repeats: int = REPEATS) -> list[Claim]:
    """The claims for a pipeline of one table, and for the flights job."""
    from benchmarks.events import Feed
    from jobs.feed import drop_days, drop_weather, write_reference

    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in SIDES}
    with workplace() as place:
        Feed(place / "input", rows=_ROWS).drop()
        write_reference(place / "reference")
        drop_weather(place / "reports", _FIRST, 1)
        drop_days(place / "landing", _FIRST, 1)
        for repeat in range(repeats + 1):  # the first fills the disk's caches
            for name, taken in figures.items():
                found = _fresh(name, place, place / f"{name}-{repeat}")
                if repeat:
                    taken.append(found)
    seconds = {name: [second for second, _ in taken] for name, taken in figures.items()}
    worked = {name: [processor for _, processor in taken] for name, taken in figures.items()}
    return [
        at_most(
            claim, seconds[name], seconds["by_hand"], goal=GOAL,
            details={
                "processor_ratio": round(Spread.of(worked[name]).median / Spread.of(worked["by_hand"]).median, 3),
                **{f"{side}_{kind}": Spread.of(found[side]).__dict__ for side in (name, "by_hand")
                   for kind, found in (("seconds", seconds), ("processor", worked))},
            },
        )
        for claim, name in (("cold_start", "ours"), ("cold_start_of_the_flights_job", "flights"))
    ]  # fmt: skip


def _fresh(name: str, folder: Path, root: Path) -> tuple[float, float]:
    """Seconds and processor seconds that a fresh process takes until its commit."""
    command = [sys.executable, "-m", "benchmarks.cold_start", "--side", name, str(folder), str(root)]
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:  # noqa: S603
        line = process.stdout.readline() if process.stdout else ""
        taken = time.perf_counter() - started
    if not line:
        raise RuntimeError(f"{name} died, with {process.returncode}")
    return taken, json.loads(line)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--side", nargs=3, metavar=("NAME", "FOLDER", "ROOT"), help="what a fresh process does")
    arguments = parser.parse_args()
    if arguments.side:
        side, given, made = arguments.side
        SIDES[side](Path(given), Path(made))
        print(json.dumps(processor_seconds()), flush=True)
    else:
        for one in measure(arguments.repeats):
            one.report()
