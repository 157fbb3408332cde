"""Which records of a topic an epoch reads: from where the last one ended, or from where the first one is to begin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dagster_operators.errors import BadInputError, PipelineError

if TYPE_CHECKING:
    from dagster_operators.connectors.kafka_topic import TopicState
    from dagster_operators.graph.slice import JSON


def check_offsets(position: JSON) -> None:
    """See that a position has an offset for each partition that it names.

    Raises:
        PipelineError: It has something else there.
    """
    offsets: Any = position["offsets"] if isinstance(position, dict) else {}
    for number, offset in offsets.items():
        whole = isinstance(offset, int) and not isinstance(offset, bool) and offset >= 0
        if not str(number).isdecimal() or not whole:
            raise PipelineError(
                f"{number!r}: {offset!r} is no offset of a partition",
                remedy='write {"offsets": {"0": 1200, "1": 1350}}; partitions that are left out stay where they are',
            )


def check_there(position: JSON, found: TopicState) -> None:
    """See that a position that somebody wrote is within the topic.

    Raises:
        PipelineError: It is not; the remedy says what there is.

    >>> from dagster_operators.connectors.kafka_topic import TopicState
    >>> check_there({"offsets": {"0": 12}}, TopicState(None, {0: (0, 10)}))
    Traceback (most recent call last):
    dagster_operators.errors.PipelineError: partition 0 ends at offset 10, before 12. To do: name offsets up to {'0': 10}
    """
    if told := _beyond(_offsets(position, "offsets"), found):
        ends = {str(number): high for number, (_, high) in sorted(found.bounds.items())}
        raise PipelineError(told, remedy=f"name offsets up to {ends}")


def with_others(position: JSON, before: JSON | None) -> JSON:
    """A position that somebody wrote, with what it does not say: where the other partitions are, and which are not idle.

    One that names no partition stays so.

    >>> with_others({"offsets": {"0": 8}}, {"offsets": {"0": 10, "1": 3}, "identity": "x", "spool": [], "heard": {"1": 17}})
    {'heard': {'1': 17}, 'offsets': {'0': 8}, 'others': {'1': 3}, 'others_of': 'x'}
    >>> with_others({"offsets": {}}, {"offsets": {"0": 10}})
    {'offsets': {}}
    """
    named = _offsets(position, "offsets")
    known = {**_offsets(before, "others"), **_offsets(before, "offsets")}
    others: dict[str, JSON] = {str(number): offset for number, offset in known.items() if number not in named}
    if not (isinstance(position, dict) and isinstance(before, dict) and named):
        return position
    heard: dict[str, JSON] = {"heard": before["heard"]} if "heard" in before else {}
    others_of = {"others": others, "others_of": before.get("identity", before.get("others_of"))} if others else {}
    return {**heard, **position, **others_of}


def first_offsets(
    known: Mapping[str, Any], found: TopicState, topic: str, begin: Callable[[], Mapping[int, int | None] | None]
) -> dict[int, int]:
    """The offset that each partition is read from.

    Args:
        known: The position behind the last epoch; empty before the first one.
        found: The topic as it is.
        topic: Its name.
        begin: Where the first epoch begins, None for the end of a partition; or None at all for the first records.

    Raises:
        BadInputError: Records were lost before they were read, or the topic is another one.
    """
    if "offsets" not in known:
        wanted = begin()
        if wanted is None:
            return {number: low for number, (low, _) in found.bounds.items()}
        ends = {number: high for number, (_, high) in found.bounds.items()}
        return {number: high if (at := wanted[number]) is None else min(at, high) for number, high in ends.items()}
    _check_same(known.get("identity", known.get("others_of")), found, topic)
    offsets = _offsets(known, "offsets")
    written = "identity" not in known  # by hand: an epoch puts in what it found, be it none
    others = {number: offset for number, offset in _offsets(known, "others").items() if number in found.bounds}
    stands = {**others, **offsets}
    told = _beyond(stands, found)
    if told and written:
        nearest = {number: min(stands.get(number, low), high) for number, (low, high) in sorted(found.bounds.items())}
        go_on = {"offsets": {str(number): offset for number, offset in nearest.items()}}
        raise BadInputError(
            f"the source was put to where the topic is not: {told}",
            topic=topic,
            remedy=f'name offsets that it has: pipeline.reset(source, {go_on}, tables="keep"), say',
        )
    if told:
        raise _replaced(topic, told)
    first = {number: stands.get(number, low) for number, (low, _) in found.bounds.items()}
    lost = {number: low for number, (low, _) in found.bounds.items() if first[number] < low}
    if lost:
        number, low = next(iter(lost.items()))
        missed = sum(begin - first[each] for each, begin in lost.items())
        behind = {"offsets": {str(each): lost.get(each, offset) for each, offset in sorted(first.items())}}
        raise BadInputError(
            f"records of partition {number} were deleted before they were read: it was read up to offset {first[number]}, and "
            f"begins at {low}",
            topic=topic,
            remedy=f'go on without these {missed} records: pipeline.reset(source, {behind}, tables="keep"); and run the '
            "pipeline more often than the topic's retention.ms",
        )
    return first


def end_offsets(first: Mapping[int, int], found: TopicState, most: int | None) -> dict[int, int]:
    """The offset that each partition is read up to: all there is, or with a limit an even share of it.

    >>> from dagster_operators.connectors.kafka_topic import TopicState
    >>> end_offsets({0: 5, 1: 0, 2: 7}, TopicState(None, {0: (0, 100), 1: (0, 10), 2: (0, 7)}), 50)
    {0: 45, 1: 10, 2: 7}
    """
    waiting = {number: found.bounds[number][1] - offset for number, offset in first.items()}
    if most is None or sum(waiting.values()) <= most:
        return {number: found.bounds[number][1] for number in first}
    taken, left, parts = {}, most, len(waiting)
    for number, count in sorted(waiting.items(), key=lambda item: (item[1], item[0])):  # what the small ones leave others take
        taken[number] = min(count, -(-left // parts))
        left, parts = left - taken[number], parts - 1
    return {number: offset + taken[number] for number, offset in first.items()}


def _offsets(position: JSON | Mapping[str, Any] | None, part: str) -> dict[int, int]:
    """The offsets of partitions in a part of a position, none if it lacks it."""
    found: Any = position.get(part) if isinstance(position, dict) else None
    return {int(number): offset for number, offset in (found or {}).items()}


def _beyond(offsets: Mapping[int, int], found: TopicState) -> str | None:
    """What is told of the first of the offsets that the topic does not reach."""
    for number, offset in sorted(offsets.items()):
        if number not in found.bounds:
            return f"there is no partition {number}"
        if offset > (high := found.bounds[number][1]):
            return f"partition {number} ends at offset {high}, before {offset}"
    return None


def _check_same(before: str | None, found: TopicState, topic: str) -> None:
    if before is not None and found.identity is not None and before != found.identity:
        raise _replaced(topic, f"its identity was {before} and is {found.identity}")


def _replaced(topic: str, told: str) -> BadInputError:
    return BadInputError(
        f"the topic is not the one that was read: {told}; it was deleted and created again, or its brokers are others",
        topic=topic,
        remedy='read the new one from its first record on: pipeline.reset(source, {"offsets": {}}, tables="keep"), or with '
        'tables="restart", which empties what the old one gave',
    )
