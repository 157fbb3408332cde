"""What Dagster loads: the flights job over the folder ``data`` (or the one that ``FLIGHTS_DATA`` names)."""

from __future__ import annotations

import os
from pathlib import Path

import dagster_operators as do
from jobs.flights import build

folder = Path(os.environ.get("FLIGHTS_DATA", Path(__file__).parent / "data"))
defs = do.build_definitions(build(folder), schedule="*/10 * * * *", sensor=True)
