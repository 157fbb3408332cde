"""Debezium's change events as JSON: what one of them does to the rows of a table, without an engine.

An event says in ``op`` what happened (c created, r read by a snapshot, u updated, d deleted), and has the row before and after.
What happened to a key is read from that alone: ``before`` may be missing on updates, and hold no more than the key on deletes, as
it is with PostgreSQL's default identity. (Debezium: documentation of its PostgreSQL connector.)
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final

from dagster_operators.connectors.debezium_values import NoValueError, check_exact, checked, exact_json, type_of
from dagster_operators.connectors.sql_text import digits

UNAVAILABLE: Final = "__debezium_unavailable_value"
"""In place of a large value that did not change, which the database then does not send."""

_OPERATIONS: Final = {"c": "insert", "r": "upsert", "u": "update"}
_BYTES: Final = UNAVAILABLE.encode()
_TEXTS: Final = (UNAVAILABLE, base64.b64encode(_BYTES).decode())
_OF_EACH_BYTE: Final = tuple(base64.b64encode(bytes([byte])).decode() for byte in _BYTES)
_UNAVAILABLE_FORMS: Final = (
    *_TEXTS,
    *([text] for text in _TEXTS),
    ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"],
    {UNAVAILABLE: UNAVAILABLE},
    f'{{"{UNAVAILABLE}":"{UNAVAILABLE}"}}',
    [*_BYTES],
    [*_OF_EACH_BYTE],
    [{"scale": 0, "value": value} for value in _OF_EACH_BYTE],
)
"""How it is written for a column's type: bytes as Base64, an hstore as an object or its text, an array of uuids as one made of
its bytes, an array of numbers as its bytes. (Debezium: UnchangedToastedPlaceholder of its PostgreSQL connector.)"""
_WHOLE: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - times are of UTC throughout
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_BEYOND: Final = "(beyond the years 1 to 9999)"
_MICROS: Final = 100_000_000_000_000
"""From 1973-03-03 on, counted in microseconds."""
_MILLIS: Final = range(100_000_000_000, 4_102_444_800_000)
"""From 1973-03-03 to 2099, counted in milliseconds; what is larger may be microseconds of 1970 to 1973."""
_END_OF_TIME: Final = range(253_402_214_400_000, 253_402_300_800_000)
"""9999-12-31 in milliseconds, which stands for no end; in microseconds it is a minute of 1978."""
_PER_SECOND: Final = {
    "io.debezium.time.Timestamp": 1_000,
    "org.apache.kafka.connect.data.Timestamp": 1_000,
    "io.debezium.time.MicroTimestamp": 1_000_000,
    "io.debezium.time.NanoTimestamp": 1_000_000_000,
}


@dataclass(frozen=True)
class Entry:
    """What an event does to the row of one key.

    Attributes:
        operation: insert, upsert, update or delete; truncate for all rows that there are.
        values: The row's values as text, in the order of the columns.
        order: What the event says of its place among the others, where that is asked.
        unsent: The columns whose values the event leaves out, since they are what they were.
    """

    operation: str
    values: tuple[str | None, ...]
    order: int | None = None
    unsent: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Kind:
    """What a schema says of a column: the name of its logical type, the scale of a decimal as it was found, and all of it."""

    name: str = ""
    scale: Any = 0
    said: Mapping[str, Any] = field(default_factory=dict)


class UnreadableEventError(ValueError):
    """An event that cannot be read; the message says why."""


def entries_of(
    line: str,
    columns: Mapping[str, str],
    keys: Sequence[str],
    order_by: Sequence[str] = (),
    *,
    of_rows: bool = False,
    of_source: bool = False,
) -> Iterator[Entry]:
    """What one event does, key by key: nothing, one thing, or two where it gives a row another key.

    Args:
        line: The event, with or without its schema; a tombstone is ``null``.
        columns: The row's columns with their Spark types.
        keys: The key columns.
        order_by: The path to a whole number in the event that tells its place, if one is asked for.
        of_rows: Whether an update may leave out a value that did not change, as the rows there are have it.
        of_source: Whether a truncation is told, and not refused.

    Raises:
        UnreadableEventError: It is no event, or one that cannot be applied.

    >>> [entry.operation for entry in entries_of('{"op": "u", "before": {"k": 1}, "after": {"k": 2}}', {"k": "int"}, ["k"])]
    ['delete', 'insert']
    >>> list(entries_of("null", {"k": "int"}, ["k"]))
    []
    """
    event, kinds = _payload(line)
    operation = str(event.get("op")) if event else "m"
    if operation == "m":  # a message of the database's log, or a tombstone
        return
    _check_declared(event, columns, kinds)
    if operation == "t" and not of_source:
        raise UnreadableEventError("a truncation, which names no rows: begin anew with a snapshot of the table")
    order = _order(event, order_by) if order_by else None
    for entry in _entries(event, operation, columns, keys, kinds):
        if not of_rows and entry.unsent:
            raise _unsent(entry.unsent[0])
        yield replace(entry, order=order) if order_by else entry


def _entries(
    event: Mapping[str, Any], operation: str, columns: Mapping[str, str], keys: Sequence[str], kinds: Mapping[str, _Kind]
) -> Iterator[Entry]:
    if operation in _OPERATIONS:
        before: Any = event.get("before") if operation == "u" else None
        after, unsent = _sent(_row(event, "after", keys), before if isinstance(before, dict) else {}, columns)
        moved = isinstance(before, dict) and all(key in before for key in keys) and _key(before, keys) != _key(after, keys)
        for name in unsent:
            if name in keys or moved or operation == "c":  # there is no row of that key to take it from
                raise _unsent(name)
        if moved:
            yield _entry("delete", {key: before[key] for key in keys}, columns, kinds)
        yield replace(_entry("insert" if moved else _OPERATIONS[operation], after, columns, kinds), unsent=unsent)
    elif operation == "d":
        yield _entry("delete", _row(event, "before", keys), columns, kinds)
    elif operation == "t":
        yield Entry("truncate", (None,) * len(columns))
    else:
        raise UnreadableEventError(f"op is {operation!r}, not one of c, r, u, d")


def _order(event: Mapping[str, Any], path: Sequence[str]) -> int:
    """The whole number at a path in the event; of a deletion, what ``after`` would say of the row says ``before``."""
    first = "before" if path[0] == "after" and event.get("op") == "d" else path[0]
    found: Any = event
    for name in (first, *path[1:]):
        found = found.get(name) if isinstance(found, dict) else None
    text = str(found) if type(found) is int else found
    if not isinstance(text, str) or not _WHOLE.fullmatch(text):
        there = ".".join((first, *path[1:]))
        told = f"nothing is at {there}" if found is None else f"{there} is {exact_json(found)[:200]}, which is no whole number"
        raise UnreadableEventError(f"it has no order: {told}")
    return int(text)


def _payload(line: str) -> tuple[dict[str, Any], dict[str, _Kind]]:
    """The event, empty for a tombstone, and what its schema says of the row's columns."""
    try:
        event = json.loads(line, parse_float=Decimal)
    except (ValueError, RecursionError, ArithmeticError):  # cut off, nested too deeply, or with a number of no size
        raise UnreadableEventError("not a complete record of JSON") from None
    schema: Any = None
    if isinstance(event, dict) and "payload" in event and "op" not in event:
        schema, event = event.get("schema"), event["payload"]
    if event is None:
        return {}, {}
    if not isinstance(event, dict):
        raise UnreadableEventError("not an object")
    try:
        return event, _kinds(schema or {})
    except (AttributeError, KeyError, TypeError):
        raise UnreadableEventError("the schema beside the event is none of Kafka Connect") from None


