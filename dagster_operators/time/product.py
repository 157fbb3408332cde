"""The time of a nested scope: the time outside, and how far the work inside has come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dagster_operators.errors import TimestampError
from dagster_operators.time.summary import Direction, Path, Summary, direction, followed_by, results_in
from dagster_operators.time.timestamp import less_equal


@dataclass(frozen=True, slots=True, repr=False)
class Product:
    """A pair of times, one before another if both parts are. It nests: either part may be a product.

    A product of summaries is a summary of products. (It is timely dataflow's ``Product``, ``timely/src/order.rs``.)

    Attributes:
        outer: The time outside the scope, as an epoch or an event time.
        inner: The time within it, as the round of a loop.

    >>> Product(1, 2).less_equal(Product(1, 3)), Product(1, 2).less_equal(Product(2, 1))
    (True, False)
    """

    outer: Any
    inner: Any

    def less_equal(self, other: Product, /) -> bool:
        """Whether both parts are less than or equal to the other's.

        >>> Product(1, Product(0, 7)).less_equal(Product(1, Product(3, 7)))
        True
        """
        return less_equal(self.outer, other.outer) and less_equal(self.inner, other.inner)

    def results_in(self, time: Any, /) -> Product | None:
        """The time that comes of another one, if the parts are summaries; None where a part leaves the range of times.

        Raises:
            TimestampError: The time is no product.

        >>> Product(0, 1).results_in(Product(5, 2))
        Product(5, 3)
        """
        if not isinstance(time, Product):
            raise TimestampError(f"the summary {self!r} does not fit the time {time!r}", remedy="give both the same form")
        outer, inner = results_in(self.outer, time.outer), results_in(self.inner, time.inner)
        return None if outer is None or inner is None else Product(outer, inner)

    def followed_by(self, after: Any, /) -> Summary | None:
        """The summary of the way through this one and then the other; None if no time comes through.

        >>> Product(0, 1).followed_by(Product(2, 3))
        Product(2, 4)
        """
        if not isinstance(after, Product):
            return Path(self, after)
        outer, inner = followed_by(self.outer, after.outer), followed_by(self.inner, after.inner)
        return None if outer is None or inner is None else Product(outer, inner)

    @property
    def direction(self) -> Direction:
        """Where it moves times as a summary.

        >>> Product(0, 1).direction.name, Product(1, -1).direction.name
        ('FORWARD', 'BACK')
        """
        return direction((self.outer, self.inner))

    def __lt__(self, other: Product, /) -> bool:
        if not isinstance(other, Product):
            return NotImplemented
        return bool((self.outer, self.inner) < (other.outer, other.inner))

    def __repr__(self) -> str:
        return f"Product({self.outer!r}, {self.inner!r})"
