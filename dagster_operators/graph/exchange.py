"""How rows get to the operator that reads them: the exchange at each of its input ports.

An exchange says which rows must meet, not how an engine brings them together: between relational operators that is left to the
engine, between programs in workers the driver's shuffle does it. (The names are those of Flink's and Spark's planners.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias


@dataclass(frozen=True)
class Forward:
    """Rows stay where they are."""

    def __str__(self) -> str:
        return "forward"


FORWARD: Final = Forward()


@dataclass(frozen=True)
class HashBy:
    """Rows with equal keys meet.

    Attributes:
        keys: The key columns.
        window: Whether only rows of one window have to meet.

    >>> str(HashBy(("origin",), window=True))
    'shuffle by origin, window'
    """

    keys: tuple[str, ...]
    window: bool = False

    def __str__(self) -> str:
        return f"shuffle by {', '.join((*self.keys, *(('window',) if self.window else ())))}"


@dataclass(frozen=True)
class Broadcast:
    """Every part sees all rows."""

    def __str__(self) -> str:
        return "broadcast"


@dataclass(frozen=True)
class Gather:
    """All rows meet in one place."""

    def __str__(self) -> str:
        return "shuffle by nothing (one group)"


Exchange: TypeAlias = Forward | HashBy | Broadcast | Gather


def by_keys(keys: tuple[str, ...], *, window: bool = False) -> Exchange:
    """The exchange that brings rows of one key, and perhaps window, together; without keys all rows meet.

    >>> by_keys(()), by_keys(("k",))
    (Gather(), HashBy(keys=('k',), window=False))
    """
    return HashBy(keys, window) if keys or window else Gather()
