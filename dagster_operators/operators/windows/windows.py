"""Windows over event time, and the arithmetic of panes.

A pane is the greatest common divisor of size and slide: the largest piece of time that no window cuts. Rows are first aggregated
per pane; a window is the merge of its panes, so a sliding window stores each row's contribution once (panes: Li et al., "No pane,
no gain", SIGMOD Record 2005). All times are microseconds since 1970; windows are aligned to 1970-01-01T00:00Z plus the offset.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from math import gcd
from typing import Any, ClassVar

from dagster_operators.arguments import checked
from dagster_operators.errors import PipelineError
from dagster_operators.graph.values import Fields, check_fields
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK, format_duration, parse_duration, require_unit


@dataclass(frozen=True)
class Window:
    """A rule that says which windows a row belongs to; made by :class:`Tumbling` and :class:`Sliding`.

    Attributes:
        size: Length of a window, microseconds.
        slide: Distance between the starts of neighbouring windows, microseconds.
        offset: Shift of all windows against 1970-01-01T00:00Z, microseconds.

    >>> window = Sliding("10 minutes", "4 minutes")
    >>> format_duration(window.pane)
    '2 minutes'
    """

    kind: ClassVar[str] = "window"
    size: int
    slide: int
    offset: int = 0

    @property
    def pane(self) -> int:
        """The largest piece of time that no window cuts."""
        return gcd(self.size, self.slide)

    def last_start(self, pane_start: int) -> int:
        """The start of the last window that begins at or before a pane (which may end before the pane if slides leave gaps)."""
        return pane_start - (pane_start - self.offset) % self.slide

    def covers(self, pane_start: int) -> bool:
        """Whether any window holds the pane; none does in the gaps of a slide longer than the size."""
        return pane_start + self.pane <= self.last_start(pane_start) + self.size

    def expired(self, pane_start: int, watermark: int) -> bool:
        """Whether every window that holds the pane has ended.

        >>> Tumbling("10s").expired(0, parse_duration("10s")), Tumbling("10s").expired(0, parse_duration("9s"))
        (True, False)
        """
        return self.last_start(pane_start) + self.size <= watermark

    def first_end(self, pane_start: int) -> int:
        """The end of the first window that holds the pane.

        >>> Sliding("10s", "2s").first_end(0) == parse_duration("2s")
        True
        """
        last = self.last_start(pane_start)
        return last - (last + self.size - pane_start - self.pane) // self.slide * self.slide + self.size

    def _first_start_after(self, moment: int) -> int:
        return moment - (moment - self.offset) % self.slide + self.slide

    def output_watermark(self, watermark: int) -> int:
        """The watermark of the window starts to come: the start of the first window that is still open.

        >>> Tumbling("10s").output_watermark(parse_duration("25s")) == parse_duration("20s")
        True
        """
        if watermark in (MIN_WATERMARK, MAX_WATERMARK):
            return watermark
        return self._first_start_after(watermark - self.size)

    def config(self) -> dict[str, Any]:
        """The settings as JSON values."""
        return {"size": self.size, "slide": self.slide, "offset": self.offset}

    encode = config

    @classmethod
    def decode(cls, fields: Fields) -> Window:
        """The window that was encoded."""
        check_fields("a window", fields, {"size": True, "slide": True, "offset": False})
        return cls(**fields)

    def __str__(self) -> str:
        size, slide = format_duration(self.size), format_duration(self.slide)
        return f"tumbling {size}" if self.size == self.slide else f"sliding {size} by {slide}"


def positive(what: str, duration: str | timedelta | int) -> int:
    """A duration of a window as microseconds.

    Raises:
        PipelineError: It is no positive duration of fixed length; names what it is of the window.
    """
    micros = _micros(what, duration)
    if micros <= 0:
        raise PipelineError(f"the {what} of a window must be more than nothing, not {duration!r}", remedy="write '1 hour', say")
    return micros


def _offset(duration: str | timedelta | int) -> int:
    """The shift of windows as microseconds, which may be to an earlier time.

    >>> _offset("-8 hours") == -_offset("8 hours"), _offset("- 90 minutes") == _offset(timedelta(minutes=-90))
    (True, True)
    """
    text = duration.strip() if isinstance(duration, str) else ""
    if text.startswith("-"):
        before = text.removeprefix("-").strip()
        if len(re.findall("[A-Za-z]+", before)) > 1:  # Spark would negate the first part alone
            problem = f"the offset of a window: of {duration!r} only the first part has a sign"
            raise PipelineError(problem, remedy="write it in one unit, or give a timedelta")
        return -_micros("offset", before)
    if isinstance(duration, int) and duration < 0:
        return -_micros("offset", -duration)
    return _micros("offset", duration)


def _micros(what: str, duration: str | timedelta | int) -> int:
    try:
        require_unit(duration)
        return parse_duration(duration)
    except ValueError as error:
        raise PipelineError(f"the {what} of a window: {error}", remedy="write '1 hour', say") from None


@checked
def Tumbling(size: str | timedelta | int, *, offset: str | timedelta | int = 0) -> Window:  # noqa: N802
    """Windows of a fixed size, one after the other without gaps.

    Args:
        size: For example ``"1 hour"``.
        offset: Shift against 1970-01-01T00:00Z, for example ``"5 hours"`` for days that begin at 05:00 UTC, or ``"-8 hours"`` for
            those of a place eight hours ahead of UTC.

    Raises:
        PipelineError: The size is no positive duration of fixed length.

    >>> days, others = Tumbling("1 day", offset="-8 hours"), Tumbling("1 day", offset="16 hours")
    >>> str(days), days.last_start(0) == others.last_start(0)
    ('tumbling 1 day', True)
    """
    micros = positive("size", size)
    return Window(micros, micros, _offset(offset))


@checked
def Sliding(size: str | timedelta | int, slide: str | timedelta | int, *, offset: str | timedelta | int = 0) -> Window:  # noqa: N802
    """Windows of a fixed size, one beginning every ``slide``; a row is in each window that covers it.

    The slide may exceed the size (rows in the gaps belong to no window) and need not divide it.

    Raises:
        PipelineError: Size or slide is no positive duration of fixed length.

    >>> str(Sliding("24 hours", "1 hour"))
    'sliding 1 day by 1 hour'
    """
    return Window(positive("size", size), positive("slide", slide), _offset(offset))
