"""A storage root that does not fit what opens it: a newer ledger, another pipeline, or a pipeline that its state does not fit."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable

from dagster_operators import FileSource, Pipeline, Tumbling
from dagster_operators.errors import ChangedPipelineError, LedgerError, LedgerVersionError, UndecidedChangeError
from dagster_operators.transactions import ledger, manifest
from tests.end_to_end.landing import SCHEMA, Landing, keys_of, refused, rows_of
from tests.engines import SAIL

pytestmark = pytest.mark.usefixtures("sail")

FIRST = "a,1,2024-01-01T00:00:00Z"
SECOND = "b,2,2024-01-01T05:00:00Z"


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    made = Landing(tmp_path, SAIL)
    made.arrive(FIRST)
    return made


def test_a_ledger_of_a_newer_version(landing: Landing, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = manifest.FORMAT_VERSION + 1
    monkeypatch.setattr(ledger, "FORMAT_VERSION", newer)
    monkeypatch.setattr(manifest, "FORMAT_VERSION", newer)
    landing.pipeline().run_epoch()
    landing.arrive(SECOND)
    monkeypatch.undo()
    pipeline, log = landing.pipeline(), DeltaTable(str(landing.root / "ledger"))
    with pytest.raises(LedgerVersionError, match="has format version") as caught:
        pipeline.run_epoch()
    assert caught.value.pipeline == "landed"
    assert str(landing.root) in caught.value.file
    assert "dagster_operators" in caught.value.remedy
    with pytest.raises(LedgerVersionError, match="has format version"):
        pipeline.read("clean")
    assert DeltaTable(str(landing.root / "ledger")).version() == log.version()
    monkeypatch.setattr(ledger, "FORMAT_VERSION", newer)
    monkeypatch.setattr(manifest, "FORMAT_VERSION", newer)
    upgraded = landing.pipeline()
    upgraded.run_epoch()
    assert keys_of(upgraded) == ["a", "b"]


def test_a_root_of_another_pipeline(landing: Landing) -> None:
    pipeline = landing.pipeline()
    pipeline.run_epoch()
    other = Pipeline("other", root=str(landing.root), engine=SAIL)
    other.source("rows", FileSource(str(landing.folder), format="csv", schema=SCHEMA)).to_table("clean")
    with pytest.raises(LedgerError, match="belongs to the pipeline 'landed'") as caught:
        other.run_epoch()
    assert (caught.value.pipeline, caught.value.file) == ("other", str(landing.root))
    assert caught.value.remedy
    landing.arrive(SECOND)
    pipeline.run_epoch()
    assert keys_of(pipeline) == ["a", "b"]


# --- a pipeline that was changed -------------------------------------------------------------------------------------


def changed(landing: Landing, change: str) -> Pipeline:
    """The pipeline of the landing folder with one change."""
    schema = "k string, v string, ts timestamp" if change == "type of a column" else SCHEMA
    pipeline = Pipeline("landed", root=str(landing.root), engine=SAIL, lease_seconds=5)
    rows = pipeline.source("rows", FileSource(str(landing.folder), format="csv", schema=schema), event_time="ts")
    clean = rows.filter("v IS NOT NULL", name="with_value")
    if change == "a column less":
        clean = clean.drop("ts")
    (clean.key_by("k").aggregate(n="count(*)") if change == "append to updating" else clean).to_table("clean")
    if change == "a column less":
        return pipeline
    keys = ("k", "v") if change == "keys" else ("k",)
    aggregates = {"n": "count(*)", "total": "sum(v + 1)" if change == "aggregate" else "sum(v)"}
    clean.key_by(*keys).aggregate(aggregates, name="per_key").to_table("totals")
    size = "2 hours" if change == "window" else "1 hour"
    clean.key_by("k").window(Tumbling(size)).aggregate(n="count(*)", name="per_hour").to_table("hourly")
    return pipeline


@pytest.mark.parametrize(
    ("change", "table", "problem"),
    [
        ("a column less", "clean", r"ts \(timestamp\) is gone"),
        ("type of a column", "clean", "v was long and is string"),
        ("append to updating", "clean", 'table was "append" and is "updating"'),
        ("keys", "per_key", r"keys was \('k',\), and is \('k', 'v'\)"),
        ("aggregate", "per_key", r"aggregates was .*sum\(v\).*and is .*sum\(v \+ 1\)"),
        ("window", "per_hour", r"window was tumbling 1 hour, and is tumbling 2 hours"),
    ],
)
def test_a_change_that_does_not_fit(landing: Landing, change: str, table: str, problem: str) -> None:
    landing.pipeline().run_epoch()
    landing.arrive(SECOND)
    pipeline = changed(landing, change)
    if change == "append to updating":  # its new aggregate is asked about first
        with pytest.raises(UndecidedChangeError, match="operator aggregate_k: it is new and keeps state"):
            pipeline.run_epoch()
        pipeline.decide("operator aggregate_k", "keep")
    where = {"table": table} if table == "clean" else {"operator": table}
    with refused(pipeline, ChangedPipelineError, problem, **where):
        pipeline.run_epoch()
    back = landing.pipeline()
    back.run_epoch()
    assert keys_of(back) == ["a", "b"]
    assert rows_of(back, "totals") == Counter({("a", 1, 1): 1, ("b", 1, 2): 1})


def test_a_change_that_fits(landing: Landing) -> None:
    """Another condition, another table beside, another name for the description: what is stored goes on."""
    landing.pipeline().run_epoch()
    landing.arrive(SECOND, "c,-3,2024-01-01T05:00:00Z")
    pipeline = Pipeline("landed", root=str(landing.root), engine=SAIL, lease_seconds=5)
    rows = pipeline.source("rows", FileSource(str(landing.folder), format="csv", schema=SCHEMA, max_files=1), event_time="ts")
    clean = rows.filter("v > 0", name="positive")
    clean.to_table("clean", description="Rows with a positive value")
    clean.key_by("k").aggregate(n="count(*)", total="sum(v)", name="per_key").to_table("totals")
    clean.select("k").to_table("keys")
    pipeline.run_epoch()
    assert keys_of(pipeline) == ["a", "b"]
    assert keys_of(pipeline, "keys") == ["b"]
    assert rows_of(pipeline, "totals") == Counter({("a", 1, 1): 1, ("b", 1, 2): 1})
