"""An epoch that reads and writes 10,000 of 10 million keys, beside the same epoch over 100,000 keys: the state store alone.

Each epoch opens the store from its files, gets 10,000 random keys, puts them back changed, writes the run and does the merges
that are due. A hundred times the keys may cost at most three times as much here, some 10 to 20 ms: little enough that a whole
epoch of an operator, which takes a few tenths of a second, costs at most 1.5 times as much.
"""

from __future__ import annotations

import gc
import statistics
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.harness import at_most, medians, workplace
from dagster_operators import KeyedState
from dagster_operators.state.merge_plan import plan_merges
from dagster_operators.state.state_file import StateFile
from dagster_operators.state.store import StateStore

FEW, MANY = 100_000, 10_000_000
TOUCHED = 10_000
EPOCHS = 40
GOAL = 3.0
DECLARATION = KeyedState("k long, total long, count long, mean double, seen timestamp", key="k")


class Table:
    """A state table of so many keys.

    Args:
        folder: Where it is.
        keys: How many keys it has.
    """

    def __init__(self, folder: Path, keys: int) -> None:
        self.keys = keys
        self._folder = folder
        self._files: list[StateFile] = []
        self._chooser = np.random.default_rng(keys)
        self._epoch = 0
        self.profiles: list[dict[str, float]] = []
        store = self._open()
        for start in range(0, keys, 1_000_000):
            store["t"].put(rows(np.arange(start, min(start + 1_000_000, keys))))
        self._files = store.flush()["t"]

    def _open(self) -> StateStore:
        self._epoch += 1
        return StateStore(
            {"t": DECLARATION}, {"t": self._files}, operator="bench", root=str(self._folder / "state"),
            directory={"t": f"e{self._epoch}"}, epoch=self._epoch, cache=str(self._folder / "cache"),
        )  # fmt: skip

    def run_epoch(self) -> None:
        """Change 10,000 random keys."""
        chosen = rows(np.unique(self._chooser.integers(0, self.keys, TOUCHED)))
        marks = [time.perf_counter()]
        store = self._open()
        marks.append(time.perf_counter())
        if store["t"].get(chosen)["total"].null_count:
            raise AssertionError("a key was not found")
        marks.append(time.perf_counter())
        store["t"].put(chosen)
        written = store.flush()["t"]
        marks.append(time.perf_counter())
        for merge in plan_merges(DECLARATION, self._files):
            written += store.merge("t", merge)
            self._files = [file for file in self._files if file not in merge.files]
        self._files += written
        marks.append(time.perf_counter())
        steps = ("open", "get", "put and flush", "merge")
        self.profiles.append(dict(zip(steps, np.diff(marks).tolist(), strict=True)))


def rows(keys: np.ndarray) -> pa.Table:
    """A row for each key."""
    return pa.table({
        "k": keys, "total": keys * 2, "count": keys % 7, "mean": keys / 3, "seen": pa.array(keys).cast(pa.timestamp("us", "UTC")),
    })  # fmt: skip


def main() -> None:
    """Build both tables, run epochs on them in turn, and print the claim."""
    with workplace() as folder:
        few, many = Table(folder / "few", FEW), Table(folder / "many", MANY)
        for table in (few, many):
            table.run_epoch()
            table.profiles.clear()
        for _ in range(EPOCHS):
            for table in (few, many):
                gc.collect()
                table.run_epoch()
        seconds = [[profile["get"] + profile["put and flush"] for profile in table.profiles] for table in (few, many)]
        details = {
            "seconds": {
                "100k keys": round(statistics.median(seconds[0]), 4),
                "10M keys": round(statistics.median(seconds[1]), 4),
            },
            "steps at 100k": medians(few.profiles),
            "steps at 10M": medians(many.profiles),
            "longest merge": round(max(profile["merge"] for profile in many.profiles), 2),
        }
        at_most("keyed_state_10m_vs_100k", seconds[1], seconds[0], goal=GOAL, details=details).report()


if __name__ == "__main__":
    main()
