"""Values of Python as Arrow arrays of a declared type: exact, or refused with operator, column, row and value."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal as Number
from itertools import accumulate, chain
from typing import Any, Final, NoReturn

import pyarrow as pa

from dagster_operators.errors import SchemaError
from dagster_operators.functions.values import shortened
from dagster_operators.types.arrow_schema import arrow_field, arrow_type
from dagster_operators.types.data_type import Array, DataType, Decimal, Field, Map, Plain, Struct

_TAKEN: Final[dict[str, tuple[type, ...]]] = {
    "boolean": (bool,), "tinyint": (int,), "smallint": (int,), "int": (int,), "bigint": (int,), "float": (float, int),
    "double": (float, int), "decimal": (Number, int), "string": (str,), "binary": (bytes, bytearray), "date": (date,),
    "timestamp": (datetime,), "timestamp_ntz": (datetime,), "array": (list, tuple), "map": (dict, list),
    "struct": (tuple, list, dict),
}  # fmt: skip
"""The types of Python whose values each type takes; the first one is what an error asks for."""

_LARGEST_FLOAT: Final = 3.4028235677973366e38
"""From here on, numbers are infinite as a FLOAT."""
_NULL: Final = type(None)


@dataclass(frozen=True)
class Place:
    """The place of values, for errors.

    Attributes:
        operator: The operator that gives them.
        path: The column, and the fields within it.
    """

    operator: str | None = None
    path: tuple[str, ...] = ()

    def within(self, name: str) -> Place:
        """The place of a field within."""
        return Place(self.operator, (*self.path, name))

    def refuse(self, problem: str, remedy: str, row: int | None = None) -> NoReturn:
        """Raise the error of a value at this place.

        Raises:
            SchemaError: Always.
        """
        column = ".".join(self.path) or None
        raise SchemaError(problem, operator=self.operator, column=column, row=row, remedy=remedy)


def columns_of_rows(rows: Sequence[Any], names: Sequence[str], place: Place) -> list[Sequence[Any]]:
    """The values of each field of some rows, or of some structs, none of which is null.

    Raises:
        SchemaError: A row is none, or has other fields.

    >>> columns_of_rows([(1, "a"), {"v": "b", "k": 2}], ("k", "v"), Place())
    [(1, 2), ('a', 'b')]
    """
    if not rows:
        return [() for _ in names]
    if set(map(type, rows)) != {tuple} or set(map(len, rows)) != {len(names)}:
        rows = [parts_of_row(row, names, place, number) for number, row in enumerate(rows)]
    return list(zip(*rows, strict=True))


def parts_of_row(row: Any, names: Sequence[str], place: Place, number: int | None = None) -> Sequence[Any]:
    """The values of a row's fields: of a tuple, a list, a dataclass or a dictionary by name, or the one value of one field.

    Args:
        row: The row.
        names: The names of the fields.
        place: Where it is, for errors.
        number: The number of the row, for errors.

    Raises:
        SchemaError: It is no row, or has other fields.

    >>> parts_of_row({"v": "b", "k": 2}, ("k", "v"), Place()), parts_of_row("a", ("k",), Place())
    ([2, 'b'], ('a',))
    """
    is_record = dataclasses.is_dataclass(row) and not isinstance(row, type)
    if len(names) == 1 and not place.path and not isinstance(row, tuple) and not is_record:
        return (row,)
    if is_record:
        row = {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
    if isinstance(row, Mapping) and set(row) == set(names):
        return [row[name] for name in names]
    listed = ", ".join(names)
    if isinstance(row, Mapping):
        return place.refuse(f"{shortened(row)} has other fields than are declared: {listed}", "give each field a value", number)
    if not isinstance(row, tuple | list):
        problem = f"{shortened(row)} is {_named(row)} where the fields {listed} are declared"
        return place.refuse(problem, "give a tuple with a value for each field", number)
    if len(row) != len(names):
        problem = f"{shortened(row)} has {len(row)} values where {len(names)} are declared: {listed}"
        return place.refuse(problem, "give as many values, or declare other columns", number)
    return row


def column_of(values: Sequence[Any], kind: DataType, place: Place, *, nullable: bool = True) -> pa.Array:
    """Some values as an array of a declared type.

    Args:
        values: The values; None is null.
        kind: Their type.
        place: Where they are, for errors.
        nullable: Whether they may be null.

    Raises:
        SchemaError: A value is not of the type, or is null where it may not.

    >>> column_of([1, None], Plain("bigint"), Place()).to_pylist()
    [1, None]
    """
    types = set(map(type, values))
    if not nullable and _NULL in types:
        row = next(number for number, value in enumerate(values) if value is None)
        place.refuse("a value is null that is declared NOT NULL", "give a value, or leave NOT NULL out", row)
    taken = _TAKEN.get(_word(kind), (str,))
    if not types <= {*taken, _NULL}:
        values = [value if value is None else _settled(value, taken, kind, place, row) for row, value in enumerate(values)]
    match kind:
        case Struct(fields):
            return _structs(values, fields, place)
        case Array():
            return _arrays(values, kind, place)
        case Map():
            return _maps(values, kind, place)
    if (check := _check_of(kind)) is not None:
        problems = ((row, None if value is None else check(value)) for row, value in enumerate(values))
        row, problem = next(((row, problem) for row, problem in problems if problem), (0, None))
        if problem:
            place.refuse(f"{shortened(values[row])} {problem}", "give another value, or declare another type", row)
    return _array(values, arrow_type(kind), kind, place)


def _array(values: Sequence[Any], arrow: pa.DataType, kind: DataType, place: Place) -> pa.Array:
    try:
        return pa.array(values, arrow)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        for row, value in enumerate(values):
            try:
                pa.array([value], arrow)
            except (pa.ArrowException, OverflowError, ValueError, TypeError):
                place.refuse(f"{shortened(value)} does not fit {_with_article(kind)}", "declare a type that holds it", row)
        raise


def _structs(values: Sequence[Any], fields: Sequence[Field], place: Place) -> pa.Array:
    present = [value for value in values if value is not None]
    columns = columns_of_rows(present, [field.name for field in fields], place)
    arrays = []
    for field, column in zip(fields, columns, strict=True):
        if len(present) < len(values):
            within, absent = iter(column), None if field.nullable else _blank(field.type)
            column = [absent if value is None else next(within) for value in values]  # noqa: PLW2901 - the same, spread out
        arrays.append(column_of(column, field.type, place.within(field.name), nullable=field.nullable))
    return pa.StructArray.from_arrays(arrays, fields=list(map(arrow_field, fields)), mask=_nulls(values))


def _arrays(values: Sequence[Any], kind: Array, place: Place) -> pa.Array:
    elements = list(chain.from_iterable(value for value in values if value is not None))
    array = column_of(elements, kind.element, place.within("element"), nullable=kind.nullable)
    return pa.ListArray.from_arrays(_offsets(values), array, type=arrow_type(kind), mask=_nulls(values))


def _maps(values: Sequence[Any], kind: Map, place: Place) -> pa.Array:
    entries = [value if value is None else _entries(value, place, row) for row, value in enumerate(values)]
    pairs = list(chain.from_iterable(entry for entry in entries if entry is not None))
    keys = column_of([key for key, _ in pairs], kind.key, place.within("key"), nullable=False)
    items = column_of([item for _, item in pairs], kind.value, place.within("value"), nullable=kind.nullable)
    return pa.MapArray.from_arrays(_offsets(entries), keys, items, type=arrow_type(kind), mask=_nulls(values))


def _entries(value: Any, place: Place, row: int) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    if any(not isinstance(pair, tuple) or len(pair) != len(("key", "value")) for pair in value):
        place.refuse(f"{shortened(value)} is no list of pairs", "give a dict, or pairs of key and value", row)
    keys = [key for key, _ in value]
    if any(key in keys[:number] for number, key in enumerate(keys)):
        place.refuse(f"{shortened(value)} has a key twice", "give each key once", row)
    return list(value)


def _offsets(values: Iterable[Any]) -> pa.Array:
    return pa.array(accumulate((0 if value is None else len(value) for value in values), initial=0), pa.int32())


def _nulls(values: Sequence[Any]) -> pa.Array | None:
    return pa.array([value is None for value in values]) if _NULL in set(map(type, values)) else None


def _settled(value: Any, taken: tuple[type, ...], kind: DataType, place: Place, row: int) -> Any:  # noqa: PLR0911
    """A value of numpy's or of a subclass as the plain value that it is."""
    plain = value.tolist() if type(value).__module__ == "numpy" else value
    if isinstance(plain, datetime) and datetime in taken:
        if not getattr(value, "nanosecond", 0):
            return plain.to_pydatetime() if hasattr(plain, "to_pydatetime") else plain
    elif type(plain) in taken:
        return plain
    elif isinstance(plain, taken) and not isinstance(plain, bool | datetime):
        return _PLAIN_OF.get(next(one for one in taken if isinstance(plain, one)), lambda same: same)(plain)
    elif isinstance(kind, Struct) and (dataclasses.is_dataclass(plain) or isinstance(plain, Mapping)):
        return plain
    elif isinstance(kind, Map) and isinstance(plain, Mapping):
        return dict(plain)
    elif isinstance(plain, memoryview) and bytes in taken:
        return bytes(plain)
    return place.refuse(
        f"{shortened(value)} is {_named(value)} where {_with_article(kind)} is declared",
        f"give {_article(taken[0].__name__)}, or declare another type", row,
    )  # fmt: skip


