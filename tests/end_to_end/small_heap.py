"""A pipeline on embedded Spark with the smallest heap that Spark starts with, in a process of its own; tells what it took."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

from dagster_operators import FileSource, Pipeline
from dagster_operators.runtime.engine import Spark

HEAP = 512 << 20
"""Spark refuses to start with less than 450 MB."""


def pipeline(folder: str, files: int, root: str) -> Pipeline:
    """All rows as they are, and an updating table with its state, one row for each key."""
    config = {"spark.driver.memory": f"{HEAP >> 20}m", "spark.log.level": "OFF", "spark.driver.host": "127.0.0.1"}
    made = Pipeline("heap", root=root, engine=Spark(master="local[2]", config=config))
    rows = made.source("rows", FileSource(folder, format="parquet", schema="k string, v long", max_files=files))
    rows.to_table("copy")
    rows.key_by("k").aggregate(n="count(*)", total="sum(v)", name="per_key").to_table("totals")
    return made


def most_memory() -> int:
    """The most bytes that this process had in memory; on Linux not ``ru_maxrss``, which begins with what its parent had."""
    if sys.platform != "linux":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM:"))


def main(folder: str, files: str, root: str) -> dict[str, Any]:
    made = pipeline(folder, int(files), root)
    epochs = [result.epoch for result in made.run_until_caught_up()]
    heap = made.epochs.session._jvm.java.lang.Runtime.getRuntime().maxMemory()
    return {"epochs": epochs, "heap": heap, "used": most_memory()}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])) + "\n")
