"""The ways into a scope and out of it: summaries between a time outside and a :class:`Product` inside.

(In timely dataflow these are the operators ``enter`` and ``leave``, and the trait ``Refines``.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dagster_operators.errors import TimestampError
from dagster_operators.time.product import Product
from dagster_operators.time.summary import IDENTITY, Direction, Path


@dataclass(frozen=True)
class Enter:
    """The way into a scope.

    Attributes:
        inner: The time within the scope that rows enter with.

    >>> Enter().results_in(5), Enter(inner=(0, 0)).results_in(5)
    (Product(5, 0), Product(5, (0, 0)))
    """

    direction: ClassVar = Direction.STAY
    inner: Any = 0

    def results_in(self, time: Any, /) -> Product:
        """The time inside the scope."""
        return Product(time, self.inner)

    def followed_by(self, after: Any, /) -> Any:
        """The way on from inside the scope.

        >>> Enter().followed_by(Product(1, 1)).results_in(5), Enter().followed_by(Leave())
        (Product(6, 1), IDENTITY)
        """
        return IDENTITY if after == Leave() else Path(self, after)


@dataclass(frozen=True)
class Leave:
    """The way out of a scope.

    >>> Leave().results_in(Product(5, 3))
    5
    """

    direction: ClassVar = Direction.STAY

    def results_in(self, time: Any, /) -> Any:
        """The time outside the scope.

        Raises:
            TimestampError: The time is of no scope.
        """
        if not isinstance(time, Product):
            raise TimestampError(
                f"the time {time!r} is of no scope that could be left", remedy="leave only a scope that was entered"
            )
        return time.outer

    def followed_by(self, after: Any, /) -> Path:
        """The way on from outside the scope.

        >>> Leave().followed_by(2).results_in(Product(5, 3))
        7
        """
        return Path(self, after)


def depth(time: Any) -> int:
    """How many scopes a time is of.

    >>> depth(7), depth(Product(Product(5, 1), 2))
    (0, 2)
    """
    return 1 + depth(time.outer) if isinstance(time, Product) else 0


def left(time: Any, to: int) -> Any:
    """A time as it is seen after leaving scopes, until it is of so many.

    >>> left(Product(Product(5, 1), 2), 1), left(7, 0)
    (Product(5, 1), 7)
    """
    for _ in range(depth(time) - to):
        time = time.outer
    return time


def nesting(summary: Any) -> int:
    """How many scopes further in its times come out.

    >>> nesting(Enter()), nesting(Leave()), nesting(Path(Enter(), Enter())), nesting(3)
    (1, -1, 2, 0)
    """
    if isinstance(summary, Path):
        return nesting(summary.first) + nesting(summary.after)
    return int(isinstance(summary, Enter)) - int(isinstance(summary, Leave))


def seen_from_outside(summary: Any, levels: int) -> Any:
    """What is left of a summary on leaving a number of scopes.

    >>> seen_from_outside(Product(Product(2, 0), 1), 1), seen_from_outside(Product(Product(2, 0), 1), 2)
    (Product(2, 0), 2)
    """
    for _ in range(levels):
        if not isinstance(summary, Product):
            return summary
        summary = summary.outer
    return summary
