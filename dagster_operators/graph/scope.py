"""Loops: scopes of a dataflow in which rows go round.

The operators of a loop run in rounds until nothing goes round any more, all within one epoch. The time of a row inside is the
time outside together with the number of the round (a product, as in the nested scopes of timely dataflow), and the edge that goes
back leads to the next round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

OUTSIDE: Final = ""
"""The scope of operators that are in no loop."""


@dataclass(frozen=True)
class Scope:
    """A loop.

    Attributes:
        name: Unique in the pipeline.
        limit: After how many rounds an epoch fails, since the loop seems not to end.
        within_subtask: Whether rows go round in the subtask that has them, and no round is written.
    """

    name: str
    limit: int
    within_subtask: bool = False
