"""What else reads Delta sees the same rows at every epoch: deltalake, its kernel, DuckDB, Polars, delta-spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

import dagster_operators as do
from tests.engines import EMBEDDED, SAIL

SCHEMA = "k string, day date, v long, price decimal(10,2), tags array<string>, t timestamp"
TABLES = ("clean", "totals", "last")

Rows = list[str]
Reader = Callable[[str, int], Any]


def order(n: int, epoch: int) -> dict[str, Any]:
    return {
        "k": f"k{(n + epoch) % 7}", "day": f"2024-01-0{1 + n % 3}", "v": n, "price": f"{n}.{epoch}0",
        "tags": ["a", None][: n % 3], "t": datetime(2024, 1, 1, epoch, n, tzinfo=UTC),
    }  # fmt: skip


def build(root: Path, epochs: int) -> do.Pipeline:
    """A table of partitions, one of sums, one of changing rows with a change data feed."""
    pipeline = do.Pipeline("shop", root=str(root), engine=SAIL)
    slices = [[order(n, epoch) for n in range(20)] for epoch in range(epochs)]
    raw = SCHEMA.replace("date", "string").replace("decimal(10,2)", "string")
    rows = pipeline.source("orders", do.MemorySource(slices, schema=raw), event_time="t")
    clean = rows.with_columns(day="CAST(day AS DATE)", price="CAST(price AS DECIMAL(10,2))")
    clean.to_table("clean", partition_by=["day"])
    clean.key_by("k").aggregate(total="sum(v)", most="max(price)", name="sums").to_table("totals")
    clean.key_by("k").deduplicate(keep="last", name="newest").to_table("last", change_feed=True)
    return pipeline


def as_text(rows: Any) -> Rows:
    return sorted(repr(sorted(_comparable(row).items())) for row in rows)


def _comparable(row: Mapping[str, Any]) -> dict[str, Any]:
    """Moments in the same words: readers give them in several zones that are all UTC, or without one."""
    moments = {name: str(value)[:19] for name, value in row.items() if isinstance(value, datetime)}
    return {**row, **moments}


def by_kernel(uri: str, version: int) -> Any:
    found = QueryBuilder().register("t", DeltaTable(uri, version=version)).execute("SELECT * FROM t")
    return pa.table(found.read_all()).to_pylist()


def by_duckdb(uri: str, version: int) -> Any:
    files = DeltaTable(uri, version=version).to_pyarrow_dataset()
    return duckdb.connect().register("files", files).execute("SELECT * FROM files").to_arrow_table().to_pylist()


def by_polars(uri: str, version: int) -> Any:
    return pl.read_delta(uri, version=version).to_dicts()


READERS: dict[str, Reader] = {
    "deltalake": lambda uri, version: DeltaTable(uri, version=version).to_pyarrow_table().to_pylist(),
    "kernel": by_kernel,
    "duckdb": by_duckdb,
    "polars": by_polars,
}


@pytest.fixture(scope="module")
def written(sail: object, tmp_path_factory: pytest.TempPathFactory) -> do.Pipeline:
    """Four epochs, the last of which joined files."""
    assert sail is not None
    pipeline = build(tmp_path_factory.mktemp("readers"), 3)
    pipeline.run_until_caught_up()
    assert pipeline.compact().epoch == 4
    return pipeline


def expected(written: do.Pipeline) -> Any:
    """The rows of each table at each epoch, with the place and version that others read."""
    stored = do.StoredPipeline(written.root)
    for epoch in (1, 2, 3, 4):
        for table, version in stored.versions(epoch).items():
            yield f"{written.root}/tables/{table}", version, as_text(stored.to_arrow(table, epoch=epoch).to_pylist())


@pytest.mark.sail
@pytest.mark.parametrize("reader", READERS)
def test_the_rows_of_every_epoch(reader: str, written: do.Pipeline) -> None:
    for uri, version, rows in expected(written):
        assert as_text(READERS[reader](uri, version)) == rows, (uri, version)


@pytest.mark.sail
def test_no_folder_looks_as_if_it_told_a_value(written: do.Pipeline) -> None:
    """Of a column that is not there, for which Polars refuses the table."""
    files = DeltaTable(f"{written.root}/tables/clean", version=3).file_uris()
    assert len(files) >= 9
    assert not [file for file in files if "=" in file.removeprefix(written.root)]


@pytest.mark.sail
def test_the_rows_by_delta_spark(spark: object, written: do.Pipeline) -> None:
    assert spark is not None
    for uri, version, rows in expected(written):
        found = EMBEDDED.session().read.format("delta").option("versionAsOf", version).load(uri)
        assert as_text(row.asDict() for row in found.collect()) == rows, (uri, version)