def _check_declared(event: Mapping[str, Any], columns: Mapping[str, str], kinds: Mapping[str, _Kind]) -> None:
    """Refuse a declared column that the event's own schema does not know: it would be null in every row."""
    rows = [row for side in ("before", "after") if isinstance(row := event.get(side), dict)]
    missing = [name for name in columns if name not in kinds and not any(name in row for row in rows)] if kinds else []
    if missing:
        there = ", ".join(kinds)
        raise UnreadableEventError(f"the event's schema has no column {missing[0]}: declare columns that it has: {there}")


def _kinds(schema: Mapping[str, Any]) -> dict[str, _Kind]:
    rows = [part.get("fields") or [] for part in schema.get("fields") or [] if part.get("field") in ("before", "after")]
    return {part["field"]: _kind(part) for row in rows for part in row}


def _kind(said: Mapping[str, Any]) -> _Kind:
    return _Kind(str(said.get("name")), (said.get("parameters") or {}).get("scale", 0), said)


def _row(event: Mapping[str, Any], side: str, keys: Sequence[str]) -> dict[str, Any]:
    row = event.get(side)
    if not isinstance(row, dict):
        raise UnreadableEventError(f"op is {event.get('op')!r}, and {side!r} has no row")
    for key in keys:
        if key not in row:
            raise UnreadableEventError(f"the key column {key} is not in {side!r}")
    return row


