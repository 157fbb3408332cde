"""Parts of a dataflow that were moved: state is kept by the ids of operators, and rows that wait by their stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, TypeAlias

from dagster_operators.operators.events.wiring import UNKEPT

if TYPE_CHECKING:
    from dagster_operators.operators.events.event_operators import EventOperators
    from dagster_operators.operators.events.wiring import EventSource

_Run: TypeAlias = tuple[str, str]
"""A file and its text."""


def swapped(before: EventOperators, after: EventOperators) -> tuple[str, str] | None:
    """The first operator that took over the file of another one, which no longer runs it itself, and this other one.

    Args:
        before: The dataflow in the epoch before.
        after: The dataflow now.
    """
    old, new = _runs(before), _runs(after)
    began = {one.path: one.restart for one in before.operators}
    kept = [
        one.path
        for one in after.operators
        if one.state not in UNKEPT and one.path in began and not one.begins_behind(began[one.path])
    ]
    for path in kept:
        for other in old:
            if other != path and _took(new[path], old[path], old[other], new.get(other)):
                return path, other
    return None


def names_of_waiting(
    before: Sequence[EventSource], were: Sequence[str], after: Sequence[EventSource], are: Sequence[str]
) -> list[str]:
    """The names under which the waiting rows of source nodes are kept: rows stay with their stream, whatever its node's id is.

    Args:
        before: The source nodes in the epoch before.
        were: The streams that they read.
        after: The source nodes now.
        are: The streams that these read, as they were called then.

    >>> from dagster_operators.operators.events.wiring import EventSource
    >>> a, b, c = (EventSource(node, (), "t") for node in "abc")
    >>> names_of_waiting([a, b], ["rows", "more"], [c, b], ["rows", "more"])
    ['a', 'b']
    >>> names_of_waiting([a, b], ["rows", "more"], [a, b], ["more", "rows"])
    ['b', 'a']
    >>> names_of_waiting([a], ["rows"], [c, a], ["rows", "more"])
    ['a', 'a_2']
    """
    now = [*zip((one.node for one in after), are, strict=True)]
    then = {one.node: (stream, one.kept_as) for one, stream in zip(before, were, strict=True)}
    found: dict[int, str] = {}
    for number, (node, stream) in enumerate(now):
        if node in then and then[node][0] == stream:
            found[number] = then.pop(node)[1]
    for number, (_, stream) in enumerate(now):
        same = next((node for node in then if then[node][0] == stream), None)
        if number not in found and same is not None:
            found[number] = then.pop(same)[1]
    for number, (node, _) in enumerate(now):
        if number not in found and node in then:  # it reads another stream, and goes on
            found[number] = then.pop(node)[1]
    taken = set(found.values())
    for number, (node, _) in enumerate(now):
        if number not in found:
            found[number] = node if node not in taken else next(name for i in count(2) if (name := f"{node}_{i}") not in taken)
            taken.add(found[number])
    return [found[number] for number in range(len(now))]


def _took(now: _Run, then: _Run, others: _Run, others_now: _Run | None) -> bool:
    """Whether an operator changed to what another one ran and has given up: by its text, or by its file if that was edited."""
    if now[1] == then[1]:
        return False
    return any(now[by] == others[by] != then[by] and (others_now is None or others_now[by] != others[by]) for by in (0, 1))


def _runs(dataflow: EventOperators) -> Mapping[str, _Run]:
    texts = dict(dataflow.files)
    return {one.path: (one.file, texts.get(one.file, "")) for one in dataflow.operators}
