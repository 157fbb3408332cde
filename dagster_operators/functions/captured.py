"""Python values as a plan holds them: collections, times, Arrow schemas and tables, functions, and objects made of such.

What cannot be taken apart becomes an :class:`Opaque`: it is told apart from others by its digest, and cannot be made again.
"""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import os
import re
from collections.abc import Callable, Mapping
from pathlib import PurePath
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import PlanError
from dagster_operators.functions.captured_values import ArrowBytes, Collection, Declared, Member, Opaque, Secret, Written
from dagster_operators.functions.content import digest_of
from dagster_operators.functions.references import ObjectReference, Reference
from dagster_operators.graph.state_tables import GlobalState, KeyedState, ListState, StateTable, TimeState
from dagster_operators.graph.user_functions import UserFunction
from dagster_operators.graph.values import Encodable

if TYPE_CHECKING:
    import pyarrow as pa

_PLAIN: Final = (type(None), bool, int, float, str, bytes)
_STATES: Final = {kind.kind: kind for kind in (KeyedState, TimeState, GlobalState, ListState)}
_COLLECTIONS: Final = {"list": list, "set": set, "frozenset": frozenset}


def capture(value: Any, within: tuple[int, ...] = ()) -> Any:  # noqa: PLR0911 - one for each kind of value
    """A Python value as a plan holds it.

    >>> str(capture({"a": [1, 2]})), restore(capture({"a": [1, (2.5, None)]}))
    ("{'a': [1, 2]}", {'a': [1, (2.5, None)]})
    """
    if type(value) in _PLAIN:
        return value
    if id(value) in within:
        return _opaque(value)
    inner = (*within, id(value))
    if type(value) is tuple:
        return tuple(capture(item, inner) for item in value)
    if type(value) is dict:
        return Collection("dict", tuple((capture(key, inner), capture(item, inner)) for key, item in value.items()))
    if type(value) in _COLLECTIONS.values():
        items = [capture(item, inner) for item in value]
        return Collection(type(value).__name__, tuple(items if isinstance(value, list) else sorted(items, key=repr)))
    if isinstance(value, enum.Enum):
        return Member(Reference.to(type(value)), value.name)
    if isinstance(value, FunctionType | UserFunction | type):
        return Reference.to(value)
    if isinstance(value, StateTable):
        return _declared(value)
    if isinstance(value, Encodable):
        return value
    return _written(value) or _arrow(value) or _object(value, inner)


def _declared(table: StateTable) -> Declared:
    migrate = None if table.migrate is None else Reference.to(table.migrate)
    return Declared(table.kind, table.ddl, table.key, table.time, table.retention, table.version, migrate)


def _state(declared: Declared) -> StateTable:
    migrate = None if declared.migrate is None else declared.migrate.resolve()
    settings: dict[str, Any] = {"key": declared.key, "version": declared.version, "migrate": migrate}
    if declared.time is not None:
        settings |= {"time": declared.time, "retention": declared.retention}
    return _STATES[declared.type](declared.schema, **settings)


def _written(value: Any) -> Written | None:
    if not isinstance(getattr(value, "tzinfo", None), dt.timezone | None):
        return None  # a time zone by name is more than the offset that is written
    for name, (kind, write, _) in _WRITTEN.items():
        if type(value) is kind or (kind is PurePath and isinstance(value, PurePath)):
            text = write(value)
            return Written(name, text) if _again(name, text) == value else None
    return None


def _again(name: str, text: str) -> Any:
    return _WRITTEN[name][2](text)


def _pattern(text: str) -> re.Pattern[str]:
    flags, _, pattern = text.partition(":")
    return re.compile(pattern, int(flags))


def _path(text: str) -> Any:
    from pathlib import Path

    return Path(text)


