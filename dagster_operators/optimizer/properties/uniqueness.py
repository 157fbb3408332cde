"""Sets of fields in which no two rows are equal, and which of them an operator asks for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dagster_operators.optimizer.properties.fields import FieldSet, Forwarding


@dataclass(frozen=True)
class Uniqueness:
    """The fields by which rows are unique.

    Attributes:
        sets: Sets of fields; in each of them no two rows are equal. The empty set says that there is one row at most.

    >>> str(Uniqueness.by(["k", "window_start"]))
    'k, window_start'
    """

    sets: tuple[FieldSet, ...] = ()

    @classmethod
    def by(cls, *sets: Iterable[str]) -> Uniqueness:
        """That of rows which are unique by columns; case does not matter.

        >>> Uniqueness.by(["K"], ["k"]).sets == (frozenset({"k"}),)
        True
        """
        return cls(tuple(dict.fromkeys(frozenset(map(str.lower, one)) for one in sets)))

    def forwarded(self, forwarding: Forwarding) -> Uniqueness:
        """What is left of it behind an operator that gives at most one row for each: the sets that are handed on as a whole.

        >>> Uniqueness.by(["k"], ["j"]).forwarded(Forwarding((("k", "l"),))).sets
        (frozenset({'l'}),)
        """
        kept = []
        for fields in self.sets:
            targets = [forwarding.target(field) for field in fields]
            if None not in targets:
                kept.append(frozenset(target for target in targets if target is not None))
        return Uniqueness(tuple(dict.fromkeys(kept)))

    def __str__(self) -> str:
        return " or by ".join(", ".join(sorted(map(str, fields))) or "nothing, as there is one at most" for fields in self.sets)


NOT_UNIQUE = Uniqueness()
"""Of which nothing is known."""


@dataclass(frozen=True)
class RequiredUniqueness:
    """The fields in which rows have to differ.

    Attributes:
        fields: The fields.

    >>> RequiredUniqueness.by(["k", "j"]).is_met_by(Uniqueness.by(["K"])), RequiredUniqueness.by(["k"]).is_met_by(Uniqueness())
    (True, False)
    """

    fields: FieldSet

    @classmethod
    def by(cls, columns: Iterable[str]) -> RequiredUniqueness:
        """That of rows which are to be unique by columns; case does not matter.

        >>> str(RequiredUniqueness.by(["K"]))
        'k'
        """
        return cls(frozenset(map(str.lower, columns)))

    def is_met_by(self, produced: Uniqueness) -> bool:
        """Whether rows that are unique so have no two that are equal in these fields: they are unique by some of them.

        >>> RequiredUniqueness.by(["k"]).is_met_by(Uniqueness.by(["k", "j"]))
        False
        """
        return any(fields <= self.fields for fields in produced.sets)

    def __str__(self) -> str:
        return ", ".join(sorted(map(str, self.fields)))
