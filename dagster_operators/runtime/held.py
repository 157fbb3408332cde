"""What holds the time of streams back at the end of an epoch, for people: from the ledger alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from dagster_operators.time.frontier import Frontier
from dagster_operators.time.watermark import format_timestamp


def told(held: Mapping[str, Frontier], operators: Collection[str] | None = None) -> dict[str, str]:
    """The times that operators hold, by the output; none for an output that holds nothing.

    Args:
        held: What a record says, by the text of streams.
        operators: Those that are asked for; all if None.

    >>> told({"counts": Frontier([5_000_000]), "counts.late": Frontier(), "other": Frontier([7])}, ["counts"])
    {'counts': '1970-01-01T00:00:05Z'}
    """
    found = {}
    for stream, frontier in sorted(held.items()):
        if len(frontier) and (operators is None or stream.partition(".")[0] in operators):
            found[stream] = ", ".join(_shown(time) for time in sorted(frontier))
    return found


def _shown(time: Any) -> str:
    """A time: that of an event as people write it, any other as it is.

    >>> _shown((1, 2))
    '(1, 2)'
    """
    return format_timestamp(time) if type(time) is int else repr(time)
