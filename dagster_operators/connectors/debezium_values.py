"""Values of Debezium's events that a column takes exactly: nested ones, and those that the engine's casts take too easily.

Engines read nested JSON by doubles, and make null of what does not fit. So here each value in it is checked and written as a
text, which the engine casts as it does in other columns.
"""

from __future__ import annotations

import base64
import datetime as dt
import functools
import json
import math
import re
import struct
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, Final, TypeAlias

from dagster_operators.connectors.sql_text import digits
from dagster_operators.types.data_type import Array, DataType, Field, Map, Plain, Struct
from dagster_operators.types.data_type import Decimal as DecimalType
from dagster_operators.types.schema import Schema

Said: TypeAlias = Mapping[str, Any]
"""What an event's schema says of a value."""

Converted: TypeAlias = Callable[[Any, str, Said], str | None]
"""A value of a type as text where Debezium writes it as a number or as bytes though it is none; else None."""

_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_LARGEST: Final = {"float": 3.4028235677973366e38, "double": math.inf}
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_SINCE_TODAY: Final = re.compile(
    r"\s*(?![+-]?[0-9]{4,6}-)[^()]*:|\s*(now|today|tomorrow|yesterday|epoch)\b", re.ASCII | re.IGNORECASE
)
"""A time without a day, which engines take for one of today, and words for days."""
_FRACTION: Final = re.compile(r"\.[0-9]{6}[0-9]*[1-9]", re.ASCII)
"""Parts of a second that are less than a microsecond."""
_DIGITS: Final = 100
_EXACT: Final = Context(prec=20 * _DIGITS)
"""Room for all digits of a double, of which there are at most 767."""
_TRUTHS: Final = {"true": "true", "false": "false", "1": "true", "0": "false"}
"""MySQL's truths are numbers of one digit."""
_STRING: Final = Plain("string")
_BINARY: Final = Plain("binary")
_CHECKED: Final = frozenset({Plain("float"), Plain("double"), Plain("boolean"), _BINARY})
"""What the engine's casts take too easily: numbers beyond the type, numbers for a truth, any text for bytes."""


class NoValueError(ValueError):
    """A value that is none of a type; the message says of which."""

    def __init__(self, value: Any, kind: DataType) -> None:
        super().__init__(f"no {kind.shown}: {(value if isinstance(value, str) else exact_json(value))[:200]}")


@functools.lru_cache(maxsize=1024)
def type_of(kind: str) -> DataType:
    """A type from its text.

    >>> type_of("array<int>")
    Array(element=Plain(name='int'), nullable=True)
    """
    return Schema.from_ddl(f"c {kind}").types["c"]


def as_texts(kind: DataType) -> DataType:
    """A type with texts for all the values in it, bytes excepted.

    >>> as_texts(type_of("struct<a:array<decimal(38,2)>,b:binary>")).sql
    'struct<`a`:array<string>,`b`:binary>'
    """
    match kind:
        case Struct(fields):
            return Struct(tuple(Field(part.name, as_texts(part.type)) for part in fields))
        case Map(_, within):
            return Map(_STRING, as_texts(within))
        case Array(within):
            return Array(as_texts(within))
    return _STRING if kind.is_simple and kind != _BINARY else kind


def has_bytes(kind: DataType) -> bool:
    """Whether there are bytes in a nested type.

    >>> has_bytes(type_of("array<binary>")), has_bytes(type_of("array<string>"))
    (True, False)
    """
    match kind:
        case Struct(fields):
            return any(has_bytes(part.type) for part in fields)
        case Map(_, within) | Array(within):
            return has_bytes(within)
    return kind == _BINARY


