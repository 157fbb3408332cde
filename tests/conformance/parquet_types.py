"""Every type that a column of a Parquet file may have, read as every type that a schema may say."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from dagster_operators.connectors.file_source import FileSource
from dagster_operators.errors import BadInputError
from tests.conformance.comparison import REFUSED, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DECLARED = (
    "tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "date", "string", "binary", "timestamp",
    "timestamp_ntz", "decimal(10,2)", "decimal(20,2)", "decimal(38,10)", "array<int>", "array<bigint>", "array<string>",
    "struct<a:int>", "struct<a:bigint>", "struct<a:int,b:string>", "map<string,int>", "map<string,bigint>",
)  # fmt: skip

_TIME = dt.datetime(2024, 3, 31, 1, 30)  # noqa: DTZ001
_OLD = dt.datetime(1890, 6, 15, 12, 34, 56)  # noqa: DTZ001


def _whole(name: str) -> tuple[pa.DataType, list[Any]]:
    kind = getattr(pa, name)()
    signed = not name.startswith("u")
    most = 2 ** (kind.bit_width - signed) - 1
    return kind, [-most - 1 if signed else 0, most, None, 5]


def _files() -> Iterator[tuple[pa.DataType, list[Any]]]:
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        yield _whole(name)
    yield pa.float32(), [1.5, float("nan"), None, -0.0]
    yield pa.float64(), [1e300, float("nan"), None, -0.0]
    yield pa.bool_(), [True, False, None, True]
    for kind in (pa.date32(), pa.date64()):
        yield kind, [dt.date(1582, 10, 4), dt.date(9999, 12, 31), None, dt.date(2024, 2, 29)]
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        yield kind, ["a", "", None, "日本"]
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        yield kind, [b"a", b"", None, b"\xff\x00"]
    yield pa.binary(2), [b"ab", b"\x00\xff", None, b"cd"]
    money = [Decimal("1.25"), Decimal("-99999.99"), None, Decimal(0)]
    for kind in (pa.decimal128(8, 2), pa.decimal128(10, 2), pa.decimal128(20, 2), pa.decimal128(10, 4), pa.decimal128(38, 10)):
        yield kind, money
    for kind in (pa.decimal32(8, 2), pa.decimal64(10, 2), pa.decimal256(10, 2), pa.decimal256(50, 2)):
        yield kind, money
    for unit in ("s", "ms", "us", "ns"):
        for zone in (None, "UTC", "Europe/Berlin"):
            yield pa.timestamp(unit, zone), [_TIME, _OLD, None, dt.datetime(1970, 1, 1)]  # noqa: DTZ001
    yield pa.time32("ms"), [dt.time(1, 2, 3), None]
    yield pa.time64("us"), [dt.time(1, 2, 3), None]
    yield pa.duration("us"), [dt.timedelta(1), None]
    yield pa.null(), [None, None]
    yield from _nested()


def _nested() -> Iterator[tuple[pa.DataType, list[Any]]]:
    yield pa.dictionary(pa.int32(), pa.int32()), [1, 2, None, 5]
    yield pa.dictionary(pa.int32(), pa.float64()), [1.5, 2.5, None, 5.0]
    for kind in (pa.int32(), pa.int64(), pa.int16()):
        yield pa.list_(kind), [[1, None], [], None, [5]]
    yield pa.list_(pa.string()), [["1", None], [], None, ["x"]]
    yield pa.large_list(pa.int32()), [[1, None], [], None, [5]]
    yield pa.list_(pa.int32(), 2), [[1, None], [3, 4], None, [5, 6]]
    for kind in (pa.int32(), pa.int64()):
        yield pa.struct({"a": kind}), [{"a": 1}, {"a": None}, None, {"a": 5}]
    both: list[Any] = [{"a": 1, "b": "x"}, {"a": None, "b": "x"}, None, {"a": 5, "b": None}]
    yield pa.struct({"a": pa.int32(), "b": pa.string()}), both
    yield pa.struct({"b": pa.string(), "a": pa.int32()}), both
    yield pa.struct({"A": pa.int32()}), [{"A": 1}, {"A": None}, None, {"A": 5}]
    yield pa.struct({"A": pa.int32(), "b": pa.string()}), [{"A": 1, "b": "x"}, None]
    yield pa.struct({"a": pa.string()}), [{"a": "x"}, {"a": None}, None, {"a": "5"}]
    for kind in (pa.int32(), pa.int64()):
        yield pa.map_(pa.string(), kind), [[("a", 1)], [], None, [("b", None)]]
    yield pa.map_(pa.int32(), pa.string()), [[(1, "a")], [], None, [(2, None)]]


FILES: Mapping[str, tuple[pa.DataType, Sequence[Any]]] = {str(kind): (kind, values) for kind, values in _files()}
"""What is in a file, by its type."""


def write_files(folder: Path) -> None:
    """Write a file for each type, in a folder of its own."""
    for number, (kind, values) in enumerate(FILES.values()):
        (folder / str(number)).mkdir()
        pq.write_table(pa.table({"v": pa.array(values, kind)}), folder / str(number) / "a.parquet")


def read_as(session: SparkSession, folder: Path, pairs: Sequence[tuple[str, str]] = ()) -> dict[tuple[str, str], str]:
    """What is read of each pair of a file's type and a declared one; nothing for those that are refused before an engine reads.

    Args:
        session: The engine.
        folder: Where the files are.
        pairs: Those that are asked for; by default all.
    """
    found = {}
    schemas = {declared: FileSource(folder, schema=f"v {declared}").infer_schema(session) for declared in DECLARED}
    for number, name in enumerate(FILES):
        for declared, schema in schemas.items():
            if pairs and (name, declared) not in pairs:
                continue
            source = FileSource(folder / str(number) / "*.parquet", schema=f"v {declared}")
            choice = source.choose(None, lambda: iter(()))
            assert choice is not None
            assert choice.slice is not None
            try:
                rows = source.read(session, choice.slice.items, schema)
            except BadInputError:
                continue
            try:
                found[name, declared] = ", ".join(shown(row[0]) for row in rows.collect())
            except Exception:  # noqa: BLE001 - of any kind
                found[name, declared] = REFUSED
    return found
