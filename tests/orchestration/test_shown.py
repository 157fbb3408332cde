"""What is only shown cannot fail a run whose epoch is complete, and shows values that Python does not have."""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from dagster_operators import FileSource, Pipeline, build_definitions, orchestration
from dagster_operators.cli.main import main
from dagster_operators.connectors.debezium_events import keyed_events_of
from dagster_operators.connectors.sink import SinkRows
from dagster_operators.errors import SinkError
from dagster_operators.orchestration import materialisation, shown
from dagster_operators.types.far_values import shown_values

pytestmark = pytest.mark.usefixtures("sail")

FAR = pa.array([2932897], pa.int32()).cast(pa.date32())
NESTED = pa.array([[253402300800000000]], pa.list_(pa.timestamp("us", "UTC")))


def arrive(folder: Path, number: int) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": [number], "day": FAR, "times": NESTED}), folder / f"{number}.parquet")


def test_far_years_and_a_preview_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    arrive(tmp_path / "in", 1)
    pipeline = Pipeline("p", root=str(tmp_path / "root"), engine="sail")
    rows = pipeline.source("rows", FileSource(str(tmp_path / "in"), schema="id long, day date, times array<timestamp>"))
    rows.to_table("t")
    job = build_definitions(pipeline).resolve_job_def("p_epoch")
    with dg.DagsterInstance.ephemeral() as instance:
        assert job.execute_in_process(instance=instance).success
        told = instance.get_latest_materialization_event(dg.AssetKey(["p", "t"]))
        assert told is not None
        assert told.asset_materialization is not None
        assert "| 1 | 10000-01-01 |" in str(told.asset_materialization.metadata["preview"].value)

        def fails(*_: object, **__: object) -> str:
            raise OverflowError("no such value")

        monkeypatch.setattr(materialisation, "preview", fails)
        arrive(tmp_path / "in", 2)
        with caplog.at_level(logging.WARNING):
            assert job.execute_in_process(instance=instance).success
        assert "the preview of table t is not shown: OverflowError: no such value" in caplog.text
    read = CliRunner().invoke(main, ["read", str(tmp_path / "root"), "t"])
    assert read.exit_code == 0, read.output
    assert "10000-01-01" in read.output


def test_whatever_is_shown_may_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """All that goes through ``shown_or``, wherever that is, fails in turn and then at once; what it is for stays the same."""
    arrive(tmp_path / "in", 1)
    pipeline = Pipeline("p", root=str(tmp_path / "root"), engine="sail")
    rows = pipeline.source("rows", FileSource(str(tmp_path / "in"), schema="id long, day date, times array<timestamp>"))
    rows.to_table("t")
    rows.filter("id > 0").to_table("u", partition_by=["id"])
    job, seen = build_definitions(pipeline).resolve_job_def("p_epoch"), list[str]()

    def failing(default: object, what: str, make: Callable[[], object]) -> object:
        seen.append(what)
        make()  # what is shown within it fails, too
        return shown.shown_or(default, what, lambda: dict[str, object]()["no such value"])

    names = [module.name for module in pkgutil.iter_modules(orchestration.__path__, f"{orchestration.__name__}.")]
    users = [module for name in names if "shown_or" in vars(module := importlib.import_module(name)) and module is not shown]
    assert len(users) >= 3
    for module in users:
        monkeypatch.setattr(module, "shown_or", failing)
    with dg.DagsterInstance.ephemeral() as instance, caplog.at_level(logging.WARNING):
        assert job.execute_in_process(instance=instance).success
        for table in ("t", "u"):
            told = instance.get_latest_materialization_event(dg.AssetKey(["p", table]))
            assert told is not None
            assert told.asset_materialization is not None
            assert told.asset_materialization.metadata["epoch"].value == 1
            assert "preview" not in told.asset_materialization.metadata
    assert {"the metadata of table t", "the preview of table u", "what the epoch did"} <= set(seen)
    assert not [what for what in seen if f"{what} is not shown: KeyError" not in caplog.text]
    assert pipeline.to_arrow("t").num_rows == 1


def test_metadata_that_dagster_refuses_are_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    arrive(tmp_path / "in", 1)
    pipeline = Pipeline("p", root=str(tmp_path / "root"), engine="sail")
    pipeline.source("rows", FileSource(str(tmp_path / "in"), schema="id long")).to_table("t")
    monkeypatch.setattr(materialisation, "column_schema", lambda _: object())
    with dg.DagsterInstance.ephemeral() as instance, caplog.at_level(logging.WARNING):
        assert build_definitions(pipeline).resolve_job_def("p_epoch").execute_in_process(instance=instance).success
    assert "the metadata of table t is not shown" in caplog.text


def test_a_value_that_a_sink_cannot_hold_is_named() -> None:
    batch = pa.RecordBatch.from_pydict({"id": [1], "day": FAR, "_change": ["insert"]})
    with pytest.raises(SinkError, match=r"row 1 for the sink .*column 'day'"):
        list(keyed_events_of(SinkRows(batch.schema, lambda: [batch], 1), ("id",)))


def test_nested_values_are_shown() -> None:
    assert shown_values(NESTED) == [["10000-01-01 00:00:00.000000Z"]]
    assert shown_values(pa.array([{"day": 2932897}], pa.struct({"day": pa.int32()})).cast(pa.struct({"day": pa.date32()}))) == [
        {"day": "10000-01-01"}
    ]
