"""Columns of Parquet files of kinds that engines read otherwise, or not at all."""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction

import dagster_operators as do
from dagster_operators.connectors import delta_files, parquet_format
from dagster_operators.connectors.parquet_arrow import converted
from dagster_operators.connectors.parquet_bounds import bounds
from dagster_operators.connectors.parquet_calendar import Calendar, shift
from dagster_operators.errors import BadInputError
from dagster_operators.storage.delta_log import DataFile, partition_text
from dagster_operators.storage.location import FileLocation, SourceFile
from dagster_operators.types.data_type import Field, Plain
from dagster_operators.types.schema import Schema
from tests.engines import ENGINES

OLD = {b"org.apache.spark.version": b"3.5.0", b"org.apache.spark.legacyDateTime": b"", b"org.apache.spark.legacyINT96": b""}
JULIAN_DAY = -141_438  # 1582-10-04 by the Gregorian calendar, and by the hybrid one 1582-09-24
UUID = uuid.UUID("12345678-1234-5678-1234-567812345678")

COLUMNS: dict[str, tuple[str, pa.Array, Any]] = {
    "u8": ("smallint", pa.array([255], pa.uint8()), 255),
    "u64": ("decimal(20,0)", pa.array([2**64 - 1], pa.uint64()), Decimal(2**64 - 1)),
    "us": ("struct<a:bigint,b:array<decimal(20,0)>>",
           pa.array([{"a": 2**32 - 1, "b": [2**64 - 1]}], pa.struct({"a": pa.uint32(), "b": pa.list_(pa.uint64())})),
           {"a": 2**32 - 1, "b": [Decimal(2**64 - 1)]}),
    "nothing": ("string", pa.array([None], pa.null()), None),
    "nested": ("struct<a:string>", pa.array([{"a": None}], pa.struct({"a": pa.null()})), {"a": None}),
    "key": ("string", pa.array([UUID.bytes], pa.uuid()), str(UUID)),
    "doc": ("string", pa.array(['{"a":1}'], pa.json_()), '{"a":1}'),
    "coded": ("array<string>", pa.array([["x"]], pa.list_(pa.dictionary(pa.int32(), pa.string()))), ["x"]),
}  # fmt: skip
NATIVE = ("u8", "u64", "us", "doc")


def rows_of(folder: Path, source: Any, engine: str) -> pa.Table:
    pipeline = do.Pipeline("p", root=str(folder / "root"), engine=ENGINES[engine])
    pipeline.source("rows", source).to_table("t")
    pipeline.run_until_caught_up()
    return pipeline.to_arrow("t")


@pytest.mark.parametrize("engine", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("sail", "spark")])
def test_kinds_of_other_writers_are_read(engine: str, tmp_path: Path) -> None:
    """Beside a file that the engine reads itself, and with the schema said or inferred."""
    columns = {name: array for name, (_, array, _) in COLUMNS.items()}
    if engine == "spark":
        del columns["coded"]  # Spark reads it itself
    time = dt.datetime(1, 1, 1, 1, 2, 3, 456, tzinfo=dt.UTC)
    table = pa.table({**columns, "t": pa.array([time], pa.timestamp("us", "UTC"))})
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    plain = Schema.from_ddl(", ".join(f"{name} {COLUMNS[name][0]}" for name in columns) + ", t timestamp")
    pq.write_table(plain.with_nulls().to_arrow().empty_table(), tmp_path / "b.parquet")
    found = rows_of(tmp_path, do.FileSource(tmp_path / "*.parquet", schema=plain.to_ddl()), engine)
    (row,) = found.to_pylist()
    assert row == {**{name: COLUMNS[name][2] for name in columns}, "t": time}
    inferred = do.FileSource(tmp_path / "a.parquet").infer_schema(ENGINES[engine].session())
    types = Schema.from_json(inferred).types
    assert {name: str(types[name]) for name in (*NATIVE, "key")} == {name: COLUMNS[name][0] for name in (*NATIVE, "key")}


