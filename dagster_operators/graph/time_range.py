"""A range of event time."""

from __future__ import annotations

from dataclasses import dataclass

from dagster_operators.time.watermark import format_timestamp


@dataclass(frozen=True)
class TimeRange:
    """Event times from one moment up to another one, which is no part of it; microseconds.

    >>> str(TimeRange(0, 60_000_000))
    '1970-01-01T00:00:00Z to 1970-01-01T00:01:00Z'
    """

    start: int
    end: int

    def __str__(self) -> str:
        return f"{format_timestamp(self.start)} to {format_timestamp(self.end)}"
