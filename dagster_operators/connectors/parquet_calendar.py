"""Dates and times of the hybrid calendar in Parquet files: Julian before 1582-10-15, as older writers have them.

The footer says so. Apache Spark reads such files right by itself; other readers take the numbers for days of the Gregorian one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import BadInputError

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

_VERSION: Final = b"org.apache.spark.version"
_DATES: Final = b"org.apache.spark.legacyDateTime"
_INT96: Final = b"org.apache.spark.legacyINT96"
_ZONE: Final = b"org.apache.spark.timeZone"
_UTC: Final = frozenset({"", "UTC", "Etc/UTC", "Z", "GMT", "Etc/GMT", "UCT", "Zulu", "+00:00"})

_SWITCH: Final = -141_427
"""1582-10-15, in days since 1970."""

_ZONES_DIFFER: Final = -25_566
"""1900-01-02, in days since 1970: before, zones of the two calendars have different offsets."""

_DAY: Final = 86_400_000_000
_FIRST_OF_MARCH: Final = 719_470
"""Days from the first of March of the Julian year 0 to 1970."""


@dataclass(frozen=True)
class Calendar:
    """The calendar of a file.

    Args:
        dates: Whether dates and times are of the hybrid calendar.
        int96: Whether times of 96 bits are.
        zone: The time zone of the writer.
    """

    dates: bool = False
    int96: bool = False
    zone: str = ""

    @classmethod
    def of(cls, metadata: Mapping[bytes, bytes] | None) -> Calendar:
        """The calendar by a footer's key-value metadata.

        >>> Calendar.of({b"org.apache.spark.version": b"3.5.0", b"org.apache.spark.legacyDateTime": b""})
        Calendar(dates=True, int96=False, zone='')
        >>> Calendar.of({b"org.apache.spark.version": b"3.0.1"}), Calendar.of(None)
        (Calendar(dates=False, int96=True, zone=''), Calendar(dates=False, int96=False, zone=''))
        """
        known = metadata or {}
        version = known.get(_VERSION, b"").decode(errors="replace")
        before = _numbers(version)
        return cls(
            _DATES in known or (before is not None and before < (3, 0)),
            _INT96 in known or (before is not None and before < (3, 1)),
            known.get(_ZONE, b"").decode(errors="replace"),
        )

    @property
    def is_hybrid(self) -> bool:
        """Whether anything in the file may be of the hybrid calendar."""
        return self.dates or self.int96

    def rebased(self, column: pa.Array, *, int96: bool) -> pa.Array:
        """A column without nested values as the Gregorian calendar has it; other columns than of dates and times as they are.

        Args:
            column: The column; times are in microseconds.
            int96: Whether its times have 96 bits.

        Raises:
            BadInputError: The time zone of the writer would be needed.
        """
        import numpy as np
        import pyarrow as pa

        is_date = pa.types.is_date32(column.type)
        if not (is_date or pa.types.is_timestamp(column.type)) or not ((int96 and self.int96) or (not int96 and self.dates)):
            return column
        whole = pa.int32() if is_date else pa.int64()
        numbers = np.asarray(column.cast(whole).fill_null(0)).astype(np.int64)
        days = numbers if is_date else numbers // _DAY
        if not (days < (_SWITCH if is_date else _ZONES_DIFFER)).any():
            return column
        if not is_date and self.zone not in _UTC:
            raise BadInputError(
                f"a time before 1900 is of the hybrid calendar in the zone {self.zone}, which Sail does not read",
                remedy="read the files with Apache Spark, or write them with spark.sql.parquet.datetimeRebaseModeInWrite and "
                "int96RebaseModeInWrite CORRECTED",
            )
        shifted = numbers + shift(days) * (1 if is_date else _DAY)
        return pa.array(shifted, whole, mask=np.asarray(column.is_null())).cast(column.type)


def shift(days: NDArray[Any]) -> NDArray[Any]:
    """The days between what the hybrid calendar calls a day and what the Gregorian one calls so.

    >>> import numpy as np
    >>> shift(np.array([-719_164, -141_428, -141_427, 0])).tolist()
    [2, -10, 0, 0]
    """
    import numpy as np

    year = (4 * (days + _FIRST_OF_MARCH) + 3) // 1461
    return np.where(days < _SWITCH, 2 - year // 100 + year // 400, 0)


def may_differ(day: int) -> bool:
    """Whether a day, counted from 1970, may be another one in the hybrid calendar, or its times in some zone.

    >>> may_differ(0), may_differ(-141_428)
    (False, True)
    """
    return day < _ZONES_DIFFER


def _numbers(version: str) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else None
