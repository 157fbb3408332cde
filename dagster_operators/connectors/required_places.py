"""The places of a schema that are declared NOT NULL: columns, and fields of structs at any depth.

A struct, array or map that is null itself has no fields, and so none that lacks a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dagster_operators.types.data_type import Array, DataType, Field, Map, Struct
from dagster_operators.types.names import quoted


@dataclass(frozen=True)
class RequiredPlace:
    """A place of a row that has to have a value.

    Attributes:
        column: The column that it is in.
        path: The place as Spark names it, such as ``s.a``, ``items.element.a`` or ``prices.value.a``.
        is_null: SQL for whether the value is missing somewhere in the column; never null.
    """

    column: str
    path: str
    is_null: str

    @property
    def is_nested(self) -> bool:
        """Whether it is within a column, and not the column."""
        return self.path != self.column


def required_places(fields: Iterable[Field]) -> tuple[RequiredPlace, ...]:
    """The places that columns declare NOT NULL.

    >>> from dagster_operators.types.ddl import parse_ddl
    >>> for place in required_places(parse_ddl("k string NOT NULL, v array<struct<a: int NOT NULL>>")):
    ...     print(place.path, place.is_null, sep=": ")
    k: `k` IS NULL
    v.element.a: coalesce(exists(`v`, x0 -> (x0 IS NOT NULL AND x0.`a` IS NULL)), false)
    """
    places = []
    for field in fields:
        column = quoted(field.name)
        if not field.nullable:
            places.append(RequiredPlace(field.name, field.name, f"{column} IS NULL"))
        places += [RequiredPlace(field.name, f"{field.name}.{path}", sql) for path, sql in _within(column, field.type, 0)]
    return tuple(places)


def _within(value: str, kind: DataType, depth: int) -> Iterator[tuple[str, str]]:
    """The required places within a value: their paths from there, and SQL for whether one is null."""
    match kind:
        case Struct():
            for field in kind.fields:
                part = f"{value}.{quoted(field.name)}"
                # Sail gives values for fields of null structs, so that the struct is always asked, too.
                if not field.nullable:
                    yield field.name, f"({value} IS NOT NULL AND {part} IS NULL)"
                for path, sql in _within(part, field.type, depth):
                    yield f"{field.name}.{path}", f"({value} IS NOT NULL AND {sql})"
        case Array():
            yield from _within_any(value, "element", kind.element, depth)
        case Map():
            yield from _within_any(f"map_keys({value})", "key", kind.key, depth)
            yield from _within_any(f"map_values({value})", "value", kind.value, depth)
        case _:
            return


def _within_any(values: str, name: str, kind: DataType, depth: int) -> Iterator[tuple[str, str]]:
    each = f"x{depth}"
    for path, sql in _within(each, kind, depth + 1):
        yield f"{name}.{path}", f"coalesce(exists({values}, {each} -> {sql}), false)"
