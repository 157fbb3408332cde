"""What a step is at while it takes long: a line in the run's log every ten seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from dagster_operators.runtime.stages.at_work import so_far

EVERY: Final = 10.0
"""Seconds between two lines."""


@contextmanager
def told_meanwhile(
    tell: Callable[[str], object], engine: str, every: float | None = None, *, pipeline: str = ""
) -> Iterator[None]:
    """Tell every few seconds that the work in it goes on, how far the engine is with what it was given, and what is staged.

    Args:
        tell: Takes a line.
        engine: The engine's name.
        pipeline: The pipeline whose stages are at work.
        every: How many seconds are between two lines.
    """
    over, started = threading.Event(), time.monotonic()

    def look() -> None:
        while not over.wait(EVERY if every is None else every):
            with suppress(Exception):  # a line that the run's log does not take, as a busy database, is not the last one
                told = "; ".join(filter(None, [_tasks() if engine == "spark" else "", *so_far(pipeline)]))
                tell(f"Still at work after {time.monotonic() - started:.0f} s{told and f': {told}'}.")

    thread = threading.Thread(target=look, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=1.0)


def _tasks() -> str:
    """How many tasks of its running jobs this process's Spark has done, over how many rows; nothing while it runs none."""
    pyspark: Any = sys.modules.get("pyspark")
    context = getattr(getattr(pyspark, "SparkContext", None), "_active_spark_context", None)
    if context is None:
        return ""
    try:
        tracker = context.statusTracker()
        jobs = [info for number in tracker.getActiveJobsIds() if (info := tracker.getJobInfo(number))]
        stages = [info for job in jobs for number in job.stageIds if (info := tracker.getStageInfo(number))]
    except Exception:  # noqa: BLE001 - a session that is just being stopped must not end the line, nor the step
        return ""
    done, all_of_them = sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)
    running = "1 Spark job" if len(jobs) == 1 else f"{len(jobs)} Spark jobs"
    return f"{done} of {all_of_them} tasks of {running} are done{_rows(context)}" if all_of_them else ""


def _rows(context: Any) -> str:
    """How many rows the stages at work have read and written; nothing where the JVM does not tell."""
    try:
        running = context._jsc.sc().statusStore().activeStages()  # noqa: SLF001 - Python's own tracker knows no rows
        at_work = [running.apply(number) for number in range(running.size())]
        read = sum(stage.inputRecords() + stage.shuffleReadRecords() for stage in at_work)
        written = sum(stage.outputRecords() + stage.shuffleWriteRecords() for stage in at_work)
    except Exception:  # noqa: BLE001 - the tasks are told all the same
        return ""
    return f", and the stages at work have read {read} rows and written {written}" if read or written else ""