_PLAIN_OF: Final[dict[type, Callable[[Any], Any]]] = {str: str.__str__, int: int.__int__, float: float.__float__}
"""Functions from a value of a subclass, such as an enumeration's, to the value itself."""


def _check_of(kind: DataType) -> Callable[[Any], str | None] | None:
    """The function that says what is wrong with a value that Arrow would take; None where there is none."""
    match kind:
        case Plain("timestamp"):
            return lambda value: None if value.tzinfo and value.utcoffset() is not None else "has no time zone"
        case Plain("timestamp_ntz"):
            return lambda value: "has a time zone" if value.tzinfo else None
        case Plain("float"):
            return lambda value: "is too large for a float" if math.isfinite(value) and abs(value) > _LARGEST_FLOAT else None
        case Decimal():
            return lambda value: None if isinstance(value, int) or value.is_finite() else "is no number"
        case Plain() if (most := kind.most_characters) is not None:
            return lambda value: f"has more than {most} characters" if len(value) > most else None
        case _:
            return None


def _blank(kind: DataType) -> Any:
    """A value that stands in a null struct for a field that is declared NOT NULL."""
    match kind:
        case Struct(fields):
            return tuple(None if field.nullable else _blank(field.type) for field in fields)
        case Plain("timestamp"):
            return datetime(1970, 1, 1, tzinfo=UTC)
        case Plain("timestamp_ntz"):
            return datetime(1970, 1, 1)  # noqa: DTZ001 - the type has no zone
        case Plain("date"):
            return date(1970, 1, 1)
        case _:
            return _TAKEN.get(_word(kind), (str,))[0]()


def _word(kind: DataType) -> str:
    return str(kind).partition("<")[0].partition("(")[0]


def _with_article(kind: DataType) -> str:
    return _article(kind.spelt_as_json)


def _named(value: Any) -> str:
    return _article(type(value).__name__)


def _article(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"
