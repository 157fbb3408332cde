"""The places at which inputs are closed among messages: each behind the last row of its source, whichever epochs read the rows.

A source that ends is closed at the last event time of the sources that it is made of, behind its own rows of that time. Operators
may put out rows of a later time, as windows do: then the last one of a key is the place of that key. No row of an earlier place
can come any more where a row of that place would be due, so nothing has to be kept between epochs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK

if TYPE_CHECKING:
    from dagster_operators.operators.events.message_order import Waiting
    from dagster_operators.operators.events.wiring import EventSource

Turn: TypeAlias = tuple[int, int]
"""A time, and the rank of a node among those with rows of that time."""

Closing: TypeAlias = tuple[Turn, int]
"""The turn at which a source is closed, behind its rows of that turn; and the number of the source."""

NONE: Final[Sequence[Closing]] = ()


class Closings:
    """The closings of sources that have ended.

    Args:
        last: The last event time of the sources that each ended source is made of, by its number.
        ranks: The rank of each source's node.
        limits: The last time of each source's rows that are due.
        rows: The rows of the epoch.
    """

    def __init__(
        self, last: Mapping[int, int], ranks: Sequence[int], limits: Sequence[int], rows: Iterable[Waiting] = ()
    ) -> None:
        self._last = last
        self._ranks = ranks
        self._limits = limits
        self._later: dict[Any, dict[int, int]] = {}
        for row in rows if last else ():
            if row.time > last.get(row.port, MAX_WATERMARK):
                of_key = self._later.setdefault(row.key, {})
                of_key[row.port] = max(row.time, of_key.get(row.port, MIN_WATERMARK))
        self._of_most = self._due({})

    def of(self, key: Any) -> Sequence[Closing]:
        """The closings that are due for the operators of a key, in their order."""
        return self._due(self._later[key]) if key in self._later else self._of_most

    def _due(self, later: Mapping[int, int]) -> Sequence[Closing]:
        times = {**self._last, **later}
        return sorted(((time, self._ranks[port]), port) for port, time in times.items() if time <= self._limits[port]) or NONE


def known_early(sources: Sequence[EventSource], marks: Sequence[int], last: Sequence[int]) -> tuple[dict[int, int], int]:
    """The last event times of ended sources before their rows have come, and a time before which none is closed unseen.

    Operators may still put out rows of a later time than their sources had.

    >>> from dagster_operators.operators.events.wiring import EventSource
    >>> a, b = EventSource("a", (), "t"), EventSource("b", (), "t", derived=True)
    >>> known_early([a, b], [MAX_WATERMARK, 7], [5, 7]), known_early([a, b], [7, MAX_WATERMARK], [7, 5])[1]
    (({0: 5}, 9223372036854775807), 5)
    """
    ended = {port: last[port] if last else MIN_WATERMARK for port, mark in enumerate(marks) if mark == MAX_WATERMARK}
    unsure = [time for port, time in ended.items() if sources[port].derived or time == MIN_WATERMARK]
    until = min(unsure, default=MAX_WATERMARK) if len(sources) > 1 else MAX_WATERMARK
    return {port: time for port, time in ended.items() if time not in unsure and not sources[port].derived}, until
