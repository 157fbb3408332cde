"""How rows lie over the parts of a data set, and which distribution an operator requires.

The kinds, what meets what, and what survives an operator are those of Flink's optimizer (its global properties).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from dagster_operators.optimizer.properties.fields import Field, Fields, FieldSet, Forwarding, in_order
from dagster_operators.optimizer.properties.ordering import Ordering


class Partitioning(Enum):
    """The kinds of distributions."""

    ANY_DISTRIBUTION = "ANY_DISTRIBUTION"
    """Even copies will do."""
    RANDOM = "RANDOM_PARTITIONED"
    """Each row is in one part."""
    HASH = "HASH_PARTITIONED"
    """Rows with equal keys are in one part, by a hash that all data sets share."""
    RANGE = "RANGE_PARTITIONED"
    """The parts follow one another in an order."""
    ON_KEY = "ANY_PARTITIONING"
    """Rows with equal keys are in one part, in whatever way."""
    REPLICATED = "FULL_REPLICATION"
    """Each part has all rows."""
    REBALANCED = "FORCED_REBALANCED"
    """The rows were spread evenly."""
    CUSTOM = "CUSTOM_PARTITIONING"
    """A function of the user's says in which part a row is."""

    @property
    def is_on_key(self) -> bool:
        """Whether rows with equal keys are in one part."""
        return self in (Partitioning.HASH, Partitioning.RANGE, Partitioning.ON_KEY, Partitioning.CUSTOM)

    @property
    def is_partitioned(self) -> bool:
        """Whether each row is in one part, as the operators before left it."""
        return self.is_on_key or self is Partitioning.RANDOM


@dataclass(frozen=True)
class Distribution:
    """How the rows of a data set lie over its parts.

    Attributes:
        partitioning: The kind.
        fields: The key; None where there is none.
        ordering: The order of the parts of a range partitioning.
        partitioner: The user's function, of a custom one.
        boundaries: The user's boundaries of the ranges, where they were not sampled.
        unique: Sets of fields in which no two rows are equal.
    """

    partitioning: Partitioning = Partitioning.RANDOM
    fields: Fields | None = None
    ordering: Ordering | None = None
    partitioner: object | None = None
    boundaries: object | None = None
    unique: tuple[FieldSet, ...] = ()

    @classmethod
    def hashed(cls, fields: Fields) -> Distribution:
        """By a hash of some fields.

        >>> Distribution.hashed(("k",)).partitioning
        <Partitioning.HASH: 'HASH_PARTITIONED'>
        """
        return cls(Partitioning.HASH, fields)

    @classmethod
    def ranged(cls, ordering: Ordering, boundaries: object | None = None) -> Distribution:
        """By ranges of an order.

        >>> Distribution.ranged(Ordering.of(["k"])).fields
        ('k',)
        """
        return cls(Partitioning.RANGE, ordering.fields, ordering, boundaries=boundaries)

    @property
    def is_replicated(self) -> bool:
        """Whether each part has all rows."""
        return self.partitioning is Partitioning.REPLICATED

    def with_unique(self, sets: tuple[FieldSet, ...]) -> Distribution:
        """The same, of which more is known to be unique.

        >>> Distribution().with_unique((frozenset("k"),)).unique
        (frozenset({'k'}),)
        """
        return replace(self, unique=tuple(dict.fromkeys((*self.unique, *sets)))) if sets else self

    def without_unique(self) -> Distribution:
        """The same behind an operator that may give rows of equal keys."""
        return replace(self, unique=()) if self.unique else self

    def grouped(self) -> Distribution:
        """The same behind an operator that works on groups: keys that were unique are in one part each.

        >>> behind = Distribution(unique=(frozenset("k"),)).grouped()
        >>> behind.partitioning, behind.fields, behind.unique
        (<Partitioning.ON_KEY: 'ANY_PARTITIONING'>, ('k',), ())
        """
        if self.unique and self.partitioning is Partitioning.RANDOM:
            return Distribution(Partitioning.ON_KEY, in_order(self.unique[0]))
        return self.without_unique()

    def forwarded(self, forwarding: Forwarding) -> Distribution:
        """What is left of it behind an operator: nothing of a partitioning if one of its fields is not handed on.

        >>> Distribution.hashed((0,)).forwarded(Forwarding(((0, 1),))).fields
        (1,)
        >>> Distribution.hashed((0, 1)).forwarded(Forwarding(((0, 0),))).partitioning
        <Partitioning.RANDOM: 'RANDOM_PARTITIONED'>
        """
        unique = tuple(
            frozenset(targets) for fields in self.unique if (targets := _moved(in_order(fields), forwarding.target)) is not None
        )  # fmt: skip
        if self.partitioning is Partitioning.RANGE and self.ordering is not None:
            targets = _moved(self.ordering.fields, forwarding.target)
            if targets is None:
                return Distribution(unique=unique)
            moved = Ordering(tuple(zip(targets, (way for _, way in self.ordering.parts), strict=True)))
            return Distribution.ranged(moved, self.boundaries).with_unique(unique)
        if self.fields is not None:
            targets = _moved(self.fields, forwarding.target)
            if targets is None:
                return Distribution(unique=unique)
            return Distribution(self.partitioning, targets, partitioner=self.partitioner, unique=unique)
        return Distribution(self.partitioning, unique=unique)

    def is_on(self, fields: FieldSet) -> bool:
        """Whether rows that are equal in these fields are in one part.

        >>> Distribution.hashed((0,)).is_on(frozenset({0, 1})), Distribution.hashed((0, 1)).is_on(frozenset({0}))
        (True, False)
        """
        if self.partitioning.is_on_key and self.fields is not None and fields.issuperset(self.fields):
            return True
        return any(fields >= unique for unique in self.unique)

    @staticmethod
    def combined(first: Distribution, second: Distribution) -> Distribution:
        """That of an operator with two inputs, which keeps more of one of them than of the other.

        >>> Distribution.combined(Distribution(), Distribution.hashed((0,))).fields
        (0,)
        """
        if first.is_replicated:
            return Distribution() if second.is_replicated else second
        if second.is_replicated:
            return first
        first_known, second_known = (
            (one.ordering is not None, one.fields is not None, bool(one.unique), one.partitioning.is_partitioned)
            for one in (first, second)
        )
        return second if second_known > first_known else first


