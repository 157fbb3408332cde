"""What an epoch of two tables costs more on an object store than on this disk, where each request takes 40 ms: at most 1.5 s.

Two pipelines of the same program take turns, epoch by epoch, one on this disk and one on an S3 server (moto) that keeps each
request waiting for 40 ms. On Sail, whose epoch is quick, so that what is measured are the requests; how many there are is told,
too. Both pipelines have been opened before; what the first epoch costs of one that is opened anew is told beside.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from benchmarks.harness import Claim, Spread, alternately, workplace
from dagster_operators import FileSource, Pipeline
from tests.storage.s3_server import s3_server

DELAY = 0.04
"""Seconds that each request takes longer."""

GOAL = 1.5
"""Seconds more."""

OPENED, REPEATS, ANEW = 3, 20, 7


class _Two:
    """Two tables in two stages, with a feed of their own."""

    def __init__(self, folder: Path, root: str, options: dict[str, str] | None = None) -> None:
        folder.mkdir()
        self._folder, self._epoch, self._place = folder, 0, (root, options)
        self.open()
        for _ in range(OPENED):
            self.feed()
            self.run()

    def open(self) -> None:
        """Know nothing of what there is, as a process that begins."""
        root, options = self._place
        self._pipeline = Pipeline("two", root=root, engine="sail", storage_options=options)
        rows = self._pipeline.source("orders", FileSource(str(self._folder), format="csv", schema="v long"))
        kept = rows.filter("v > 0", name="kept")
        kept.to_table("kept")
        kept.filter("v > 1", name="larger").to_table("larger")

    def feed(self) -> None:
        """Let a file arrive."""
        self._epoch += 1
        (self._folder / f"{self._epoch:04}.csv").write_text(f"v\n{self._epoch}\n2\n")

    def run(self) -> None:
        """Run an epoch."""
        self._pipeline.run_epoch()


def measure() -> Claim:
    """The claim."""
    with workplace() as place, s3_server() as server:
        local = _Two(place / "local", str(place / "root"))
        remote = _Two(place / "remote", f"{server.bucket()}/two", server.options())
        counts: list[int] = []

        def run() -> None:
            server.behave(delay=DELAY)
            remote.run()
            counts.append(len(server.requests()))
            server.behave()

        def before() -> None:
            remote.feed()
            server.requests()

        remotes, locals_ = alternately(REPEATS, run, local.run, before=(before, local.feed))
        warm, first = counts[:], list[float]()
        counts.clear()
        for _ in range(ANEW):
            before()
            remote.open()
            started = time.perf_counter()
            run()
            first.append(time.perf_counter() - started)
    more = [there - here for there, here in zip(remotes, locals_, strict=True)]
    details = {
        "seconds_there": Spread.of(remotes).__dict__, "seconds_here": Spread.of(locals_).__dict__,
        "requests": {**Spread.of(warm).__dict__, "mean": round(statistics.mean(warm), 1)},
        "opened_anew": {"seconds": Spread.of(first).__dict__, "requests": Spread.of(counts).__dict__},
    }  # fmt: skip
    between = statistics.median(remotes) - statistics.median(locals_)
    return Claim("object_store_epoch", between, GOAL, False, Spread.of(more), details)  # noqa: FBT003


if __name__ == "__main__":
    measure().report()
