"""Epoch 500 costs what epoch 10 costs: at most 1.2 times as much on equal input.

One pipeline with an append table, a windowed one and an updating one is run up to epoch 490. Then it and a new pipeline at its
tenth epoch take turns, on files of the same size, and the medians are compared: so that what is measured is the length of the
history and not the hour of the day. On Sail, where the engine takes least, so that what grows shows most.
"""

from __future__ import annotations

from pathlib import Path

import dagster_operators as do
from benchmarks.events import KEPT, Feed, profile, source
from benchmarks.harness import Claim, Spread, alternately, at_most, medians, workplace

YOUNG, OLD, AROUND = 10, 500, 20
"""The epochs compared, and how many on either side of each are measured (fewer before the tenth: none is measured twice)."""

GOAL = 1.2


def three_kinds(root: Path, folder: Path, on: str) -> do.Pipeline:
    """Append table ``clean``, windowed table ``sums`` and updating table ``totals``."""
    pipeline, rows = source("three_kinds", root, folder, on)
    clean = rows.filter(KEPT)
    clean.to_table("clean")
    by_key = clean.key_by("k")
    by_key.window(do.Tumbling("10 seconds")).aggregate(total="sum(v)").to_table("sums")
    by_key.aggregate(total="sum(v)", rows="count(*)").to_table("totals")
    return pipeline


class _Aged:
    """A pipeline with its own feed, at some age."""

    def __init__(self, place: Path, epochs: int) -> None:
        self.feed = Feed(place / "input", rows=10_000)
        self.pipeline = three_kinds(place / "root", self.feed.folder, "sail")
        self.profiles: list[dict[str, float]] = []
        for _ in range(epochs):
            self.run()
        self.profiles.clear()

    def run(self) -> None:
        self.feed.drop()
        result = self.pipeline.run_epoch()
        self.profiles.append({**{f"total.{step}": seconds for step, seconds in result.seconds.items()}, **profile(self.pipeline)})


def measure() -> Claim:
    """The claim."""
    with workplace() as place:
        old = _Aged(place / "old", OLD - AROUND // 2)
        young = _Aged(place / "young", YOUNG - AROUND // 4)
        olds, youngs = alternately(AROUND, old.run, young.run)
    epochs = {
        "old": f"{OLD - AROUND // 2} to {OLD + AROUND // 2}",
        "young": f"{YOUNG - AROUND // 4} to {YOUNG + AROUND * 3 // 4}",
    }
    details = {
        name: {"epochs": epochs[name], "seconds": Spread.of(seconds).__dict__, "profile": medians(profiles)}
        for name, seconds, profiles in (("old", olds, old.profiles), ("young", youngs, young.profiles))
    }
    return at_most("epoch_500_vs_10", olds, youngs, goal=GOAL, details=details)


if __name__ == "__main__":
    measure().report()
