"""An epoch of 10,000 rows over a million keys, of which it forgets one in a hundred, beside the same that forgets none.

Rows are looked up among the keys that are remembered, and those that time has passed are counted: both go with the number of
keys, not of rows. What the sums have of keys that are forgotten goes when time has gone on by as much as is kept; how long that
epoch takes is told beside.

``python -m benchmarks.forgetting_keys --engine sail``
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dagster_operators as do
from benchmarks.events import engine
from benchmarks.harness import alternately, at_most, processor_seconds, timed, workplace

KEYS, ROWS = 1_000_000, 10_000
STEPS = KEYS // ROWS
"""For so many seconds keys are remembered; each second has rows of as many keys as an epoch has."""

EPOCHS = 7
CLEANED = EPOCHS + 1
"""The epoch, behind one to warm up, in which the sums of forgotten keys go."""

GOAL = 3.0
BEGIN = STEPS * 17_000_000 - CLEANED
"""Of event time, in seconds."""


class Totals:
    """A pipeline that adds up rows by key.

    Args:
        folder: Where it is.
        on: The engine.
        forget: Whether it forgets keys.
    """

    def __init__(self, folder: Path, on: str, *, forget: bool) -> None:
        self._folder, self._epoch, self._chooser = folder / "rows", 0, np.random.default_rng(KEYS)
        self._folder.mkdir(parents=True)
        self.pipeline = do.Pipeline("totals", root=str(folder / "root"), engine=engine(on))
        source = do.FileSource(str(self._folder), format="parquet", schema="k long, v long, at timestamp")
        rows = self.pipeline.source("rows", source, event_time="at")
        totals = rows.key_by("k").aggregate(
            total="sum(v)", rows_there="count(*)", forget_after=f"{STEPS} s" if forget else None, name="totals"
        )
        totals.to_table("totals")
        keys = self._chooser.permutation(KEYS)
        self._write(keys, np.arange(KEYS) // ROWS)
        self.pipeline.run_epoch()
        self.forgotten: list[float] = []

    def _write(self, keys: np.ndarray, seconds: np.ndarray) -> None:
        at = pa.array((BEGIN + seconds) * 1_000_000).cast(pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"k": keys, "v": keys % 100, "at": at}), self._folder / f"{self._epoch:04d}.parquet")

    def go_on(self) -> None:
        """Have rows come of random keys, a second later."""
        self._epoch += 1
        keys = self._chooser.choice(KEYS, ROWS, replace=False)
        self._write(keys, np.full(ROWS, STEPS + self._epoch - 1))

    def run_epoch(self) -> None:
        """Add them up."""
        self.forgotten.append(self.pipeline.run_epoch().metrics.get("totals.forgotten_keys", 0))


def main() -> None:
    """Build both pipelines, run epochs on them in turn, and print the claim."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engine", choices=("spark", "sail"), default="spark")
    options = parser.parse_args()
    with workplace() as folder:
        plain, forgetful = (Totals(folder / name, options.engine, forget=name == "forgetful") for name in ("plain", "forgetful"))
        alternately(1, plain.run_epoch, forgetful.run_epoch, before=(plain.go_on, forgetful.go_on))
        used: list[list[float]] = [[], []]

        def measured(turn: int, one: Totals) -> None:
            before = processor_seconds()
            one.run_epoch()
            used[turn].append(processor_seconds() - before)

        runs = (lambda: measured(0, plain), lambda: measured(1, forgetful))
        seconds = alternately(EPOCHS, *runs, before=(plain.go_on, forgetful.go_on))
        forgotten = forgetful.forgotten[1:]
        if not all(0.9 * ROWS < one <= ROWS for one in forgotten):
            raise AssertionError(f"forgot {forgotten}")
        forgetful.go_on()
        details = {
            "engine": options.engine,
            "seconds": [round(statistics.median(one), 2) for one in seconds],
            "processor_seconds": [round(statistics.median(one), 2) for one in used],
            "forgotten": round(statistics.median(forgotten)),
            "epoch in which sums go": round(timed(forgetful.run_epoch), 2),
        }
        at_most("forgetting_keys_vs_keeping_them", seconds[1], seconds[0], goal=GOAL, details=details).report()


if __name__ == "__main__":
    main()
