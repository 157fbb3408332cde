"""The part that a key belongs to: the same in every process, and the same for keys that are equal."""

from __future__ import annotations

import datetime as dt
import math
import zlib
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

from dagster_operators.errors import PipelineError

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_NUMBERS: Final = (bool, int, float, Decimal)
PRIME: Final = 0x9E3779B1
"""The number that others are multiplied by, so that their low bits depend on all bits."""

BITS: Final = 0xFFFFFFFF
"""The bits of a hash."""

_OF_NAN: Final = 0x7FC00000


def part_of(key: tuple[Any, ...], parts: int) -> int:
    """The part of a key.

    Args:
        key: The values of the key's fields.
        parts: The number of parts.

    Raises:
        PipelineError: A value is of a type whose values have no place that is the same in every process.

    >>> part_of((1, "a"), 4) == part_of((1.0, "a"), 4), part_of(("b",), 4)
    (True, 0)
    """
    return stable_hash(key) % parts


def stable_hash(value: Any) -> int:
    """A hash of 32 bits that is the same in every process, and equal for equal values.

    Raises:
        PipelineError: The value's type has none.

    >>> from decimal import Decimal
    >>> stable_hash(float("nan")) == stable_hash(float("nan"))
    True
    >>> stable_hash(2) == stable_hash(2.0) == stable_hash(Decimal("2.00")), stable_hash(0.0) == stable_hash(-0.0)
    (True, True)
    """
    kind = type(value)
    if kind is int:
        return _mixed(hash(value))
    if kind is str:
        return zlib.crc32(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, tuple):
        mixed = len(value)
        for part in value:
            mixed = (mixed * 31 + stable_hash(part)) & BITS
        return mixed
    for types, hashed in _HASHES:
        if isinstance(value, types):
            return hashed(value)
    if is_dataclass(value) and not isinstance(value, type):
        return stable_hash(tuple(getattr(value, field.name) for field in fields(value) if field.compare))
    raise PipelineError(
        f"a key has a value of the type {kind.__name__}, whose values have no place that is the same in every process",
        remedy="let the key be made of texts, numbers, times, bytes, or tuples of them",
    )


def _mixed(number: int) -> int:
    """A number whose low bits depend on all bits: keys with a common step would be in few of the parts otherwise."""
    number ^= number >> 32
    return ((number & BITS) * PRIME & BITS) >> 7 ^ (number & BITS)


def _of_time(value: dt.datetime) -> int:
    if value.tzinfo is None:
        return zlib.crc32(value.isoformat().encode())
    return _mixed((value - _EPOCH) // dt.timedelta(microseconds=1))


def _in_utc(value: dt.time) -> Any:
    """A time that is the same for equal times: those with a zone are equal by their moment."""
    offset = value.utcoffset()
    return value if offset is None else dt.datetime.combine(_EPOCH, value.replace(tzinfo=None)) - offset


_HASHES: Final[tuple[tuple[Any, Callable[[Any], int]], ...]] = (
    (str, lambda value: zlib.crc32(str.encode(value, "utf-8", "surrogatepass"))),
    (_NUMBERS, lambda value: _OF_NAN if isinstance(value, float | Decimal) and math.isnan(value) else _mixed(hash(value))),
    (Enum, lambda value: stable_hash(value.name)),
    ((bytes, bytearray), lambda value: zlib.crc32(bytes(value))),
    (dt.datetime, _of_time),
    (dt.date, lambda value: _mixed(value.toordinal())),
    (dt.time, lambda value: zlib.crc32(_in_utc(value).isoformat().encode())),
    (dt.timedelta, lambda value: _mixed(value // dt.timedelta(microseconds=1))),
    (UUID, lambda value: zlib.crc32(value.bytes)),
    (type(None), lambda _: 0),
    (frozenset, lambda value: sum(map(stable_hash, value)) & BITS),
)
