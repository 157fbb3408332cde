"""Rows of given data files of a Delta table, on any engine that reads Parquet.

Parquet files of a table hold its columns under their physical names and leave out the partition columns, whose values are in the
log. Rows that deletion vectors mark as deleted would come back this way, so files with any are not read here.
"""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dagster_operators.connectors.dialect import reader_paths
from dagster_operators.connectors.sql_text import ddl_type, literal
from dagster_operators.errors import MissingInputError
from dagster_operators.operators.physical import quoted
from dagster_operators.storage.delta_log import DataFile
from dagster_operators.storage.location import FileLocation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PHYSICAL_NAME = "delta.columnMapping.physicalName"


def read_files(
    session: SparkSession, location: FileLocation, files: Sequence[DataFile], fields: Sequence[Mapping[str, Any]]
) -> DataFrame:
    """The rows of files.

    Args:
        session: An engine's session.
        location: The table's folder.
        files: Files of the table without deletion vectors.
        fields: The columns to read, as the table's own schema in JSON describes them.

    Raises:
        MissingInputError: A file has been vacuumed.
    """
    from pyspark.sql.types import StructType

    require_files(location, files)
    groups: dict[tuple[tuple[str, str | None], ...], list[DataFile]] = defaultdict(list)
    for file in files:
        groups[file.partition].append(file)
    if not groups:
        schema = {"type": "struct", "fields": [{**field, "metadata": {}} for field in fields]}
        return session.createDataFrame([], StructType.fromJson(schema))
    parts = [_read_partition(session, location, group, fields, dict(partition)) for partition, group in groups.items()]
    return functools.reduce(lambda left, right: left.union(right), parts)


def physical_name(field: Mapping[str, Any]) -> str:
    """The name of a column in the table's files."""
    return str(field.get("metadata", {}).get(_PHYSICAL_NAME, field["name"]))


def require_files(location: FileLocation, files: Sequence[DataFile]) -> None:
    """Make sure that files are there: some engines read what is missing as empty.

    Raises:
        MissingInputError: One is not.
    """
    if missing := location.missing([file.file for file in files]):
        raise MissingInputError(
            "a data file of the Delta table has been removed, by VACUUM or otherwise",
            file=missing[0],
            remedy="keep deleted files at least as long as an epoch may wait, or read the table anew under another source name",
        )


def _read_partition(
    session: SparkSession,
    location: FileLocation,
    files: Sequence[DataFile],
    fields: Sequence[Mapping[str, Any]],
    partition: Mapping[str, str | None],
) -> DataFrame:
    from pyspark.sql.types import StructType

    stored = [_physical(field) for field in fields if _partition_name(field, partition) is None]
    reader = session.read.schema(StructType.fromJson({"type": "struct", "fields": stored}))
    paths = reader_paths(session, location.file_uris([file.file for file in files]))
    frame = reader.options(ignoreCorruptFiles="false", ignoreMissingFiles="false").parquet(*paths)
    return frame.selectExpr(*(_column(field, partition) for field in fields))


def _column(field: Mapping[str, Any], partition: Mapping[str, str | None]) -> str:
    physical, name = physical_name(field), quoted(field["name"])
    if (key := _partition_name(field, partition)) is not None:
        value = partition[key]
        # The protocol writes an empty string for null.
        return f"CAST({literal(value) if value else 'NULL'} AS {ddl_type(field['type'])}) AS {name}"
    if isinstance(field["type"], str) or _PHYSICAL_NAME not in json.dumps(field["type"]):
        return f"{quoted(physical)} AS {name}"
    return f"CAST({quoted(physical)} AS {ddl_type(field['type'])}) AS {name}"


def _partition_name(field: Mapping[str, Any], partition: Mapping[str, str | None]) -> str | None:
    """A column's name among the partition values (deltalake gives either one), or None if it is in the files."""
    return next((name for name in (physical_name(field), field["name"]) if name in partition), None)


def _physical(field: Mapping[str, Any]) -> dict[str, Any]:
    """A field as the files have it."""
    return {"name": physical_name(field), "type": _physical_type(field["type"]), "nullable": True, "metadata": {}}


def _physical_type(kind: Any) -> Any:
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        return {**kind, "fields": [_physical(field) for field in kind["fields"]]}
    return {
        name: _physical_type(value) if name in {"elementType", "keyType", "valueType"} else value for name, value in kind.items()
    }
