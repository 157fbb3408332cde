"""Frames by distance, ``RANGE BETWEEN 5 PRECEDING AND CURRENT ROW``: the rows whose order is at most so far from the row's own.

Times are counted in microseconds and dates in days, whole numbers and decimals with room for what is added, so that every engine
has the same rows in a frame.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from dagster_operators.errors import SchemaError
from dagster_operators.operators.relational.ranking import OrderItem
from dagster_operators.time.watermark import format_duration, parse_duration

_DAY: Final = 86_400_000_000
_WHOLE: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_FLOATING: Final = frozenset({"float", "double"})
_TIMES: Final = frozenset({"timestamp", "timestamp_ntz"})
_ROOM: Final = (37, 19)
"""Digits, and of them behind the point, of a decimal from which a distance can be taken away within 38."""

_FRAME: Final = re.compile(r"range (?:between (?P<first>.+) and (?P<last>.+)|(?P<alone>.+))", re.IGNORECASE)
_BOUND: Final = re.compile(r"(?P<distance>.+) (?P<way>preceding|following)", re.IGNORECASE)
_NUMBER: Final = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?")
_FAR: Final = Decimal("Infinity")
_FARTHEST: Final = 2**63 - 2**59
"""So far from any time of the years 1 to 9999, in microseconds, is a whole number of 64 bits."""


@dataclass(frozen=True)
class Bound:
    """One end of a frame, seen from the row: before it negative.

    Attributes:
        distance: A number, or microseconds; infinite as far as there are rows; 0 for the row and those equal to it.
        timed: Whether it is a time.
    """

    distance: Decimal
    timed: bool | None = None

    @classmethod
    def of(cls, text: str) -> Bound | None:
        """A bound as it is written; None if it is none.

        >>> Bound.of("5 preceding"), Bound.of("INTERVAL '2' HOURS FOLLOWING")
        (Bound(distance=Decimal('-5'), timed=False), Bound(distance=Decimal('7200000000'), timed=True))
        >>> Bound.of("current row"), Bound.of("2 months preceding")
        (Bound(distance=Decimal('0'), timed=None), None)
        """
        if text.lower() == "current row":
            return cls(Decimal(0))
        if not (bound := _BOUND.fullmatch(text)):
            return None
        far, sign = bound["distance"], -1 if bound["way"].lower() == "preceding" else 1
        if far.lower() == "unbounded":
            return cls(sign * _FAR)
        if _NUMBER.fullmatch(far):
            return cls(sign * Decimal(far), timed=False)
        try:
            return cls(sign * Decimal(parse_duration(re.sub("(?i)^interval ", "", far).replace("'", ""))), timed=True)
        except (ValueError, OverflowError):
            return None

    def sql(self, unit: int, suffix: str) -> str:
        """The bound where the order counts in so many microseconds, with what a literal of the order's type ends in."""
        if not self.distance:
            return "CURRENT ROW"
        far = abs(self.distance)
        way = "PRECEDING" if self.distance < 0 else "FOLLOWING"
        return f"{'UNBOUNDED' if far == _FAR else f'{far / unit if self.timed else far:f}{suffix}'} {way}"