@pytest.mark.sail
def test_types_that_arrows_writers_note_beside_those_of_a_file_are_read_by_sail(tmp_path: Path) -> None:
    numbers, days = [1, 2, None, 2], [dt.date(1582, 10, 4), None, dt.date(9999, 12, 31), dt.date(2024, 2, 29)]
    columns = {
        "i": ("bigint", pa.array(numbers, pa.int32()).dictionary_encode(), numbers),
        "d": ("double", pa.array(numbers, pa.float64()).dictionary_encode(), numbers),
        "n": ("struct<a: int>", pa.array([{"a": n} for n in numbers], pa.struct({"a": pa.int32()})), [{"a": n} for n in numbers]),
        "m": ("date", pa.array(days, pa.date64()), days),
    }
    for name, (declared, array, values) in columns.items():
        pq.write_table(pa.table({name: array}), tmp_path / f"{name}.parquet")
        inferred = do.FileSource(tmp_path / f"{name}.parquet")
        for schema in (f"{name} {declared}", None):
            source = replace(inferred, schema=schema)
            assert rows_of(tmp_path / f"{name}-{schema is None}", source, "sail")[name].to_pylist() == values


@pytest.mark.sail
def test_the_hybrid_calendar_is_read_by_sail_as_by_spark(tmp_path: Path) -> None:
    days = [JULIAN_DAY, None, 0]
    nested = pa.array([{"d": day} for day in days], pa.struct({"d": pa.date32()}))
    times = pa.array([None if day is None else day * 86_400_000_000 + 1 for day in days], pa.timestamp("us", "UTC"))
    table = pa.table({"i": pa.array([1, 2, 3]), "d": pa.array(days, pa.date32()), "s": nested, "t": times})
    table = table.replace_schema_metadata(OLD)
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(table.select(["t"]), tmp_path / "b.parquet", use_deprecated_int96_timestamps=True)
    log = DeltaTable.create(tmp_path / "table", table.schema)
    pq.write_table(table, tmp_path / "table" / "c.parquet")
    size = (tmp_path / "table" / "c.parquet").stat().st_size
    log.create_write_transaction(
        [AddAction(path="c.parquet", size=size, partition_values={}, modification_time=0, data_change=True, stats="{}")],
        "append",
        table.schema,
    )
    expected = [dt.date(1582, 9, 24), None, dt.date(1970, 1, 1)]
    ddl = "i long, d date, s struct<d: date>, t timestamp"
    for source in (do.FileSource(tmp_path / "a.parquet", schema=ddl), do.DeltaSource(tmp_path / "table")):
        found = rows_of(tmp_path / type(source).__name__, source, "sail").sort_by("i")
        assert found["d"].to_pylist() == [row["d"] for row in found["s"].to_pylist()] == expected
        assert [time and time.date() for time in found["t"].to_pylist()] == expected
    found = rows_of(tmp_path / "2", do.FileSource(tmp_path / "b.parquet", schema="t timestamp"), "sail")
    assert {time and time.date() for time in found["t"].to_pylist()} == {*expected}
    location = FileLocation(str(tmp_path / "a.parquet"))
    (file,) = location.find()
    assert bounds(location, file, frozenset({"d"}))["d"].low is None  # rows of 1582-09-24 would be left out
    assert bounds(location, file, frozenset({"i"}))["i"].low == 1


def test_times_of_the_hybrid_calendar_in_a_zone_are_refused_by_file() -> None:
    calendar = Calendar.of({**OLD, b"org.apache.spark.timeZone": b"America/Los_Angeles"})
    day = 86_400_000_000
    since = pa.array([0, -10_000 * day], pa.timestamp("us"))
    assert calendar.rebased(since, int96=False) is since
    with pytest.raises(BadInputError, match=r"before 1900 .* zone America/Los_Angeles"):
        calendar.rebased(pa.array([-30_000 * day], pa.timestamp("us")), int96=True)