_WRITTEN: Final[Mapping[str, tuple[type, Callable[[Any], str], Callable[[str], Any]]]] = {
    "datetime": (dt.datetime, dt.datetime.isoformat, dt.datetime.fromisoformat),
    "date": (dt.date, dt.date.isoformat, dt.date.fromisoformat),
    "time": (dt.time, dt.time.isoformat, dt.time.fromisoformat),
    "timedelta": (
        dt.timedelta,
        lambda value: str(value // dt.timedelta(microseconds=1)),
        lambda text: dt.timedelta(microseconds=int(text)),
    ),
    "decimal": (decimal.Decimal, str, decimal.Decimal),
    "path": (PurePath, os.fspath, _path),
    "pattern": (re.Pattern, lambda value: f"{value.flags}:{value.pattern}", _pattern),
}


def _arrow(value: Any) -> ArrowBytes | None:
    package = type(value).__module__.partition(".")[0]
    if package not in ("pyarrow", "pandas"):
        return None
    import pyarrow as pa

    if package == "pandas":
        return ArrowBytes("pandas", _stream(pa.Table.from_pandas(value))) if type(value).__name__ == "DataFrame" else None

    if isinstance(value, pa.Schema):
        return ArrowBytes("schema", value.serialize().to_pybytes())
    if isinstance(value, pa.DataType):
        return ArrowBytes("type", pa.schema([("", value)]).serialize().to_pybytes())
    if isinstance(value, pa.RecordBatch):
        value = pa.Table.from_batches([value])
    return ArrowBytes("table", _stream(value)) if isinstance(value, pa.Table) else None


def _stream(table: pa.Table) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def _object(value: Any, within: tuple[int, ...]) -> Any:
    kind = type(value)
    names = ("__new__", "__reduce__", "__reduce_ex__")
    plain = all(getattr(kind, name) is getattr(object, name) for name in names)
    slots = any("__slots__" in vars(base) and vars(base)["__slots__"] for base in kind.__mro__)
    if not hasattr(value, "__dict__") or not plain or slots or kind.__module__ == "builtins":
        return _opaque(value)
    attributes = tuple((name, capture(item, within)) for name, item in sorted(vars(value).items()))
    return ObjectReference(Reference.to(kind), attributes)


def _opaque(value: Any) -> Opaque:
    return Opaque(f"{type(value).__module__}.{type(value).__qualname__}", digest_of(value))


def restore(value: Any) -> Any:  # noqa: PLR0911 - one for each kind of value
    """The Python value that was captured.

    Raises:
        PlanError: It is one that plans cannot hold, or the code that it needs is not there.
    """
    if isinstance(value, tuple):
        return tuple(map(restore, value))
    if isinstance(value, Collection):
        items = [restore(item) for item in value.items]
        return dict(items) if value.type == "dict" else _COLLECTIONS[value.type](items)
    if isinstance(value, Written):
        return _again(value.type, value.text)
    if isinstance(value, ArrowBytes):
        return _from_arrow(value)
    if isinstance(value, Declared):
        return _state(value)
    if isinstance(value, Member):
        return value.type.resolve()[value.name]
    if isinstance(value, Secret):
        return value.value
    if isinstance(value, Opaque):
        raise PlanError(
            f"a {value.type} cannot be made again from a plan",
            remedy="make it from plain settings when it is needed, so that it is no attribute; then write the plan again",
        )
    return value.resolve() if isinstance(value, Reference | ObjectReference) else value


def _from_arrow(value: ArrowBytes) -> Any:
    import pyarrow as pa

    if value.type in ("table", "pandas"):
        table = pa.ipc.open_stream(value.data).read_all()
        return table if value.type == "table" else table.to_pandas()
    schema = pa.ipc.read_schema(pa.py_buffer(value.data))
    return schema if value.type == "schema" else schema.field(0).type


def opaque_in(value: Any) -> Opaque | None:
    """The first part of a captured value that cannot be made again, if any.

    >>> import threading
    >>> str(opaque_in(capture([1, threading.Lock()])))
    '<_thread.lock>'
    """
    if isinstance(value, Opaque):
        return value
    if isinstance(value, tuple):
        return next((found for found in map(opaque_in, value) if found), None)
    return opaque_in(tuple(value.encode().values())) if isinstance(value, Encodable) else None
