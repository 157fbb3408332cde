"""What Dagster loads: the flights job over the folder ``data`` (or the one that ``FLIGHTS_DATA`` names).

And the Nexmark job over the folder that ``NEXMARK_DATA`` names, if it does, and the dataflow of event operators over that of
``DELAYS_DATA``, and the corrections of flights over that of ``CORRECTIONS_DATA`` (the folder
of the flights job, with the corrections that ``python -m jobs.corrections`` puts there), and the data sets over that of
``DATA_SETS_DATA`` (the folder of the flights job, too): whoever does not ask for them need not wait for them.
"""

from __future__ import annotations

import os
from pathlib import Path

import dagster as dg

import dagster_operators as do
from jobs.flights import build

folder = Path(os.environ.get("FLIGHTS_DATA", Path(__file__).parent / "data"))
pipelines = [build(folder)]
if nexmark := os.environ.get("NEXMARK_DATA"):
    from jobs.nexmark.job import build as build_nexmark

    pipelines.append(build_nexmark(Path(nexmark)))
if delays := os.environ.get("DELAYS_DATA"):
    from jobs.delays.job import build as build_delays

    pipelines.append(build_delays(Path(delays)))
if corrections := os.environ.get("CORRECTIONS_DATA"):
    from jobs.corrections import build as build_corrections

    pipelines.append(build_corrections(Path(corrections)))
if data_sets := os.environ.get("DATA_SETS_DATA"):
    from jobs.data_sets.job import build as build_data_sets

    pipelines.append(build_data_sets(Path(data_sets)))
defs = dg.Definitions.merge(
    do.build_definitions(*pipelines, schedule="*/10 * * * *", sensor=True),
    dg.Definitions(executor=dg.in_process_executor),  # also of what is launched from the asset graph: one Spark session for it
)
