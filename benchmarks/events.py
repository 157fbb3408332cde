"""The input of the benchmarks: a folder that Parquet files of a keyed, timed value arrive in, and the pipelines that read it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dagster_operators as do
from dagster_operators.runtime.engine import Spark

SCHEMA = "k long, v long, t timestamp"
"""A key, a value between 0 and 99, and the event time."""

KEPT = "v >= 10"
"""The filter, which keeps nine rows in ten."""

SHUFFLE_PARTITIONS = 2
"""For ours and for Structured Streaming."""

_START = 1_700_000_000_000_000
_MINUTE = 60_000_000


@dataclass
class Feed:
    """Drops files into a folder; each holds the next minute of event time.

    Attributes:
        folder: Where the files arrive.
        rows: The number of rows in a file.
        keys: The number of different keys.
        minutes: The number of files dropped so far.
    """

    folder: Path
    rows: int = 100_000
    keys: int = 1_000
    minutes: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    def drop(self) -> None:
        """Let the next file arrive, all at once."""
        values = np.random.default_rng(self.minutes)
        times = _START + self.minutes * _MINUTE + np.sort(values.integers(0, _MINUTE, self.rows))
        rows = pa.table(
            {
                "k": values.integers(0, self.keys, self.rows),
                "v": values.integers(0, 100, self.rows),
                "t": pa.array(times, pa.timestamp("us", "UTC")),
            }
        )
        arriving = self.folder / f".{self.minutes:06d}.tmp"
        pq.write_table(rows, arriving)
        arriving.rename(self.folder / f"{self.minutes:06d}.parquet")
        self.minutes += 1

    def drop_again(self, files: list[Path]) -> None:
        """Let files arrive that lie elsewhere (on the same disk), without copying them."""
        for number, file in enumerate(files):
            os.link(file, self.folder / f"{self.minutes:06d}-{number:03d}.parquet")
        self.minutes += 1


def engine(name: str) -> Spark:
    """The engine of a benchmark: ``spark`` on two threads, or ``sail``."""
    settings = {"spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS)}
    return Spark(remote="sail") if name == "sail" else Spark(master="local[2]", config=settings)


def source(name: str, root: Path, folder: Path, on: str) -> tuple[do.Pipeline, do.Stream]:
    """A pipeline and its stream of the folder's rows."""
    pipeline = do.Pipeline(name, root=str(root), engine=engine(on))
    rows = pipeline.source("events", do.FileSource(str(folder), format="parquet", schema=SCHEMA), event_time="t")
    return pipeline, rows


def tumbling_sums(root: Path, folder: Path, on: str) -> do.Pipeline:
    """Filter -> table ``clean`` -> ten-second sums for each key -> table ``sums``."""
    pipeline, rows = source("tumbling_sums", root, folder, on)
    clean = rows.filter(KEPT)
    clean.to_table("clean")
    clean.key_by("k").window(do.Tumbling("10 seconds")).aggregate(total="sum(v)").to_table("sums")
    return pipeline


def profile(pipeline: do.Pipeline) -> dict[str, float]:
    """Where the time of the last epoch went: each stage's steps, and the steps of the commit protocol."""
    coordinator = pipeline.epochs.coordinator
    decision = coordinator.view().last_decision
    manifests = decision.manifests if decision else ()
    stages = {f"{part.stage}.{step}": seconds for part in manifests for step, seconds in part.profile.items()}
    protocol = {f"protocol.{step}": seconds for step, seconds in coordinator.seconds.items() if step != "run_stage"}
    return {**stages, **protocol}
