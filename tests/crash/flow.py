"""The pipeline that the crash tests kill: every kind of output there is, fed one small file an epoch."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

from dagster_operators.api.pipeline import Pipeline
from dagster_operators.connectors.file_source import FileSource
from dagster_operators.operators.windows.windows import Tumbling

ROWS = 30
DATASETS = (
    "state/aggregate_k.partials",
    "state/aggregate_k_per_10_seconds.panes",
    "tables/clean",
    "tables/large",
    "tables/per_window",
    "tables/readings_rejects",
    "tables/totals",
)
"""All that each epoch commits to."""


def write_feed(folder: Path, epochs: int) -> Path:
    """Files of readings, one for each epoch; some rows come late, in each file one record is broken."""
    folder.mkdir()
    for epoch in range(1, epochs + 1):
        path = folder / f"readings-{epoch:03d}.json"
        path.write_text("\n".join(_lines(epoch)) + "\n", encoding="utf-8")
        os.utime(path, (1_700_000_000 + epoch, 1_700_000_000 + epoch))
    return folder


def _lines(epoch: int) -> list[str]:
    chance = random.Random(epoch)  # noqa: S311 - the same rows in every process
    rows = []
    for number in range(ROWS):
        second = 6 * epoch + chance.randrange(-12, 6)
        row = {"k": f"k{chance.randrange(7)}", "n": 1000 * epoch + number, "v": chance.randrange(-20, 100)}
        rows.append(json.dumps({**row, "at": f"2024-01-01T00:{second // 60 + 1:02d}:{second % 60:02d}Z"}))
    return [*rows, f'{{"k": "broken", "n": {epoch}, "v": "what']


STAGES = 5
"""Of which two can run at the same time, then three."""


def build(root: str, feed: str, *, lease_seconds: float = 30.0, concurrent_stages: int = 1) -> Pipeline:
    """The pipeline over the files in ``feed``; no file of it is read here."""
    pipeline = Pipeline("crashing", root, lease_seconds=lease_seconds, concurrent_stages=concurrent_stages)
    source = FileSource(f"{feed}/*.json", schema="k string, n long, v long, at timestamp", max_files=1, corrupt="reject")
    readings = pipeline.source("readings", source, event_time="at", lateness="4 seconds", finished=True)
    clean = readings.filter("v >= 0")
    clean.to_table("clean")
    clean.filter("v > 50").to_table("large")  # a table fed from another table
    even = clean.filter("n % 2 = 0", name="even")  # a stream that is no table and feeds two stages
    even.key_by("k").window(Tumbling("10 seconds")).aggregate(rows="count(*)", total="sum(v)").to_table("per_window")
    even.key_by("k").aggregate(rows="count(*)", mean="avg(v)", most="max(v)").to_table("totals")
    return pipeline
