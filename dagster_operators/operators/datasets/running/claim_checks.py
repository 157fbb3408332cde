"""Forwarded fields that a user declares, seen on rows: a plan trusts them, so that a wrong declaration would give wrong rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dagster_operators.errors import PipelineError
from dagster_operators.operators.datasets.rows import Key, Row, is_in_order, key_of
from dagster_operators.operators.datasets.running.part_numbers import part_of
from dagster_operators.optimizer.candidates import Candidate
from dagster_operators.optimizer.properties.distribution import Partitioning
from dagster_operators.optimizer.properties.fields import Fields
from dagster_operators.optimizer.properties.ordering import Ordering


def misplaced(problem: str, operator: str) -> PipelineError:
    """The error for rows that do not lie as a plan says.

    >>> str(misplaced("a part is not in the order [0:ASC]", "map"))[:64]
    'rows do not lie as the plan says: a part is not in the order [0:'
    """
    return PipelineError(
        f"rows do not lie as the plan says: {problem}", operator=operator,
        remedy="leave fields that the operator changes out of its forwarded fields",
    )  # fmt: skip


@dataclass(frozen=True)
class Claims:
    """What a plan takes for granted of an operator's rows because of declared fields.

    Attributes:
        hashed: The fields by whose hash rows are in their part; None where nothing of the kind is taken for granted.
        ordering: The order of the rows of a part.
        grouped: The fields by which equal rows of a part lie together.
    """

    hashed: Fields | None = None
    ordering: Ordering | None = None
    grouped: Fields | None = None

    @classmethod
    def of(cls, candidate: Candidate) -> Claims | None:
        """Those of an operator of a plan; None if there are none."""
        lies, order = candidate.distribution, candidate.order
        hashed = lies.fields if lies.partitioning is Partitioning.HASH else None
        claims = cls(hashed, order.ordering, order.grouped)
        return None if claims == cls() else claims

    def check(self, part: int, parts: int, operator: str) -> Callable[[Row], None]:
        """A function that looks at the rows of a part, one behind the other.

        Args:
            part: The part.
            parts: The number of parts.
            operator: The operator, for errors.

        Raises:
            PipelineError: Raised by the function: a row does not lie as the plan takes for granted.

        >>> check = Claims(grouped=(0,)).check(0, 1, "map")
        >>> check((1,)), check((2,))
        (None, None)
        >>> check((1,))
        Traceback (most recent call last):
        dagster_operators.errors.PipelineError: rows do not lie as the plan says: rows with equal values in [0] do not lie \
together [operator 'map']. To do: leave fields that the operator changes out of its forwarded fields
        """
        looks = [look for look in (self._place(part, parts), self._order(), self._groups()) if look is not None]

        def check(row: Row) -> None:
            for look in looks:
                if (problem := look(row)) is not None:
                    raise misplaced(problem, operator)

        return check

    def _place(self, part: int, parts: int) -> Callable[[Row], str | None] | None:
        if self.hashed is None:
            return None
        fields, key = list(self.hashed), key_of(self.hashed)

        def look(row: Row) -> str | None:
            values = key(row)
            return None if part_of(values, parts) == part else f"a row with the key {values} in {fields} is in another part"

        return look

    def _order(self) -> Callable[[Row], str | None] | None:
        ordering, before = self.ordering, list[Row]()
        if ordering is None:
            return None

        def look(row: Row) -> str | None:
            before.append(row)
            in_order = is_in_order(before, ordering)
            del before[:-1]
            return None if in_order else f"a part is not in the order {ordering}"

        return look

    def _groups(self) -> Callable[[Row], str | None] | None:
        if self.grouped is None:
            return None
        fields, key, seen, last = list(self.grouped), key_of(self.grouped), set[Key](), list[Key]()

        def look(row: Row) -> str | None:
            values = key(row)
            if last == [values]:
                return None
            last[:] = [values]
            again = values in seen
            seen.add(values)
            return f"rows with equal values in {fields} do not lie together" if again else None

        return look
