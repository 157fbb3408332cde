"""A person opens Dagster in a browser, looks at the pipeline, starts a run and sees the tables materialise."""

from __future__ import annotations

import time
from pathlib import Path

import dagster as dg
import duckdb
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
CHAIN = ["copied_keys", "copies/copied", "demo/clean", "demo/hourly", "demo/totals", "number_of_keys"]
"""Two pipelines, the second of which reads the first, and two plain assets behind it."""


def made_by_run(home: Path, number: int) -> list[str]:
    """What the chain's job materialised in its run of that number, as Dagster's own storage has it, once that run is over."""
    deadline = time.monotonic() + 240
    with dg.DagsterInstance.from_config(str(home)) as instance:
        while time.monotonic() < deadline:
            runs = [record.dagster_run for record in instance.get_run_records(dg.RunsFilter(job_name="chain"))]
            if len(runs) == number and runs[0].is_finished:
                failed = instance.all_logs(runs[0].run_id, dg.DagsterEventType.STEP_FAILURE)
                assert runs[0].is_success, [log.user_message for log in failed]
                logs = instance.all_logs(runs[0].run_id, dg.DagsterEventType.ASSET_MATERIALIZATION)
                return sorted(log.asset_materialization.asset_key.to_user_string() for log in logs if log.asset_materialization)
            time.sleep(0.3)
    raise AssertionError(f"run {number} of the chain is not over after 240 s: {runs}")


def test_two_locations_with_other_peoples_assets_are_one_graph_and_a_chain_of_them_refreshes(tmp_path: Path) -> None:
    """dlt loads what a pipeline reads; DuckDB keeps what is behind pipelines, one of which reads a root of another location.

    A person materialises the chain: with all of it new, with news for its first pipeline alone, and with none.
    """
    demo.drop(tmp_path, 0, [("a", 1), ("b", 2)])
    environment = {FOLDER: str(tmp_path), ENGINE_VARIABLE: "sail"}
    with dagster_server([LAKE, REPORT], tmp_path / "home", environment) as address, browser(address, "2400,1600") as page:
        page.open("/assets/number_of_keys?view=lineage&lineageScope=upstream&lineageDepth=9")
        page.sees("rows", "clean", "copied", "copied_keys", "number_of_keys")
        page.open("/assets/largest?view=lineage&lineageScope=upstream&lineageDepth=9")
        page.sees("rows", "clean", "totals", "joined", "summary", "largest")
        page.open("/assets/customers/cities?view=lineage&lineageScope=upstream&lineageDepth=9")
        page.sees("dlt_crm_customers", "cities")

        page.open(f"/locations/{LAKE}/jobs/chain")
        for number, news in enumerate([True, True, False], 1):
            if number > 1 and news:
                demo.drop(tmp_path, 3, [("c", 10)])
            page.click("Materialize all")
            assert made_by_run(tmp_path / "home", number) == CHAIN
        page.open("/assets/number_of_keys?view=lineage&lineageScope=upstream&lineageDepth=9")
        page.sees("Materialized", times=4)
    with duckdb.connect(str(tmp_path / "lake.duckdb"), read_only=True) as kept:
        assert kept.sql("SELECT n FROM public.number_of_keys").fetchall() == [(3,)]
    assert len(demo.pipeline(tmp_path).history()) == 2
