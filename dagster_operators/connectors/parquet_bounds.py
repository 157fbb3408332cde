"""The bounds of columns in a Parquet file, from its footer: by these files are left out that have none of the rows wanted."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.connectors.parquet_calendar import Calendar
from dagster_operators.graph.conditions import Bounds, may_hold
from dagster_operators.graph.expressions import columns_of
from dagster_operators.storage.location import FileLocation, SourceFile

if TYPE_CHECKING:
    from pyarrow import DataType
    from pyarrow.parquet import ColumnChunkMetaData, FileMetaData

_MICROS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_ALIKE: Final = 1901
"""The first year of which the hybrid calendar and the Gregorian one say the same in every zone."""


def may_have_any(location: FileLocation, file: SourceFile, conditions: Iterable[str]) -> bool:
    """Whether a file may have a row for which one of the conditions holds.

    Args:
        location: Where the file is.
        file: A Parquet file.
        conditions: Spark SQL over one row.
    """
    wanted = list(conditions)
    names = frozenset(name.lower() for condition in wanted for name in columns_of(condition))
    known = bounds(location, file, names)
    return any(may_hold(condition, lambda column: known.get(column.lower())) for condition in wanted)


@functools.lru_cache(maxsize=8192)
def bounds(location: FileLocation, file: SourceFile, columns: frozenset[str]) -> Mapping[str, Bounds]:
    """What the footer tells of columns, by their names in small letters; nothing of those that are nested."""
    import pyarrow.parquet as pq

    with location.opened(file) as source:
        opened = pq.ParquetFile(source)
        metadata = opened.metadata
        places = {metadata.schema.column(place).path: place for place in range(metadata.num_columns)}
        # A dot is in the path of a nested column, which the name of another one could look like.
        plain = [field for field in opened.schema_arrow if "." not in field.name and field.name in places]
        wanted = [field for field in plain if field.name.lower() in columns]
        is_hybrid = Calendar.of(metadata.metadata).is_hybrid
        return {field.name.lower(): _bounds(metadata, places[field.name], field.type, is_hybrid=is_hybrid) for field in wanted}


def _bounds(metadata: FileMetaData, place: int, kind: DataType, *, is_hybrid: bool) -> Bounds:
    chunks = [metadata.row_group(group).column(place) for group in range(metadata.num_row_groups)]
    counted = [_nulls(chunk) for chunk in chunks]
    nulls = None if None in counted else sum(count for count in counted if count is not None)
    extents = [_extent(chunk, kind) for chunk, count in zip(chunks, counted, strict=True) if count != chunk.num_values]
    known = [extent for extent in extents if extent is not None]
    if not known or len(known) < len(extents):
        return Bounds(nulls=nulls, rows=metadata.num_rows)
    low, high = min(low for low, _ in known), max(high for _, high in known)
    if is_hybrid and isinstance(low, date) and low.year < _FIRST_ALIKE:  # another day in the calendar that is read
        return Bounds(nulls=nulls, rows=metadata.num_rows)
    return Bounds(low, high, nulls, metadata.num_rows)


def _nulls(chunk: ColumnChunkMetaData) -> int | None:
    statistics = chunk.statistics
    return statistics.null_count if statistics is not None and statistics.has_null_count else None


def _extent(chunk: ColumnChunkMetaData, kind: DataType) -> tuple[Any, Any] | None:
    """The least and the greatest value of a part of a file, if they are of a kind that conditions are compared with."""
    import pyarrow as pa

    statistics = chunk.statistics
    if statistics is None or not statistics.has_min_max:
        return None
    if pa.types.is_timestamp(kind):
        if chunk.physical_type != "INT64" or kind.unit not in _MICROS:
            return None
        scale = _MICROS[kind.unit]
        return _moment(statistics.min_raw * scale), _moment(statistics.max_raw * scale)
    if pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_date32(kind):
        return statistics.min, statistics.max
    return None


def _moment(micros: int) -> datetime:
    try:
        return _BEGINNING + timedelta(microseconds=micros)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if micros > 0 else datetime.min.replace(tzinfo=UTC)
