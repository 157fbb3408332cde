"""Parquet files as their footers describe them: columns, row counts and the range of event times, without reading a row."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dagster_operators.connectors.connector import UNKNOWN, Unknown
from dagster_operators.connectors.dialect import reader_paths
from dagster_operators.connectors.missing_columns import MissingColumns, require_columns
from dagster_operators.connectors.parquet_arrow import int96_of, opened_parquet, otherwise_in_arrow, read_parquet_by_arrow
from dagster_operators.connectors.parquet_calendar import Calendar, may_differ
from dagster_operators.connectors.parquet_types import (
    WIDER,
    contains,
    declared,
    fits,
    has_nanoseconds,
    has_no_sign,
    in_other_case,
    in_utc,
    is_coded,
    is_day_or_time,
    is_short,
    is_unknown,
    is_unknown_to_sail,
    parts_of_type,
)
from dagster_operators.connectors.places import LONGEST, in_order_of_files, places_of_parquet, with_metadata
from dagster_operators.errors import BadInputError
from dagster_operators.operators.engine_kind import reads_like_spark
from dagster_operators.operators.engine_schema import struct
from dagster_operators.storage.location import FileLocation, SourceFile
from dagster_operators.types.data_type import DataType as SparkType
from dagster_operators.types.data_type import Field
from dagster_operators.types.names import quoted
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyarrow import DataType
    from pyarrow.parquet import FileMetaData
    from pyspark.sql import DataFrame, SparkSession

_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_DAY = 86_400_000_000
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
    calendar: Calendar
    int96: frozenset[str]
    otherwise: frozenset[str] = frozenset()
    """Columns of another type in the schema that Arrow's writers put beside that of the file: Sail goes by that one."""


@functools.lru_cache(maxsize=8192)
def footer(location: FileLocation, file: SourceFile) -> Footer:
    """The footer of a file.

    Raises:
        BadInputError: The file is truncated or no Parquet file.
    """
    import pyarrow as pa

    with location.opened(file) as source:
        try:
            opened = opened_parquet(source)
            int96 = int96_of(opened.schema)
            types = {field.name: in_utc(field.type) if field.name in int96 else field.type for field in opened.schema_arrow}
            calendar = Calendar.of(opened.metadata.metadata)
            ranges, otherwise = _ranges(opened.metadata, types, calendar), otherwise_in_arrow(opened)
            return Footer(opened.metadata.num_rows, types, ranges, calendar, int96, otherwise)
        except (pa.ArrowException, OSError) as error:
            raise BadInputError(
                f"a Parquet file is truncated or unreadable ({error})",
                file=location.full_path(file),
                remedy="write it again, or remove it",
            ) from error


def verify(location: FileLocation, file: SourceFile, columns: Mapping[str, SparkType], missing: MissingColumns = "fail") -> None:
    """Look whether a file has all columns, unless some may be missing, in types that fit.

    Args:
        location: Where the file is.
        file: The file.
        columns: Spark types as JSON by column.
        missing: What happens to a file without some of them.

    Raises:
        BadInputError: A column is missing or of another type.
    """
    types = footer(location, file).types
    types_of(location, file), for_arrow(location, file)  # while the footer is at hand
    path, otherwise = location.full_path(file), "rewrite the file, or remove it"
    require_columns(columns, types, missing, where="file", file=path, otherwise=otherwise)
    for column, kind in columns.items():
        if column in types and not fits(types[column], kind):
            times = ", with times in microseconds" if has_nanoseconds(types[column]) else ""
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
    schema = Schema.from_json(schema_json)
    like_spark = reads_like_spark(session)
    nested = [field for field in schema if field.type.is_nested and not like_spark]
    for file in files if nested else ():
        _refuse_other_case(location, file, nested)
    numbered = list(enumerate(files))
    if places and not like_spark:
        return read_parquet_by_arrow(session, location, numbered, schema_json, places=True)
    apart = [(number, file) for number, file in numbered if _is_for_arrow(location, file, schema, like_spark=like_spark)]
    by_arrow = {number for number, _ in apart}
    others = [pair for pair in numbered if pair[0] not in by_arrow]
    frames = []
    if apart:
        placed = ((number * LONGEST, file) for number, file in apart) if places else apart
        frames.append(read_parquet_by_arrow(session, location, placed, schema_json, places=places))
    if others and places:
        frames.append(_read_with_places(session, location, others, files, schema_json))
    elif others and like_spark:
        frames.append(_read(session, location, [file for _, file in others], schema_json))
    elif others:
        groups = _alike(location, [file for _, file in others])
        frames += [_read_alike(session, location, group, schema_json, types) for group, types in groups]
    return functools.reduce(lambda one, other: one.union(other), frames)


