"""Debezium's change events of the changes of an epoch: what comes out at the end for each key, as JSON.

Values are written so that nothing is lost without a schema beside them: decimals as text with all their digits, days and times as
ISO 8601 does, bytes as Base64.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dagster_operators.connectors.debezium import UNAVAILABLE
from dagster_operators.connectors.python_rows import python_rows
from dagster_operators.connectors.sink import SinkRows
from dagster_operators.errors import SchemaError, SinkError
from dagster_operators.graph.changes import ADDS, CHANGE

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class _Sides:
    """The rows of a key that were added and taken back, as JSON; equal ones cancel out."""

    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    def take(self, row: str, *, adds: bool) -> None:
        ours, others = (self.added, self.removed) if adds else (self.removed, self.added)
        if row in others:
            others.remove(row)
        else:
            ours.append(row)


def events_of(rows: SinkRows, keys: Sequence[str]) -> Iterator[str]:
    """The events of an epoch's changes, one for each key that is another one at its end; deletions first.

    Args:
        rows: Changes.
        keys: The key columns.

    Raises:
        SinkError: A key has several rows.

    >>> import pyarrow as pa
    >>> batch = pa.RecordBatch.from_pydict({"id": [1, 1], "v": ["a", "b"], "_change": ["update_before", "update_after"]})
    >>> print(*events_of(SinkRows(batch.schema, lambda: [batch], 2), ["id"]))
    {"before": {"id": 1, "v": "a"}, "after": {"id": 1, "v": "b"}, "op": "u"}
    """
    return (event for _, event in keyed_events_of(rows, keys))


def keyed_events_of(rows: SinkRows, keys: Sequence[str]) -> Iterator[tuple[str, str]]:
    """As :func:`events_of`, each event behind its key, as JSON."""
    found: dict[str, _Sides] = {}
    names = {name.lower(): name for name in rows.schema.names}
    wanted = [names[key.lower()] for key in keys]
    for row in python_rows(rows):
        change = row.pop(CHANGE)
        shown = {name: json_value(value) for name, value in row.items()}
        key = json.dumps({name: shown[name] for name in wanted}, ensure_ascii=False)
        found.setdefault(key, _Sides()).take(json.dumps(shown, ensure_ascii=False), adds=change in ADDS)
    yield from _events(found, gone=True)
    yield from _events(found, gone=False)


def _events(found: dict[str, _Sides], *, gone: bool) -> Iterator[tuple[str, str]]:
    for key, sides in found.items():
        if len(sides.added) > 1 or len(sides.removed) > 1:
            raise SinkError(
                f"several rows have the same key: {json.dumps([*json.loads(key).values()])}",
                remedy="name all columns that tell the rows apart: key=('id', 'line'), say",
            )
        before, after = (next(iter(side), "null") for side in (sides.removed, sides.added))
        if before == after == "null" or gone != (after == "null"):
            continue
        operation = "d" if gone else "c" if before == "null" else "u"
        yield key, f'{{"before": {before}, "after": {after}, "op": "{operation}"}}'


def json_value(value: Any) -> Any:
    """A value of a row as JSON holds it.

    >>> json_value([Decimal("1.20"), dt.date(2024, 1, 2), b"ab", float("nan")])
    ['1.20', '2024-01-02', 'YWI=', 'NaN']
    """
    if isinstance(value, dict):
        return {name: json_value(part) for name, part in value.items()}
    if isinstance(value, list):
        return [json_value(part) for part in value]
    if value == UNAVAILABLE:
        raise SinkError(f"the text {value!r} stands for a value that was not sent", remedy="filter such rows out")
    text = _as_text(value)
    return value if text is None else text


def _as_text(value: Any) -> str | None:
    """A value for which JSON has no form of its own; None for others."""
    found: str | None = None
    match value:
        case float() if not math.isfinite(value):
            found = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Decimal():
            found = f"{value:f}"
        case dt.datetime() if value.tzinfo is not None:
            found = value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
        case dt.datetime():
            found = value.isoformat(timespec="microseconds")
        case dt.date():
            found = value.isoformat()
        case bytes():
            found = base64.b64encode(value).decode()
    return found


def check_types(schema: pa.Schema) -> None:
    """Refuse columns that events do not hold so that they can be read again.

    Raises:
        SchemaError: With the column.
    """
    import pyarrow as pa

    kinds = pa.types
    for column in schema:
        simple = (
            kinds.is_boolean, kinds.is_integer, kinds.is_floating, kinds.is_decimal, kinds.is_string, kinds.is_large_string,
            kinds.is_binary, kinds.is_large_binary, kinds.is_date, kinds.is_timestamp,
        )  # fmt: skip
        if not _holds(column.type, simple):
            raise SchemaError(
                f"a change event holds no {column.type}", column=column.name,
                remedy=f"make text of it before: with_columns({column.name}='to_json({column.name})'), say",
            )  # fmt: skip


def _holds(kind: pa.DataType, simple: Sequence[Any]) -> bool:
    import pyarrow as pa

    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _holds(kind.value_type, simple)
    if pa.types.is_struct(kind):
        return all(_holds(part.type, simple) for part in kind)
    return any(is_so(kind) for is_so in simple)
