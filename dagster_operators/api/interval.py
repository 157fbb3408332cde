"""What ``interval_join`` of a keyed stream makes sure of before it puts the operator behind both streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.graph.changes import Changes
from dagster_operators.operators.joins.interval_join import IntervalJoin, parse_bound

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from dagster_operators.api.keyed_stream import KeyedStream
    from dagster_operators.api.stream import Stream

_JOIN_OF_CHANGES = (
    "interval joins are for rows that stay; of changes, write a.join(b, on=..., "
    "condition='sold BETWEEN at AND at + INTERVAL 1 HOUR') before key_by(...)"
)


def interval_joined(
    stream: Stream,
    keys: Sequence[str],
    right: KeyedStream,
    interval: tuple[str | timedelta | int, str | timedelta | int],
    name: str | None,
    **more: Any,
) -> Stream:
    """Pairs of rows that are near each other in time.

    Args:
        stream: The left side.
        keys: Its key columns.
        right: The other side.
        interval: How much later than the left row the right one is, at least and at most.
        name: The operator's name.
        more: Its other settings.

    Raises:
        PipelineError: A bound is no duration, or this is no stream with keys.
        SchemaError: A stream has no event time.
    """
    from dagster_operators.api.keyed_stream import KeyedStream

    where = {"pipeline": stream._dataflow.name, "operator": name or stream.name}  # noqa: SLF001
    if not isinstance(right, KeyedStream):
        raise PipelineError(f"{right!r} is no stream with keys", **where, remedy="write interval_join(other.key_by(...))")
    other = right._stream  # noqa: SLF001
    times = (stream.event_time, other.event_time)
    if None in times:
        side, without = ("left", stream) if times[0] is None else ("right", other)
        stays = without._type.changes == Changes.APPEND  # noqa: SLF001
        raise SchemaError(
            f"an interval join needs an event time on both sides, and the {side} one has none",
            **where,
            remedy=without._timeless_remedy if stays else _JOIN_OF_CHANGES,  # noqa: SLF001
        )
    try:
        low, high = map(parse_bound, interval)
    except ValueError as error:
        raise PipelineError(
            f"a bound of an interval join: {error}", **where, remedy="write it with its unit, as '1 hour'"
        ) from None
    settings = {"keys": keys, "right_keys": right.keys, "event_times": times, "low": low, "high": high, **more}
    return stream._join(IntervalJoin, (stream, other), name, **settings)  # noqa: SLF001
