"""Parquet files as their footers describe them: columns, row counts and the range of event times, without reading a row."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dagster_operators.connectors.connector import UNKNOWN, Unknown
from dagster_operators.connectors.dialect import reader_paths
from dagster_operators.connectors.places import in_order_of_files, places_of_parquet, read_parquet_with_places, with_metadata
from dagster_operators.errors import BadInputError
from dagster_operators.operators.engine_kind import reads_like_spark
from dagster_operators.operators.engine_schema import struct
from dagster_operators.storage.location import FileLocation, SourceFile
from dagster_operators.types.data_type import Array, Decimal, Field, Map, Struct
from dagster_operators.types.data_type import DataType as SparkType
from dagster_operators.types.names import quoted
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyarrow import DataType
    from pyarrow.parquet import FileMetaData
    from pyspark.sql import DataFrame, SparkSession

_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_WIDER = {
    "byte": {"int8"},
    "short": {"int8", "int16", "uint8"},
    "integer": {"int8", "int16", "int32", "uint8", "uint16"},
    "long": {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"},
    "float": {"float"},
    "double": {"float", "double", "int8", "int16", "int32", "uint8", "uint16"},
    "boolean": {"bool"},
    "date": {"date32[day]"},
    "string": {"string", "large_string", "string_view"},
    "binary": {"binary", "large_binary", "binary_view", "string", "large_string"},
}
"""The Arrow types that Spark's Parquet reader takes for each of its own."""

_SHORT = {"int8": "byte", "uint8": "short", "int16": "short", "uint16": "integer"}
"""Short whole numbers, which Sail reads as these types and as no wider ones."""

_DICTIONARY = "dictionary<"


@dataclass(frozen=True)
class ColumnRange:
    """What a footer says of one column.

    Args:
        largest: Largest event time in microseconds; None without values, unknown if the footer does not say.
        nulls: Number of nulls.
    """

    largest: int | Unknown | None
    nulls: int | Unknown


@dataclass(frozen=True)
class Footer:
    """What is kept of a file's footer."""

    rows: int
    types: Mapping[str, Any]
    ranges: Mapping[str, ColumnRange]


