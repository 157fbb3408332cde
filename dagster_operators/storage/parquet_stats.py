"""What Parquet footers tell about a file, as the statistics that Delta's log wants.

Delta keeps timestamps to the millisecond, so a smallest value is rounded down and a largest one up; strings are cut to 32
characters, and a largest string whose cut cannot be rounded up is left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData, Statistics

    from dagster_operators.storage.root import Root

_SMALLEST = 12
"""Bytes: what is smaller is no Parquet file, as Arrow says best."""
_FOOTER = 64 * 1024
"""So many bytes at the end of a file are read at first."""
_LONGEST = 32
WITH_STATISTICS = 32
"""So many columns, those within others counted one by one, have statistics in the log."""
_BEFORE_SURROGATES = 0xD7FF


def read_footer(root: Root, path: str, size: int) -> FileMetaData:
    """The footer of a Parquet file of that size; of an object store in one request, unless it is a large one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if root.is_local or size < _SMALLEST:
        return pq.read_metadata(root.path(path), filesystem=root.files)
    end = root.tail(path, size, _FOOTER)
    length = int.from_bytes(end[-8:-4], "little") + 8
    if length > len(end):
        end = root.tail(path, size, length)
    return pq.read_metadata(pa.BufferReader(end))


def delta_stats(footer: FileMetaData, partition_by: Collection[str] = ()) -> str:
    """The statistics JSON of a Delta add action for a file with this footer; the log has none of partition columns."""
    smallest: dict[str, Any] = {}
    largest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index in range(min(footer.num_columns, WITH_STATISTICS) if footer.num_row_groups else 0):
        name = footer.row_group(0).column(index).path_in_schema
        if "." in name or name in partition_by:  # a part of a nested column
            continue
        found = [footer.row_group(group).column(index).statistics for group in range(footer.num_row_groups)]
        if any(stats is None or not stats.has_null_count for stats in found):
            continue
        nulls[name] = sum(stats.null_count for stats in found)
        low, high = _range(found)
        if low is not None:
            smallest[name] = low
        if high is not None:
            largest[name] = high
    return json.dumps({"numRecords": footer.num_rows, "minValues": smallest, "maxValues": largest, "nullCount": nulls})


def _range(found: list[Statistics]) -> tuple[Any, Any]:
    """The bounds over all row groups, None where there is none to rely on."""
    ranged = [stats for stats in found if stats.has_min_max]
    if not ranged or not all(stats.has_min_max or stats.num_values == 0 for stats in found):
        return None, None
    try:
        return _lower(min(stats.min for stats in ranged)), _upper(max(stats.max for stats in ranged))
    except OverflowError:  # a time that Python's calendar does not reach
        return None, None


def _lower(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_LONGEST]
    return _json_value(value)


def _upper(value: Any) -> Any:
    if isinstance(value, float):
        return None  # NaN is the largest number for Spark, and a footer does not tell whether there is one
    if isinstance(value, str):
        if len(value) <= _LONGEST:
            return value
        cut = value[:_LONGEST]
        return cut[:-1] + chr(ord(cut[-1]) + 1) if ord(cut[-1]) < _BEFORE_SURROGATES else None
    if isinstance(value, datetime) and value.microsecond % 1000:
        value += timedelta(microseconds=1000 - value.microsecond % 1000)
    return _json_value(value)


def _json_value(value: Any) -> Any:
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return float(value) if value == Decimal(float(value)) else None
    if isinstance(value, datetime):
        moment = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        return moment.isoformat(timespec="milliseconds") + ("Z" if value.tzinfo else "")
    if isinstance(value, date):
        return value.isoformat()
    return None


def bounds(stats: str, column: str) -> tuple[int | None, int | None]:
    """The smallest and largest value of a whole-number column in the statistics of an add action.

    >>> bounds('{"numRecords": 2, "minValues": {"t": 3}, "maxValues": {"t": 5}, "nullCount": {"t": 0}}', "t")
    (3, 5)
    """
    if not stats:
        return None, None
    parsed = json.loads(stats)
    return parsed.get("minValues", {}).get(column), parsed.get("maxValues", {}).get(column)