def _read_with_places(
    session: SparkSession,
    location: FileLocation,
    some: Sequence[tuple[int, SourceFile]],
    files: Sequence[SourceFile],
    schema_json: str,
) -> DataFrame:
    """The rows of some files of a slice on Spark, and their places in it."""
    rows = _read(session, location, [file for _, file in some], schema_json)
    columns = [quoted(name) for name in rows.columns]
    rows, metadata = with_metadata(rows)
    return in_order_of_files(rows.selectExpr(*columns, *places_of_parquet(metadata)), location.file_uris(files))


def _is_for_arrow(location: FileLocation, file: SourceFile, schema: Schema, *, like_spark: bool) -> bool:
    """Whether the engine reads a column of the schema otherwise than it is in the file, or not at all."""
    anywhere, on_sail, short = for_arrow(location, file)
    if not (anywhere or on_sail or short):
        return False
    wanted = {field.name: str(field.type) for field in schema}
    longer = any(name in wanted and not re.search("tinyint|smallint", wanted[name]) for name in short)
    return not anywhere.isdisjoint(wanted) or (not like_spark and (longer or not on_sail.isdisjoint(wanted)))


@functools.lru_cache(maxsize=1 << 17)
def for_arrow(location: FileLocation, file: SourceFile) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """The columns of a file that no engine reads as they are meant, those that only Spark does, and nested short numbers."""
    known = footer(location, file)
    nested = any(parts_of_type(kind) for kind in known.types.values())
    anywhere = (name for name, kind in known.types.items() if contains(kind, is_unknown))
    on_sail = (
        name
        for name, kind in known.types.items()
        if name in known.otherwise
        or contains(kind, is_unknown_to_sail)
        or (nested and contains(kind, is_coded))
        or (known.calendar.is_hybrid and contains(kind, is_day_or_time))
    )
    short = (name for name, kind in known.types.items() if parts_of_type(kind) and contains(kind, is_short))
    return frozenset(anywhere), frozenset(on_sail), frozenset(short)


def inferred(location: FileLocation, file: SourceFile) -> Schema | None:
    """The schema of a file with columns that an engine infers otherwise, or not at all; else None.

    Such are numbers without a sign, UUIDs, JSON, dictionaries, and times of 96 bits.

    Args:
        location: Where the file is.
        file: The file.
    """
    known = footer(location, file)
    is_as_read = not known.int96 and not known.otherwise
    if is_as_read and not any(contains(kind, has_no_sign) or contains(kind, is_coded) for kind in known.types.values()):
        return None
    return Schema(tuple(Field(name, declared(kind)) for name, kind in known.types.items()))


def _refuse_other_case(location: FileLocation, file: SourceFile, nested: Iterable[Field]) -> None:
    """Refuse fields within structs that the schema writes in another case: null for Sail, and for Arrow, which reads places.

    Raises:
        BadInputError: Names the field.
    """
    types = footer(location, file).types
    for field in nested:
        if (name := in_other_case(types.get(field.name), field.type)) is not None:
            raise BadInputError(
                f"a field is called {name!r} in the file and otherwise in the schema, but for case, which Sail does not read",
                file=location.full_path(file),
                column=field.name,
                remedy="write it in the schema as in the file, or read the files with Apache Spark",
            )


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
    if any(_DICTIONARY in types.get(field["name"], "") for field in schema["fields"]):
        return _read_coded(session, location, files, schema_json)
    short = {name: _SHORT[kind] for name, kind in types.items() if kind in _SHORT}
    texts = [name for name, kind in types.items() if kind in WIDER["string"]]
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


def _read_coded(session: SparkSession, location: FileLocation, files: Sequence[SourceFile], schema_json: str) -> DataFrame:
    """The rows of files with Arrow's dictionaries, which Sail reads as what they are in the file alone."""
    types = Schema.from_json(schema_json).types
    groups: dict[frozenset[str], list[SourceFile]] = {}
    for file in files:
        groups.setdefault(frozenset(types_of(location, file)), []).append(file)
    frames = []
    for names, alike in groups.items():
        rows = session.read.options(ignoreCorruptFiles="false", ignoreMissingFiles="false").parquet(
            *reader_paths(session, location.file_uris(alike))
        )
        values = {name: quoted(name) if name in names else "NULL" for name in types}
        frames.append(rows.selectExpr(*(f"CAST({values[name]} AS {kind.sql}) AS {quoted(name)}" for name, kind in types.items())))
    return functools.reduce(lambda one, other: one.union(other), frames)


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


def _ranges(metadata: FileMetaData, types: Mapping[str, DataType], calendar: Calendar) -> dict[str, ColumnRange]:
    """Only of columns that are not nested: the statistics of others are of their leaves."""
    places = {metadata.schema.column(place).path: place for place in range(metadata.num_columns)}
    return {name: _range(metadata, places[name], kind, calendar) for name, kind in types.items() if name in places}


def _range(metadata: FileMetaData, place: int, kind: DataType, calendar: Calendar) -> ColumnRange:
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
    if calendar.is_hybrid and any(may_differ(time // _DAY) for time in largest):
        is_known = False
    return ColumnRange(max(largest, default=None) if is_known else UNKNOWN, nulls)
