"""A way in which Sail is not Spark, and the types that one may depend on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dagster_operators.errors import SchemaError
from dagster_operators.planner.differences.asked import Asked
from dagster_operators.types.data_type import Array, DataType, Map, Plain, Struct
from dagster_operators.types.ddl import parse_type


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


def types_beside(asked: Asked) -> Iterator[tuple[DataType, ...]]:
    """The types that stand in one place of what a call makes or compares: of its arguments, but for a condition and nulls.

    Of arrays, maps and structs these are the types within them, so that an element is beside those of a list.

    >>> types = {"c": Plain("boolean"), "xs": Array(Plain("int")), "y": Plain("date"), "n": Plain("void")}
    >>> [list(map(str, beside)) for beside in types_beside(Asked("if", ("c", "xs", "n", "y"), types.get))]
    [['int', 'date']]
    """
    conditions = asked.name in ("if", "nvl2")
    kinds = [asked.type(place) for place in range(conditions, len(asked.texts))]
    yield from zip(*(tuple(types_within(kind)) for kind in kinds if kind not in (None, Plain("void"))), strict=False)


def types_cast(asked: Asked) -> Iterator[tuple[DataType, DataType]]:
    """The types within an array, map or struct that is cast to another one, each with what becomes of it.

    >>> asked = Asked("cast", ("xs",), {"xs": Array(Plain("date"))}.get, "array<string>")
    >>> [(str(one), str(to)) for one, to in types_cast(asked)]
    [('date', 'string')]
    """
    kind = asked.type(0)
    if kind is None or not kind.is_nested:
        return
    try:
        to = parse_type(asked.to)
    except SchemaError:
        return
    if to.is_nested:
        yield from zip(types_within(kind), types_within(to), strict=False)


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
