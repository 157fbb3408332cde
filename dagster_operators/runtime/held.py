"""What holds the time of streams back at the end of an epoch, for people: from the ledger alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from dagster_operators.time.frontier import Frontier
from dagster_operators.time.watermark import format_timestamp

NOBODY: Final[Mapping[str, Mapping[str, Frontier]]] = {}
"""Where it is not told what holds a time."""


def told(
    held: Mapping[str, Frontier], operators: Collection[str] | None = None, holders: Mapping[str, Mapping[str, Frontier]] = NOBODY
) -> dict[str, str]:
    """The times that operators hold, by the output, and what holds them there; none for an output that holds nothing.

    Args:
        held: What a record says, by the text of streams.
        operators: Those that are asked for; all if None.
        holders: What of an operator holds which times, by what the user calls it; only what holds the least ones is told.

    >>> told({"counts": Frontier([5_000_000]), "counts.late": Frontier(), "other": Frontier([7])}, ["counts"])
    {'counts': '1970-01-01T00:00:05Z'}
    >>> told({"counts": Frontier([5_000_000])}, None, {"counts": {"stash": Frontier([6_000_000]), "kept": Frontier([5_000_000])}})
    {'counts': '1970-01-01T00:00:05Z by kept'}
    """
    found = {}
    for stream, frontier in sorted(held.items()):
        if len(frontier) and (operators is None or stream.partition(".")[0] in operators):
            places = holders.get(stream, {})
            least = [place for place, times in places.items() if set(times) & set(frontier)] or list(places)
            by = f" by {', '.join(sorted(least))}" if least else ""
            found[stream] = ", ".join(_shown(time) for time in sorted(frontier)) + by
    return found


def _shown(time: Any) -> str:
    """A time: that of an event as people write it, any other as it is.

    >>> _shown((1, 2))
    '(1, 2)'
    """
    return format_timestamp(time) if type(time) is int else repr(time)
