"""What holds the time of streams back at the end of an epoch, for people: from the ledger alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.graph.ports import StreamRef
from dagster_operators.time.frontier import Frontier
from dagster_operators.time.product import Product
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK, format_timestamp

if TYPE_CHECKING:
    from dagster_operators.graph.dataflow import Dataflow
    from dagster_operators.transactions.records import Complete

NOBODY: Final[Mapping[str, Mapping[str, Frontier]]] = {}
"""Where it is not told what holds a time."""

EVENT_TIMES: Final[Mapping[str, Any]] = {}
"""The kinds of times of a pipeline whose streams all have event times."""


def told(
    held: Mapping[str, Frontier],
    operators: Collection[str] | None = None,
    holders: Mapping[str, Mapping[str, Frontier]] = NOBODY,
    kinds: Mapping[str, Any] = EVENT_TIMES,
) -> dict[str, str]:
    """The times that operators hold, by the output, and what holds them there; none for an output that holds nothing.

    Args:
        held: What a record says, by the text of streams.
        operators: Those that are asked for; all if None.
        holders: What of an operator holds which times, by what the user calls it; only what holds the least ones is told.
        kinds: Of what kind times are that are no event times, by the text of streams.

    >>> told({"counts": Frontier([5_000_000]), "counts.late": Frontier(), "other": Frontier([7])}, ["counts"])
    {'counts': '1970-01-01T00:00:05Z'}
    >>> told({"counts": Frontier([5_000_000])}, None, {"counts": {"stash": Frontier([6_000_000]), "kept": Frontier([5_000_000])}})
    {'counts': '1970-01-01T00:00:05Z by kept'}
    >>> told({"rounds": Frontier([5_000_000])}, kinds={"rounds": int})
    {'rounds': '5000000'}
    """
    found = {}
    for stream, frontier in sorted(held.items()):
        if len(frontier) and (operators is None or stream.partition(".")[0] in operators):
            places = holders.get(stream, {})
            least = [place for place, times in places.items() if set(times) & set(frontier)] or list(places)
            by = f" by {', '.join(sorted(least))}" if least else ""
            found[stream] = ", ".join(_shown(time, kinds.get(stream, datetime)) for time in sorted(frontier)) + by
    return found


def held_at_end(complete: Complete) -> dict[str, Frontier]:
    """The times that were held at outputs at the end of an epoch; where something holds one, also if the watermark says it."""
    marks, held = complete.watermarks, complete.held
    alone = [stream for stream in complete.holders if stream not in held and stream in marks]
    return {**held, **{stream: Frontier.from_watermark(marks[stream]) for stream in alone}}


def kinds_of(dataflow: Dataflow) -> dict[str, Any]:
    """The kinds of times that are no event times, by the text of the streams that have them."""
    return {
        str(StreamRef(node.name, port)): stream.times.kind
        for node in dataflow
        for port, stream in node.outputs.items()
        if stream.times is not None
    }


def _shown(time: Any, kind: Any) -> str:
    """A time: that of an event as people write it, a number as it is, each part of a tuple or product by its own kind.

    >>> _shown(Product(5_000_000, (1, 2)), Product(datetime, (int, int))), _shown((5, 2), datetime)
    ('Product(1970-01-01T00:00:05Z, (1, 2))', '(5, 2)')
    """
    if type(time) is int:
        is_number = kind is int and MIN_WATERMARK < time < MAX_WATERMARK
        return str(time) if is_number else format_timestamp(time)
    if isinstance(kind, Product) and isinstance(time, Product):
        return f"Product({_shown(time.outer, kind.outer)}, {_shown(time.inner, kind.inner)})"
    if isinstance(kind, tuple) and isinstance(time, tuple):
        return f"({', '.join(map(_shown, time, kind))}{',' * (len(kind) == 1)})"
    return repr(time)
