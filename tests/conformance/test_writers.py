"""What one engine writes another one reads, value by value: tables of Spark, of Sail and of the workers, of every type."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import dagster_operators as do
from dagster_operators.types.names import quoted
from tests.conformance.aggregates import GROUPS, TYPES, write_rows
from tests.engines import EMBEDDED, SAIL

if TYPE_CHECKING:
    from dagster_operators.runtime.engine import Spark

NAMES = {
    "ti": "My Col", "sh": "a.b", "i": "UPPER", "l": "ünï", "f": "k`q", "d": "x/y%20=z", "c": "a,b", "w": "{q};", "b": "'b'",
    "s": '"s"', "y": "a b.c d", "da": "Date", "t": "at", "tn": "at_", "xs": "x s", "st": "s.t",
}  # fmt: skip
"""Of each column a name that readers could take for something else."""

WITHOUT_DOTS = {name: re.sub("[.`]", "_", name) for name in ("no.", *NAMES.values()) if {*".`"} & {*name}}
"""Names that engines cannot hand to workers, and others for them."""

ODD = "a/b=c %d ü:null"
"""A partition's value that is not the name of a folder as it stands."""


class Same(do.ArrowOperator):
    """Hands its rows on, from the workers."""

    def output_schema(self, *inputs: Any) -> Any:
        return inputs[0]

    def process_batch(self, batch: Any, ctx: Any, out: Any) -> None:
        out.collect(batch)


def pipeline(folder: Path, engine: Spark) -> do.Pipeline:
    """Rows of every type and of every group, written by the engine, by workers, and in partitions."""
    schema = ", ".join(["g string, cut int, o timestamp", *(f"{name} {kind}" for name, kind in TYPES.items())])
    made = do.Pipeline("p", root=str(folder / "root"), engine=engine)
    columns = [
        f"CASE WHEN g = 'some' THEN '{ODD}' WHEN g = 'one null' THEN NULL ELSE g END AS g", "cut AS `no.`",
        *(f"{name} AS {quoted(odd)}" for name, odd in NAMES.items()),
    ]  # fmt: skip
    rows = made.source("rows", do.FileSource(folder / "rows.parquet", schema=schema))
    rows.select(*columns).to_table("written")
    rows.select(*columns).to_table("apart", partition_by=["g", NAMES["da"]])
    in_workers = rows.select(*columns).rename(WITHOUT_DOTS).key_by("g").apply(Same(), name="same")
    in_workers.rename({new: old for old, new in WITHOUT_DOTS.items()}).to_table("handed")
    return made


def sorted_rows(rows: pa.Table) -> list[str]:
    """Rows as text, NaN and zeros with their signs, instants as microseconds."""
    columns = []
    for name in ["g", "no.", *NAMES.values()]:
        column = rows.column(name)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        columns.append(column.to_pylist())
    return sorted(map(repr, zip(*columns, strict=True)))


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("writers")
    write_rows(folder)
    return folder


@pytest.fixture(scope="module")
def expected(given: Path) -> list[str]:
    rows = pq.read_table(given / "rows.parquet").rename_columns({"cut": "no.", **NAMES})
    groups = {"some": ODD, "one null": None}
    named = [groups.get(group, group) for group in rows.column("g").to_pylist()]
    return sorted_rows(rows.set_column(0, "g", pa.array(named, pa.string())))


TABLES = ("written", "apart", "handed")


def written(given: Path, folder: Path, engine: Spark) -> do.Pipeline:
    (folder / "rows.parquet").write_bytes((given / "rows.parquet").read_bytes())
    made = pipeline(folder, engine)
    assert made.run_epoch().rows == dict.fromkeys(TABLES, sum(map(len, GROUPS.values())))
    return made


def test_sail_writes_what_sail_and_other_readers_read(given: Path, expected: list[str], tmp_path: Path) -> None:
    made = written(given, tmp_path, SAIL)
    for table in TABLES:
        assert sorted_rows(made.read(table).toArrow()) == expected
        assert sorted_rows(DeltaTable(tmp_path / "root" / "tables" / table).to_pyarrow_table()) == expected


@pytest.mark.slow
@pytest.mark.spark
def test_spark_and_sail_read_each_others_tables(given: Path, expected: list[str], tmp_path: Path) -> None:
    for writer, reader in ((SAIL, EMBEDDED), (EMBEDDED, SAIL)):
        folder = tmp_path / writer.name
        folder.mkdir()
        written(given, folder, writer)
        for table in TABLES:
            assert sorted_rows(pipeline(folder, reader).read(table).toArrow()) == expected
        assert sorted_rows(DeltaTable(folder / "root" / "tables" / "apart").to_pyarrow_table()) == expected
        own = EMBEDDED.session().read.format("delta").load(str(folder / "root" / "tables" / "apart"))
        assert sorted_rows(own.toArrow()) == expected
