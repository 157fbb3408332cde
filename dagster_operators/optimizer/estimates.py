"""Estimates of the rows of a data set: how many, how large."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Estimate:
    """How much there is of a data set, as far as that is known.

    Attributes:
        size: In bytes; None if unknown.
        rows: Their number; None if unknown.

    >>> Estimate(800, 100).width, Estimate(800).width
    (8.0, None)
    """

    size: int | None = None
    rows: int | None = None

    @property
    def width(self) -> float | None:
        """The average size of a row in bytes; None if unknown, or if there are no rows."""
        return self.size / self.rows if self.size and self.rows else None

    def times(self, factor: int) -> Estimate:
        """The estimate of as many copies.

        >>> Estimate(8, 1).times(4)
        Estimate(size=32, rows=4)
        """
        return Estimate(None if self.size is None else self.size * factor, None if self.rows is None else self.rows * factor)


UNKNOWN = Estimate()
"""Of which nothing is known."""


@dataclass(frozen=True)
class Hints:
    """What the user says of an operator's output.

    Attributes:
        size: In bytes.
        rows: Their number.
        row_size: The average size of a row in bytes.
        filter_factor: Which part of the rows that are there without it is left.
    """

    size: int | None = None
    rows: int | None = None
    row_size: float | None = None
    filter_factor: float | None = None

    def applied(self, estimate: Estimate, before: Estimate | None = None) -> Estimate:
        """An estimate with what the user says of it; the user is right.

        Args:
            estimate: The operator's own.
            before: That of its only input.

        >>> Hints(row_size=16, filter_factor=0.01).applied(Estimate(rows=5000))
        Estimate(size=800, rows=50)
        """
        hinted = Estimate(estimate.size if self.size is None else self.size, estimate.rows if self.rows is None else self.rows)
        if self.filter_factor is not None:
            if hinted.rows is not None:
                size = None if hinted.size is None else int(hinted.size * self.filter_factor)
                hinted = Estimate(size, int(hinted.rows * self.filter_factor))
            elif before is not None and before.rows is not None:
                hinted = replace(hinted, rows=int(before.rows * self.filter_factor))
        if self.row_size is not None and self.row_size >= 1:
            if hinted.rows is None and hinted.size is not None:
                return replace(hinted, rows=int(hinted.size / self.row_size))
            if hinted.size is None and hinted.rows is not None:
                return replace(hinted, size=int(hinted.rows * self.row_size))
        return hinted


def same_rows(before: Estimate) -> Estimate:
    """That of an operator which gives a row for each.

    >>> same_rows(Estimate(8, 1))
    Estimate(size=None, rows=1)
    """
    return Estimate(rows=before.rows)


def several_rows(before: Estimate) -> Estimate:
    """That of an operator which gives any number of rows for each: five, as Flink guesses."""
    return Estimate(rows=None if before.rows is None else before.rows * 5)


def half(before: Estimate) -> Estimate:
    """That of a filter."""
    return Estimate(*(None if number is None else number // 2 for number in (before.size, before.rows)))


def unchanged(before: Estimate) -> Estimate:
    """That of an operator which hands its rows on."""
    return before


def unknown(*_: Estimate) -> Estimate:
    """That of an operator whose output may be anything."""
    return UNKNOWN


def joined(first: Estimate, second: Estimate) -> Estimate:
    """That of a join: as many rows as the larger input has, each as wide as both.

    >>> joined(Estimate(80, 10), Estimate(20, 5))
    Estimate(size=120, rows=10)
    """
    if first.rows is None or second.rows is None:
        return UNKNOWN
    return _as_wide_as_both(first, second, max(first.rows, second.rows))


def crossed(first: Estimate, second: Estimate) -> Estimate:
    """That of all pairs.

    >>> crossed(Estimate(80, 10), Estimate(20, 5)).rows
    50
    """
    if first.rows is None or second.rows is None:
        return UNKNOWN
    return _as_wide_as_both(first, second, first.rows * second.rows)


def _as_wide_as_both(first: Estimate, second: Estimate, rows: int) -> Estimate:
    widths = (first.width, second.width)
    return Estimate(None if widths[0] is None or widths[1] is None else int((widths[0] + widths[1]) * rows), rows)


def added(first: Estimate, second: Estimate) -> Estimate:
    """That of a union.

    >>> added(Estimate(80, 10), Estimate(20)).rows is None
    True
    """
    sizes, rows = (first.size, second.size), (first.rows, second.rows)
    return Estimate(*(sum(filter(None, pair)) if all(pair) else None for pair in (sizes, rows)))
