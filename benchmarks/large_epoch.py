"""A large epoch beside a plain Spark batch job that writes the same Parquet: ten million rows, at most 1.15 times as long.

The transformation is a filter and two computed columns over ten Parquet files. The claim is about that; how it is with a windowed
aggregate behind it, which the batch job computes from the table it has just written, stands in a line of its own, held to the
same goal although that is not promised. Both sides use one session; each repeat of ours is a new epoch over links to the same
files.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import dagster_operators as do
from benchmarks.events import KEPT, SCHEMA, Feed, engine, profile, source
from benchmarks.harness import Claim, Spread, alternately, at_most, medians, workplace

FILES, ROWS = 10, 1_000_000
REPEATS = 7
GOAL = 1.15
_SQUARE, _MINUTE = "v * v", "date_trunc('minute', t)"


def one_table(root: Path, folder: Path, *, sums: bool) -> do.Pipeline:
    """Filter and computed columns -> table ``clean``; if wanted, its ten-second sums for each key -> table ``sums``."""
    pipeline, rows = source("large", root, folder, "spark")
    clean = rows.filter(KEPT).with_columns(square=_SQUARE, minute=_MINUTE)
    clean.to_table("clean")
    if sums:
        clean.key_by("k").window(do.Tumbling("10 seconds")).aggregate(total="sum(v)").to_table("sums")
    return pipeline


class _Ours:
    """A pipeline that gets all the data once more in every epoch."""

    def __init__(self, place: Path, data: list[Path], *, sums: bool) -> None:
        self._place = place
        self._data = data
        self._sums = sums
        self.profiles: list[dict[str, float]] = []

    def prepare(self) -> None:
        """A new pipeline with an epoch behind it, so that neither planning nor the late rows of a repeat are measured."""
        shutil.rmtree(self._place, ignore_errors=True)
        self._feed = Feed(self._place / "input", rows=1_000)
        self._pipeline = one_table(self._place / "root", self._feed.folder, sums=self._sums)
        self._feed.drop()
        self._pipeline.run_epoch()
        self._feed.drop_again(self._data)

    def run(self) -> None:
        self._pipeline.run_epoch()
        self.profiles.append(profile(self._pipeline))


class _Batch:
    """The same transformation as plain Spark jobs."""

    def __init__(self, place: Path, data: list[Path], *, sums: bool) -> None:
        self._session = engine("spark").session()
        self._place = place
        self._data = [str(file) for file in data]
        self._sums = sums

    def prepare(self) -> None:
        """Room for the next repeat."""
        shutil.rmtree(self._place, ignore_errors=True)

    def run(self) -> None:
        rows = self._session.read.schema(SCHEMA).parquet(*self._data)
        columns = (f"{_SQUARE} AS square", f"{_MINUTE} AS minute")
        rows.filter(KEPT).selectExpr("*", *columns).write.parquet(str(self._place / "clean"))
        if self._sums:
            from pyspark.sql import functions as F

            clean = self._session.read.parquet(str(self._place / "clean"))
            sums = clean.groupBy("k", F.window("t", "10 seconds")).agg(F.sum("v").alias("total"))
            flat = sums.selectExpr("k", "window.start AS window_start", "window.end AS window_end", "total")
            flat.write.parquet(str(self._place / "sums"))


def measure() -> list[Claim]:
    """The claims: of the one table, and with sums."""
    with workplace() as place:
        data = Feed(place / "data", rows=ROWS, minutes=1)
        for _ in range(FILES):
            data.drop()
        files = sorted(data.folder.iterdir())
        return [
            _compared(place, files, name, sums=sums) for name, sums in (("large_epoch", False), ("large_epoch_with_sums", True))
        ]


def _compared(place: Path, files: list[Path], name: str, *, sums: bool) -> Claim:
    ours, batch = _Ours(place / "ours", files, sums=sums), _Batch(place / "batch", files, sums=sums)
    runs: list[Callable[[], None]] = [ours.run, batch.run]
    mine, plain = alternately(1 + REPEATS, *runs, before=[ours.prepare, batch.prepare])
    details = {
        "rows": FILES * ROWS,
        "seconds": Spread.of(mine[1:]).__dict__,
        "batch_seconds": Spread.of(plain[1:]).__dict__,
        "profile": medians(ours.profiles[1:]),
    }
    return at_most(name, mine[1:], plain[1:], goal=GOAL, details=details)


if __name__ == "__main__":
    for claim in measure():
        claim.report()
