"""The rows of an epoch as messages of Kafka: a key, and a value; no value says that the key's row is gone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from dagster_operators.connectors.debezium_events import json_value, keyed_events_of
from dagster_operators.connectors.python_rows import python_rows
from dagster_operators.connectors.sink import SinkRows

Message: TypeAlias = tuple[bytes | None, bytes | None]
"""A key and a value."""


def row_messages(rows: SinkRows, key: Sequence[str]) -> Iterator[Message]:
    """Each row as a JSON object, behind an object of its key columns.

    Args:
        rows: Appended rows, or rows that replace each other.
        key: The key columns; none for messages without a key.

    >>> import pyarrow as pa
    >>> batch = pa.RecordBatch.from_pydict({"id": [1, 2], "n": [5, 6], "gone": [False, True]})
    >>> rows = SinkRows(batch.schema, lambda: [batch], 2, keys=("id",), deleted="gone")
    >>> list(row_messages(rows, ("ID",)))
    [(b'{"id": 1}', b'{"id": 1, "n": 5}'), (b'{"id": 2}', None)]
    """
    names = {name.lower(): name for name in rows.schema.names}
    wanted = [names[each.lower()] for each in key]
    for row in python_rows(rows):
        gone = bool(row.pop(rows.deleted)) if rows.deleted else False
        shown = {name: json_value(value) for name, value in row.items()}
        told = {name: shown[name] for name in wanted}
        yield _text(told) if wanted else None, None if gone else _text(shown)


def event_messages(rows: SinkRows, key: Sequence[str]) -> Iterator[Message]:
    """The net effect of changes on each key, as change events of Debezium."""
    for told, event in keyed_events_of(rows, key):
        yield told.encode(), event.encode()


def _text(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
