"""Operators of a dataflow that run now what another one of it ran: their state, which is kept by their ids, is not of that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from dagster_operators.operators.events.event_operators import EventOperators

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
        if one.state != "none" and one.path in began and not one.begins_behind(began[one.path])
    ]
    for path in kept:
        for other in old:
            if other != path and _took(new[path], old[path], old[other], new.get(other)):
                return path, other
    return None


def _took(now: _Run, then: _Run, others: _Run, others_now: _Run | None) -> bool:
    """Whether an operator changed to what another one ran and has given up: by its text, or by its file if that was edited."""
    if now[1] == then[1]:
        return False
    return any(now[by] == others[by] != then[by] and (others_now is None or others_now[by] != others[by]) for by in (0, 1))


def _runs(dataflow: EventOperators) -> Mapping[str, _Run]:
    texts = dict(dataflow.files)
    return {one.path: (one.file, texts.get(one.file, "")) for one in dataflow.operators}
