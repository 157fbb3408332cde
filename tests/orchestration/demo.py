"""The small pipeline of these tests, as a module that Dagster can load again in another process."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import dagster as dg

import dagster_operators as do

SCHEMA = "k string, v long, t timestamp"
KEYS = {name: dg.AssetKey(["demo", name]) for name in ("rows", "names", "clean", "totals", "hourly")}
FAST = dg.RetryPolicy(max_retries=1, delay=0)


def drop(folder: Path, number: int, rows: Sequence[tuple[str, int]]) -> None:
    """Put the file of one epoch into the landing folder: rows of hour ``number``."""
    landing = folder / "in"
    landing.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"k": k, "v": v, "t": f"2024-01-01T{number:02}:00:00Z"}) for k, v in rows]
    (landing / f"{number:03}.json").write_text("\n".join(lines))
    os.utime(landing / f"{number:03}.json", (1_700_000_000 + number, 1_700_000_000 + number))


def pipeline(folder: Path, *, lease_seconds: float = 30.0) -> do.Pipeline:
    """Stage clean, then totals and hourly, which both read it."""
    at_once = int(os.environ.get("DEMO_STAGES", "2"))
    made = do.Pipeline("demo", root=str(folder / "demo"), lease_seconds=lease_seconds, concurrent_stages=at_once)
    source = do.FileSource(str(folder / "in"), format="json", schema=SCHEMA, max_files=1)
    rows = made.source("rows", source, event_time="t", lateness="1 hour")
    checks = {"positive": "v > 0", "short": do.Check("length(k) < 3", blocking=False)}
    clean = rows.filter("v IS NOT NULL", name="known").to_table("clean", description="What is known", checks=checks)
    clean.key_by("k").aggregate(total="sum(v)", name="sums").to_table("totals")
    clean.key_by("k").window(do.Tumbling("1 hour")).aggregate(n="count(*)", name="counts").to_table("hourly")
    return made


def definitions(folder: Path, *, executor: dg.ExecutorDefinition | None = None) -> dg.Definitions:
    """The demo's definitions."""
    return do.build_definitions(pipeline(folder), sensor=True, retry_policy=FAST, wait_seconds=0, executor=executor)


class Refusing(dg.IOManager):
    """As one that knows only tables of a warehouse: it can neither store what an op hands on nor load it."""

    def handle_output(self, context: dg.OutputContext, obj: object) -> NoReturn:
        raise TypeError(f"{type(obj).__name__} is no table")

    def load_input(self, context: dg.InputContext) -> NoReturn:
        raise TypeError("there is no such table")


def job(folder: str, name: str, processes: int = 1) -> dg.JobDefinition:
    """A job of the demo, for Dagster to make again wherever it runs an op; the location has an I/O manager that is not for it."""
    own = dg.Definitions(resources={"io_manager": Refusing()})
    made = definitions(Path(folder), executor=None if processes == 1 else dg.multiprocess_executor)
    return dg.Definitions.merge(own, made).resolve_job_def(name)


def reconstructable(folder: Path, name: str, processes: int = 1) -> Any:
    """The job as ``dg.execute_job`` takes it."""
    return dg.build_reconstructable_job("tests.orchestration.demo", "job", (str(folder), name, processes))
