"""What a way through the graph does to the times of rows: the summary of an operator, of a path, of the edge of a loop.

Plain values serve as summaries, as they do as times: a whole number is added, a tuple or a product works on each part, and
``IDENTITY`` changes nothing, whatever the times are. A class of one's own may be one, too. Each must be monotone: of two times
the one before the other must not come out after it. (Path summaries are timely dataflow's, ``timely/src/progress/timestamp.rs``;
as there, a sum that leaves the 64 bits of a time is None: no row has that time, so the frontier need not wait for it.)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, Protocol

from dagster_operators.errors import TimestampError
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK

_REACH: Final = MAX_WATERMARK - MIN_WATERMARK
"""By more than this no time can be moved without leaving the range of times."""


class Direction(IntEnum):
    """Where a summary moves times.

    Attributes:
        BACK: Perhaps before what they were, or to where they cannot be compared.
        STAY: Never back.
        FORWARD: Always beyond what they were: what the edge that closes a loop must do, or the loop never ends.

    >>> from dagster_operators.time import direction
    >>> direction(1).name, direction(0).name
    ('FORWARD', 'STAY')
    """

    BACK = -1
    STAY = 0
    FORWARD = 1


class Summary(Protocol):
    """A class of summaries.

    >>> from dagster_operators.time import Product, results_in
    >>> class NextRound:
    ...     direction = Direction.FORWARD
    ...     def results_in(self, time):
    ...         return Product(time.outer, time.inner + 1)
    ...     def followed_by(self, after):
    ...         return self if after is IDENTITY else None
    >>> results_in(NextRound(), Product(7, 0))
    Product(7, 1)
    """

    def results_in(self, time: Any, /) -> Any:
        """The time that rows of another time come out with; None if they do not come out."""

    def followed_by(self, after: Any, /) -> Any:
        """The summary of the way through this one and then the other; None if no time comes through."""

    @property
    def direction(self) -> Direction:
        """Where it moves times."""


class Identity:
    """The summary that changes nothing, for times of every kind.

    >>> IDENTITY.results_in((1, 2)), IDENTITY.followed_by(3), IDENTITY.direction.name
    ((1, 2), 3, 'STAY')
    """

    direction: Final = Direction.STAY

    def results_in(self, time: Any, /) -> Any:
        """The same time."""
        return time

    def followed_by(self, after: Any, /) -> Any:
        """The other summary."""
        return after

    def __repr__(self) -> str:
        return "IDENTITY"

    def __reduce__(self) -> str:
        return "IDENTITY"


IDENTITY: Final = Identity()
"""The one identity; a copy and what comes out of pickle are the same object."""


def results_in(summary: Any, time: Any) -> Any:
    """The time that rows of another time come out with; None if they leave the range of times.

    Raises:
        TimestampError: The summary does not fit the time.

    >>> results_in(3, 4), results_in((0, 1), (5, 2)), results_in(1, 2**63 - 1)
    (7, (5, 3), None)
    """
    if summary is IDENTITY:
        return time
    if type(summary) is int and type(time) is int:
        total = summary + time
        return total if MIN_WATERMARK <= total <= MAX_WATERMARK else None
    if isinstance(summary, tuple) and isinstance(time, tuple) and len(summary) == len(time):
        parts = tuple(map(results_in, summary, time))
        return None if None in parts else parts
    move = getattr(summary, "results_in", None)
    if move is None:
        raise TimestampError(f"the summary {summary!r} does not fit the time {time!r}", remedy="give both the same form")
    return move(time)


def followed_by(first: Any, after: Any) -> Any:
    """The summary of one way followed by another; None if no time comes through both.

    Raises:
        TimestampError: The summaries are not of one kind.

    >>> followed_by(3, 4), followed_by((0, 1), (5, 2)), followed_by(3, IDENTITY), followed_by(2**63, 2**63)
    (7, (5, 3), 3, None)
    """
    if after is IDENTITY:
        return first
    if type(first) is int and type(after) is int:
        total = first + after
        return total if abs(total) <= _REACH else None
    if isinstance(first, tuple) and isinstance(after, tuple) and len(first) == len(after):
        parts = tuple(map(followed_by, first, after))
        return None if None in parts else parts
    if hasattr(first, "followed_by"):
        return first.followed_by(after)
    if hasattr(after, "results_in"):
        return Path(first, after)
    raise TimestampError(f"the summary {after!r} cannot follow {first!r}", remedy="give both the same form")


@dataclass(frozen=True)
class Path:
    """One way followed by another, where no simpler summary says the same: one that leads into a scope, say.

    >>> from dagster_operators.time import Enter
    >>> Path(3, Enter()).results_in(4)
    Product(7, 0)
    """

    first: Any
    after: Any

    @property
    def direction(self) -> Direction:
        """Never ``FORWARD``: what moves on within a scope may be lost on leaving it.

        >>> Path(3, 4).direction.name, Path(3, -4).direction.name
        ('STAY', 'BACK')
        """
        return min(direction(self.first), direction(self.after), Direction.STAY)

    def results_in(self, time: Any, /) -> Any:
        """The time that comes out of both.

        >>> Path(3, 4).results_in(1)
        8
        """
        between = results_in(self.first, time)
        return None if between is None else results_in(self.after, between)

    def followed_by(self, after: Any, /) -> Any:
        """The way through both and then another.

        >>> Path(3, 4).followed_by(5).results_in(1)
        13
        """
        return Path(self, after)


def direction(summary: Any) -> Direction:
    """Where a summary moves times; a class that does not say is taken to move them back.

    >>> direction(1).name, direction(0).name, direction((0, 1)).name, direction((1, -1)).name
    ('FORWARD', 'STAY', 'FORWARD', 'BACK')
    """
    if type(summary) is int:
        return Direction((summary > 0) - (summary < 0))
    if isinstance(summary, tuple):
        parts = [direction(part) for part in summary]
        return Direction.BACK if Direction.BACK in parts else max(parts, default=Direction.STAY)
    found: Direction = getattr(summary, "direction", Direction.BACK)
    return found
