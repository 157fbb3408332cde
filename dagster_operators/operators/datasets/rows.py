"""Rows of data sets: tuples, whose fields have positions and, where they are named, names too."""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, TypeAlias

from dagster_operators.errors import BadInputError
from dagster_operators.operators.datasets.key_values import PLAIN_KEYS, key_value
from dagster_operators.optimizer.properties.fields import Field, Fields
from dagster_operators.optimizer.properties.ordering import Direction, Ordering

Row: TypeAlias = Any
"""A row: a tuple, or a named tuple."""

Key: TypeAlias = tuple[Any, ...]
"""The values of a row's key fields."""


WHOLE: Final = "*"
"""The field that is the row itself, of rows that are single values."""

_POSITION: Final = re.compile(r"f(\d+)")
_NAMES: Final = "_names_of_row"
"""The attribute with the names of a row's fields; it must be no name of a field."""
_FIXED: Final = frozenset({str, bytes, int, float, bool, type(None), Decimal, date, datetime, time, timedelta})
"""Types whose values nobody can change."""


@lru_cache(256)
def named_rows(names: tuple[str, ...]) -> Any:
    """The type of rows whose fields have names, which may also be no words of Python.

    A name that named tuples use themselves, such as ``_make``, is no attribute; its field has a position.

    >>> row = named_rows(("k", "class", "two words"))._make((1, 2, 3))
    >>> row.k, row[1], getattr(row, "class"), getattr(row, "two words"), row
    (1, 2, 2, 3, Row(k=1, class=2, two words=3))
    """
    plain: Any = namedtuple("Row", names, rename=True)  # type: ignore[misc]  # noqa: PYI024 - its fields are known when it runs
    members: dict[str, Any] = {
        name: property(itemgetter(number)) for number, name in enumerate(names) if not hasattr(plain, name)
    }
    if members:
        members["__repr__"] = lambda row: _shown(names, row)
    pickled = {"__slots__": (), "__reduce__": lambda row: (named_row, (names, tuple(row))), _NAMES: names}
    return type("Row", (plain,), {**members, **pickled})


def _shown(names: Sequence[str], row: Row) -> str:
    return f"Row({', '.join(f'{name}={value!r}' for name, value in zip(names, row, strict=True))})"


def named_row(names: tuple[str, ...], values: Sequence[Any]) -> Row:
    """A row with names.

    >>> named_row(("k",), (7,))
    Row(k=7)
    """
    return named_rows(tuple(names))._make(values)


def is_named(rows: Sequence[Row]) -> tuple[str, ...] | None:
    """The names of the fields, if all rows have the same ones."""
    kinds = set(map(type, rows))
    return getattr(kinds.pop(), _NAMES, None) if len(kinds) == 1 else None


def values_of(row: Row) -> tuple[Any, ...]:
    """The values of a row's fields; a plain value is the only one.

    >>> values_of((1, 2)), values_of([1, 2]), values_of("ab")
    ((1, 2), (1, 2), ('ab',))
    """
    if isinstance(row, tuple | list):
        return tuple(row)
    return tuple(getattr(row, field.name) for field in fields(row)) if is_dataclass(row) else (row,)


def value_of(row: Row, field: Field) -> Any:
    """The value of a field: by its position, by its name, by names with dots between of a field within, or the row itself.

    >>> value_of((7, "a"), 1), value_of(((7, 8), "a"), "f0.f1"), value_of(7, "*")
    ('a', 8, 7)
    """
    if isinstance(field, int):
        return row[field] if isinstance(row, tuple | list) or not is_dataclass(row) else getattr(row, fields(row)[field].name)
    if field == WHOLE:
        return row
    for name in field.split("."):
        position = _POSITION.fullmatch(name)
        row = row[int(position[1])] if position and not hasattr(row, name) else getattr(row, name)
    return row


def snapshot(row: Row) -> Row:
    """A row as it is now: a copy, where a function could change it or a value within it later.

    >>> row = [1]
    >>> snapshot(row) is row, snapshot((1,)) == (1,)
    (False, True)
    >>> row = (1, [2])
    >>> kept = snapshot(row)
    >>> row[1].append(3)
    >>> kept
    (1, [2])
    """
    kind = type(row)
    if kind in _FIXED:
        return row
    if not isinstance(row, tuple):
        return deepcopy(row)
    if _FIXED.issuperset(map(type, row)):
        return row
    parts = tuple(map(snapshot, row))
    if all(part is before for part, before in zip(parts, row, strict=True)):
        return row
    return parts if kind is tuple else row._make(parts) if hasattr(row, "_make") else deepcopy(row)


def key_of(fields: Fields) -> Callable[[Row], Key]:
    """A function from a row to its key.

    Raises:
        BadInputError: Raised by the function: a field of the key is null, which is equal to nothing, or a set.

    >>> key_of((0,))((7, "a"))
    (7,)
    >>> key_of((0,))((None, "a"))
    Traceback (most recent call last):
    dagster_operators.errors.BadInputError: a key is null [column 0]. To do: leave such rows out before, or give them a key
    """
    positions = [field for field in fields if isinstance(field, int)] if fields else []
    get = itemgetter(*positions) if positions and len(positions) == len(fields) else None

    def key(row: Row) -> Key:
        if get is not None and isinstance(row, tuple):  # as most are, and it is called for each row
            values = get(row) if len(positions) > 1 else (get(row),)
        else:
            values = tuple(value_of(row, field) for field in fields)
        if PLAIN_KEYS.issuperset(map(type, values)):
            return values
        if None in values:
            raise BadInputError(
                "a key is null", column=fields[values.index(None)], remedy="leave such rows out before, or give them a key"
            )
        return tuple(map(key_value, values))

    return key


def in_order(rows: Iterable[Row], ordering: Ordering) -> list[Row]:
    """The rows, sorted; those that are equal in the order stay as they are.

    Raises:
        BadInputError: A field that rows are sorted by is null.

    >>> in_order([(1, "b"), (2, "a"), (1, "a")], Ordering(((0, Direction.DESCENDING), (1, Direction.ASCENDING))))
    [(2, 'a'), (1, 'a'), (1, 'b')]
    """
    result = list(rows)
    for field, direction in reversed(ordering.parts):
        result.sort(key=key_of((field,)), reverse=direction is Direction.DESCENDING)
    return result


def groups(rows: Iterable[Row], fields: Fields) -> Iterator[tuple[Key, Iterator[Row]]]:
    """Rows that lie together with equal keys, each group with its key; the rows of a group can be looked at once.

    >>> [(key, list(group)) for key, group in groups([(1, "a"), (1, "b"), (2, "c")], (0,))]
    [((1,), [(1, 'a'), (1, 'b')]), ((2,), [(2, 'c')])]
    """
    return groupby(rows, key_of(fields))


def is_in_order(rows: Sequence[Row], ordering: Ordering) -> bool:
    """Whether rows are sorted.

    >>> is_in_order([(1,), (2,)], Ordering.of([0], Direction.ASCENDING))
    True
    """
    return in_order(rows, ordering.sorted_by) == list(rows)