@functools.lru_cache(maxsize=8192)
def footer(location: FileLocation, file: SourceFile) -> Footer:
    """The footer of a file.

    Raises:
        BadInputError: The file is truncated or no Parquet file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with location.opened(file) as source:
        try:
            opened = pq.ParquetFile(source)
            types = {field.name: field.type for field in opened.schema_arrow}
            return Footer(opened.metadata.num_rows, types, _ranges(opened.metadata, types))
        except (pa.ArrowException, OSError) as error:
            raise BadInputError(
                f"a Parquet file is truncated or unreadable ({error})",
                file=location.full_path(file),
                remedy="write it again, or remove it",
            ) from error


def verify(location: FileLocation, file: SourceFile, columns: Mapping[str, SparkType]) -> None:
    """Look whether a file has all columns, in types that fit.

    Args:
        location: Where the file is.
        file: The file.
        columns: Spark types as JSON by column.

    Raises:
        BadInputError: A column is missing or of another type.
    """
    types = footer(location, file).types
    types_of(location, file)  # while the footer is at hand
    for column, kind in columns.items():
        if column not in types:
            found = ", ".join(types)
            raise BadInputError(
                f"a column of the schema is not in the file, which has {found}",
                file=location.full_path(file),
                column=column,
                remedy="rewrite the file, or remove it",
            )
        if not _fits(types[column], kind):
            times = ", with times in microseconds" if _is_nanoseconds(types[column]) else ""
            raise BadInputError(
                f"a column is {types[column]} in the file and {kind.shown} in the schema",
                file=location.full_path(file),
                column=column,
                remedy=f"rewrite the file{times}, or remove it",
            )


def read(
    session: SparkSession, location: FileLocation, files: Sequence[SourceFile], schema_json: str, *, places: bool = False
) -> DataFrame:
    """The rows of files in the columns of the schema; with their places behind if these are wanted."""
    if places and reads_like_spark(session):
        rows = _read(session, location, files, schema_json)
        columns = [quoted(name) for name in rows.columns]
        rows, metadata = with_metadata(rows)
        return in_order_of_files(rows.selectExpr(*columns, *places_of_parquet(metadata)), location.file_uris(files))
    if reads_like_spark(session):
        return _read(session, location, files, schema_json)
    schema = Schema.from_json(schema_json)
    nested = [field for field in schema if field.type.is_nested]
    for file in files if nested else ():
        _refuse_other_case(location, file, nested)
    if places:
        return read_parquet_with_places(session, location, enumerate(files), schema_json)
    for file in files:
        _refuse_what_sail_does_not_read(location, file, schema)
    frames = [_read_alike(session, location, group, schema_json, types) for group, types in _alike(location, files)]
    return functools.reduce(lambda one, other: one.union(other), frames)


def _refuse_other_case(location: FileLocation, file: SourceFile, nested: Iterable[Field]) -> None:
    """Refuse fields within structs that the schema writes in another case: null for Sail, and for Arrow, which reads places.

    Raises:
        BadInputError: Names the field.
    """
    types = footer(location, file).types
    for field in nested:
        if (name := _in_other_case(types.get(field.name), field.type)) is not None:
            raise BadInputError(
                f"a field is called {name!r} in the file and otherwise in the schema, but for case, which Sail does not read",
                file=location.full_path(file),
                column=field.name,
                remedy="write it in the schema as in the file, or read the files with Apache Spark",
            )


def _refuse_what_sail_does_not_read(location: FileLocation, file: SourceFile, schema: Schema) -> None:
    """Refuse columns of types that only Spark reads, and Arrow.

    Raises:
        BadInputError: Names the column.
    """
    types = footer(location, file).types
    for field in schema:
        if field.name in types and _is_unknown_to_sail(types[field.name]):
            raise BadInputError(
                f"a column is {types[field.name]} in the file, which Sail does not read",
                file=location.full_path(file),
                column=field.name,
                remedy=f"write it as {field.type}, or read the files with Apache Spark",
            )


def _is_unknown_to_sail(found: DataType) -> bool:
    import pyarrow as pa

    return bool((pa.types.is_decimal(found) and not pa.types.is_decimal128(found)) or pa.types.is_large_list(found))


def _in_other_case(found: Any, kind: SparkType) -> str | None:
    """The first field of a file's type that is in the schema's in another case alone."""
    match kind:
        case Struct() if hasattr(found, "get_field_index"):
            fields = [found.field(place) for place in range(found.num_fields)]
            names = {one.name.lower(): one.name for one in kind.fields}
            wanted = {one.name: one.type for one in kind.fields}
            for field in fields:
                if field.name not in wanted and field.name.lower() in names:
                    return str(field.name)
            inner = (_in_other_case(field.type, wanted[field.name]) for field in fields if field.name in wanted)
            return next((name for name in inner if name is not None), None)
        case Array() if hasattr(found, "value_type"):
            return _in_other_case(found.value_type, kind.element)
        case Map() if hasattr(found, "item_type"):
            return _in_other_case(found.key_type, kind.key) or _in_other_case(found.item_type, kind.value)
        case _:
            return None


def _alike(location: FileLocation, files: Iterable[SourceFile]) -> list[tuple[list[SourceFile], dict[str, str]]]:
    """Files that have the same types where they have the same columns: Sail reads no others together."""
    groups: list[tuple[list[SourceFile], dict[str, str]]] = []
    for file in files:
        types = types_of(location, file)
        fitting = (group for group in groups if all(group[1].get(name, kind) == kind for name, kind in types.items()))
        if (found := next(fitting, None)) is None:
            groups.append(found := ([], {}))
        found[0].append(file)
        found[1].update(types)
    return groups


@functools.lru_cache(maxsize=1 << 17)
def types_of(location: FileLocation, file: SourceFile) -> Mapping[str, str]:
    """The Arrow types of a file's columns; the same value for equal files, of which an epoch may read very many."""
    return _shared(tuple((name, str(kind)) for name, kind in footer(location, file).types.items()))


