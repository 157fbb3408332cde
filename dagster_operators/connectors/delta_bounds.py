"""The bounds of columns in a data file of a Delta table, from the log: partition values and statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from typing import Any, Final

from dagster_operators.connectors.delta_files import partition_name, physical_name
from dagster_operators.graph.conditions import Bounds, may_hold
from dagster_operators.storage.delta_log import DataFile
from dagster_operators.types.data_type import Field


def may_have_any(file: DataFile, fields: Sequence[Field], conditions: Iterable[str]) -> bool:
    """Whether a file may have a row for which one of the conditions holds.

    Args:
        file: The file.
        fields: The columns, as the table's own schema has them.
        conditions: Spark SQL over one row.
    """
    columns = {field.name.lower(): field for field in fields}

    def look(column: str) -> Bounds | None:
        field = columns.get(column.lower())
        return None if field is None else _bounds(file, field)

    return any(may_hold(condition, look) for condition in conditions)


def _bounds(file: DataFile, field: Field) -> Bounds | None:
    """What the log tells of a column in a file."""
    read = _READ.get(field.type.sql.lower())
    if read is None:
        return None
    partition = dict(file.partition)
    if (key := partition_name(field, partition)) is not None:
        value = partition[key] or None  # the protocol writes an empty string for null
        known = None if value is None else read(value)
        return Bounds(known, known, nulls=int(value is None), rows=1)
    stats, name = file.stats, physical_name(field)
    if stats is None or (name != field.name and not stats.physical):
        return None
    low, high = (each.get(name) for each in (stats.low, stats.high))
    return Bounds(None if low is None else read(low), None if high is None else read(high), stats.nulls.get(name), stats.rows)


def _date(value: object) -> date | None:
    """A date, as the log has it or as it is."""
    return date.fromisoformat(value) if isinstance(value, str) else value if type(value) is date else None


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | str) and not isinstance(value, bool) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


_READ: Final[Mapping[str, Callable[[object], Any]]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _whole), "string": _text, "date": _date
}  # fmt: skip
"""How values in the log are read, by type; those of other types are not compared."""
