"""A way in which Sail is not Spark, and the types that one may depend on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dagster_operators.planner.differences.asked import Asked
from dagster_operators.types.data_type import Array, DataType, Map, Struct


@dataclass(frozen=True)
class Difference:
    """A way in which Sail is not Spark.

    Attributes:
        names: The functions; ``cast`` and operators are called so.
        applies: Whether a call is one of those.
        what: What is called, for people.
        why: What is different.
        instead: What both engines answer alike.
    """

    names: frozenset[str]
    applies: Callable[[Asked], bool]
    what: str
    why: str
    instead: str


def known(names: str, applies: Callable[[Asked], bool], what: str, why: str, instead: str) -> Difference:
    """A difference of the functions of some names, with blanks between them."""
    return Difference(frozenset(names.split()), applies, what, why, instead)


def types_within(kind: DataType | None) -> Iterator[DataType]:
    """The types that a type is made of in the end.

    >>> from dagster_operators.types.data_type import Plain
    >>> [str(one) for one in types_within(Map(Plain("date"), Array(Plain("int"))))]
    ['date', 'int']
    """
    match kind:
        case None:
            return
        case Array():
            yield from types_within(kind.element)
        case Map():
            yield from types_within(kind.key)
            yield from types_within(kind.value)
        case Struct():
            for field in kind.fields:
                yield from types_within(field.type)
        case _:
            yield kind