def exact_json(value: Any) -> str:
    """A value as JSON, with all the digits of its numbers.

    >>> exact_json({"a": [Decimal("12345678901234567890.10"), None]})
    '{"a": [12345678901234567890.10, null]}'
    """
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)}: {exact_json(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(exact_json, value)) + "]"
    return digits(value) if isinstance(value, Decimal) else json.dumps(value)


def checked(value: Any, kind: DataType, said: Said, converted: Converted) -> Any:
    """A value as it goes on: a nested one as JSON of texts, one that the engine would not check as a text, any other as it is.

    Args:
        value: The value, with decimals for its fractions.
        kind: The column's type.
        said: What the event's schema says of it.
        converted: What Debezium writes otherwise.

    Raises:
        NoValueError: It is none of the type, or none that can be read exactly.

    >>> checked([Decimal("0.10"), 7], type_of("array<decimal(38,2)>"), {}, lambda *_: None)
    '["0.10", "7"]'
    """
    if value is None:
        return None
    if kind.is_nested:
        try:
            read = json.loads(value, parse_float=Decimal) if isinstance(value, str) else value
        except ValueError:
            raise NoValueError(value, kind) from None
        return None if read is None else json.dumps(_within(read, kind, said, converted), ensure_ascii=False)
    if kind in _CHECKED:
        return _leaf(value, kind, said, converted)
    return exact_json(value) if kind == _STRING and not isinstance(value, str) else value


def _within(value: Any, kind: DataType, said: Said, converted: Converted) -> Any:
    match value, kind:
        case None, _:
            return None
        case dict(), Struct(fields):
            parts = {field.get("field"): field for field in said.get("fields") or ()}
            return {part.name: _within(value.get(part.name), part.type, parts.get(part.name, {}), converted) for part in fields}
        case dict(), Map(key, within):
            of_value = said.get("values") or {}
            return {_leaf(name, key, {}, converted): _within(one, within, of_value, converted) for name, one in value.items()}
        case list(), Array(within):
            return [_within(one, within, said.get("items") or {}, converted) for one in value]
    if kind.is_nested:
        raise NoValueError(value, kind)
    return _leaf(value, kind, said, converted)


def _leaf(value: Any, kind: DataType, said: Said, converted: Converted) -> Any:
    """A value without others in it, as a text that casts to the type."""
    if kind == _STRING:
        return value if isinstance(value, str) else exact_json(value)
    if not kind.is_simple:
        return value
    if kind == _BINARY and not isinstance(value, str):
        raise NoValueError(value, kind)
    text = converted(value, str(kind), said) or (value if isinstance(value, str) else exact_json(value))
    try:
        found = _exact(text, kind)
    except (ArithmeticError, ValueError):
        found = None
    if found is None:
        raise NoValueError(text, kind)
    return found


def _exact(text: str, kind: DataType) -> str | None:  # noqa: PLR0911 - one for each type
    """A value in the one spelling that all engines cast; None if it is none of the type, or not all that it says."""
    if kind.is_whole_number:
        bound = 1 << (_BITS[str(kind)] - 1)
        return text if _WHOLE.fullmatch(text) and -bound <= int(text) < bound else None
    if isinstance(kind, DecimalType):
        return digits(Decimal(text)) if _fits(Decimal(text), kind) else None
    if str(kind) in _LARGEST:
        number = Decimal(text)
        return str(number) if not number.is_finite() or _is_float(number, str(kind)) else None
    if kind == Plain("boolean"):
        return _TRUTHS.get(text)
    if kind == _BINARY:
        return base64.b64encode(base64.b64decode(text, validate=True)).decode()
    if not _DAY.match(text):
        return None
    if kind == Plain("date"):
        return dt.date.fromisoformat(text).isoformat()
    return None if _FRACTION.search(text) else _moment(text, kind)


def _moment(text: str, kind: DataType) -> str:
    found = dt.datetime.fromisoformat(text)
    zoned = kind == Plain("timestamp") and found.tzinfo is not None
    local = (found.astimezone(dt.UTC) if zoned else found).replace(tzinfo=None)
    return local.isoformat(sep=" ", timespec="microseconds") + ("Z" if zoned else "")


def check_exact(text: str, kind: DataType) -> None:
    """Refuse a text that an engine would cast to another value than it says: rounded, cut off, or of the day of the run.

    Args:
        text: The text of a column's value.
        kind: The column's type.

    Raises:
        NoValueError: It is such a text.

    >>> for text, kind in (("1.10", "decimal(9,1)"), ("1.11", "decimal(9,1)"), ("10:00", "timestamp")):
    ...     try:
    ...         check_exact(text, type_of(kind))
    ...     except NoValueError as error:
    ...         print(error)
    no decimal(9,1): 1.11
    no timestamp: 10:00
    """
    if isinstance(kind, DecimalType):
        try:
            number = Decimal(text)
        except ArithmeticError:  # the engine refuses it, too
            return
        if not _fits(number, kind):
            raise NoValueError(text, kind)
    elif (kind.is_timestamp or kind == Plain("date")) and (_SINCE_TODAY.match(text) or _FRACTION.search(text)):
        raise NoValueError(text, kind)


def _is_float(number: Decimal, kind: str) -> bool:
    """Whether a text stands for a floating-point number: rounded to as many digits, or written the shortest way, it is the same.

    Half of the last digit can go up or down. The shortest text that is read as a power of two can be off by more than half.

    >>> [_is_float(Decimal(text), "float") for text in ("0.1", "16777216", "16777217", "0.123456789")]
    [True, True, False, False]
    >>> [_is_float(Decimal(text), "double") for text in ("5.960464477539063E-8", "7.120236347223045E-307", "5E-324", "1E-400")]
    [True, True, True, False]
    """
    if not abs(float(number)) < _LARGEST[kind]:
        return False
    value = float(number) if kind == "double" else struct.unpack("f", struct.pack("f", float(number)))[0]
    written = number.normalize(_EXACT)
    unit = Decimal((0, (1,), int(written.as_tuple().exponent)))
    difference = _EXACT.subtract(Decimal(value), written)
    return _EXACT.multiply(difference.copy_abs(), Decimal(2)) <= unit or written in _shortest(value, kind)


def _shortest(value: float, kind: str) -> list[Decimal]:
    """The shortest texts that are read as a number of a type: of the type itself, and of a double."""
    texts = [repr(value)]
    if kind == "float":
        import pyarrow as pa

        texts.append(str(pa.scalar(value, pa.float32()).cast(pa.string()).as_py()))
    return list(map(Decimal, texts))


def _fits(value: Decimal, kind: DecimalType) -> bool:
    if not value.is_finite() or (value and abs(value.adjusted()) > _DIGITS):
        return False
    unscaled = Fraction(value) * 10**kind.scale
    return bool(unscaled.denominator == 1 and abs(unscaled) < 10**kind.precision)
