"""Dagster's own share of an epoch, in process and warm: under 0.3 seconds.

The job by ``execute_in_process`` and ``run_epoch`` take turns on one pipeline, on files of the same size; the share
is the difference of the medians. On Sail, so that the engine's noise is small beside it. The instance is a temporary one, as
``execute_in_process`` makes by default (its storage is in memory; a Dagster home on disk adds the writing of its SQLite files).
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import dagster as dg

import dagster_operators as do
from benchmarks.events import Feed, tumbling_sums
from benchmarks.harness import Claim, Spread, alternately, workplace

if TYPE_CHECKING:
    from collections.abc import Callable

WARM_UP, REPEATS = 5, 20
SECONDS = 0.3
_QUIET = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
"""What a run logs goes to the event log all the same; only the terminal is spared."""


def measure() -> Claim:
    """The claim; its ratio is of the seconds to the limit."""
    with workplace() as place, dg.DagsterInstance.ephemeral() as instance:
        feed = Feed(place / "input")
        pipeline = tumbling_sums(place / "root", feed.folder, "sail")
        job = do.build_definitions(pipeline).resolve_job_def(f"{pipeline.name}_epoch")
        runs: list[Callable[[], object]] = [
            lambda: job.execute_in_process(instance=instance, run_config=_QUIET),
            pipeline.run_epoch,
        ]
        dagster, plain = (seconds[WARM_UP:] for seconds in alternately(WARM_UP + REPEATS, *runs, before=[feed.drop, feed.drop]))
    shares = [with_dagster - without for with_dagster, without in zip(dagster, plain, strict=True)]
    share = statistics.median(dagster) - statistics.median(plain)
    details = {
        "seconds": round(share, 4),
        "limit": SECONDS,
        "with_dagster": Spread.of(dagster).__dict__,
        "without": Spread.of(plain).__dict__,
    }
    return Claim("dagster_overhead", share / SECONDS, 1.0, False, Spread.of([part / SECONDS for part in shares]), details)  # noqa: FBT003


if __name__ == "__main__":
    measure().report()