def test_days_of_the_hybrid_calendar_keep_their_names() -> None:
    """By the numbers of Julian days of each first of March, which is known to shift with each century."""
    assert shift(np.arange(-719_164, -719_160)).tolist() == [2, 2, 2, 2]
    firsts = {100: 1, 200: 0, 300: -1, 500: -2, 1000: -6, 1500: -10}
    for year, expected in firsts.items():
        julian = 365 * year + year // 4 - 719_470  # the first of March
        assert shift(np.array([julian - 1, julian])).tolist() == [expected + 1, expected]


def test_what_would_be_cut_off_within_nested_columns_is_refused(tmp_path: Path) -> None:
    kinds = {"a": pa.list_(pa.timestamp("ns", "UTC")), "b": pa.struct({"x": pa.uint64()})}
    pq.write_table(pa.schema(kinds).empty_table(), tmp_path / "a.parquet")
    location = FileLocation(str(tmp_path / "a.parquet"))
    (file,) = location.find()
    for ddl, told in (("a array<timestamp>", "times in microseconds"), ("b struct<x: bigint>", "rewrite the file, or")):
        with pytest.raises(BadInputError, match=told):
            parquet_format.verify(location, file, Schema.from_ddl(ddl).types)
    given = pa.chunked_array([[[1, 2], None], [[], [3]]], pa.large_list(pa.int32())).chunk(1).slice(1)
    assert converted(given, pa.list_(pa.int64()), pa.Array.cast).to_pylist() == [[3]]


@pytest.mark.sail
def test_columns_of_a_delta_table_that_were_widened_are_read(tmp_path: Path) -> None:
    """Sail reads a short number as no longer one."""
    pq.write_table(pa.table({"n": pa.array([-3], pa.int16())}), tmp_path / "a.parquet")
    file = DataFile(SourceFile(0, "a.parquet", (tmp_path / "a.parquet").stat().st_size))
    changes = [{"toType": "integer", "fromType": "short"}]
    column = Field("n", Plain("int"), metadata={"delta.typeChanges": changes})
    location = FileLocation(str(tmp_path), is_folder=True)
    assert delta_files.read_files(ENGINES["sail"].session(), location, [file], [column]).collect() == [(-3,)]


def test_a_schema_is_asked_once_and_footers_of_a_delta_table_several_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    two, known = threading.Barrier(2, timeout=60), parquet_format.Footer(0, {"n": pa.int16()}, {}, Calendar(), frozenset())
    schemas: list[Schema] = []

    def footer(_location: FileLocation, file: SourceFile) -> parquet_format.Footer:
        two.wait()
        return replace(known, calendar=Calendar(dates=file.path == "3"))

    fields = [
        Field("d", Plain("date")),
        Field("n", Plain("int"), metadata={"delta.typeChanges": []}),
        Field("s", Plain("string")),
    ]
    files = [DataFile(SourceFile(0, str(number), 1), (("n", "1"),) if number < 6 else ()) for number in range(8)]
    real = Schema.to_json

    def to_json(schema: Schema) -> str:
        schemas.append(schema)
        return real(schema)

    monkeypatch.setattr(delta_files, "footer", footer)
    monkeypatch.setattr(Schema, "to_json", to_json)
    assert delta_files._for_arrow(FileLocation("t"), files, fields, every=False) == {3, 6, 7}
    assert len(schemas) == len(fields)
    assert delta_files._for_arrow(FileLocation("t"), files, fields, every=True) == set(range(8))
    assert delta_files._for_arrow(FileLocation("t"), files, fields[2:], every=False) == set()


def test_partition_values_of_times_before_the_year_1000_have_four_digits_of_the_year() -> None:
    for zone in (None, dt.UTC):
        assert partition_text(dt.datetime(999, 1, 2, 3, 4, 5, 6, tzinfo=zone)) == "0999-01-02 03:04:05.000006"