@dataclass(frozen=True)
class RangeFrame:
    """The rows from one distance in the order to another.

    Attributes:
        text: As written.
        first: Where it begins.
        last: Where it ends.
    """

    text: str
    first: Bound
    last: Bound

    @classmethod
    def of(cls, text: str) -> RangeFrame | None:
        """A frame as it is written; None if it is none by distance.

        >>> frame = RangeFrame.of("range between 1 hour preceding and unbounded following")
        >>> frame.first.distance, frame.last.distance
        (Decimal('-3600000000'), Decimal('Infinity'))
        >>> RangeFrame.of("range"), RangeFrame.of("range between 1 following and 1 preceding"), RangeFrame.of("range 1 following")
        (None, None, None)
        """
        if not (frame := _FRAME.fullmatch(text)):
            return None
        first, last = (
            Bound.of(end) for end in ((frame["first"], frame["last"]) if frame["first"] else (frame["alone"], "current row"))
        )
        if first is None or last is None or first.distance > last.distance or {first.timed, last.timed} == {False, True}:
            return None
        return None if first.distance == _FAR or last.distance == -_FAR else cls(text, first, last)

    @property
    def is_by_distance(self) -> bool:
        """Whether an end is a distance, which has to be one in the order; others go by what is equal in it.

        >>> RangeFrame.of("range 5 preceding").is_by_distance, RangeFrame.of("range current row").is_by_distance
        (True, False)
        """
        return self.first.timed is not None or self.last.timed is not None

    def over(self, items: Sequence[OrderItem], kinds: Sequence[str]) -> tuple[Sequence[str], str]:
        """What is ordered by, as something from which distances can be taken away if there are any, and the frame over it.

        Args:
            items: What is ordered by; one thing if there are distances.
            kinds: The types of these.

        Raises:
            SchemaError: Nothing is so far from values of this type.
        """
        if not self.is_by_distance:
            return tuple(map(str, items)), f"RANGE BETWEEN {self.first.sql(0, '')} AND {self.last.sql(0, '')}"
        item, kind = items[0], kinds[0]
        order, unit, digits = self._counted(item.expression, kind)
        for bound in (self.first, self.last):
            self._check(bound, item.expression, kind, unit, digits)
        suffix = "D" if digits is None else "BD" if digits else ""
        between = f"RANGE BETWEEN {self.first.sql(unit, suffix)} AND {self.last.sql(unit, suffix)}"
        return (str(OrderItem(order, item.descending, item.nulls_first)),), between

    def _counted(self, value: str, kind: str) -> tuple[str, int, int | None]:
        """The order as a number, how many microseconds one is, its digits behind the point; None for a floating-point number."""
        if kind in _TIMES:
            return f"unix_micros(CAST({value} AS TIMESTAMP))", 1, 0
        if kind == "date":
            return f"CAST(unix_date({value}) AS BIGINT)", _DAY, 0
        if kind in _WHOLE:
            return f"CAST({value} AS DECIMAL(20,0))", 0, 0
        if kind in _FLOATING:
            return f"CAST({value} AS DOUBLE)", 0, None
        if found := re.fullmatch(r"decimal\(([0-9]+),([0-9]+)\)", kind):
            size, digits = map(int, found.groups())
            if size <= _ROOM[0] and digits <= _ROOM[1]:
                return f"CAST({value} AS DECIMAL(38,{digits}))", 0, digits
        raise SchemaError(
            f"a frame by distance goes by a number or a time, and {value} is {kind}", expression=self.text,
            remedy="order by CAST(... AS DECIMAL(28,4)), say, or write frame='rows 10 preceding' for a number of rows",
        )  # fmt: skip

    def _check(self, bound: Bound, value: str, kind: str, unit: int, digits: int | None) -> None:
        far = abs(bound.distance)
        if bound.timed is None:
            return
        if bound.timed != bool(unit):
            told, instead = ("a time", "5 preceding") if bound.timed else (f"{far:f}", "5 minutes preceding")
            example = instead if kind != "date" else "5 days preceding"
            raise SchemaError(
                f"{told} is no distance between values of {value}, which is {kind}", expression=self.text,
                remedy=f"write frame='range {example}', say",
            )  # fmt: skip
        if bound.timed and far > _FARTHEST:
            raise SchemaError(
                f"no times are {format_duration(int(far))} apart", expression=self.text,
                remedy="write unbounded instead: frame='range between unbounded preceding and current row', say",
            )  # fmt: skip
        if bound.timed and far % unit:
            raise SchemaError(
                f"{format_duration(int(far))} are no whole days, and {value} is {kind}", expression=self.text,
                remedy="write whole days, or order by the time",
            )  # fmt: skip
        if not bound.timed and digits is not None and far != round(far, digits):
            raise SchemaError(
                f"{far:f} has more digits behind the point than {value}, which is {kind}", expression=self.text,
                remedy=f"write no more than {digits}, or order by a decimal that has more",
            )  # fmt: skip