@functools.lru_cache(maxsize=8192)
def _shared(types: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return dict(types)


def _read_alike(
    session: SparkSession, location: FileLocation, files: Sequence[SourceFile], schema_json: str, types: Mapping[str, str]
) -> DataFrame:
    """The rows of files of the same types; short whole numbers are made longer behind the reader, and texts bytes."""
    from pyspark.sql import functions as F

    schema = json.loads(schema_json)
    if coded := [field for field in schema["fields"] if _DICTIONARY in types.get(field["name"], "")]:
        return _read_coded(session, location, files, schema, coded[0]["name"])
    short = {name: _SHORT[kind] for name, kind in types.items() if kind in _SHORT}
    texts = [name for name, kind in types.items() if kind in _WIDER["string"]]
    short |= {one["name"]: "string" for one in schema["fields"] if one["type"] == "binary" and one["name"] in texts}
    longer = {
        field["name"]: field["type"] for field in schema["fields"] if short.get(field["name"], field["type"]) != field["type"]
    }
    if not longer:
        return _read(session, location, files, schema_json)
    fields = [field | {"type": short[field["name"]]} if field["name"] in longer else field for field in schema["fields"]]
    rows = _read(session, location, files, json.dumps(schema | {"fields": fields}))
    return rows.select(*(
        F.col(quoted(name)).cast(longer[name]).alias(name) if name in longer else F.col(quoted(name)) for name in rows.columns
    ))  # fmt: skip


def _read_coded(
    session: SparkSession, location: FileLocation, files: Sequence[SourceFile], schema: Mapping[str, Any], column: str
) -> DataFrame:
    """The rows of files with Arrow's dictionaries, as of pandas' categories, which Sail reads as what they are in the file alone.

    Raises:
        BadInputError: They have nested columns, too, whose fields a cast would take by their places.
    """
    from pyspark.sql import functions as F

    if any(not isinstance(field["type"], str) for field in schema["fields"]):
        raise BadInputError(
            "a column is a dictionary in the file, which Sail does not read in or beside nested columns",
            file=location.full_path(files[0]),
            column=column,
            remedy="write the column without a dictionary (of pandas: astype('string')), or read the files with Apache Spark",
        )
    rows = session.read.options(ignoreCorruptFiles="false", ignoreMissingFiles="false").parquet(
        *reader_paths(session, location.file_uris(files))
    )
    return rows.select(*(F.col(quoted(one["name"])).cast(one["type"]).alias(one["name"]) for one in schema["fields"]))


def _read(session: SparkSession, location: FileLocation, files: Sequence[SourceFile], schema_json: str) -> DataFrame:
    reader = session.read.schema(struct(schema_json))
    return reader.options(ignoreCorruptFiles="false", ignoreMissingFiles="false").parquet(
        *reader_paths(session, location.file_uris(files))
    )


def largest_event_time(footers: Iterable[Footer], column: str) -> int | Unknown | None:
    """The largest event time over several files."""
    found: list[int] = []
    for each in footers:
        largest = each.ranges[column].largest if column in each.ranges else UNKNOWN
        if largest is UNKNOWN:
            return UNKNOWN
        if largest is not None:
            found.append(largest)
    return max(found, default=None)


def null_count(footers: Iterable[Footer], column: str) -> int | Unknown:
    """The number of nulls over several files."""
    total = 0
    for each in footers:
        nulls = each.ranges[column].nulls if column in each.ranges else UNKNOWN
        if nulls is UNKNOWN:
            return UNKNOWN
        total += nulls
    return total


def _ranges(metadata: FileMetaData, types: Mapping[str, DataType]) -> dict[str, ColumnRange]:
    """Only of columns that are not nested: the statistics of others are of their leaves."""
    places = {metadata.schema.column(place).path: place for place in range(metadata.num_columns)}
    return {name: _range(metadata, places[name], kind) for name, kind in types.items() if name in places}


def _range(metadata: FileMetaData, place: int, kind: DataType) -> ColumnRange:
    largest: list[int] = []
    nulls: int | Unknown = 0
    scale = _MICROS.get(str(kind.unit)) if str(kind).startswith("timestamp") else None
    is_known = scale is not None
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(place)
        statistics = chunk.statistics
        has_nulls = statistics is not None and statistics.has_null_count
        nulls = nulls + statistics.null_count if has_nulls and nulls is not UNKNOWN else UNKNOWN
        if has_nulls and statistics.null_count == chunk.num_values:
            continue
        if scale is None or statistics is None or not statistics.has_min_max or chunk.physical_type != "INT64":
            is_known = False
        else:
            largest.append(statistics.max_raw * scale)
    return ColumnRange(max(largest, default=None) if is_known else UNKNOWN, nulls)


def _fits(found: DataType, kind: SparkType) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(found):
        found = found.value_type
    match kind:
        case Array():
            return bool(pa.types.is_list(found) or pa.types.is_large_list(found))
        case Struct():
            return bool(pa.types.is_struct(found))
        case Map():
            return bool(pa.types.is_map(found))
        case Decimal():
            return bool(pa.types.is_decimal(found)) and found.scale == kind.scale and found.precision <= kind.precision
        case _ if kind.is_timestamp:
            return bool(pa.types.is_timestamp(found)) and not _is_nanoseconds(found)
        case _:
            return kind.shown not in _WIDER or str(found) in _WIDER[kind.shown]


def _is_nanoseconds(found: DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_timestamp(found)) and found.unit == "ns"
