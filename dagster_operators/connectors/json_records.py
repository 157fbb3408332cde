"""Lines of JSON as texts of the values that Spark's reader takes, for engines that have other readers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from json.decoder import scanstring  # type: ignore[attr-defined]  # typeshed does not have it
from typing import Any, Final

from dagster_operators.connectors.sql_text import digits, has_exponent, without_exponent
from dagster_operators.connectors.text_format import DECIMAL
from dagster_operators.types.data_type import Array, DataType, Map, Plain, Struct
from dagster_operators.types.data_type import Decimal as DecimalType

NOT_READ: Final = " (not read)"
"""Behind a nested value that the engine would read otherwise than Spark."""
FLOATS: Final = frozenset({Plain("float"), Plain("double")})

_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?|true|false")
_NOT_FINITE = frozenset({"NaN", "Infinity", "+Infinity", "-Infinity", "INF", "+INF", "-INF"})
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?)?", re.ASCII)
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_FIRST_SECOND = -62_135_596_800
"""The beginning of the year 1."""
_LAST_SECOND = 250_000_000_000
"""Beyond it, in the year 9892, no time of an event lies: such a number counts milliseconds."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def json_records(lines: Iterable[str], types: Mapping[str, DataType]) -> Iterator[tuple[list[str | None], str, bool]]:
    """The records: a text for each column, the line, and whether it is an object and nothing else."""
    for line in lines:
        raw = line.rstrip("\r\n")
        if not raw.strip():
            continue
        try:
            values = _json_values(raw, types)
        except (RecursionError, UnicodeEncodeError):  # nested more deeply than anybody reads, or half a character
            values = None
        yield values or [None] * len(types), raw, values is not None


def _json_values(raw: str, types: Mapping[str, DataType]) -> list[str | None] | None:
    """The values of a record as text; None if it is no record."""
    try:
        record = json.loads(raw, parse_float=Decimal)
    except (ValueError, ArithmeticError):  # an exponent can be beyond any number
        return None
    if not isinstance(record, dict):
        return None
    texts = _as_written(raw) if any(_keeps_text(record.get(column), kind) for column, kind in types.items()) else {}
    values = [_json_text(record.get(column), kind, texts.get(column)) for column, kind in types.items()]
    if "\\u" in raw:
        "".join(value or "" for value in values).encode()
    return values


def _keeps_text(value: Any, kind: DataType) -> bool:
    """Whether Spark takes the very text of a value that is no text: what is nested, or any for a column of text."""
    return value is not None and not isinstance(value, str) and (kind.is_nested or kind == Plain("string"))


def _as_written(raw: str) -> dict[str, str]:
    """The values of a JSON object, each as it is written.

    >>> _as_written('{"a": {"x": [1,  2]}, "b" : 1.50}')
    {'a': '{"x": [1,  2]}', 'b': '1.50'}
    """
    found: dict[str, str] = {}
    place = raw.find('"') + 1
    while place:
        key, place = scanstring(raw, place)
        begin = _SPACE.match(raw, raw.index(":", place) + 1).end()  # type: ignore[union-attr]  # it matches nothing, too
        place = _DECODER.raw_decode(raw, begin)[1]
        found[key] = raw[begin:place]
        place = raw.find('"', place) + 1
    return found


def _json_text(value: Any, kind: DataType, text: str | None) -> str | None:
    """A value as text; where Spark does not take it for the type, as a text that no engine takes for one either."""
    if value is None:
        return None
    if kind.is_timestamp and type(value) is int and _FIRST_SECOND <= value < _LAST_SECOND:
        return (_EPOCH + timedelta(seconds=value)).isoformat()
    written = value if isinstance(value, str) else text or (digits(value) if isinstance(value, Decimal) else _json(value))
    if kind.is_nested:
        return written if _is_taken_within(value, kind) else written + NOT_READ
    if _is_taken(value, kind):
        return without_exponent(written) if isinstance(kind, DecimalType) else written
    return _refused(value, kind, written)


def _refused(value: Any, kind: DataType, written: str) -> str:
    """A value that Spark does not take for a type, as a text that no engine takes for one."""
    if isinstance(value, str):
        return _json(value) if kind in FLOATS or _NUMBER.fullmatch(value.strip()) else written
    if kind.is_whole_number and isinstance(value, Decimal) and "." not in written:
        return f"{written}.0"
    return f"{written} (no text)" if kind in (Plain("date"), Plain("binary")) or kind.is_timestamp else written


def _json(value: Any) -> str:
    return json.dumps(value, default=float, ensure_ascii=False, separators=(",", ":"))


def _is_taken_within(value: Any, kind: DataType) -> bool:
    """Whether Spark takes a nested value for a type, and the engine reads it as exactly: Sail's from_json goes by doubles.

    >>> from dagster_operators.types.data_type import Field
    >>> exact = Struct((Field("d", DecimalType(30, 10)),))
    >>> [_is_taken_within({"d": Decimal(d)}, exact) for d in ("0.5", "12345678901234567.0123456789")]
    [True, False]
    """
    match value, kind:
        case None, _:
            return True
        case dict(), Struct(fields):
            return all(_is_taken_within(value.get(part.name), part.type) for part in fields)
        case dict(), Map(_, within):
            return all(_is_taken_within(one, within) for one in value.values())
        case list(), Array(within):
            return all(_is_taken_within(one, within) for one in value)
    return not kind.is_nested and kind != Plain("binary") and _is_read(value, kind) and _is_taken(value, kind)


def _is_read(value: Any, kind: DataType) -> bool:
    """Whether Sail's from_json reads a value as Spark does, where it makes another one of it, or fails, for some."""
    match value, kind:
        case int() | Decimal(), DecimalType():
            return value is not True and value is not False and Decimal(repr(float(Decimal(value)))) == value
        case str(), DecimalType():
            return re.fullmatch(DECIMAL, value) is not None and not has_exponent(value)
        case str(), Plain("date" | "timestamp" | "timestamp_ntz" as name):
            return _is_iso(value, name)
    return True


def _is_iso(text: str, kind: str) -> bool:
    """Whether a text is a date or time that Sail's from_json reads: any other makes it fail.

    >>> _is_iso("2024-01-02T03:04:05Z", "timestamp"), _is_iso("2024-01-02T03:04:05Z", "timestamp_ntz"), _is_iso("03:04", "date")
    (True, False, False)
    """
    found = _ISO.fullmatch(text)
    if found is None or (found[1] and kind == "date") or (found[4] and kind == "timestamp_ntz"):
        return False
    try:
        return datetime.fromisoformat(text) is not None
    except ValueError:
        return False


def _is_taken(value: Any, kind: DataType) -> bool:
    """Whether Spark takes a value of JSON for a type: no text for a number, no number for a date."""
    if kind.is_whole_number:
        return type(value) is int
    if kind in FLOATS:
        return value in _NOT_FINITE if isinstance(value, str) else isinstance(value, int | float | Decimal) and value is not True
    if kind == Plain("boolean"):
        return isinstance(value, bool)
    return isinstance(value, str) if kind in (Plain("date"), Plain("binary")) or kind.is_timestamp else True
