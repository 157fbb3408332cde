"""The memory of a process over many epochs: after the first hundred it is to grow by less than five percent.

``--epochs`` says how many there are (2,000), ``--on`` where they run (``sail``, ``spark``). Each has one row in two tables, so
that what is seen is what an epoch leaves behind, not what it works on. On embedded Spark the Java process counts, too, behind a
collection, which gives memory back: without one the heap grows up to its limit whatever is in use (1,083 to 1,682 MB in 2,000
epochs with 1 GB of heap, while what was in use behind a collection grew from 93 MB to about 105).
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import psutil

from benchmarks.events import Feed, source
from benchmarks.harness import Claim, Spread, workplace
from dagster_operators.runtime.sail_server import GROWTH_VARIABLE

WARM_UP, EVERY = 100, 50
GROWTH = 1.05


def memory(on: str) -> float:
    """What this process and its children hold, in megabytes."""
    own = psutil.Process()
    if on == "spark":
        from pyspark.sql import SparkSession

        java: Any = SparkSession.active().sparkContext._jvm  # noqa: SLF001 - no other way
        java.java.lang.System.gc()
    return sum(process.memory_info().rss for process in (own, *own.children(recursive=True))) / 1e6


def measure(epochs: int, on: str) -> Claim:
    """The claim; its ratio is of the memory at the end to that after the warm-up."""
    with workplace() as place:
        feed = Feed(place / "input", rows=1)
        pipeline, rows = source("process_memory", place / "root", feed.folder, on)
        rows.to_table("rows")
        rows.key_by("k").aggregate(n="count(*)").to_table("counts")
        held = []
        for number in range(1, epochs + 1):
            feed.drop()
            pipeline.run_epoch()
            if number >= WARM_UP and number % EVERY == 0:
                held.append(memory(on))
    found = {"megabytes": [round(one, 1) for one in held], "every": EVERY, "on": on, "epochs": epochs}
    an_epoch = (held[-1] - held[0]) / max(epochs - WARM_UP, 1)
    ratios = Spread.of([one / held[0] for one in held])
    return Claim("process_memory", held[-1] / held[0], GROWTH, False, ratios, {**found, "an_epoch": round(an_epoch, 3)})  # noqa: FBT003


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.process_memory", description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=2000)
    parser.add_argument("--on", default="sail")
    parser.add_argument("--growth", type=float, default=0, help="of a process of Sail's own, in megabytes")
    options = parser.parse_args()
    if options.growth:
        os.environ[GROWTH_VARIABLE] = str(options.growth)
    measure(options.epochs, options.on).report()
