"""The commit of three tables: decision, three Delta commits, completion, under 50 milliseconds.

Measured as the whole commit step of a real pipeline (on Sail, because the engine plays no part in it): reading the manifests,
looking whether anyone else wrote the tables, the decision record, one commit for each table, the completion record, folding the
ledger's small files now and then, and letting go of the lease.
"""

from __future__ import annotations

from pathlib import Path

import dagster_operators as do
from benchmarks.events import Feed, source
from benchmarks.harness import Claim, Spread, workplace

WARM_UP, REPEATS = 10, 60
SECONDS = 0.05


def three_tables(root: Path, folder: Path, on: str) -> do.Pipeline:
    """The rows divided into three tables."""
    pipeline, rows = source("three_tables", root, folder, on)
    for number in range(3):
        rows.filter(f"k % 3 = {number}").to_table(f"part_{number}")
    return pipeline


def measure() -> Claim:
    """The claim; its ratio is of the seconds to the limit."""
    with workplace() as place:
        feed = Feed(place / "input", rows=1_000)
        pipeline = three_tables(place / "root", feed.folder, "sail")
        seconds = []
        for _ in range(WARM_UP + REPEATS):
            feed.drop()
            seconds.append(pipeline.run_epoch().seconds["commit"])
    found = Spread.of(seconds[WARM_UP:])
    ratios = Spread.of([value / SECONDS for value in seconds[WARM_UP:]])
    return Claim("commit_three_tables", found.median / SECONDS, 1.0, False, ratios, {"seconds": found.__dict__, "limit": SECONDS})  # noqa: FBT003


if __name__ == "__main__":
    measure().report()
