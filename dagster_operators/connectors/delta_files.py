"""Rows of given data files of a Delta table, on any engine that reads Parquet.

Parquet files of a table hold its columns under their physical names and leave out the partition columns, whose values are in the
log. Rows that deletion vectors mark as deleted would come back this way, so files with any are not read here.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dagster_operators.connectors.dialect import reader_paths
from dagster_operators.connectors.places import in_order_of_files, places_of_parquet, read_parquet_with_places, with_metadata
from dagster_operators.connectors.sql_text import literal
from dagster_operators.errors import BadInputError, MissingInputError
from dagster_operators.graph.places import PLACES
from dagster_operators.operators.engine_kind import reads_like_spark
from dagster_operators.operators.engine_schema import empty, struct
from dagster_operators.storage.delta_log import DataFile
from dagster_operators.storage.location import FileLocation
from dagster_operators.types.data_type import Array, DataType, Field, Map, Struct
from dagster_operators.types.names import quoted
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PHYSICAL_NAME = "delta.columnMapping.physicalName"
_ANEW = 'read the table as it is now, into tables that begin anew: pipeline.reset(source, 0, tables="restart")'


def read_files(
    session: SparkSession, location: FileLocation, files: Sequence[DataFile], fields: Sequence[Field], *, places: bool = False
) -> DataFrame:
    """The rows of files.

    Args:
        session: An engine's session.
        location: The table's folder.
        files: Files of the table without deletion vectors.
        fields: The columns to read, as the table's own schema has them.
        places: Whether the rows' places are to follow.

    Raises:
        MissingInputError: A file has been vacuumed.
    """
    require_files(location, files)
    groups: dict[tuple[tuple[str, str | None], ...], list[tuple[int, DataFile]]] = defaultdict(list)
    for number, file in enumerate(files):
        groups[file.partition].append((number, file))
    if not groups:
        return empty(session, Schema(tuple(replace(field, metadata={}) for field in fields)).to_json())
    read = functools.partial(_read_partition, session, location, places=places)
    parts = [read(group, fields, dict(partition)) for partition, group in groups.items()]
    rows = functools.reduce(lambda left, right: left.union(right), parts)
    if places and reads_like_spark(session):
        return in_order_of_files(rows, location.file_uris([each.file for each in files]))
    return rows


def physical_name(field: Field) -> str:
    """The name of a column in the table's files."""
    return str(field.metadata.get(_PHYSICAL_NAME, field.name))


def require_files(location: FileLocation, files: Sequence[DataFile]) -> None:
    """Make sure that files are there, as large as the log says: some engines read what is missing as empty.

    Raises:
        MissingInputError: One is not there.
        BadInputError: One is another one.
    """
    there = location.sizes([file.file for file in files])
    for path, wanted in zip(there, files, strict=True) if len(there) == len(files) else ():
        size = there[path]
        if size is not None and size != wanted.file.size:
            raise BadInputError(
                f"a data file of the Delta table has {size} bytes, and {wanted.file.size} by the table's log: it was cut short, "
                "or replaced",
                file=path, remedy=f"put it back from a backup, or {_ANEW}",
            )  # fmt: skip
    if missing := next((path for path, size in there.items() if size is None), None):
        raise MissingInputError(
            "a data file of the Delta table has been removed, by VACUUM or otherwise",
            file=missing,
            remedy=f"keep deleted files at least as long as an epoch may wait; {_ANEW}",
        )


def _read_partition(
    session: SparkSession,
    location: FileLocation,
    numbered: Sequence[tuple[int, DataFile]],
    fields: Sequence[Field],
    partition: Mapping[str, str | None],
    *,
    places: bool,
) -> DataFrame:
    stored = Schema(tuple(_physical(field) for field in fields if partition_name(field, partition) is None))
    columns = [_column(field, partition) for field in fields]
    if places and not reads_like_spark(session):
        read = ((number, file.file) for number, file in numbered)
        return read_parquet_with_places(session, location, read, stored.to_json()).selectExpr(*columns, *PLACES)
    reader = session.read.schema(struct(stored.to_json()))
    paths = reader_paths(session, location.file_uris([file.file for _, file in numbered]))
    frame = reader.options(ignoreCorruptFiles="false", ignoreMissingFiles="false").parquet(*paths)
    if not places:
        return frame.selectExpr(*columns)
    frame, metadata = with_metadata(frame)
    return frame.selectExpr(*columns, *places_of_parquet(metadata))


def _column(field: Field, partition: Mapping[str, str | None]) -> str:
    physical, name = physical_name(field), quoted(field.name)
    if (key := partition_name(field, partition)) is not None:
        value = partition[key]
        # The protocol writes an empty string for null.
        return f"CAST({literal(value) if value else 'NULL'} AS {field.type.sql}) AS {name}"
    if _physical_type(field.type).sql == field.type.sql:
        return f"{quoted(physical)} AS {name}"
    return f"CAST({quoted(physical)} AS {field.type.sql}) AS {name}"


def partition_name(field: Field, partition: Mapping[str, str | None]) -> str | None:
    """A column's name among the partition values (deltalake gives either one), or None if it is in the files."""
    return next((name for name in (physical_name(field), field.name) if name in partition), None)


def _physical(field: Field) -> Field:
    """A field as the files have it."""
    return Field(physical_name(field), _physical_type(field.type))


def _physical_type(kind: DataType) -> DataType:
    match kind:
        case Array():
            return replace(kind, element=_physical_type(kind.element))
        case Map():
            return replace(kind, key=_physical_type(kind.key), value=_physical_type(kind.value))
        case Struct():
            return Struct(tuple(map(_physical, kind.fields)))
        case _:
            return kind
