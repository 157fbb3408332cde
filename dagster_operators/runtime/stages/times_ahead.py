"""Event times ahead of the clock: one row of the year 55972 moves the watermark there, and every row after it is late."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.connectors.connector import UNKNOWN
from dagster_operators.connectors.rejects import as_rejects
from dagster_operators.errors import BadInputError
from dagster_operators.operators.relational.source import Source
from dagster_operators.operators.rows_by_time import micros_of
from dagster_operators.time.watermark import format_duration, format_timestamp

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger(__name__)

_DOUBTFUL: Final = 86_400_000_000
"""So far ahead of the clock a row is told of where nothing is said about it: a day, more than any time zone."""


@dataclass(frozen=True)
class TimesAhead:
    """Judges the event times of a source.

    Attributes:
        name: The source's name.
        source: How far ahead its rows may be.
        now: The clock, in microseconds since 1970.

    >>> from dagster_operators import MemorySource
    >>> rows = Source(name="rows", connector=MemorySource([], schema="t timestamp"), event_time="t", ahead=60_000_000)
    >>> TimesAhead("rows", rows, 0).may_be_beyond(60_000_000), TimesAhead("rows", rows, 0).may_be_beyond(60_000_001)
    (False, True)
    """

    name: str
    source: Source
    now: int

    @property
    def bound(self) -> int | None:
        """The latest event time that a row may have; None for any."""
        return None if self.source.ahead is None else self.now + self.source.ahead

    def may_be_beyond(self, largest: Any) -> bool:
        """Whether some row may be, as far as the largest event time is known."""
        return self.bound is not None and (largest is UNKNOWN or (largest is not None and largest > self.bound))

    def split(self, rows: DataFrame) -> tuple[DataFrame, DataFrame]:
        """The rows that are in time, and the others as rejects."""
        micros = micros_of(self.source.event_time or "")
        reason = f"the event time is more than {format_duration(self.source.ahead or 0)} ahead of the clock"
        good = rows.where(f"{micros} IS NULL OR {micros} <= {self.bound}L")
        return good, as_rejects(rows.where(f"{micros} > {self.bound}L"), reason)

    def check(self, largest: int | None, watermark: int) -> None:
        """Refuse a row that is too far ahead, or tell of it in the log where nothing is said about it.

        Args:
            largest: The largest event time of the epoch, if it has rows.
            watermark: The source's when the epoch began; what that is behind already was told of.

        Raises:
            BadInputError: There is one.
        """
        if largest is None:
            return
        at = format_timestamp(largest)
        if self.bound is None:
            if largest > max(watermark, self.now + _DOUBTFUL):
                _log.warning(
                    "the source %r has a row of %s, which is ahead of the clock: rows before that are late from now on; "
                    "event_time_ahead='1 day' refuses such rows", self.name, at,
                )  # fmt: skip
        elif largest > self.bound:
            raise BadInputError(
                f"a row has the event time {at}, more than {format_duration(self.source.ahead or 0)} ahead of the clock: "
                "every row before that would be late",
                source=self.name, column=self.source.event_time,
                remedy="correct the input; or allow more, by event_time_ahead= of the source; or set such rows aside: "
                'a FileSource with corrupt="reject" does',
            )  # fmt: skip
