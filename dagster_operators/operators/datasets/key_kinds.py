"""Kinds of the keys of two inputs: keys of kinds that are never equal make no pairs, which nobody would notice.

Declared types are compared as a program is written. The types of rows without a schema, and of computed keys, are known only once
rows are there: each task remembers the kinds that it met, and they are compared when all tasks of the operator have ended.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import product
from numbers import Number
from typing import Any, Final

from dagster_operators.errors import PipelineError
from dagster_operators.operators.datasets.key_values import PLAIN_KEYS
from dagster_operators.operators.datasets.rows import Key, Row

_MOST: Final = 32
"""So many kinds of an input's keys are remembered; keys of more kinds are compared with nothing."""


@dataclass(frozen=True)
class KeyKind:
    """The kind of a key's value.

    Attributes:
        name: The type, as errors name it.
        family: Values of different families are never equal; empty where a value may be equal to any other.
        parts: The kinds of a tuple's values.
    """

    name: str
    family: str = ""
    parts: tuple[KeyKind, ...] = ()

    def may_equal(self, other: KeyKind) -> bool:
        """Whether there are values of both kinds that are equal.

        >>> kind_of(1).may_equal(kind_of(1.0)), kind_of(1).may_equal(kind_of("1")), kind_of((1, "a")).may_equal(kind_of((1, 2)))
        (True, False, False)
        """
        if not self.family or not other.family:
            return True
        if self.family != other.family:
            return False
        if len(self.parts) != len(other.parts):
            return True  # the values decide how many there are, as in a path: such keys are unequal for a reason
        return all(map(KeyKind.may_equal, self.parts, other.parts))


def kind_of(value: Any) -> KeyKind:
    """The kind of a key's value.

    >>> kind_of(7), kind_of((7, "a")).name
    (KeyKind(name='int', family='number', parts=()), '(int, str)')
    """
    kind = type(value)
    if value is None:
        return KeyKind("None")
    if isinstance(value, bool | int | float | Decimal):
        return KeyKind(kind.__name__, "number")
    if isinstance(value, dt.datetime):
        zone = "without a zone" if value.tzinfo is None else "with a zone"
        return KeyKind(f"datetime {zone}", f"datetime {zone}")
    if isinstance(value, tuple):
        parts = tuple(map(kind_of, value))
        return KeyKind(f"({', '.join(part.name for part in parts)})", "tuple", parts)
    family = next((base.__name__ for base in (str, bytes, dt.date) if isinstance(value, base)), None)
    if family is None and isinstance(value, Number):  # of numpy, say, or a fraction
        family = "number"
    return KeyKind(kind.__name__, family or f"{kind.__module__}.{kind.__qualname__}")


@dataclass
class KeyKinds:
    """The kinds of the keys that came to the two inputs of an operator.

    Attributes:
        sides: The kinds of the whole keys of each input.
    """

    sides: tuple[set[KeyKind], set[KeyKind]] = field(default_factory=lambda: (set(), set()))

    def remembering(self, side: int, key: Callable[[Row], Key]) -> Callable[[Row], Key]:
        """The function that gives a row's key, which remembers the key's kind.

        >>> kinds = KeyKinds()
        >>> key = kinds.remembering(0, lambda row: row[:1])
        >>> key((1, "a")), [kind.name for kind in kinds.sides[0]]
        ((1,), ['(int)'])
        """
        kinds = self.sides[side]
        known: set[Any] = set()

        def remembered(row: Row) -> Key:
            values = key(row)
            types: Any = type(values[0]) if len(values) == 1 else tuple(map(type, values))  # it is called for each row
            if types not in known and len(kinds) <= _MOST:
                kinds.add(kind_of(values))
                if PLAIN_KEYS.issuperset(map(type, values)):  # the kind of others is more than their type
                    known.add(types)
            return values

        return remembered

    def add(self, other: KeyKinds) -> None:
        """Add the kinds that another task met."""
        for kinds, more in zip(self.sides, other.sides, strict=True):
            kinds.update(more)

    def require_equality(self, operator: str) -> None:
        """Refuse inputs none of whose keys may be equal to one of the other input.

        Args:
            operator: The operator's name.

        Raises:
            PipelineError: A field of the keys has types that are never equal.

        >>> kinds = KeyKinds(({kind_of((1,))}, {kind_of(("1",))}))
        >>> kinds.require_equality("Join")
        Traceback (most recent call last):
        dagster_operators.errors.PipelineError: keys of different types are compared: int and str, which are never equal \
[operator 'Join']. To do: give both keys the same type, as where(lambda row: int(row.id))
        """
        first, second = self.sides
        if not first or not second or max(len(first), len(second)) > _MOST:
            return
        if any(one.may_equal(other) for one, other in product(first, second)):
            return
        fields = min(len(kind.parts) for kind in first | second)
        for number in range(fields):
            ones, others = ({kind.parts[number] for kind in kinds} for kinds in self.sides)
            if not any(one.may_equal(other) for one, other in product(ones, others)):
                place = f" in field {number + 1} of the key" if fields > 1 else ""
                raise PipelineError(
                    f"keys of different types are compared{place}: {_named(ones)} and {_named(others)}, which are never equal",
                    operator=operator, remedy="give both keys the same type, as where(lambda row: int(row.id))",
                )  # fmt: skip


def _named(kinds: set[KeyKind]) -> str:
    return " or ".join(sorted({kind.name for kind in kinds}))
