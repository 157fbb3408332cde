"""A person opens Dagster in a browser, looks at the pipeline, starts a run and sees the tables materialise."""

from __future__ import annotations

from pathlib import Path

import pytest

from dagster_operators.runtime.engine import ENGINE_VARIABLE
from tests.end_to_end.dagster_server import dagster_server
from tests.end_to_end.page import browser
from tests.end_to_end.served import FOLDER
from tests.orchestration import demo

pytestmark = [pytest.mark.browser, pytest.mark.sail, pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_run_by_hand_materialises_the_tables(tmp_path: Path) -> None:
    demo.drop(tmp_path, 0, [("a", 1), ("b", 2)])
    demo.drop(tmp_path, 3, [("a", 10)])
    module, environment = "tests.end_to_end.served", {FOLDER: str(tmp_path), ENGINE_VARIABLE: "sail"}
    with dagster_server([module], tmp_path / "home", environment) as address, browser(address) as page:
        page.open("/asset-groups")
        page.sees("rows", "clean", "totals", "hourly")
        page.sees("Never materialized", times=3)

        page.open(f"/locations/{module}/jobs/demo_epoch")
        page.click("View as Asset Graph")
        page.click("Explode graphs")
        page.sees("demo.begin", "demo.clean", "demo.totals", "demo.hourly", "demo.commit")

        page.click("View as Asset Graph")
        page.click("Materialize all")
        page.sees("Materialized", times=3, seconds=240)  # a run may be over before the page has shown it going on
        page.open("/asset-groups")
        page.sees("Materialized", times=3)

        page.open("/assets/demo/clean")
        page.sees("Row count", "epoch", "delta_version", "watermark", "2023-12-31T23:00:00Z")
    (complete,) = demo.pipeline(tmp_path).history()
    assert complete.rows["clean"] == 2


LAKE, REPORT = "tests.end_to_end.served_lake", "tests.end_to_end.served_report"


def test_two_locations_with_other_peoples_assets_are_one_graph(tmp_path: Path) -> None:
    """dlt loads what a pipeline reads; DuckDB keeps what is behind pipelines, one of which reads a root of another location."""
    demo.drop(tmp_path, 0, [("a", 1), ("b", 2)])
    environment = {FOLDER: str(tmp_path), ENGINE_VARIABLE: "sail"}
    with dagster_server([LAKE, REPORT], tmp_path / "home", environment) as address, browser(address, "2400,1600") as page:
        page.open("/assets/number_of_keys?view=lineage&lineageScope=upstream&lineageDepth=9")
        page.sees("rows", "clean", "copied", "copied_keys", "number_of_keys")
        page.open("/assets/largest?view=lineage&lineageScope=upstream&lineageDepth=9")
        page.sees("rows", "clean", "totals", "joined", "summary", "largest")
        page.open("/assets/customers/cities?view=lineage&lineageScope=upstream&lineageDepth=9")
        page.sees("dlt_crm_customers", "cities")
