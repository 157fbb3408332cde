"""Pipelines beside assets of dlt's and plain ones that DuckDB keeps, in one run: all refresh, with news and without."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import duckdb
import pytest

import dagster_operators as do
from dagster_operators.runtime.engine import ENGINE_VARIABLE
from tests.end_to_end import served_lake, served_report
from tests.end_to_end.served import FOLDER
from tests.orchestration import demo

pytestmark = [pytest.mark.sail, pytest.mark.slow, pytest.mark.timeout(900)]


def test_all_of_a_chain_refresh_when_only_the_first_has_news_and_when_none_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    monkeypatch.setenv(ENGINE_VARIABLE, "sail")
    demo.drop(tmp_path, 0, [("a", 1), ("b", 2)])
    defs = served_lake.defs()
    plain = ("copied_keys", "number_of_keys")
    chain = [
        *(demo.KEYS[name] for name in ("clean", "totals", "hourly")),
        dg.AssetKey(["copies", "copied"]),
        *map(dg.AssetKey, plain),
    ]
    with dg.DagsterInstance.ephemeral() as instance:

        def materialised(job: str) -> list[dg.AssetKey]:
            done = defs.resolve_job_def(job).execute_in_process(instance=instance)
            return [event.asset_key for event in done.get_asset_materialization_events() if event.asset_key]

        assert set(materialised("first")) == {*chain, served_lake.CUSTOMERS, dg.AssetKey(["customers", "cities"])}
        cities = do.StoredPipeline(str(tmp_path / "customers")).to_arrow("cities")
        assert sorted(cities["city"].to_pylist()) == ["Bonn", "Oslo"]
        demo.drop(tmp_path, 3, [("c", 10)])
        assert sorted(materialised("chain")) == sorted(chain), "the first of them has news"
        with duckdb.connect(str(tmp_path / "lake.duckdb"), read_only=True) as kept:
            assert kept.sql("SELECT n FROM public.number_of_keys").fetchall() == [(3,)]
        assert sorted(materialised("chain")) == sorted(chain), "none has"
        assert len(demo.pipeline(tmp_path).history()) == 2
        report = served_report.defs().resolve_job_def("weekly")
        assert report.execute_in_process(instance=instance).success
    assert sorted(do.StoredPipeline(str(tmp_path / "report")).to_arrow("joined")["k"].to_pylist()) == ["a", "b", "c"]