def _moved(fields: Fields, move: Callable[[Field], Field | None]) -> Fields | None:
    """The places of some fields on the other side of an operator; None where one is not handed on."""
    places: list[Field] = []
    for field in fields:
        place = move(field)
        if place is None:
            return None
        places.append(place)
    return tuple(places)


@dataclass(frozen=True)
class RequiredDistribution:
    """A distribution that an operator requires of an input.

    Attributes:
        partitioning: The kind.
        fields: The key. In a set: any partitioning on some of them will do. In a sequence: exactly these.
        ordering: The order of the parts.
        partitioner: The user's function.
        boundaries: The user's boundaries of the ranges.

    >>> wanted = RequiredDistribution(Partitioning.ON_KEY, frozenset({0, 1}))
    >>> wanted.is_met_by(Distribution.hashed((1,))), wanted.is_met_by(Distribution())
    (True, False)
    """

    partitioning: Partitioning = Partitioning.RANDOM
    fields: Fields | FieldSet | None = None
    ordering: Ordering | None = None
    partitioner: object | None = None
    boundaries: object | None = None

    @property
    def is_trivial(self) -> bool:
        """Whether every data set that is not replicated meets it."""
        return self.partitioning is Partitioning.RANDOM

    def is_met_by(self, distribution: Distribution) -> bool:
        """Whether rows that lie so need not be moved.

        >>> RequiredDistribution(Partitioning.REPLICATED).is_met_by(Distribution(Partitioning.REPLICATED))
        True
        """
        required, actual = self.partitioning, distribution.partitioning
        if required is Partitioning.ANY_DISTRIBUTION:
            return True
        if required is Partitioning.REPLICATED or distribution.is_replicated:
            return required is actual
        if required is Partitioning.ON_KEY:
            return self._is_on_fields(distribution)
        return required is Partitioning.RANDOM or (required is actual and self._is_alike(distribution))

    def _is_alike(self, distribution: Distribution) -> bool:
        """Whether a distribution of the same kind is as it is required."""
        if self.partitioning is Partitioning.RANGE:
            orderings = (distribution.ordering, self.ordering)
            begins = orderings[0] is not None and orderings[1] is not None and orderings[0].begins(orderings[1])
            return begins and self.boundaries in (None, distribution.boundaries)
        if self.partitioning is Partitioning.CUSTOM and self.partitioner != distribution.partitioner:
            return False
        return self.partitioning is Partitioning.REBALANCED or self._is_on_fields(distribution)

    def _is_on_fields(self, distribution: Distribution) -> bool:
        if isinstance(self.fields, tuple):
            return distribution.partitioning.is_on_key and distribution.fields == self.fields
        return self.fields is not None and distribution.is_on(self.fields)

    def before(self, forwarding: Forwarding) -> RequiredDistribution | None:
        """What an operator's input must be like for its output to meet this; None if nothing of the input can make it so.

        >>> RequiredDistribution(Partitioning.HASH, frozenset({1})).before(Forwarding(((0, 1),))).fields
        frozenset({0})
        """
        if self.partitioning is Partitioning.RANGE and self.ordering is not None:
            sources = _moved(self.ordering.fields, forwarding.source)
            if sources is None:
                return None
            return replace(self, ordering=Ordering(tuple(zip(sources, (way for _, way in self.ordering.parts), strict=True))))
        if self.partitioning in (Partitioning.HASH, Partitioning.ON_KEY) and self.fields is not None:
            sources = _moved(in_order(self.fields), forwarding.source)
            if sources is None:
                return None
            return RequiredDistribution(self.partitioning, sources if isinstance(self.fields, tuple) else frozenset(sources))
        return None


ANYHOW = RequiredDistribution()
"""Each row in one part, in whatever way."""

COPIED = RequiredDistribution(Partitioning.REPLICATED)
"""All rows in each part."""
