"""Types of the rows of data sets: the rules by which they follow from one another, and refusals of types that do not fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from dagster_operators.errors import PipelineError
from dagster_operators.operators.datasets.rows import WHOLE
from dagster_operators.optimizer.properties.fields import Field, Fields
from dagster_operators.types.data_type import Array, DataType, Decimal, Map, Plain, Struct
from dagster_operators.types.data_type import Field as Column

Types: TypeAlias = "tuple[DataType | None, ...] | None"
"""The type of each field, None for one that is not known; None as a whole where not even their number is known."""

_ANY_DECIMAL: Final = Decimal(38, 0)
_REMEDY: Final = "map the rows of one of both to the types of the other: map(function, schema='k string, v long')"


@dataclass(frozen=True)
class RowType:
    """The fields of a data set's rows.

    Attributes:
        names: Their names; None where they have none.
        types: Their types.
        operator: The operator that gives the rows, for errors.
    """

    names: tuple[str, ...] | None = None
    types: Types = None
    operator: str | None = None

    def type_of(self, field: Field) -> DataType | None:
        """The type of a field; None where it is not known.

        >>> pair = RowType(("k", "p"), (Plain("string"), Struct((Column("x", Plain("int")),))))
        >>> str(pair.type_of(0)), str(pair.type_of("p.x")), str(pair.type_of("f1.f0")), pair.type_of("p.y")
        ('string', 'int', 'int', None)
        """
        kind = self.as_struct() if field == WHOLE else None
        if self.types is None or field == WHOLE:
            return kind
        if isinstance(field, int):
            return self.types[field] if field < len(self.types) else None
        names, types = self.names, self.types
        for name in field.split("."):
            place = _place(name, names)
            kind = types[place] if place is not None and place < len(types) else None
            inner = kind.fields if isinstance(kind, Struct) else ()
            names, types = tuple(column.name for column in inner), tuple(column.type for column in inner)
        return kind

    def picked(self, fields: Iterable[Field]) -> tuple[DataType | None, ...]:
        """The types of some fields."""
        return tuple(self.type_of(field) for field in fields)

    def as_struct(self) -> DataType | None:
        """The type of the row as a value; None where a type in it is not known.

        >>> str(RowType(None, (Plain("int"), Plain("string"))).as_struct())
        'struct<f0:int,f1:string>'
        """
        columns = []
        for number, kind in enumerate(self.types or ()):
            if kind is None:
                return None
            columns.append(Column(self.names[number] if self.names else f"f{number}", kind))
        return Struct(tuple(columns)) if columns else None

    def require_keys(self, fields: Fields) -> None:
        """Refuse a key of a type that has no equality.

        Raises:
            PipelineError: A field is an array or a map, or has one within.

        >>> RowType(("m",), (Map(Plain("int"), Plain("int")),)).require_keys((0,))
        Traceback (most recent call last):
        dagster_operators.errors.PipelineError: a map is no key [column 'm']. To do: use a field of another type, or a function \
that gives a tuple of texts, numbers or times
        """
        for field in fields:
            kind = self.type_of(field)
            if kind is not None and not _is_key(kind):
                raise PipelineError(
                    f"{_article(kind)} is no key", operator=self.operator, column=self.shown(field),
                    remedy="use a field of another type, or a function that gives a tuple of texts, numbers or times",
                )  # fmt: skip

    def require_order(self, fields: Fields) -> None:
        """Refuse an order by a field whose values have none.

        Raises:
            PipelineError: A field is a map, or has one within.
        """
        for field in fields:
            kind = self.type_of(field)
            if kind is not None and not kind.has_order:
                raise PipelineError(
                    f"{_article(kind)} has no order", operator=self.operator, column=self.shown(field),
                    remedy="use a field of another type",
                )  # fmt: skip

    def require_number(self, field: Field) -> None:
        """Refuse a sum of what is no number.

        Raises:
            PipelineError: The field is none.
        """
        kind = self.type_of(field)
        if kind is not None and not kind.is_number:
            raise PipelineError(
                f"{_article(kind)} has no sum", operator=self.operator, column=self.shown(field),
                remedy="sum a field of numbers, or write reduce(function)",
            )  # fmt: skip

    def shown(self, field: Field) -> str:
        """A field as its name."""
        return self.names[field] if isinstance(field, int) and self.names and field < len(self.names) else str(field)


def require_equal_keys(first: RowType, first_keys: Fields, second: RowType, second_keys: Fields) -> None:
    """Refuse keys whose values are never equal, or only some of them.

    Raises:
        PipelineError: Fields that are compared have different types, or a type that is no key.

    >>> first, second = RowType(("a",), (Plain("int"),)), RowType(("b",), (Plain("string"),))
    >>> require_equal_keys(first, (0,), second, (0,))
    Traceback (most recent call last):
    dagster_operators.errors.PipelineError: keys of different types are compared: 'a' is int and 'b' string [column 'a']. \
