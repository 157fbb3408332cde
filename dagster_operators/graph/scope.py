"""Loops: scopes of a dataflow in which rows go round.

The operators of a loop run in rounds until nothing goes round any more, all within one epoch. The time of a row inside is the
time outside together with the number of the round (a product, as in the nested scopes of timely dataflow), and the edge that goes
back leads to the next round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dagster_operators.errors import PipelineError

OUTSIDE: Final = ""
"""The scope of operators that are in no loop."""


@dataclass(frozen=True)
class Scope:
    """A loop.

    Attributes:
        name: Unique in the pipeline.
        limit: After how many rounds an epoch fails, since the loop seems not to end; or after how many the loop ends.
        within_subtask: Whether rows go round in the subtask that has them, and no round is written.
        parent: The loop that it is in: in each round of that it runs until it comes to rest.
        ends: Whether it ends at its limit, with the rows that have left it; what would go round then is dropped.
    """

    name: str
    limit: int
    within_subtask: bool = False
    parent: str = OUTSIDE
    ends: bool = False


def loops_around(scopes: Mapping[str, Scope], loop: str) -> tuple[str, ...]:
    """A loop behind those that it is in, the outermost first; nothing for what is in none.

    >>> loops_around({"outer": Scope("outer", 9), "inner": Scope("inner", 9, parent="outer")}, "inner")
    ('outer', 'inner')
    """
    found: tuple[str, ...] = ()
    while loop != OUTSIDE:
        found, loop = (loop, *found), scopes[loop].parent
    return found


def check_scope(scope: Scope, scopes: Mapping[str, Scope], pipeline: str) -> None:
    """Refuse a loop that there cannot be beside others.

    Raises:
        PipelineError: The name is taken or not a name, the limit is none, or the loop that it is in is not there, or cannot have
            one within it.
    """
    where = {"pipeline": pipeline, "loop": scope.name}
    if scope.name in scopes:
        raise PipelineError(f"there is a loop named {scope.name!r} already", **where, remedy="give this one another name")
    if scope.limit < 1:
        raise PipelineError(f"the limit of a loop is {scope.limit} rounds", **where, remedy="allow 1 or more")
    if scope.parent == OUTSIDE:
        return
    if scope.parent not in scopes:
        raise PipelineError(
            f"there is no loop named {scope.parent!r} that it could be in", **where, remedy=f"declare {scope.parent!r} before it"
        )
    if scopes[scope.parent].within_subtask:
        raise PipelineError(
            f"the loop {scope.parent!r} runs within a subtask, and so can have no loop within it", **where,
            remedy=f"leave within_subtask=True of {scope.parent!r} out",
        )  # fmt: skip