def _sent(
    after: Mapping[str, Any], before: Mapping[str, Any], columns: Mapping[str, str]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The row with the values that were not sent, as far as the row before has them, and the declared columns that it lacks."""
    row, unsent = dict(after), []
    for name in columns:
        if row.get(name) in _UNAVAILABLE_FORMS:
            row[name] = before.get(name)
            if name not in before or row[name] in _UNAVAILABLE_FORMS:
                row[name] = None
                unsent.append(name)
    return row, tuple(unsent)


def _unsent(name: str) -> UnreadableEventError:
    return UnreadableEventError(
        f"the value of column {name} was not sent; REPLICA IDENTITY FULL has PostgreSQL send it; or leave the column "
        "out of the schema"
    )


def _key(row: Mapping[str, Any], keys: Sequence[str]) -> list[Any]:
    return [row[key] for key in keys]


def _entry(operation: str, row: Mapping[str, Any], columns: Mapping[str, str], kinds: Mapping[str, _Kind]) -> Entry:
    texts: list[str | None] = []
    for name, kind in columns.items():
        try:
            texts.append(_text(row.get(name), kind, kinds.get(name, _Kind())))
        except NoValueError as error:
            raise UnreadableEventError(f"column {name} is {error}") from None
    return Entry(operation, tuple(texts))


def _text(value: Any, kind: str, told: _Kind) -> str | None:
    """A value as text that casts to the declared type, or to none where it is no such value."""
    try:
        value = checked(value, type_of(kind), told.said, lambda one, of, said: _of_declared_type(one, of, _kind(said)))
        if value is None:
            return None
        found = _of_declared_type(value, kind, told)
        text = found or (value if isinstance(value, str) else exact_json(value))
        check_exact(text, type_of(kind))
        text.encode()
    except RecursionError:
        raise UnreadableEventError("a value is nested too deeply") from None
    except UnicodeEncodeError:
        raise UnreadableEventError("a text has half a character") from None
    return text


def _of_declared_type(value: Any, kind: str, told: _Kind) -> str | None:
    """What Debezium writes as a number or as bytes though it is none; None for anything else."""
    if kind.startswith("timestamp") and type(value) is int:
        return _time(value, told.name) + ("Z" if kind == "timestamp" else "")
    if kind == "date" and type(value) is int:
        return _date(value)
    if kind.startswith("decimal") and told.name == _DECIMAL and isinstance(value, str):
        return _decimal(value, told.scale)
    if kind.startswith("decimal") and isinstance(value, dict) and {"scale", "value"} <= value.keys():
        return _decimal(value["value"], value["scale"])
    return None


def _date(days: int) -> str:
    try:
        return (_EPOCH + dt.timedelta(days=days)).date().isoformat()
    except OverflowError:  # the number alone would be taken for a year
        return f"{days} {_BEYOND}"


def _time(value: int, logical: str) -> str:
    """A number as a time. What it counts says the schema; without one its size does, where it is certain enough."""
    per_second = _PER_SECOND.get(logical)
    if per_second is None:
        size = abs(value)
        per_second = 1_000 if size in _MILLIS else 1_000_000 if size >= _MICROS and size not in _END_OF_TIME else 0
    if not per_second:
        return f"{value} (it cannot be told whether it counts milli- or microseconds: declare it as bigint)"
    if value * 1_000_000 % per_second:
        return f"{value} (it counts parts of a microsecond: declare it as bigint)"
    try:
        found = _EPOCH + dt.timedelta(microseconds=value * 1_000_000 // per_second)
    except OverflowError:
        return f"{value} {_BEYOND}"
    return found.isoformat(sep=" ", timespec="microseconds")


def _decimal(data: Any, scale: Any) -> str | None:
    """A decimal from the bytes of its unscaled value, with all its digits; None if they are no such bytes."""
    if not re.fullmatch(r"-?[0-9]{1,9}", str(scale)):
        raise UnreadableEventError(f"the scale {scale!r} of a decimal is no whole number")
    try:
        unscaled = base64.b64decode(data, validate=True)
    except (binascii.Error, TypeError, ValueError):
        return None
    sign, figures, _ = Decimal(int.from_bytes(unscaled, signed=True)).as_tuple()
    return digits(Decimal((sign, figures, -int(scale)))) if unscaled else None
