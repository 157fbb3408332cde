"""How far a stream has come: the least times that its rows may still have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dagster_operators.errors import TimestampError
from dagster_operators.time.antichain import MinimalTimes
from dagster_operators.time.scopes import depth, left
from dagster_operators.time.watermark import MAX_WATERMARK


class Frontier(MinimalTimes):
    """A frozen antichain: a row may still come at a time that is one of these or after one, and at no other.

    The empty one says that the stream is finished. A watermark is the frontier with one whole number.

    >>> frontier = Frontier([(1, 5), (2, 3)])
    >>> frontier.less_equal((2, 4)), frontier.finished, Frontier() == FINISHED
    (True, False, True)
    """

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self._times))

    @property
    def finished(self) -> bool:
        """Whether nothing will come any more.

        >>> Frontier([3]).finished, Frontier().finished
        (False, True)
        """
        return not self._times

    def outside(self, of: MinimalTimes | None = None) -> Frontier:
        """The frontier as it is seen from outside of scopes.

        Args:
            of: Times of the scopes that are not left; by default, or if there are none, all scopes are left.

        >>> from dagster_operators.time import Product
        >>> Frontier([Product(5, 3), Product(6, 0)]).outside(), Frontier([7]).outside()
        (Frontier([5]), Frontier([7]))
        >>> Frontier([Product(5, 3)]).outside(of=Frontier([Product(1, 0)]))
        Frontier([Product(5, 3)])
        """
        to = min(map(depth, of or ()), default=0)
        return Frontier(left(time, to) for time in self._times)

    @classmethod
    def from_watermark(cls, watermark: int) -> Frontier:
        """The frontier of a stream with this watermark; the one at the end of time is that of a finished stream.

        >>> Frontier.from_watermark(7), Frontier.from_watermark(MAX_WATERMARK)
        (Frontier([7]), Frontier([]))
        """
        return FINISHED if watermark == MAX_WATERMARK else cls([watermark])

    def to_watermark(self) -> int:
        """The watermark that says the same.

        Raises:
            TimestampError: The times are no whole numbers, so no watermark says the same.

        >>> Frontier([7]).to_watermark(), Frontier().to_watermark() == MAX_WATERMARK
        (7, True)
        """
        time = self._times[0] if self._times else MAX_WATERMARK
        if type(time) is not int:
            raise TimestampError(
                f"{self!r} is no watermark", remedy="take outside() first, or ask with less_equal whether a time may still come"
            )
        return time


FINISHED: Final = Frontier()
"""Nothing will come any more."""


def meet(frontiers: Iterable[MinimalTimes]) -> Frontier:
    """What may still come from any of several: the least of all their times (none without any).

    >>> meet([Frontier([5]), Frontier([3]), FINISHED])
    Frontier([3])
    """
    return Frontier(time for frontier in frontiers for time in frontier)
