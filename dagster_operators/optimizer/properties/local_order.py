"""The order of rows within each part of a data set, and which order an operator requires.

These are the local properties of Flink's optimizer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dagster_operators.optimizer.properties.fields import Field, Fields, FieldSet, Forwarding, in_order, is_unordered_prefix
from dagster_operators.optimizer.properties.ordering import Direction, Ordering


@dataclass(frozen=True)
class LocalOrder:
    """How rows lie within each part.

    Attributes:
        ordering: The order they are in; None if none is known.
        grouped: The fields of which equal values lie together.
        unique: Sets of fields in which no two rows of a part are equal.

    >>> LocalOrder.by(Ordering.of([0, 1])).grouped
    (0, 1)
    """

    ordering: Ordering | None = None
    grouped: Fields | None = None
    unique: tuple[FieldSet, ...] = ()

    @classmethod
    def by(cls, ordering: Ordering) -> LocalOrder:
        """That of sorted rows.

        >>> str(LocalOrder.by(Ordering.of([0], Direction.ASCENDING)).ordering)
        '[0:ASC]'
        """
        return cls(ordering, ordering.fields)

    def with_unique(self, sets: tuple[FieldSet, ...]) -> LocalOrder:
        """The same, of which more is known to be unique."""
        return replace(self, unique=tuple(dict.fromkeys((*self.unique, *sets)))) if sets else self

    def without_unique(self) -> LocalOrder:
        """The same behind an operator that may give rows of equal keys."""
        return replace(self, unique=()) if self.unique else self

    def up_to(self, count: int) -> LocalOrder:
        """The same behind an operator that keeps the order in the first fields alone, such as in those of a key.

        Args:
            count: How many fields that are.

        >>> str(LocalOrder.by(Ordering.of([0, 1])).up_to(1).ordering)
        '[0:ANY]'
        """
        ordering = None if self.ordering is None else Ordering(self.ordering.parts[:count])
        grouped = self.grouped if ordering is None else ordering.fields
        return LocalOrder(ordering, grouped, self.unique)

    def forwarded(self, forwarding: Forwarding) -> LocalOrder:
        """What is left of it behind an operator: the order up to the first field that is not handed on, and no other grouping.

        >>> str(LocalOrder.by(Ordering.of([0, 1])).forwarded(Forwarding(((0, 2),))).ordering)
        '[2:ANY]'
        """
        unique = []
        for fields in self.unique:
            targets = [forwarding.target(field) for field in in_order(fields)]
            if None not in targets:
                unique.append(frozenset(target for target in targets if target is not None))
        ordering, grouped = None, None
        if self.ordering is not None:
            prefix: list[tuple[Field, Direction]] = []
            for field, direction in self.ordering.parts:
                target = forwarding.target(field)
                if target is None:
                    break
                prefix.append((target, direction))
            ordering = Ordering(tuple(prefix)) if prefix else None
            grouped = ordering.fields if ordering else None
        elif self.grouped is not None:
            targets = [forwarding.target(field) for field in self.grouped]
            grouped = None if None in targets else tuple(target for target in targets if target is not None)
        return LocalOrder(ordering, grouped, tuple(unique))

    @staticmethod
    def combined(first: LocalOrder, second: LocalOrder) -> LocalOrder:
        """That of an operator with two inputs, which keeps more of one of them than of the other.

        >>> LocalOrder.combined(LocalOrder(), LocalOrder.by(Ordering.of([0]))).grouped
        (0,)
        """
        first_known, second_known = ([bool(one.ordering), bool(one.grouped), bool(one.unique)] for one in (first, second))
        return second if second_known > first_known else first


UNORDERED = LocalOrder()
"""Of which nothing is known."""


@dataclass(frozen=True)
class RequiredOrder:
    """An order that an operator requires within each part of an input.

    Attributes:
        ordering: The order; None if none is needed.
        grouped: The fields of which equal values must lie together.

    >>> RequiredOrder(grouped=frozenset({0, 1})).is_met_by(LocalOrder.by(Ordering.of([1, 0, 2])))
    True
    """

    ordering: Ordering | None = None
    grouped: FieldSet | None = None

    @property
    def is_trivial(self) -> bool:
        """Whether rows in any order meet it."""
        return self.ordering is None and self.grouped is None

    def is_met_by(self, order: LocalOrder) -> bool:
        """Whether rows that lie so need not be sorted.

        >>> RequiredOrder(Ordering.of([0])).is_met_by(LocalOrder())
        False
        """
        if self.ordering is not None:
            return self.ordering.is_met_by(order.ordering)
        if self.grouped is None:
            return True
        return (order.grouped is not None and is_unordered_prefix(order.grouped, self.grouped)) or self.grouped in order.unique

    def before(self, forwarding: Forwarding) -> RequiredOrder | None:
        """What an operator's input must be like for its output to meet this; None if nothing of the input can make it so.

        >>> RequiredOrder(grouped=frozenset({1})).before(Forwarding(((0, 1),))).grouped
        frozenset({0})
        """
        if self.is_trivial:
            return None
        fields = self.ordering.fields if self.ordering is not None else in_order(self.grouped or frozenset())
        sources = [forwarding.source(field) for field in fields]
        if None in sources:
            return None
        moved = tuple(source for source in sources if source is not None)
        if self.ordering is None:
            return RequiredOrder(grouped=frozenset(moved))
        return RequiredOrder(Ordering(tuple(zip(moved, (way for _, way in self.ordering.parts), strict=True))))

    @property
    def sorted_by(self) -> Ordering | None:
        """The order that a sort makes to meet it; None where none is needed.

        >>> str(RequiredOrder(grouped=frozenset({1, 0})).sorted_by)
        '[0:ASC,1:ASC]'
        """
        if self.ordering is not None:
            return self.ordering.sorted_by
        return None if self.grouped is None else Ordering.of(in_order(self.grouped), Direction.ASCENDING)


NO_ORDER = RequiredOrder()
"""Rows in any order."""
