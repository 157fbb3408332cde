"""What the tests of Dagster's daemon serve: one table, started by the sensor or by Dagster's automation, which look often.

A file in the folder that is called as a failpoint, behind "hang" or "fail", lets runs do so there.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path

import dagster as dg

import dagster_operators as do
from dagster_operators.errors import StorageError
from dagster_operators.transactions.failpoints import watch
from tests.end_to_end.served import FOLDER
from tests.orchestration import demo

STARTED_BY = "DEMO_STARTED_BY"
EVERY = 5
"""Seconds between two looks; and those of a lease, which has the same ratio to them as if nothing is said of either."""


def pipeline(folder: Path) -> do.Pipeline:
    """The demo's source and first table."""
    made = do.Pipeline("demo", root=str(folder / "demo"), lease_seconds=EVERY)
    made.source("rows", do.FileSource(str(folder / "in"), format="json", schema=demo.SCHEMA)).to_table("clean")
    return made


def _hinder(place: str) -> None:
    folder = Path(os.environ[FOLDER])
    if (folder / f"fail {place}").exists():
        raise StorageError("the disk is gone")
    while (folder / f"hang {place}").exists():
        time.sleep(0.1)


HINDERED = ExitStack()
"""Where these definitions are served, and not where a test has the pipeline from here."""


@dg.definitions
def defs() -> dg.Definitions:
    HINDERED.enter_context(watch(_hinder))
    made, automated = pipeline(Path(os.environ[FOLDER])), os.environ[STARTED_BY] == "automation"
    own = do.build_definitions(
        made, sensor=not automated, automation_condition="new input" if automated else None, minimum_interval_seconds=EVERY,
        default_status="RUNNING", retry_policy=dg.RetryPolicy(max_retries=0),
    )  # fmt: skip
    running = dg.DefaultSensorStatus.RUNNING
    everything = dg.AutomationConditionSensorDefinition(
        "automation", target=dg.AssetSelection.all(), default_status=running, minimum_interval_seconds=EVERY
    )
    return dg.Definitions.merge(own, dg.Definitions(sensors=[everything])) if automated else own