To do: map the rows of one of both to the types of the other: map(function, schema='k string, v long')
    """
    first.require_keys(first_keys)
    second.require_keys(second_keys)
    for one, other in zip(first_keys, second_keys, strict=True):
        types = first.type_of(one), second.type_of(other)
        if types[0] is None or types[1] is None or _compared_as(types[0]) == _compared_as(types[1]):
            continue
        raise PipelineError(
            f"keys of different types are compared: {first.shown(one)!r} is {types[0]} and {second.shown(other)!r} {types[1]}",
            operator=first.operator, column=first.shown(one), remedy=_REMEDY,
        )  # fmt: skip


def united(first: RowType, second: RowType, kind: str, operator: str) -> Types:
    """The types of rows that come from two data sets.

    Args:
        first: The fields of the first one.
        second: Those of the second.
        kind: The operation, for errors.
        operator: The operator's name.

    Raises:
        PipelineError: Their types differ, or their names.

    >>> first, second = RowType(("k", "v"), (Plain("int"), None)), RowType(("k", "v"), (None, Plain("date")))
    >>> [str(kind) for kind in united(first, second, "a union", "u")]
    ['int', 'date']
    """
    types = first.types or (), second.types or ()
    known = first.types is not None and second.types is not None
    pairs = list(zip(*types, strict=False))
    same = not known or (
        len(types[0]) == len(types[1])
        and all(one is None or other is None or _shape(one) == _shape(other) for one, other in pairs)
    )
    if not same:
        raise PipelineError(
            f"{kind} of rows of different types: {_listed(types[0])} and {_listed(types[1])}",
            operator=operator, remedy=_REMEDY,
        )  # fmt: skip
    if first.names is not None and second.names is not None and first.names != second.names:
        raise PipelineError(
            f"{kind} of rows with different names: ({', '.join(first.names)}) and ({', '.join(second.names)})",
            operator=operator, remedy="give both the same names: map(tuple, schema='k string, v long')",
        )  # fmt: skip
    return tuple(one or other for one, other in pairs) if known else None


def _listed(types: Sequence[DataType | None]) -> str:
    return f"({', '.join('unknown' if kind is None else str(kind) for kind in types)})"


def _place(name: str, names: Sequence[str] | None) -> int | None:
    if names is not None and name in names:
        return names.index(name)
    return int(name[1:]) if name[:1] == "f" and name[1:].isdecimal() else None


def _article(kind: DataType) -> str:
    return f"{'an' if kind.shown[0] in 'aeiou' else 'a'} {kind.shown}"


def _is_key(kind: DataType) -> bool:
    if isinstance(kind, Struct):
        return all(_is_key(column.type) for column in kind.fields)
    return not isinstance(kind, Array | Map) and kind.has_order


def _shape(kind: DataType) -> DataType:
    """A type without the names of fields within, and without what may be null."""
    match kind:
        case Struct(fields):
            return Struct(tuple(Column(f"f{number}", _shape(column.type)) for number, column in enumerate(fields)))
        case Array(element):
            return Array(_shape(element))
        case Map(key, value):
            return Map(_shape(key), _shape(value))
        case Plain() if kind.most_characters is not None:
            return Plain("string")
        case _:
            return kind


def _compared_as(kind: DataType) -> DataType:
    """The type by which keys are compared: equal decimals are equal whatever their scale."""
    shape = _shape(kind)
    if isinstance(shape, Struct):
        return Struct(tuple(Column(column.name, _compared_as(column.type)) for column in shape.fields))
    return _ANY_DECIMAL if isinstance(shape, Decimal) else shape
