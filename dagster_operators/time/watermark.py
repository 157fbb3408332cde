"""Event times and watermarks as whole microseconds since 1970 in UTC.

A watermark promises that no row with an earlier event time will come. It moves only between epochs: at the end of an epoch it is
the largest event time seen less the source's lateness, and it never moves back (the idea is Flink's and Arroyo's; that it
stands still within an epoch makes results independent of the order of rows in it).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

MIN_WATERMARK: Final = -(2**63)
"""Nothing was seen yet: every row is on time."""

MAX_WATERMARK: Final = 2**63 - 1
"""The source is finished: every window closes."""

_MICROS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_SHORT = {"us": "microsecond", "ms": "millisecond", "s": "second", "sec": "second", "m": "minute", "min": "minute", "h": "hour",
          "d": "day", "w": "week"}  # fmt: skip
_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]+)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_duration(text: str | timedelta | int) -> int:
    """A duration as microseconds.

    Args:
        text: As Spark writes intervals (``"2 minutes 30 seconds"``), short (``"10s"``), a timedelta, or microseconds.

    Raises:
        ValueError: It is no duration, has no unit, or has no fixed length (months, years).

    >>> parse_duration("1 hour 30 minutes"), parse_duration("250 ms")
    (5400000000, 250000)
    """
    if isinstance(text, timedelta):
        return text // timedelta(microseconds=1)
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    if not isinstance(text, str):
        told = "has no unit" if isinstance(text, float) else "is no duration"
        raise ValueError(  # noqa: TRY004 - callers tell it as an error of theirs
            f"{text!r} {told}; write for example '90 seconds', or give a timedelta"
        )
    position, total = 0, 0.0
    while match := _PART.match(text, position):
        unit = match[2].lower()
        unit = _SHORT.get(unit, unit.removesuffix("s"))
        if unit not in _MICROS:
            break
        total += float(match[1]) * _MICROS[unit]
        position = match.end()
    if position == 0 or text[position:].strip():
        units = ", ".join(_MICROS)
        raise ValueError(f"{text!r} is no duration of fixed length; write for example '1 hour' (units: {units})")
    return round(total)


def require_unit(duration: object) -> None:
    """Refuse a small bare number, which would count as microseconds: who writes 60 means seconds, or minutes.

    Raises:
        ValueError: It is less than a second, and not nothing.

    >>> require_unit(60)
    Traceback (most recent call last):
    ValueError: 60 has no unit; write for example '60 seconds', or '60 microseconds' if these are meant
    """
    if isinstance(duration, int) and not isinstance(duration, bool) and 0 < duration < _MICROS["second"]:
        raise ValueError(
            f"{duration} has no unit; write for example '{duration} seconds', or '{duration} microseconds' if these are meant"
        )


def format_duration(micros: int) -> str:
    """A duration in its largest whole unit.

    >>> format_duration(5_400_000_000), format_duration(86_400_000_000)
    ('90 minutes', '1 day')
    """
    for unit, size in sorted(_MICROS.items(), key=lambda item: -item[1]):
        if micros % size == 0 and abs(micros) >= size:
            count = micros // size
            return f"{count} {unit}" + ("" if count == 1 else "s")
    return f"{micros} microseconds" if micros else "0 seconds"


def to_micros(moment: datetime) -> int:
    """A moment as microseconds since 1970; one without a time zone counts as UTC.

    >>> to_micros(datetime(1970, 1, 1, 0, 0, 1))
    1000000
    """
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def format_timestamp(micros: int) -> str:
    """An event time or watermark for people.

    >>> format_timestamp(1_700_000_000_000_000), format_timestamp(MIN_WATERMARK), format_timestamp(MAX_WATERMARK)
    ('2023-11-14T22:13:20Z', 'none', 'end')
    """
    if micros == MIN_WATERMARK:
        return "none"
    if micros == MAX_WATERMARK:
        return "end"
    try:
        return (_EPOCH + timedelta(microseconds=micros)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return f"{micros} microseconds"


def advance(watermark: int, largest_event_time: int | None, lateness: int) -> int:
    """The watermark at the end of an epoch that saw ``largest_event_time`` (None: no rows). It never moves back.

    >>> advance(MIN_WATERMARK, 100, 30), advance(90, 100, 30), advance(90, None, 30)
    (70, 90, 90)
    """
    if largest_event_time is None:
        return watermark
    return max(watermark, largest_event_time - lateness)


def behind(watermark: int, distance: int) -> int:
    """The watermark that lies so far behind another one; none and the end stay what they are.

    >>> behind(100, 30), behind(MIN_WATERMARK, 30) == MIN_WATERMARK, behind(MAX_WATERMARK, 30) == MAX_WATERMARK
    (70, True, True)
    """
    return watermark if watermark in (MIN_WATERMARK, MAX_WATERMARK) else watermark - distance


def combine(watermarks: Iterable[int]) -> int:
    """The watermark of an operator with several inputs: the smallest of theirs (infinity without inputs).

    >>> combine([5, 3])
    3
    """
    return min(watermarks, default=MAX_WATERMARK)
