"""Rows of given data files of a Delta table, on any engine that reads Parquet.

Parquet files of a table hold its columns under their physical names and leave out the partition columns, whose values are in the
log. Rows that deletion vectors mark as deleted would come back this way, so files with any are not read here.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from dagster_operators.connectors.dialect import reader_paths
from dagster_operators.connectors.parquet_arrow import read_parquet_by_arrow
from dagster_operators.connectors.parquet_format import footer
from dagster_operators.connectors.places import in_order_of_files, places_of_parquet, with_metadata
from dagster_operators.connectors.several_files import some_at_a_time
from dagster_operators.connectors.sql_text import literal
from dagster_operators.errors import BadInputError, MissingInputError
from dagster_operators.graph.places import PLACES
from dagster_operators.operators.engine_kind import reads_like_spark
from dagster_operators.operators.engine_schema import empty, struct
from dagster_operators.storage.delta_log import DataFile
from dagster_operators.storage.location import FileLocation
from dagster_operators.types.arrow_schema import arrow_type
from dagster_operators.types.data_type import Array, DataType, Field, Map, Struct
from dagster_operators.types.names import quoted
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PHYSICAL_NAME = "delta.columnMapping.physicalName"
TYPE_CHANGES: Final = "delta.typeChanges"
"""What a field's metadata says of narrower types that it had."""

_ALIKE: Final = "1901"
_LAST: Final = "9999"
"""The years between which the hybrid calendar and the Gregorian one say the same in every zone, as the log writes them."""

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
    apart = frozenset[int]() if reads_like_spark(session) else _for_arrow(location, files, fields, every=places)
    read = functools.partial(_read_partition, session, location, apart=apart, places=places)
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
    apart: frozenset[int],
    places: bool,
) -> DataFrame:
    stored = Schema(tuple(_physical(field) for field in fields if partition_name(field, partition) is None))
    columns = [_column(field, partition) for field in fields]
    if by_arrow := [(number, file.file) for number, file in numbered if number in apart]:
        rows = read_parquet_by_arrow(session, location, by_arrow, stored.to_json(), places=places)
        rows = rows.selectExpr(*columns, *(PLACES if places else ()))
        rest = [pair for pair in numbered if pair[0] not in apart]
        if not rest:
            return rows
        return rows.union(_read_partition(session, location, rest, fields, partition, apart=frozenset(), places=places))
    reader = session.read.schema(struct(stored.to_json()))
    paths = reader_paths(session, location.file_uris([file.file for _, file in numbered]))
    frame = reader.options(ignoreCorruptFiles="false", ignoreMissingFiles="false").parquet(*paths)
    if not places:
        return frame.selectExpr(*columns)
    frame, metadata = with_metadata(frame)
    return frame.selectExpr(*columns, *places_of_parquet(metadata))


def _for_arrow(location: FileLocation, files: Sequence[DataFile], fields: Sequence[Field], *, every: bool) -> frozenset[int]:
    """The places of files of which Sail reads columns otherwise: old days of the hybrid calendar, and what was a narrower type.

    A file's footer is asked only where the table's log does not tell.

    Args:
        location: The table's folder.
        files: Files of the table.
        fields: The columns to read.
        every: Whether it is all of them, for Sail gives rows no places.
    """
    if every:
        return frozenset(range(len(files)))
    narrower = [field for field in fields if TYPE_CHANGES in Schema((field,)).to_json()]
    timed = [field for field in fields if _has_days_or_times(field.type)]
    asked: list[tuple[int, bool, Sequence[Field]]] = []
    for number, file in enumerate(files) if narrower or timed else ():
        partition = dict(file.partition)
        may_be_old = any(_may_be_old(file, field) for field in timed if partition_name(field, partition) is None)
        changed = [field for field in narrower if partition_name(field, partition) is None]
        if may_be_old or changed:
            asked.append((number, may_be_old, changed))

    def differs(question: tuple[int, bool, Sequence[Field]]) -> bool:
        number, may_be_old, changed = question
        known = footer(location, files[number].file)
        if may_be_old and known.calendar.is_hybrid:
            return True
        kinds = ((field, known.types.get(physical_name(field))) for field in changed)
        return any(kind is not None and not kind.equals(arrow_type(field.type)) for field, kind in kinds)

    told = zip(asked, some_at_a_time(differs, asked), strict=True)
    return frozenset(number for (number, _, _), is_other in told if is_other)


def _may_be_old(file: DataFile, field: Field) -> bool:
    """Whether a column of dates or times may have some before 1900, as far as the log tells."""
    stats, name = file.stats, physical_name(field)
    if stats is None or field.type.is_nested or (name != field.name and not stats.physical):
        return True
    if stats.rows is not None and stats.nulls.get(name) == stats.rows:
        return False
    low = stats.low.get(name)
    return low is None or not _ALIKE <= str(low)[:4] <= _LAST


def _has_days_or_times(kind: DataType) -> bool:
    match kind:
        case Array(element):
            return _has_days_or_times(element)
        case Map(key, value):
            return _has_days_or_times(key) or _has_days_or_times(value)
        case Struct(fields):
            return any(_has_days_or_times(field.type) for field in fields)
        case _:
            return kind.is_timestamp or str(kind) == "date"


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
