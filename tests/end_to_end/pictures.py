"""Takes the pictures of the README again, from the real UI: ``python -m tests.end_to_end.pictures docs/pictures``."""

from __future__ import annotations

import sys
import tempfile
from datetime import date
from pathlib import Path

from dagster_operators.runtime.engine import ENGINE_VARIABLE
from jobs.feed import drop_days, drop_weather, write_reference
from tests.end_to_end.dagster_server import dagster_server
from tests.end_to_end.page import browser

TABLES = 9


def take(pictures: Path, scratch: Path) -> None:
    """The ops of the flights job, and the lineage of its tables after an epoch."""
    write_reference(scratch / "data/reference")
    drop_weather(scratch / "data/reports", date(2013, 1, 1), 1)
    drop_days(scratch / "data/landing", date(2013, 1, 1), 1)
    environment = {"FLIGHTS_DATA": str(scratch / "data"), ENGINE_VARIABLE: "sail"}
    with (
        dagster_server(["definitions"], scratch / "home", environment) as address,
        browser(address, "2700,2400") as page,
    ):
        page.open("/locations/definitions/jobs/flights_epoch")
        page.click("View as Asset Graph")
        page.click("Expand")
        page.sees("begin", "clean_flights", "commit")
        page.picture(pictures / "op_graph.png", "svg rect", scale=0.7)

        page.click("View as Asset Graph")
        page.click("Materialize all")
        page.sees("Materializing...", times=TABLES)
        page.open("/asset-groups")
        page.sees("Materialized", times=TABLES, seconds=300)
        page.picture(pictures / "lineage.png", "svg foreignObject", margin=12, scale=0.8)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        take(Path(sys.argv[1]), Path(scratch))
