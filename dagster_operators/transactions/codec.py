"""Frozen dataclasses to JSON and back, strictly: a field too many, missing or of the wrong type is an error.

Records and manifests outlive the process that wrote them, so what is read is checked completely, and nothing of them is unpickled
or evaluated. (State is, of event operators that say ``state: pickle``.)

>>> @dataclasses.dataclass(frozen=True)
... class Point:
...     x: int
...     tags: tuple[str, ...] = ()
>>> from_json(Point, to_json(Point(1, ("a",))))
Point(x=1, tags=('a',))
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final, TypeAlias, TypeVar

from dagster_operators.errors import LedgerError, LedgerVersionError, TimestampError
from dagster_operators.graph.slice import JSON
from dagster_operators.time.frontier import Frontier

T = TypeVar("T")

_Decoder: TypeAlias = Callable[[Any, str], Any]
"""Takes a plain JSON value and where it lies."""

MADE_WHOLE: Final = (
    "put the ledger's folder back from a backup; or pipeline.repair_ledger() finds again what is there and goes back to the last "
    "epoch before what is lost, and the epochs after that are run again"
)
"""What helps against a damaged ledger."""

_NUMBERS = 1 << 63
"""Whole numbers have 64 bits, as in Parquet and in the tables' logs."""

_FLOATS = 1 << 1000

_PLAIN = (str, bool, int, float)


def to_json(value: Any) -> str:
    """A dataclass as compact JSON with sorted keys, the same text for equal values."""
    return json.dumps(encode(value), sort_keys=True, separators=(",", ":"))


