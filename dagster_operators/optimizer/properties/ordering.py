"""Orders of rows by fields."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from dagster_operators.optimizer.properties.fields import Field, Fields


class Direction(Enum):
    """The direction of an order in one field; a requirement may be content with either."""

    ASCENDING = "ASC"
    DESCENDING = "DESC"
    ANY = "ANY"


@dataclass(frozen=True)
class Ordering:
    """An order of rows by some fields, the first one first.

    Attributes:
        parts: Each field with its direction.

    >>> str(Ordering.of([1, 0], Direction.ASCENDING))
    '[1:ASC,0:ASC]'
    """

    parts: tuple[tuple[Field, Direction], ...]

    @classmethod
    def of(cls, fields: Iterable[Field], direction: Direction = Direction.ANY) -> Ordering:
        """An order in which all fields have one direction.

        >>> Ordering.of(["k"]).parts
        (('k', <Direction.ANY: 'ANY'>),)
        """
        return cls(tuple((field, direction) for field in fields))

    def then(self, other: Ordering) -> Ordering:
        """This order, and the other one among rows that are equal in it; a field counts where it comes first.

        >>> str(Ordering.of([0]).then(Ordering.of([0, 1], Direction.DESCENDING)))
        '[0:ANY,1:DESC]'
        """
        earlier = set(self.fields)
        return Ordering((*self.parts, *(part for part in other.parts if part[0] not in earlier)))

    @property
    def fields(self) -> Fields:
        """The fields in their order.

        >>> Ordering.of([1, 0]).fields
        (1, 0)
        """
        return tuple(field for field, _ in self.parts)

    @property
    def sorted_by(self) -> Ordering:
        """The order that a sort makes: ascending where either direction will do.

        >>> str(Ordering.of([0]).sorted_by)
        '[0:ASC]'
        """
        return Ordering(
            tuple((field, Direction.ASCENDING if way is Direction.ANY else way) for field, way in self.parts)
        )  # fmt: skip

    def is_met_by(self, other: Ordering | None) -> bool:
        """Whether rows in another order are in this one, too.

        >>> Ordering.of([0]).is_met_by(Ordering.of([0, 1], Direction.DESCENDING))
        True
        """
        if other is None or len(self.parts) > len(other.parts):
            return False
        return all(
            field == its_field and direction in (Direction.ANY, its_direction)
            for (field, direction), (its_field, its_direction) in zip(self.parts, other.parts, strict=False)
        )

    def begins(self, other: Ordering) -> bool:
        """Whether rows with equal values in these fields lie together where parts are in this order, as the other one asks.

        >>> Ordering.of([0], Direction.ASCENDING).begins(Ordering.of([0, 1]))
        True
        """
        if len(self.parts) > len(other.parts):
            return False
        return all(
            field == its_field and required in (Direction.ANY, direction)
            for (field, direction), (its_field, required) in zip(self.parts, other.parts, strict=False)
        )

    def __str__(self) -> str:
        return f"[{','.join(f'{field}:{direction.value}' for field, direction in self.parts)}]"
