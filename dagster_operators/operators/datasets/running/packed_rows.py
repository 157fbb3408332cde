"""Rows as bytes between tasks: pickled values, of which only plain ones and the user's own records are read back.

A storage root may have been changed by somebody else. So nothing is called that a forged file names, but what makes values.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import is_dataclass
from enum import Enum
from typing import Any, Final
from zoneinfo import ZoneInfo

from typing_extensions import override

from dagster_operators.errors import PipelineError, StorageError
from dagster_operators.operators.datasets.rows import Row, is_named, named_rows

_VALUES: Final = frozenset(
    {
        *(("builtins", name) for name in ("bytearray", "complex", "frozenset", "set", "range", "slice")),
        *(("datetime", name) for name in ("datetime", "date", "time", "timedelta", "timezone")),
        ("decimal", "Decimal"),
        ("uuid", "UUID"),
        ("_codecs", "encode"),
        ("collections", "OrderedDict"),
        ("collections", "deque"),
        ("fractions", "Fraction"),
        (named_rows.__module__, "named_row"),
        (__name__, "zone_named"),
        (__name__, "record_type"),
    }
)
_RECORDS: Final[dict[tuple[str, str], type]] = {}
"""The types of the user's own records, by module and name: workers are given them with the program."""


def remember_records(types: Iterable[type]) -> None:
    """Remember the types of the user's own records, which rows of the program may have."""
    _RECORDS.update(((kind.__module__, kind.__qualname__), kind) for kind in types)


def record_type(module: str, name: str) -> type:
    """The type of the user's own records with a name.

    Raises:
        UnpicklingError: The program has none of that name.
    """
    if (module, name) not in _RECORDS:
        raise pickle.UnpicklingError(f"{module}.{name} is no type of a record of the program")
    return _RECORDS[module, name]


def is_record(kind: Any) -> bool:
    """Whether a type is one of records: a data class, a named tuple, or an enumeration.

    >>> is_record(named_rows(("k",))), is_record(dict)
    (True, False)
    """
    return isinstance(kind, type) and (is_dataclass(kind) or issubclass(kind, Enum) or _is_named_tuple(kind))


def packed(rows: Sequence[Row]) -> bytes:
    """Rows as bytes.

    Raises:
        PipelineError: A value is of a type that is not sent from task to task.

    >>> unpacked(packed([(1, "a"), (2, None)]))
    [(1, 'a'), (2, None)]
    """
    names = is_named(rows)
    try:
        content = io.BytesIO()
        _Pickler(content, 5).dump((names, list(map(tuple, rows)) if names else list(rows)))
        return content.getvalue()
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise PipelineError(
            f"a row cannot be sent to another task: {error}",
            remedy="let functions give texts, numbers, times, tuples, lists, or data classes of a module",
        ) from error


def unpacked(content: bytes) -> list[Row]:
    """The rows that were packed.

    Raises:
        StorageError: The bytes are no packed rows.
    """
    try:
        names, rows = _Unpickler(io.BytesIO(content)).load()
    except (pickle.UnpicklingError, ValueError, TypeError, EOFError) as error:
        raise StorageError(f"rows of an exchange cannot be read: {error}", remedy="run again: they are written anew") from error
    return rows if names is None else list(map(_maker(names), rows))


def _maker(names: Sequence[str]) -> Callable[[Any], Row]:
    make: Callable[[Any], Row] = named_rows(tuple(names))._make
    return make


def zone_named(name: str) -> ZoneInfo:
    """The time zone of a name.

    >>> zone_named("UTC")
    zoneinfo.ZoneInfo(key='UTC')
    """
    return ZoneInfo(name)


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """Time zones and types of records by their names: a forged file may name no others."""
        if isinstance(value, ZoneInfo) and value.key:
            return zone_named, (value.key,)
        if isinstance(value, type) and _RECORDS.get((value.__module__, value.__qualname__)) is value:
            return record_type, (value.__module__, value.__qualname__)
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    @override
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _VALUES:
            return super().find_class(module, name)
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        if is_record(found):
            return found
        raise pickle.UnpicklingError(f"{module}.{name} is no type of a row's values")


def _is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")