def from_json(kind: type[T], text: str, without: Collection[str] = ()) -> T:
    """The dataclass that ``to_json`` wrote.

    Args:
        kind: The dataclass.
        text: The text.
        without: Fields that earlier versions wrote, and that nobody reads any more.

    Raises:
        LedgerError: The text is no JSON or does not fit ``kind``.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LedgerError(f"a {kind.__name__} is not valid JSON: {error}", remedy=MADE_WHOLE) from (
            None if isinstance(error, RecursionError) else error
        )
    if without and isinstance(data, dict):
        data = {name: value for name, value in data.items() if name not in without}
    decoded: T = decode(kind, data)
    return decoded


def encode(value: Any) -> Any:
    """A dataclass as plain JSON values."""
    kind: type = type(value)
    if value is None or isinstance(value, _PLAIN):
        return value
    if _is_dataclass(kind):
        added = _added(kind)
        given = {name: getattr(value, name) for name in _fields(kind)}
        return {name: encode(item) for name, item in given.items() if name not in added or item != added[name]}
    if isinstance(value, Frontier):
        return value.to_json()
    if isinstance(value, Mapping):
        return {str(name): encode(item) for name, item in value.items()}
    if isinstance(value, frozenset):
        return sorted(encode(item) for item in value)
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    raise LedgerError(f"a {kind.__name__} cannot be written to the ledger", remedy="use plain JSON values")


def decode(kind: Any, data: Any, place: str = "") -> Any:
    """Plain JSON values as a value of the annotated type ``kind``."""
    return _decoder(kind)(data, place)


@cache
def _decoder(kind: Any) -> _Decoder:  # noqa: PLR0911 - one for each kind of type
    """What makes values of a type; found once for each type, since it costs more than decoding."""
    if kind is Any or kind == JSON:
        return lambda data, _: data
    if dataclasses.is_dataclass(kind):
        return partial(_decode_dataclass, kind)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return partial(_decode_checked, _decoder(arguments[0]), arguments[1])
    if origin in {types.UnionType, typing.Union}:
        inner = _decoder(next(argument for argument in arguments if argument is not type(None)))
        return partial(_decode_optional, inner) if type(None) in arguments else inner
    if origin is typing.Literal:
        return lambda data, place: _expect(data in arguments, data, place, data)
    if origin is tuple and arguments[-1] is not Ellipsis:
        return partial(_decode_tuple, [_decoder(argument) for argument in arguments])
    if origin in {tuple, frozenset}:
        return partial(_decode_items, origin, _decoder(arguments[0]))
    if origin is not None:
        return partial(_decode_mapping, _decoder(arguments[0]), _decoder(arguments[1]))
    return partial(_decode_scalar, kind)


def _decode_optional(inner: _Decoder, data: Any, place: str) -> Any:
    return None if data is None else inner(data, place)


def _decode_tuple(inner: Sequence[_Decoder], data: Any, place: str) -> Any:
    _expect(isinstance(data, list), data, place)
    _expect(len(data) == len(inner), data, place)
    return tuple(decoder(item, place) for decoder, item in zip(inner, data, strict=True))


def _decode_items(kind: Any, inner: _Decoder, data: Any, place: str) -> Any:
    _expect(isinstance(data, list), data, place)
    return kind(inner(item, place) for item in data)


def _decode_mapping(key: _Decoder, inner: _Decoder, data: Any, place: str) -> Any:
    _expect(isinstance(data, dict), data, place)
    return {key(name, place): inner(item, f"{place}.{name}") for name, item in data.items()}


def _decode_checked(inner: _Decoder, check: Callable[[Any], bool], data: Any, place: str) -> Any:
    value = inner(data, place)
    return _expect(check(value), data, place, value)


def _decode_frontier(data: Any, place: str) -> Frontier:
    _expect(isinstance(data, list), data, place)
    try:
        return Frontier.from_json(data)
    except TimestampError as error:
        raise LedgerError(f"{place} is no frontier: {error.problem}", remedy=MADE_WHOLE) from error


def _decode_scalar(kind: Any, data: Any, place: str) -> Any:
    if kind is Frontier:
        return _decode_frontier(data, place)
    if kind is float:
        _expect(isinstance(data, int | float) and not isinstance(data, bool), data, place)
        _expect(abs(data) < _FLOATS or isinstance(data, float), data, place)
        return float(data)
    if kind is int:
        _expect(isinstance(data, int) and -_NUMBERS <= data < _NUMBERS, data, place)
    return _expect(isinstance(data, kind) and (kind is bool or not isinstance(data, bool)), data, place, data)


def _decode_dataclass(kind: Any, data: Any, place: str) -> Any:
    place = place or kind.__name__
    _expect(isinstance(data, dict), data, place)
    fields = _decoders(kind)
    unknown = sorted(set(data) - set(fields))
    missing = sorted(set(fields) - set(data) - set(_added(kind)))
    if unknown and not missing:
        raise LedgerVersionError(
            f"{place} has the unknown field {unknown[0]!r}: a newer version of dagster_operators wrote it", field=unknown[0],
            remedy="upgrade dagster_operators",
        )  # fmt: skip
    if unknown or missing:
        raise LedgerError(f"{place} has unknown fields {unknown} and misses {missing}", remedy=MADE_WHOLE)
    return kind(**{name: inner(data[name], f"{place}.{name}") for name, inner in fields.items() if name in data})


def added(version: int, default: Any) -> Any:
    """A field of a record that a later version of the format brought.

    Records of earlier versions are read with its default, and where it has that it is not written, so that a ledger that uses
    nothing new stays one that earlier versions of the package read.

    Args:
        version: The version of the format, see :data:`~dagster_operators.transactions.manifest.FORMAT_VERSION`.
        default: What records have that do not say; immutable, or an empty mapping.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Point:
    ...     x: int
    ...     y: int = added(2, 0)
    >>> to_json(Point(1)), from_json(Point, '{"x":1}'), to_json(Point(1, 2))
    ('{"x":1}', Point(x=1, y=0), '{"x":1,"y":2}')
    """
    if isinstance(default, dict):
        return dataclasses.field(default_factory=dict, metadata={"since": version})
    return dataclasses.field(default=default, metadata={"since": version})


@cache
def _added(kind: type) -> dict[str, Any]:
    """The fields that later versions brought, with their defaults."""
    return {
        field.name: {} if field.default is dataclasses.MISSING else field.default
        for field in dataclasses.fields(kind)
        if "since" in field.metadata
    }


@cache
def _is_dataclass(kind: type) -> bool:
    return dataclasses.is_dataclass(kind)


@cache
def _fields(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


@cache
def _decoders(kind: type) -> dict[str, _Decoder]:
    """For each field what makes its values."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {name: _decoder(hints[name]) for name in _fields(kind)}


def _expect(holds: bool, data: Any, place: str, value: Any = None) -> Any:  # noqa: FBT001 - it reads like an assert
    if not holds:
        raise LedgerError(f"{place[:200]} has the unexpected value {_shown(data)}", remedy=MADE_WHOLE)
    return value


def _shown(data: Any) -> str:
    """The beginning of a value; of a number that would take long to write, its size."""
    if isinstance(data, int) and abs(data) >= _FLOATS:
        return f"of {data.bit_length()} bits"
    try:
        return repr(str(data)[:80])
    except (ValueError, RecursionError):
        return f"of type {type(data).__name__}"
